"""Connections between pairs of workers, made at the same time; all workers learn which pairs cannot connect.

A pair has several connections, which have numbers; more are added where a line needs more streams.
"""

import socket
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing, suppress
from typing import Any, NamedTuple

from treefold.errors import TreefoldError, kind_of, of_kind
from treefold.probe.results import Pair
from treefold.rendezvous import Rendezvous, sockets, validation
from treefold.rendezvous.admission import first_frames
from treefold.rendezvous.challenge import introduce
from treefold.rendezvous.frames import FrameError
from treefold.rendezvous.validation import Schema
from treefold.text import visible

_CONNECT_S = 10.0
_HELLO_S = 5.0
_RETRY_S = 0.05
_MOST_TEXT = 200

Sockets = dict[int, dict[int, socket.socket]]
"""A worker's connections, by the partner's number and the connection's own."""


class Connected(NamedTuple):
    """The connections of this worker, and who could connect."""

    sockets: Sockets
    calls: dict[Pair, Pair]
    """Who called whom, for each pair that is connected, the lower worker first."""
    apart: dict[Pair, str]
    """The pairs that cannot connect, each with the reason."""


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
    listener: socket.socket | None,
    pairs: Iterable[Pair],
    workers: Sequence[dict[str, Any]],
    numbers: Sequence[int],
) -> Connected:
    """Connect this worker with its partners in `pairs`, once for each of `numbers`.

    The lower worker of a pair calls, and the higher one if the lower one does not listen, or cannot get through.

    Args:
        meeting: The rendezvous of all workers, who call this together.
        listener: The socket on which this worker listens; None if it does not.
        pairs: The pairs of workers to connect, the lower one first.
        workers: The name, address, port and random number of each worker, by number; the port of one that does not
            listen is 0. Together the random numbers make a key, and callers without it are turned away.
        numbers: The numbers of the connections of each pair.

    """
    pairs = list(pairs)
    listens = [worker["port"] != 0 for worker in workers]
    calls = [pair if listens[pair[1]] else pair[::-1] for pair in pairs if listens[pair[0]] or listens[pair[1]]]
    apart = {
        (one, other): f"{_name(one, workers)} and {_name(other, workers)} do not listen"
        for one, other in pairs
        if not listens[one] and not listens[other]
    }
    made: Sockets = {}
    try:
        failed = connect(meeting, listener, calls, workers, numbers, made)
        back = [(other, one) for one, other in failed if listens[one]]
        called = [call for call in calls if call not in failed]
        if back:
            failed_back = connect(meeting, listener, back, workers, numbers, made)
            called += [call for call in back if call not in failed_back]
            failed = {call: why for call, why in failed.items() if call[::-1] not in back or call[::-1] in failed_back}
    except BaseException:
        close_all(made)
        raise
    apart |= {(min(call), max(call)): why for call, why in failed.items()}
    return Connected(made, {(min(call), max(call)): call for call in called}, apart)


def connect(
    meeting: Rendezvous,
    listener: socket.socket | None,
    calls: Sequence[Pair],
    workers: Sequence[dict[str, Any]],
    numbers: Sequence[int],
    into: Sockets,
) -> dict[Pair, str]:
    """Make the calls of all workers, each of a caller and the worker it calls, once for each of `numbers`.

    Returns:
        The calls that failed, and why: those of which one connection or more could not be made.

    """
    made: Sockets = {}
    own, key = meeting.rank, meeting._key_from([worker["number"] for worker in workers])
    expected = {caller for caller, called in calls if called == own}
    with ThreadPoolExecutor(1) as pool:
        others = [other for caller, other in calls if caller == own]
        calling = pool.submit(_call, own, others, workers, key, numbers, made)
        missing = set() if listener is None else _accept(listener, expected, key, numbers, made)
        errors = calling.result()
    missed = {other: f"{_name(own, workers)} was not reached by {_name(other, workers)}" for other in missing}
    told = {"calls": sorted(errors.items()), "missed": sorted(missed.items())}
    schema: list[Schema] = [(validation.is_count, str)]
    reports = agree(meeting, None, {"calls": schema, "missed": schema}, **told)
    # A caller that failed knows why, so its reason comes before that of the worker that waited in vain.
    failed = {(other, rank): why for rank, report in enumerate(reports) for other, why in report["missed"]}
    failed |= {(rank, other): why for rank, report in enumerate(reports) for other, why in report["calls"]}
    failed = {call: failed[call] for call in calls if call in failed}
    close_all({other: made.pop(other) for other in [*made] if {(own, other), (other, own)} & failed.keys()})
    for other, by_number in made.items():
        into.setdefault(other, {}).update(by_number)
    return failed


def close_all(connections: Sockets) -> None:
    """Close all connections."""
    for connection in [each for of_pair in connections.values() for each in of_pair.values()]:
        with suppress(OSError):
            connection.close()


def _call(
    own: int,
    others: list[int],
    workers: Sequence[dict[str, Any]],
    key: bytes,
    numbers: Sequence[int],
    into: Sockets,
) -> dict[int, str]:
    """Connect to `others` at the same time, so often; return why those were not reached that were not."""

    def call(wanted: tuple[int, int]) -> str | None:
        other, number = wanted
        worker = workers[other]
        try:
            made = _called(worker["address"], worker["port"], {"rank": own, "stream": number}, key)
            into.setdefault(other, {})[number] = made
        except (OSError, EOFError, FrameError) as error:
            reason = getattr(error, "strerror", None) or str(error) or "it closed the connection"
            where = f"{worker['address']} port {worker['port']} ({reason})"
            return f"{_name(own, workers)} cannot reach {_name(other, workers)} at {where}"
        return None

    if not others:
        return {}
    wanted = [(other, number) for other in others for number in numbers]
    with ThreadPoolExecutor(len(wanted)) as pool:
        errors = zip(wanted, pool.map(call, wanted), strict=True)
        return {other: error for (other, _), error in errors if error is not None}


def _called(address: str, port: int, claims: dict[str, int], key: bytes) -> socket.socket:
    """Return a connection on which both ends have proven that they know the key."""
    deadline = time.monotonic() + _CONNECT_S
    while True:
        connection = sockets.connect(address, port, max(deadline - time.monotonic(), 0))
        try:
            connection.settimeout(max(deadline - time.monotonic(), 0.01))
            if refused := introduce(connection, claims, key):
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


def _accept(listener: socket.socket, expected: set[int], key: bytes, numbers: Sequence[int], into: Sockets) -> set[int]:
    """Accept connections from `expected` ranks; return those that did not call so often."""
    missing = {(rank, number) for rank in expected for number in numbers}
    if not missing:
        return set()
    until = time.monotonic() + _CONNECT_S + _HELLO_S
    # The calls end with their listener, and another worker may call later.
    with closing(first_frames(listener.dup(), until, _HELLO_S, key)) as callers:
        for connection, claims in callers:
            rank, number = claims.get("rank"), claims.get("stream")
            if isinstance(rank, int) and isinstance(number, int) and (rank, number) in missing:
                missing.discard((rank, number))
                into.setdefault(rank, {})[number] = connection
            else:
                connection.close()
            if not missing:
                break
    return {rank for rank, _ in missing}


def _name(rank: int, workers: Sequence[dict[str, Any]]) -> str:
    return f"worker {rank} ({workers[rank]['name']})"
