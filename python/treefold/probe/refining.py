"""Refines a probe by tests of many pairs at once, until a plan's traffic is carried.

Pairs alone and nodes at once do not show which pairs cross the same cables. So worker 0 plans with what is known; all
offer the plan's traffic at its rates for a while; and what falls short tells which pairs share a capacity
(`treefold.discovery`, where the method is). Routers on the way, where they answer, say beforehand which pairs may.

Everybody takes part in every test; worker 0 alone decides which one is next, or that the probe ends.
"""

import contextlib
import time
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from typing import Any

from treefold._core import format_bandwidth
from treefold.discovery import UNLIMITED, Group, Knowledge, Observation, Refinement, Round, Test
from treefold.errors import TreefoldError
from treefold.probe import learnt
from treefold.probe.connections import agree
from treefold.probe.limits import bytes_of_test, wanted_s
from treefold.probe.results import Measurements, Outcome, Pair, outcome_of
from treefold.probe.routers import routes_to, shared_ways
from treefold.probe.settings import Settings
from treefold.probe.steps import Budget
from treefold.rendezvous import Rendezvous, validation
from treefold.report.measured import outcome_line
from treefold.text import some

Take = Callable[[Mapping[Pair, float]], dict[Pair, float]]
"""Offers rates to pairs, together with all other workers; returns what each pair got."""

MOST_TESTS = 60
MOST_WORKERS = 40
"""The plan of a test takes up to 5 seconds with so many workers, while all others wait; with 64 it takes 20."""
_ROUTES_S, _ROUTES_PART = 2.5, 0.25
"""Routers are asked for so long, but no longer than this part of the time."""
_NOISE = 0.02
_ONE_TEST, _TWO_TESTS = 0.5, 1.5
"""A test may begin if half of it fits into the time. It is the last one if no other would."""


def is_worth_while(workers: Sequence[Mapping[str, Any]], settings: Settings) -> bool:
    """Return whether there may be anything to learn: among three workers or more whose links nobody has listed."""
    return settings.links is None and 2 < len(workers) <= MOST_WORKERS


def untaken(workers: Sequence[Mapping[str, Any]], settings: Settings) -> Outcome | None:
    """Return the outcome if no tests are taken; None if they would tell nothing."""
    if settings.links is not None or len(workers) < 3:
        return None
    return Outcome(0.0, False, False, "workers" if len(workers) > MOST_WORKERS else "seconds")


def refine(
    meeting: Rendezvous,
    measured: Measurements,
    take: Take,
    most: Budget,
    heard: Callable[[str], None],
) -> Generator[None, TreefoldError | None, None]:
    """Refine what was measured; all workers run this together. Each step of the generator is a round.

    An error that is sent to the generator ends the tests on all workers.

    Args:
        meeting: The rendezvous of all workers.
        measured: The measurements, which get the model on worker 0, and in the end on all.
        take: A function that takes a test.
        most: How many seconds all tests may take, and how many bytes the whole probe may send.
        heard: A function that worker 0 tells after each round what was learnt.

    """
    end = time.monotonic() + most.seconds
    hops = _hops(meeting, measured, min(_ROUTES_S, most.seconds * _ROUTES_PART))
    if meeting.rank:
        while (test := _agreed(meeting, None)) is not None:
            take(test)
    else:
        yield from _lead(meeting, measured, take, hops, Budget(end, most.most_bytes), heard)
    mine = [] if meeting.rank else [learnt.to_json(measured)]
    (found,) = agree(meeting, None, {"learnt": [learnt.SCHEMA]}, learnt=mine)[0]["learnt"]
    learnt.take(measured, found)


def _refinement(measured: Measurements, hops: Sequence[frozenset[Pair]]) -> Refinement:
    trips = {pair: measured.trips[min(pair), max(pair)].least_s / 2 for pair in measured.rates}
    names = [worker["name"] for worker in measured.workers]
    addresses = {rank: worker["address"] for rank, worker in enumerate(measured.workers)}
    unlimited = [Observation(dict.fromkeys(got, UNLIMITED), got) for got in measured.at_once]
    knowledge = Knowledge(
        observations=unlimited, names=names, latency_s=trips, hops=hops, addresses=addresses, noise=_NOISE
    )
    return Refinement(measured.rates, knowledge, MOST_TESTS)


