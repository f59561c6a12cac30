"""The tests of a probe: what many pairs carry at once, told to all workers, within a budget."""

from concurrent.futures import ThreadPoolExecutor
from itertools import permutations

import pytest

import treefold
from treefold import rendezvous
from treefold.probe import Measurements, RoundTrips, Settings, refining, report
from treefold.probe.results import Try
from treefold.probe.steps import Budget

WORKERS = 4
CONDUIT = {(0, 2), (0, 3), (1, 2), (1, 3)}
ALONE_BPS, CONDUIT_BPS = 1e7, 1.2e7
AMPLE = Budget(60.0, 1 << 40)


def carried(offered):
    """Each pair carries 10 MB/s, and those of the conduit 12 MB/s together, evenly."""
    wanted = {pair: min(rate, ALONE_BPS) for pair, rate in offered.items()}
    inside = sum(rate for pair, rate in wanted.items() if pair in CONDUIT)
    part = min(1.0, CONDUIT_BPS / inside) if inside else 1.0
    return {pair: rate * (part if pair in CONDUIT else 1.0) for pair, rate in wanted.items()}


def measurements():
    measured = Measurements([{"name": f"w{rank}", "address": "127.0.0.1"} for rank in range(WORKERS)], 1.0, 1 << 20)
    pairs = list(permutations(range(WORKERS), 2))
    measured.rates = dict.fromkeys(pairs, ALONE_BPS)
    measured.streams = dict.fromkeys(pairs, 1)
    measured.overheads_s = dict.fromkeys(pairs, 0.0)
    measured.trips = {pair: RoundTrips(1e-3, 1e-3) for pair in pairs if pair[0] < pair[1]}
    measured.tries = {}
    stars = [[pair for pair in pairs if pair[end] == rank] for end in (0, 1) for rank in range(WORKERS)]
    measured.at_once = [carried(dict.fromkeys(star, ALONE_BPS)) for star in [*stars, pairs]]
    return measured


def refined(most=AMPLE, take=None):
    """Return what each worker knows in the end, and the lines that were told."""
    told = []

    def work(meeting):
        measured = measurements()

        def counted(offered):
            measured.tests += 1
            measured.tested_bytes += round(sum(carried(offered).values()))
            return carried(offered)

        kept = list(refining.refine(meeting, measured, take or counted, most, told.append))
        return measured, len(kept)

    with ThreadPoolExecutor(WORKERS) as pool:
        return list(pool.map(work, rendezvous.local(WORKERS))), told


def test_all_workers_learn_what_is_shared_and_plans_are_carried():
    results, told = refined()
    first, kept = results[0]
    assert kept == len(told) == len(first.rounds) > 0 and told[0].startswith("round 1, ")
    assert [kept for _, kept in results[1:]] == [0] * (WORKERS - 1)
    for measured, _ in results[1:]:
        assert (measured.model, measured.rounds) == (first.model, first.rounds)
    network = treefold.topology(refined_document(first))
    plan = treefold.plan(network, "packing", size_bytes=1 << 30)
    loads = dict.fromkeys(first.rates, 0.0)
    for tree in plan.trees():
        for edge in (*tree.reduce(), *tree.broadcast()):
            pair = int(edge.source[1:]), int(edge.target[1:])
            loads[pair] += tree.share * plan.rate
    got = carried({pair: rate for pair, rate in loads.items() if rate})
    assert all(got[pair] > 0.97 * loads[pair] for pair in got)
    # The true optimum, with the conduit known.
    links = [
        {"source": f"w{one}", "target": f"w{other}", "bandwidth_Bps": ALONE_BPS, "latency_s": 0.0}
        | ({"shares": ["conduit"]} if (one, other) in CONDUIT else {})
        for one, other in first.rates
    ]
    document = refined_document(first) | {
        "links": links, "shared": [{"name": "conduit", "bandwidth_Bps": CONDUIT_BPS}]
    }  # fmt: skip
    assert plan.rate > 0.9 * treefold.bound(treefold.topology(document)).all_reduce.rate_Bps


def refined_document(measured):
    measured.tries = {pair: {1: Try(ALONE_BPS, 1, 0.0, 0.0)} for pair in measured.rates}
    return report.document(measured)


@pytest.mark.parametrize(("most", "tests"), [(Budget(0.0, 1 << 40), 1), (Budget(60.0, 0), 0)])
def test_a_budget_that_is_used_ends_the_tests_with_the_best_network_so_far(most, tests):
    results, _ = refined(most)
    for measured, _ in results:
        assert measured.tests == tests and measured.model is not None
        assert treefold.topology(refined_document(measured)).ranks == WORKERS


def test_an_error_of_one_test_reaches_all_workers():
    def fails(offered):
        raise treefold.TreefoldError("the line is cut")

    with pytest.raises(treefold.TreefoldError, match="the line is cut"):
        refined(take=fails)


def test_two_workers_and_listed_links_have_nothing_to_refine():
    three = [{"name": str(rank)} for rank in range(3)]
    assert refining.is_worth_while(three, Settings())
    assert not refining.is_worth_while(three[:2], Settings())
    links = {"name": "listed", "nodes": [], "links": []}
    assert not refining.is_worth_while(three, Settings(links=links))
