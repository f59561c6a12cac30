"""Takes this worker's part of a step, and exchanges what all workers measured."""

import math
import socket
import time
from collections.abc import Mapping
from typing import Any

from treefold.errors import PeerError, TreefoldError
from treefold.probe import lines, transfers
from treefold.probe.connections import Connected, agree
from treefold.probe.limits import Limits, limits
from treefold.probe.results import SOURCE, TARGET, Measurements, Pair
from treefold.probe.steps import Step
from treefold.rendezvous import Rendezvous, validation

SILENCE_S = 20.0
"""A connection that is silent for so long is lost."""
_PARTS, _PART_TRIPS = 7, 5
"""The rate of a pair is the median of so many parts of its transfer, or of fewer that take so many round trips each."""
_WARM, _WARM_TRIPS, _MOST_WARM = 0.4, 10, 0.7
"""A transfer of several pairs at once begins with such a part of its time that does not count.

It is so many round trips if these are longer, but no more than the last part.
"""
_REPORTS = {"trips": (4, 4), "pair": (3, 1), "egress": (0, 1), "ingress": (0, 1), "together": (0, 1), "offer": (0, 1)}
"""How many values a pair's source reports of a step of each kind, and how many its target."""


def reported(step: Step, meeting: Rendezvous, connected: Connected, measured: Measurements) -> dict[Pair, list[float]]:
    """Do this worker's part of a step; return what all workers measured."""
    own, error = _own_part(step, meeting.rank, connected, measured)
    outgoing = [pair for pair in own if step.kind != "trips" and pair[SOURCE] == meeting.rank]
    sent_bytes = round(sum(own[pair][-1] for pair in outgoing))
    results = [
        [*_report_key(step, pair, meeting.rank), *values]
        for pair, values in own.items()
        if _REPORTS[step.kind][pair.index(meeting.rank)]
    ]
    schema: dict[str, validation.Schema] = {"results": [_is_report], "sent_bytes": validation.is_count}
    reports = agree(meeting, error, schema, results=results, sent_bytes=sent_bytes)
    measured.sent_bytes += sum(report["sent_bytes"] for report in reports)
    return _values(step, reports)


def _is_report(value: Any) -> bool:
    """Return whether a JSON value is a pair of ranks with what was measured between them."""
    return isinstance(value, list) and len(value) > 2 and all(map(validation.is_amount, value))


def _values(step: Step, reports: list[dict[str, Any]]) -> dict[Pair, list[float]]:
    """Return what all workers measured, by pair: what each had to, and no more.

    What the source of a pair measured stands under the pair turned round, but for round trips.
    """
    values: dict[Pair, list[float]] = {}
    for pair in step.pairs:
        own = pair if step.kind == "trips" else pair[::-1]
        for key, reporter, count in zip((own, own[::-1]), pair, _REPORTS[step.kind], strict=True):
            reported = [rest for one, other, *rest in reports[reporter]["results"] if (one, other) == key]
            if count and [len(rest) for rest in reported] != [count]:
                partner = sum(pair) - reporter
                raise validation.unexpected(f"worker {reporter}", f"no result of its transfers with worker {partner}")
            values |= {key: reported[0]} if count else {}
    return values


def _own_part(
    step: Step, rank: int, connected: Connected, measured: Measurements
) -> tuple[dict[Pair, list[float]], TreefoldError | None]:
    """Return what this worker measured, by pair, and its first error."""
    own = [pair for pair in step.pairs if rank in pair]
    most = limits(step, measured)
    errors: list[str] = []

    def part(pair: Pair) -> list[float]:
        other = pair[TARGET] if pair[SOURCE] == rank else pair[SOURCE]
        try:
            return _transfer(step, pair, rank, connected.sockets[other], measured, most)
        except (OSError, EOFError) as error:
            names = [f"worker {each} ({measured.workers[each]['name']})" for each in (rank, other)]
            errors.append(f"{names[0]} lost its connection to {names[1]}: {_reason(error)}; look at the other's output")
            return []

    if len(own) < 2:
        results = [part(pair) for pair in own]
    else:
        used = [each for other in {sum(pair) - rank for pair in own} for each in connected.sockets[other].values()]
        with lines.beside(len(own), used) as pool:
            results = list(pool.map(part, own))
    by_pair = {pair: values for pair, values in zip(own, results, strict=True) if values}
    return by_pair, PeerError(errors[0]) if errors else None


def _transfer(
    step: Step, pair: Pair, rank: int, sockets: Mapping[int, socket.socket], measured: Measurements, most: Limits
) -> list[float]:
    """Do this worker's end of a pair's transfer; return what it measured."""
    if step.kind == "trips":
        return _trips(sockets[1], pair[SOURCE] == rank)
    is_alone = step.kind == "pair"
    count = step.streams if is_alone else measured.streams[pair]
    side_by_side = [sockets[number] for number in range(1, count + 1)]
    echo = sockets[lines.ECHO] if is_alone else None
    if pair[SOURCE] == rank:
        rate_Bps = step.offered_Bps.get(pair, math.inf)
        sent = lines.send(side_by_side, echo, most.seconds + most.longer_s, most.most_bytes[pair], rate_Bps)
        return list(sent) if is_alone else [sent.sent_bytes]
    start = time.perf_counter()
    samples = lines.receive(side_by_side, echo)
    round_trip_s = measured.trips[min(pair), max(pair)].least_s
    if not is_alone:
        # Rates of one window add up: all pairs leave out as much of its beginning as the longest line needs.
        longest_s = max(measured.trips[min(each), max(each)].least_s for each in step.pairs)
        warm_s = min(max(_WARM * most.seconds, _WARM_TRIPS * longest_s), _MOST_WARM * most.seconds)
        return [transfers.rate_between(samples, start, warm_s, start + most.seconds)]
    # What was lost comes a round trip later, with all that came meanwhile: such a burst must not fill a part.
    parts = min(max(int(most.seconds / (_PART_TRIPS * round_trip_s)), 1), _PARTS)
    return [transfers.steady_rate(samples, most.seconds, round_trip_s, parts)]


def _trips(connection: socket.socket, is_first: bool) -> list[float]:
    """Return the least and the median round trip, and the time of a message in the pair's direction and back."""
    if is_first:
        trips = transfers.ping(connection)
        forth_s = transfers.send_messages(connection)
        back_s = transfers.receive_messages(connection)
        return [*trips, forth_s, back_s]
    transfers.answer_pings(connection)
    forth_s = transfers.receive_messages(connection)
    return [0.0, 0.0, forth_s, transfers.send_messages(connection)]


def _reason(error: OSError | EOFError) -> str:
    if isinstance(error, BlockingIOError):
        return f"silent for {SILENCE_S:g} s"
    return getattr(error, "strerror", None) or "closed by the other side"


def _report_key(step: Step, pair: Pair, rank: int) -> Pair:
    """Return the pair under which a worker reports: of round trips with its own rank first, else with it last."""
    is_first = step.kind == "trips"
    return pair if (pair[SOURCE] == rank) == is_first else pair[::-1]
