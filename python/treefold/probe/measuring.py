"""Measures the network between workers: pairs, nodes that use all their links at once, and all pairs at once.

All workers call `measure` together, and worker 0's settings count for all. The work is a list of steps that all
workers know. After each step they exchange what they measured, so that steps do not overlap and an error on one worker
reaches all.

A line that one TCP stream does not fill is measured again with two, four, eight and so on, until twice as many bring
less than 5 % more. They are the streams with which everything afterwards is measured.
"""

import socket
import time
import warnings
from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from contextlib import closing, nullcontext, suppress
from dataclasses import asdict
from functools import partial
from typing import Any

from treefold.errors import PeerError, TreefoldError
from treefold.probe import lines, refining, streams, transfers
from treefold.probe import settings as probe_settings
from treefold.probe.connections import Connected, agree, close_all, connect, connect_pairs
from treefold.probe.limits import bytes_of_test
from treefold.probe.links import directed_links
from treefold.probe.names import distinct_names, own_name
from treefold.probe.results import SOURCE, TARGET, Measurements, Pair, Try, outcome_of
from treefold.probe.settings import Settings
from treefold.probe.steps import (
    Budget,
    Step,
    budget,
    cost,
    matchings,
    pairs_of,
    steps_of,
    time_for_tests_s,
    time_left_s,
)
from treefold.probe.taking import SILENCE_S, reported
from treefold.rendezvous import Rendezvous, challenge, validation
from treefold.rendezvous.sockets import listen
from treefold.report.measured import outcome_line
from treefold.runtime.streams import granted_bytes
from treefold.text import some

_REMEDY = "let one of two listen (TREEFOLD_PORT), open firewalls between them, or choose another interface"
_TESTS = 16
"""Seconds and bytes are shared out as if so many tests of many pairs at once followed; there may be more."""

LEAST_TIMEOUT_S = 30.0
"""Give the rendezvous at least this timeout, in seconds.

The other workers wait while a pair learns that its connection is dead. `treefold probe` refuses a shorter timeout, and
`measure` does not check it.
"""

CAPPED = 0.85
"""A node is capped if its partners together get less than this part of the sum of what each gets alone."""

Networks = Generator[None, TreefoldError | None, None]
"""Steps at each of which there is a network to keep; each is sent the error of keeping it."""

Track = Callable[[Sequence[Step]], Iterable[Step]]
"""A function that passes the steps on, and may show how far they are."""

_INTRODUCTION: dict[str, validation.Schema] = {
    "named": bool,
    "name": validation.is_name,
    "address": str,
    "port": validation.is_port,
    "number": challenge.is_number,
    "granted_bytes": validation.is_amount,
}


def measure(
    meeting: Rendezvous,
    settings: Settings,
    announce: Callable[[str], None] = lambda _: None,
    track: Track = lambda steps: steps,
    keep: Callable[[Measurements], None] = lambda _: None,
) -> Measurements:
    """Measure the network between the workers of a rendezvous; all of them call this together.

    Args:
        meeting: A rendezvous of at least 2 workers, whose timeout is at least `LEAST_TIMEOUT_S`.
        settings: How to probe. Worker 0's settings count; those of the others are ignored.
        announce: A function that is called before anything is measured, with a line that says what the probe costs,
            and on worker 0 with a line for each round of tests; by default there is none.
        track: A function that wraps the list of steps of the probe, for example to show progress; by default nothing is
            shown.
        keep: A function that is called on worker 0 with the measurements so far whenever these are a network, first
            when all pairs were measured, then after each round of tests, and in the end; by default there is none.

    Returns:
        The measurements of all workers, the same on every worker. `treefold.topology(probe.document(measured))` is the
        measured network.

    Raises:
        TreefoldError: On every worker, naming the worker that is unreachable or lost, or the setting that does not fit.

    Example:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> from treefold import probe, runtime
        >>> settings = probe.Settings(seconds=1.0, most_bytes=64 << 20)
        >>> with ThreadPoolExecutor(2) as pool:
        ...     measured = list(pool.map(lambda meeting: probe.measure(meeting, settings), runtime.local(2)))
        >>> sorted(measured[0].rates)                           # in bytes per second, by (source, target)
        [(0, 1), (1, 0)]
        >>> treefold.topology(probe.document(measured[0])).ranks
        2

    """
    if meeting.size < 2:
        raise TreefoldError("a probe measures between workers, and there is 1; start 2, as with runtime.local(2)")
    listener, error = _listener(meeting)
    with nullcontext() if listener is None else closing(listener):
        workers, agreed = _introduced(meeting, listener, error, settings)
        links = directed_links(agreed.links, workers)
        connected = connect_pairs(meeting, listener, pairs_of(links), workers, (lines.ECHO, 1))
        try:
            links = _connected(links, connected.apart, workers)
            steps = steps_of(matchings(pairs_of(links), len(workers), agreed.parallel), links, len(workers))
            measured, most = _budgeted(agreed, steps, workers)
            announce(cost(measured, pairs_of(links), steps, most.seconds))
            if tests := None if meeting.rank else outcome_of(measured):
                announce(outcome_line(tests))
            _prepare(connected)
            taken_s = _take_all(track(steps), meeting, listener, connected, measured)
            most = most._replace(seconds=time_left_s(agreed, most.seconds, taken_s))
            _keep_each(_refined(meeting, connected, measured, most, announce), measured, keep)
        finally:
            close_all(connected.sockets)
    return measured