def _lead(
    meeting: Rendezvous,
    measured: Measurements,
    take: Take,
    hops: Sequence[frozenset[Pair]],
    most: Budget,
    heard: Callable[[str], None],
) -> Generator[None, TreefoldError | None, None]:
    """Decide as worker 0 which test is next, until nothing faster is in sight or the budget is used.

    The budget's seconds are the time at which the tests should have ended.
    """
    with _told_to_all(meeting):
        refinement = _refinement(measured, hops)
        tests = refinement.tests()
    observation, largest, error = None, measured.most_transfer_bytes, None
    while True:
        if short := _short_of(measured, most, _TWO_TESTS, 2 * largest):
            refinement.finish()
        with _told_to_all(meeting):
            test = _next(tests, observation)
        _note(measured, refinement, short)
        for each in refinement.rounds[len(measured.rounds) :]:
            measured.rounds.append(each)
            heard(_line(each, len(measured.rounds)))
            error = (yield) or error
        if test is not None:
            allowed = bytes_of_test(test.offered_Bps, measured, most.most_bytes - measured.sent_bytes)
            largest = max(largest, allowed)
            if short := _short_of(measured, most, _ONE_TEST, 0) or (None if allowed else "bytes"):
                _note(measured, refinement, short)
                test = None
        offered = _agreed(meeting, None if test is None else test.offered_Bps, error)
        if offered is None:
            if not measured.tests:
                heard(outcome_line(outcome_of(measured) or {}))
            return
        observation = Observation(offered, take(offered))


def _short_of(measured: Measurements, most: Budget, tests: float, needed_bytes: int) -> str | None:
    """Return what does not suffice for more tests: `seconds` or `bytes`; None if both do."""
    if time.monotonic() + tests * wanted_s(measured.rates, measured) > most.seconds:
        return "seconds"
    return "bytes" if measured.sent_bytes + needed_bytes > most.most_bytes else None


def _note(measured: Measurements, refinement: Refinement, short: str | None) -> None:
    """Note in the measurements what tests have shown so far, if there were any, and how they end if they end now."""
    if refinement.made:
        measured.model = refinement.model
    rate_Bps, is_proven = refinement.rate_Bps if refinement.made else 0.0, refinement.proven
    is_carried = refinement.is_tested and rate_Bps > 0
    measured.outcome = Outcome(rate_Bps, is_carried, is_proven, None if is_proven else short or "tests")


@contextlib.contextmanager
def _told_to_all(meeting: Rendezvous) -> Iterator[None]:
    """Tell all workers, who wait for worker 0 to name a test, of an error on worker 0 instead."""
    try:
        yield
    except TreefoldError as error:
        _agreed(meeting, None, error)


def _next(tests: Generator[Test, Observation, None], observation: Observation | None) -> Test | None:
    """Return the next test, if there is one."""
    with contextlib.suppress(StopIteration):
        return next(tests) if observation is None else tests.send(observation)
    return None


def _agreed(
    meeting: Rendezvous, offered_Bps: Mapping[Pair, float] | None, error: TreefoldError | None = None
) -> dict[Pair, float] | None:
    """Return the test that worker 0 wants, the rate to offer to each pair; None if it wants none."""
    listed = [[*pair, None if rate == UNLIMITED else rate] for pair, rate in (offered_Bps or {}).items()]
    reports = agree(meeting, error, {"offers": [_is_offer]}, offers=listed)
    offers = {(source, target): UNLIMITED if rate is None else rate for source, target, rate in reports[0]["offers"]}
    return offers or None


def _is_offer(value: Any) -> bool:
    """Return whether a JSON value is a pair of ranks and the rate that is offered to it, or None."""
    is_offer = isinstance(value, list) and len(value) == 3 and all(map(validation.is_count, value[:2]))
    return is_offer and (value[2] is None or validation.is_amount(value[2]))


def _hops(meeting: Rendezvous, measured: Measurements, seconds: float) -> list[frozenset[Pair]]:
    """Ask for the routers between all workers; return the sets of pairs that have ways in common."""
    others = [rank for rank in range(meeting.size) if (meeting.rank, rank) in measured.rates]
    found = routes_to([measured.workers[rank]["address"] for rank in others], seconds)
    mine = [[rank, *route] for rank, route in zip(others, found, strict=True)]
    reports = agree(meeting, None, {"routes": [_is_route]}, routes=mine)
    # A worker may be a router for others.
    rank_of = {worker["address"]: rank for rank, worker in enumerate(measured.workers)}
    routes = {
        (source, target): [rank_of.get(stop, stop) for stop in route]
        for source, report in enumerate(reports)
        for target, *route in report["routes"]
    }
    return shared_ways({pair: route for pair, route in routes.items() if pair in measured.rates})


def _is_route(value: Any) -> bool:
    """Return whether a JSON value is a rank and the addresses of the routers on the way there."""
    is_route = isinstance(value, list) and len(value) > 0 and validation.is_count(value[0])
    return is_route and all(each is None or isinstance(each, str) for each in value[1:])


def _line(each: Round, number: int) -> str:
    """Return a line that says what a round has learnt."""
    promised, carried = format_bandwidth(each.promised_Bps), format_bandwidth(each.carried_Bps)
    rates = f"the model promises an all-reduce at {promised}, the network carried {carried}"
    found = f"; shared: {some([_capacity(group) for group in each.learnt], 4)}" if each.learnt else ""
    dropped = f"; not shared after all: {some(list(each.dropped), 4)}" if each.dropped else ""
    tests = f"{each.tests} test{'' if each.tests == 1 else 's'}"
    return f"round {number}, {tests}: {rates}{found}{dropped}"


def _capacity(group: Group) -> str:
    return f"{group.name} ({format_bandwidth(group.capacity_Bps)})"
