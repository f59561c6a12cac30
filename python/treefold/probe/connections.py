"""Connections between pairs of workers, made at the same time; if one fails, every worker gets the same error."""

import socket
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any

from treefold.errors import PeerError, TreefoldError, kind_of, of_kind
from treefold.probe.results import Pair
from treefold.rendezvous import Rendezvous, validation
from treefold.rendezvous.admission import first_frames
from treefold.rendezvous.challenge import introduce
from treefold.rendezvous.frames import FrameError
from treefold.rendezvous.sockets import connect
from treefold.rendezvous.validation import Schema
from treefold.text import visible

_CONNECT_S = 10.0
_HELLO_S = 5.0
_RETRY_S = 0.05
_MOST_TEXT = 200


def agree(
    meeting: Rendezvous, error: TreefoldError | None, schema: dict[str, Schema], **values: Any
) -> list[dict[str, Any]]:
    """Exchange JSON objects, which have to match the schema; return the objects of all workers, by number.

    Raises:
        TreefoldError: On every worker, if one has an error: that of the first such worker, of the same kind.

    """
    mine = {"error": None if error is None else str(error), "kind": kind_of(error), **values}
    own_schema: dict[str, Schema] = {"error": str | None, "kind": str}
    reports: list[dict[str, Any]] = validation.exchange(meeting.exchange, mine, schema | own_schema)
    for report in reports:
        if report["error"] is not None:
            raise of_kind(report["kind"], report["error"])
    return reports


def connect_pairs(
    meeting: Rendezvous,
    listener: socket.socket,
    pairs: Iterable[Pair],
    workers: Sequence[dict[str, Any]],
) -> dict[int, socket.socket]:
    """Connect this worker with its partners in `pairs`; the lower worker of a pair calls, the higher one listens.

    Args:
        meeting: The rendezvous of all workers, who call this together.
        listener: The socket on which this worker listens.
        pairs: The pairs of workers to connect.
        workers: The name, address, port and random number of each worker, by number. Together the numbers make a key,
            and callers without it are turned away.

    Returns:
        The connections of this worker, by the partner's number.

    Raises:
        PeerError: On every worker, if a pair cannot connect.

    """
    own = meeting.rank
    partners = {other for pair in pairs if own in pair for other in pair if other != own}
    higher = sorted(other for other in partners if other > own)
    connections: dict[int, socket.socket] = {}
    key = meeting._key_from([worker["number"] for worker in workers])
    with ThreadPoolExecutor(1) as pool:
        calls = pool.submit(_call, own, higher, workers, key, connections)
        missing = _accept(listener, {other for other in partners if other < own}, key, connections)
        errors = calls.result()
    missed = [f"{_name(own, workers)} was not reached by {_name(other, workers)}" for other in sorted(missing)]
    try:
        reports = agree(meeting, None, {"calls": [str], "missed": [str]}, calls=errors, missed=missed)
        # A caller that failed knows why, so its error comes before those of workers that waited in vain.
        if errors := [error for kind in ("calls", "missed") for report in reports for error in report[kind]]:
            raise PeerError(errors[0])
    except BaseException:
        close_all(connections)
        raise
    return connections


def close_all(connections: dict[int, socket.socket]) -> None:
    """Close all connections."""
    for connection in connections.values():
        with suppress(OSError):
            connection.close()


def _call(
    own: int, others: list[int], workers: Sequence[dict[str, Any]], key: bytes, into: dict[int, socket.socket]
) -> list[str]:
    """Connect to `others` at the same time; return the errors."""

    def call(other: int) -> str | None:
        worker = workers[other]
        try:
            into[other] = _called(worker["address"], worker["port"], own, key)
        except (OSError, EOFError, FrameError) as error:
            reason = getattr(error, "strerror", None) or str(error) or "it closed the connection"
            where = f"{worker['address']} port {worker['port']} ({reason})"
            remedy = "open firewalls between them, or choose another interface (TREEFOLD_INTERFACE)"
            return f"{_name(own, workers)} cannot reach {_name(other, workers)} at {where}; {remedy}"
        return None

    if not others:
        return []
    with ThreadPoolExecutor(len(others)) as pool:
        return [error for error in pool.map(call, others) if error is not None]


def _called(address: str, port: int, own: int, key: bytes) -> socket.socket:
    """Return a connection on which both ends have proven that they know the key."""
    deadline = time.monotonic() + _CONNECT_S
    while True:
        connection = connect(address, port, max(deadline - time.monotonic(), 0))
        try:
            connection.settimeout(max(deadline - time.monotonic(), 0.01))
            if refused := introduce(connection, {"rank": own}, key):
                raise FrameError(visible(str(refused["error"]))[:_MOST_TEXT])
            connection.settimeout(None)
            return connection
        except (ConnectionError, EOFError):  # other callers may have crowded this one out
            connection.close()
            if time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_S)
        except BaseException:
            connection.close()
            raise


def _accept(listener: socket.socket, expected: set[int], key: bytes, into: dict[int, socket.socket]) -> set[int]:
    """Accept connections from `expected` ranks; return those that did not call."""
    missing = set(expected)
    if not missing:
        return missing
    until = time.monotonic() + _CONNECT_S + _HELLO_S
    with closing(first_frames(listener, until, _HELLO_S, key)) as callers:
        for connection, claims in callers:
            rank = claims.get("rank")
            if isinstance(rank, int) and rank in missing:
                missing.discard(rank)
                into[rank] = connection
            else:
                connection.close()
            if not missing:
                break
    return missing


def _name(rank: int, workers: Sequence[dict[str, Any]]) -> str:
    return f"worker {rank} ({workers[rank]['name']})"