def _budgeted(settings: Settings, steps: list[Step], workers: list[dict[str, Any]]) -> tuple[Measurements, Budget]:
    """Return measurements that know what a transfer may take, and what the tests of many pairs at once may take.

    These have seconds of their own, and the bytes of the whole probe.
    """
    tests = _TESTS if refining.is_worth_while(workers, settings) else 0
    measured = Measurements(workers, *budget(settings, steps, tests))
    seconds = time_for_tests_s(settings, measured, steps) if tests else 0.0
    measured.outcome = None if seconds else refining.untaken(workers, settings)
    return measured, Budget(seconds, settings.most_bytes)


def _refined(
    meeting: Rendezvous, connected: Connected, measured: Measurements, most: Budget, announce: Callable[[str], None]
) -> Networks:
    """Take tests of many pairs at once, if there is time for them; on worker 0, each step is a network so far."""
    yield from _so_far(meeting)
    if most.seconds:
        take = partial(_offer, meeting=meeting, connected=connected, measured=measured, most_bytes=most.most_bytes)
        yield from refining.refine(meeting, measured, take, most, announce)
        # The last test belongs to no round, and may still have changed the model.
        yield from _so_far(meeting)


def _so_far(meeting: Rendezvous) -> Networks:
    """Let worker 0 keep the network so far; if it cannot, all workers learn why."""
    error = None
    if not meeting.rank:
        error = yield
    agree(meeting, error, {})


def _keep_each(networks: Networks, measured: Measurements, keep: Callable[[Measurements], None]) -> None:
    """Keep the measurements at each step; an error goes back, so that the next exchange tells it to all workers."""
    error = None
    with suppress(StopIteration):
        next(networks)
        while True:
            try:
                keep(measured)
            except TreefoldError as problem:
                error = problem
            networks.send(error)


def _prepare(connected: Connected) -> None:
    for sockets in connected.sockets.values():
        for connection in sockets.values():
            transfers.prepare(connection, SILENCE_S)


def _take_all(
    steps: Iterable[Step],
    meeting: Rendezvous,
    listener: socket.socket | None,
    connected: Connected,
    measured: Measurements,
) -> float:
    """Take all steps; return how many seconds that took."""
    begun_s = time.monotonic()
    for step in steps:
        _take(step, meeting, connected, measured)
        _take_again(step, meeting, listener, connected, measured)
    return time.monotonic() - begun_s


