"""The tests of a probe: what many pairs carry at once, told to all workers, within a budget."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import permutations

import pytest

import treefold
from treefold import rendezvous
from treefold.probe import Measurements, RoundTrips, Settings, refining, report
from treefold.probe.results import Outcome, Try, outcome_of
from treefold.probe.steps import Budget, budget, matchings, steps_of, time_for_tests_s, time_left_s
from treefold.report.measured import outcome_line

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
            measured.sent_bytes += round(sum(carried(offered).values()))
            return (take or carried)(offered)

        kept = list(refining.refine(meeting, measured, counted, most, told.append))
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


@pytest.mark.parametrize(
    ("most", "ended_by"),
    [(Budget(0.0, 1 << 40), "seconds"), (Budget(60.0, 0), "bytes"), (Budget(60.0, 10**6), "bytes")],
)
def test_where_no_test_fits_the_network_is_that_of_pairs_and_nodes_and_a_line_says_so(most, ended_by):
    results, told = refined(most)
    for measured, kept in results:
        assert measured.tests == kept == 0 and measured.model is None
        assert measured.outcome == Outcome(0.0, carried=False, proven=False, ended_by=ended_by)
        network = treefold.topology(refined_document(measured))
        assert {link.bandwidth_Bps for link in network.links()} == {ALONE_BPS} and network.num_links == 12
    assert len(told) == 1 and told[0].startswith("no test of many pairs at once, as ")


@pytest.mark.parametrize(
    ("most", "ended_by"), [(Budget(60.0, 10**8), "bytes"), (Budget(3.0, 1 << 40), "seconds"), (AMPLE, None)]
)
def test_the_outcome_says_whether_the_budget_or_a_proof_ended_the_tests(most, ended_by, monkeypatch):
    clock = [0.0]
    monkeypatch.setattr(refining.time, "monotonic", lambda: clock[0])

    def second_passes():
        clock[0] += 1.0

    all_offer = threading.Barrier(WORKERS, second_passes)

    def take(offered):
        all_offer.wait(10)
        return carried(offered)

    results, _ = refined(most, take)
    for measured, _ in results:
        assert measured.outcome == results[0][0].outcome
        assert measured.outcome.ended_by == ended_by and measured.outcome.proven == (ended_by is None)
        assert measured.outcome.rate_Bps > 0
    line = outcome_line(outcome_of(results[0][0]))
    assert ("nothing faster is in sight" in line) == (ended_by is None)
    assert clock[0] <= most.seconds + 0.5 and results[0][0].sent_bytes <= most.most_bytes


@pytest.mark.parametrize(
    ("seconds", "least", "most"), [(2.8, 0, 0), (3.0, 1, 2), (3.6, 7, 8), (19.0, 15, 16), (200.0, 20, 22)]
)
def test_tests_get_what_is_left_of_the_seconds(seconds, least, most):
    steps = steps_of(matchings([(0, 1), (0, 2), (1, 2)], 3), list(permutations(range(3), 2)), 3)
    settings = Settings(seconds=seconds)
    measured = Measurements([], *budget(settings, steps, 16))
    left_s = time_for_tests_s(settings, measured, steps)
    assert 19 * measured.transfer_s + 0.9 + left_s <= seconds + 1e-9
    assert least <= left_s / measured.transfer_s <= most + 0.01


@pytest.mark.parametrize(
    ("seconds", "taken", "left"), [(None, 40.0, 60.0), (None, 70.0, 42.0), (None, 300.0, 30.0), (200.0, 150.0, 60.0)]
)
def test_a_probe_without_a_limit_ends_within_two_minutes_where_pairs_leave_the_time(seconds, taken, left):
    assert time_left_s(Settings(seconds=seconds), 60.0, taken) == left


def test_an_error_of_one_test_reaches_all_workers():
    def fails(offered):
        raise treefold.TreefoldError("the line is cut")

    with pytest.raises(treefold.TreefoldError, match="the line is cut"):
        refined(take=fails)


def test_workers_in_one_subnet_are_a_hint_for_the_tests():
    measured = measurements()
    measured.at_once = []
    assert refining._refinement(measured, []).model.groups == ()
    for rank, worker in enumerate(measured.workers):
        worker["address"] = f"192.0.2.{rank}" if rank < 2 else f"198.51.100.{rank}"
    names = {group.name for group in refining._refinement(measured, []).model.groups}
    assert names == {"w0 + w1 egress", "w2 + w3 egress"}, "what one sends, the other receives"


def test_so_many_workers_are_not_tested_and_a_line_says_so():
    many = [{"name": str(rank)} for rank in range(refining.MOST_WORKERS + 1)]
    assert not refining.is_worth_while(many, Settings()) and refining.is_worth_while(many[1:], Settings())
    outcome = refining.untaken(many, Settings())
    assert outcome.ended_by == "workers" and refining.untaken(many[:2], Settings()) is None
    assert "there are too many workers" in outcome_line({"count": 0, **outcome.__dict__})


def test_two_workers_and_listed_links_have_nothing_to_refine():
    three = [{"name": str(rank)} for rank in range(3)]
    assert refining.is_worth_while(three, Settings())
    assert not refining.is_worth_while(three[:2], Settings())
    links = {"name": "listed", "nodes": [], "links": []}
    assert not refining.is_worth_while(three, Settings(links=links))


def test_an_error_of_worker_0_between_tests_reaches_all_workers_at_once(monkeypatch):
    def fails(*_):
        raise treefold.TreefoldError("no worker can be reached")

    monkeypatch.setattr(refining, "_refinement", fails)
    errors = []

    def work(meeting):
        with pytest.raises(treefold.TreefoldError, match="no worker can be reached"):
            list(refining.refine(meeting, measurements(), carried, AMPLE, print))
        errors.append(meeting.rank)

    begun = time.perf_counter()
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(work, rendezvous.local(WORKERS)))
    assert len(errors) == WORKERS and time.perf_counter() - begun < 10


def test_an_error_of_keeping_a_round_ends_the_tests_on_all_workers_at_once():
    def work(meeting):
        rounds = refining.refine(meeting, measurements(), carried, AMPLE, lambda line: None)
        with pytest.raises(treefold.TreefoldError, match="the disk is full"):
            next(rounds)
            rounds.send(treefold.TreefoldError("the disk is full"))
        return meeting.rank

    begun = time.perf_counter()
    with ThreadPoolExecutor(WORKERS) as pool:
        assert list(pool.map(work, rendezvous.local(WORKERS))) == [*range(WORKERS)]
    assert time.perf_counter() - begun < 10
