"""Refines a probe by tests of many pairs at once, until a plan's traffic is carried.

Pairs alone and nodes at once do not show which pairs cross the same cables. So worker 0 plans with what is known; all
offer the plan's traffic at its rates for a while; and what falls short tells which pairs share a capacity
(`treefold.discovery`, where the method is). Routers on the way, where they answer, say beforehand which pairs may.

Everybody takes part in every test; worker 0 alone decides which one is next, or that the probe ends.
"""

import contextlib
import time
from collections.abc import Callable, Generator, Mapping, Sequence
from typing import Any

from treefold._core import format_bandwidth
from treefold.discovery import UNLIMITED, Group, Knowledge, Observation, Refinement, Round, Test
from treefold.errors import TreefoldError
from treefold.probe import learnt
from treefold.probe.connections import agree
from treefold.probe.results import Measurements, Pair
from treefold.probe.routers import routes_to, shared_ways
from treefold.probe.settings import Settings
from treefold.probe.steps import Budget
from treefold.rendezvous import Rendezvous, validation
from treefold.text import some

Take = Callable[[Mapping[Pair, float]], dict[Pair, float]]
"""Offers rates to pairs, together with all other workers; returns what each pair got."""

MOST_TESTS = 60
_ROUTES_S = 2.5
_NOISE = 0.02


def is_worth_while(workers: Sequence[Mapping[str, Any]], settings: Settings) -> bool:
    """Return whether there may be anything to learn: among three workers or more whose links nobody has listed."""
    return settings.links is None and len(workers) > 2


def refine(
    meeting: Rendezvous,
    measured: Measurements,
    take: Take,
    most: Budget,
    heard: Callable[[str], None],
) -> Generator[None, None, None]:
    """Refine what was measured; all workers run this together. Each step of the generator is a round.

    Args:
        meeting: The rendezvous of all workers.
        measured: The measurements, which get the model on worker 0, and in the end on all.
        take: A function that takes a test.
        most: How many seconds and bytes all tests may take; a test that has begun is ended.
        heard: A function that worker 0 tells after each round what was learnt.

    """
    hops = _hops(meeting, measured)
    if meeting.rank:
        while (test := _agreed(meeting, None)) is not None:
            take(test)
    else:
        yield from _lead(meeting, measured, take, _refinement(measured, hops), most, heard)
    mine = [learnt.to_json(measured, measured.model)] if measured.model else []
    (found,) = agree(meeting, None, {"learnt": [learnt.SCHEMA]}, learnt=mine)[0]["learnt"]
    learnt.take(measured, found)


def _refinement(measured: Measurements, hops: Sequence[frozenset[Pair]]) -> Refinement:
    trips = {pair: measured.trips[min(pair), max(pair)].least_s / 2 for pair in measured.rates}
    names = [worker["name"] for worker in measured.workers]
    unlimited = [Observation(dict.fromkeys(got, UNLIMITED), got) for got in measured.at_once]
    knowledge = Knowledge(observations=unlimited, names=names, latency_s=trips, hops=hops, noise=_NOISE)
    return Refinement(measured.rates, knowledge, MOST_TESTS)


def _lead(
    meeting: Rendezvous,
    measured: Measurements,
    take: Take,
    refinement: Refinement,
    most: Budget,
    heard: Callable[[str], None],
) -> Generator[None, None, None]:
    """Decide as worker 0 which test is next, until nothing faster is in sight or the budget is used."""
    tests, observation, end = refinement.tests(), None, time.monotonic() + most.seconds
    while True:
        if time.monotonic() > end or measured.tested_bytes + 2 * measured.most_transfer_bytes > most.most_bytes:
            refinement.finish()
        test, error = _next(tests, observation)
        measured.model = refinement.model
        new = refinement.rounds[len(measured.rounds) :]
        measured.rounds += new
        for each in new:
            heard(_line(each, len(measured.rounds)))
            yield
        if measured.tested_bytes + measured.most_transfer_bytes > most.most_bytes:
            test = None
        offered = _agreed(meeting, None if test is None else test.offered_Bps, error)
        if offered is None:
            return
        observation = Observation(offered, take(offered))


def _next(
    tests: Generator[Test, Observation, None], observation: Observation | None
) -> tuple[Test | None, TreefoldError | None]:
    """Return the next test, if there is one, or the error that all workers should get."""
    with contextlib.suppress(StopIteration):
        try:
            return (next(tests) if observation is None else tests.send(observation)), None
        except TreefoldError as error:
            return None, error
    return None, None


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


def _hops(meeting: Rendezvous, measured: Measurements) -> list[frozenset[Pair]]:
    """Ask for the routers between all workers; return the sets of pairs that have ways in common."""
    others = [rank for rank in range(meeting.size) if (meeting.rank, rank) in measured.rates]
    found = routes_to([measured.workers[rank]["address"] for rank in others], _ROUTES_S)
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
    rates = f"promised {format_bandwidth(each.promised_Bps)}, carried {format_bandwidth(each.carried_Bps)}"
    found = f"; shared: {some([_capacity(group) for group in each.learnt], 4)}" if each.learnt else ""
    dropped = f"; not shared after all: {some(list(each.dropped), 4)}" if each.dropped else ""
    return f"round {number}, {each.tests} tests: {rates}{found}{dropped}"


def _capacity(group: Group) -> str:
    return f"{group.name} ({format_bandwidth(group.capacity_Bps)})"
