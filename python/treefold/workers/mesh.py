"""Connections between pairs of workers: made at once, or an error on every worker names who was not reached."""

import socket
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any

from treefold.errors import TreefoldError
from treefold.text import visible
from treefold.workers import said
from treefold.workers.door import first_frames
from treefold.workers.frames import Header, knows, send_frame
from treefold.workers.rendezvous import Rendezvous
from treefold.workers.said import Form
from treefold.workers.sockets import connect

Pair = tuple[int, int]

_CONNECT_S = 10.0
_HELLO_S = 5.0


def agree(rendezvous: Rendezvous, error: str | None, form: dict[str, Form], **values: Any) -> list[dict[str, Any]]:
    """Exchange JSON values, which have to be of this form; return everyone's, by rank.

    Raises:
        TreefoldError: On every worker, if any has an error: that of the lowest rank.

    """
    mine = {"error": error, **values}
    everyone: list[dict[str, Any]] = said.exchange(rendezvous.exchange, mine, form | {"error": str | None})
    for each in everyone:
        if each["error"] is not None:
            raise TreefoldError(visible(each["error"]))
    return everyone


def connect_pairs(
    rendezvous: Rendezvous,
    listener: socket.socket,
    pairs: Iterable[Pair],
    workers: Sequence[dict[str, Any]],
    token: str,
) -> dict[int, socket.socket]:
    """Connect this worker with its partners in `pairs`; the lower rank of a pair calls, the higher one listens.

    Args:
        rendezvous: Of all workers; all call this together.
        listener: On which this worker listens.
        pairs: Of ranks.
        workers: By rank: name, address and port.
        token: Who does not know it is turned away.

    Returns:
        Connections by the partner's rank.

    Raises:
        TreefoldError: On every worker, if any pair cannot connect.

    """
    own = rendezvous.rank
    partners = {other for pair in pairs if own in pair for other in pair if other != own}
    higher = sorted(other for other in partners if other > own)
    connections: dict[int, socket.socket] = {}
    called = _call(own, higher, workers, token, connections)
    missing = _answer(listener, {other for other in partners if other < own}, token, connections)
    waited = [f"{_name(own, workers)} was not reached by {_name(other, workers)}" for other in sorted(missing)]
    try:
        everyone = agree(rendezvous, None, {"called": [str], "waited": [str]}, called=called, waited=waited)
        # Who could not call knows why, so that comes before what those say who waited in vain.
        if found := [error for kind in ("called", "waited") for each in everyone for error in each[kind]]:
            raise TreefoldError(visible(found[0]))
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
    own: int, others: list[int], workers: Sequence[dict[str, Any]], token: str, into: dict[int, socket.socket]
) -> list[str]:
    """Connect to `others` at once; return errors."""

    def call(other: int) -> str | None:
        worker = workers[other]
        try:
            connection = connect(worker["address"], worker["port"], _CONNECT_S)
            send_frame(connection, {"token": token, "rank": own})
        except OSError as error:
            where = f"{worker['address']} port {worker['port']} ({error.strerror or error})"
            remedy = "open firewalls between them, or choose another interface with --interface or TREEFOLD_INTERFACE"
            return f"{_name(own, workers)} cannot reach {_name(other, workers)} at {where}; {remedy}"
        into[other] = connection
        return None

    if not others:
        return []
    with ThreadPoolExecutor(len(others)) as pool:
        return [error for error in pool.map(call, others) if error is not None]


def _answer(listener: socket.socket, expected: set[int], token: str, into: dict[int, socket.socket]) -> set[int]:
    """Accept connections from `expected`; return who did not come."""
    missing = set(expected)
    if not missing:
        return missing
    with closing(first_frames(listener, time.monotonic() + _CONNECT_S + _HELLO_S, _HELLO_S)) as callers:
        for connection, header in callers:
            rank = _rank(header, token)
            if rank in missing:
                missing.discard(rank)
                into[rank] = connection
            else:
                connection.close()
            if not missing:
                break
    return missing


def _rank(header: Header, token: str) -> int:
    """Return the rank of who calls, -1 for a stranger."""
    rank = header.get("rank")
    return rank if knows(header, "token", token) and isinstance(rank, int) else -1


def _name(rank: int, workers: Sequence[dict[str, Any]]) -> str:
    return f"rank {rank} ({workers[rank]['name']})"