def _take_again(
    step: Step, meeting: Rendezvous, listener: socket.socket | None, connected: Connected, measured: Measurements
) -> None:
    """Take a step again if a node looks capped; or with twice as many streams, for as long as these bring more."""
    if _looks_capped(step, measured):  # a busy moment looks the same: what shows twice is a cap
        _take(step, meeting, connected, measured)
    is_alone = step.kind == "pair"
    pairs = [pair for pair in step.pairs if is_alone and streams.may_want_more(measured, pair)]
    while pairs:
        count = streams.next_count(measured, pairs)
        numbers = range(count // 2 + 1, count + 1)
        of_pair = {pair: connected.calls[min(pair), max(pair)] for pair in pairs}
        # The other direction may have needed as many before.
        calls = [call for pair, call in of_pair.items() if max(measured.tries.get(pair[::-1], {1: 0})) < count]
        failed = connect(meeting, listener, calls, measured.workers, numbers, connected.sockets) if calls else {}
        _prepare(connected)
        pairs = [pair for pair in pairs if of_pair[pair] not in failed]
        if pairs:
            _take(Step("pair", pairs, count), meeting, connected, measured)
            pairs = [pair for pair in pairs if streams.wants_more(measured, pair)]


def _connected(links: list[Pair], apart: Mapping[Pair, str], workers: Sequence[dict[str, Any]]) -> list[Pair]:
    """Return the links without those between workers that cannot connect, of which it warns.

    Raises:
        PeerError: If a worker can connect to none of those to which links join it.

    """
    kept = [(one, other) for one, other in links if (min(one, other), max(one, other)) not in apart]
    joined = {rank for pair in kept for rank in pair}
    for pair, why in apart.items():
        if alone := [rank for rank in pair if rank not in joined]:
            raise PeerError(f"{workers[alone[0]]['name']} can connect to no other worker: {why}; {_REMEDY}")
    if apart:
        warnings.warn(f"not measured, as they cannot connect: {some(list(apart.values()), 4)}; {_REMEDY}", stacklevel=3)
    return kept


def _listener(meeting: Rendezvous) -> tuple[socket.socket | None, TreefoldError | None]:
    """Return a listening socket, or None if the worker does not listen; and the error that all workers should get."""
    if meeting.port is None:
        return None, None
    try:
        return listen(meeting.address, meeting.port, what=f"worker {meeting.rank}"), None
    except TreefoldError as error:
        return None, error


def _introduced(
    meeting: Rendezvous, listener: socket.socket | None, error: TreefoldError | None, settings: Settings
) -> tuple[list[dict[str, Any]], Settings]:
    """Return all workers, whose names differ, and the settings of worker 0."""
    workers = agree(meeting, error, _INTRODUCTION, **_introduction(meeting, listener, settings))
    validation.check("worker 0", workers[0], {"settings": probe_settings.SCHEMA})
    for worker, name in zip(workers, distinct_names([each["name"] for each in workers]), strict=True):
        worker["name"] = name
    return workers, Settings(*(workers[0]["settings"][key] for key in probe_settings.SCHEMA))


def _introduction(meeting: Rendezvous, listener: socket.socket | None, settings: Settings) -> dict[str, Any]:
    address, port = (meeting.address, 0) if listener is None else listener.getsockname()[:2]
    introduction = {"named": meeting.name is not None, "name": own_name(meeting)}
    introduction |= {"address": address, "port": port, "number": challenge.number(), "granted_bytes": granted_bytes()}
    if meeting.rank == 0:
        introduction |= {"settings": asdict(settings)}
    return introduction


def _take(step: Step, meeting: Rendezvous, connected: Connected, measured: Measurements) -> None:
    """Do this worker's part of a step, and add to `measured` what all workers measured."""
    values = reported(step, meeting, connected, measured)
    if step.kind == "trips":
        for pair in step.pairs:
            least_s, median_s, forth_s, back_s = (
                max(ends) for ends in zip(values[pair], values[pair[::-1]], strict=True)
            )
            measured.trips[pair] = transfers.RoundTrips(least_s, median_s)
            measured.overheads_s |= {pair: forth_s, pair[::-1]: back_s}
        return
    if step.kind == "pair":
        for pair in step.pairs:
            loaded_s, retransmitted, sent_bytes = values[pair[::-1]]
            tried = Try(values[pair][0], round(sent_bytes), loaded_s, retransmitted)
            measured.tries.setdefault(pair, {})[step.streams] = tried
            streams.settle(measured, pair)
        return
    # No pair is faster beside others than alone: one that seems so has a busy receiver, which reads late but all at
    # once.
    rates = {pair: min(values[pair][0], measured.rates[pair]) for pair in step.pairs}
    measured.at_once.append(rates)
    if step.kind == "together":
        measured.together |= rates
    else:
        rank, rate_of_rank = _star(step, measured)
        rate_of_rank[rank] = max(rate_of_rank.get(rank, 0), sum(rates.values()))


def _offer(
    offered_Bps: Mapping[Pair, float],
    *,
    meeting: Rendezvous,
    connected: Connected,
    measured: Measurements,
    most_bytes: int,
) -> dict[Pair, float]:
    """Offer these rates to pairs, as all workers do; return what each pair got."""
    allowed = bytes_of_test(offered_Bps, measured, most_bytes - measured.sent_bytes)
    step = Step("offer", sorted(offered_Bps), offered_Bps=offered_Bps, most_bytes=allowed)
    values = reported(step, meeting, connected, measured)
    measured.tests += 1
    return {pair: min(values[pair][0], measured.rates[pair]) for pair in step.pairs}


def _star(step: Step, measured: Measurements) -> tuple[int, dict[int, float]]:
    """Return the node in the middle of a step, and the rates by node among which the node's rate belongs."""
    end = SOURCE if step.kind == "egress" else TARGET
    return step.pairs[0][end], (measured.egress, measured.ingress)[end]


def _looks_capped(step: Step, measured: Measurements) -> bool:
    if step.kind not in ("egress", "ingress"):
        return False
    rank, rate_of_rank = _star(step, measured)
    return rate_of_rank[rank] < CAPPED * sum(measured.rates[pair] for pair in step.pairs)
