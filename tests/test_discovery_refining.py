"""Discovery on simulated networks whose cables it is not told: what it reaches, when it stops, and what it refuses."""

from contextlib import suppress
from dataclasses import replace
from itertools import count

import numpy as np
import pytest

import treefold
from bench.discovery import networks
from bench.discovery.trials import discovered, optimum_Bps, probed
from bench.discovery.truth import Truth, measured, pairs_of, reached_Bps, shares
from treefold.discovery import UNLIMITED, Knowledge, Observation, Refinement, planned
from treefold.discovery.beliefs import Beliefs
from treefold.discovery.observations import Evidence


def bus(ranks=4, capacity_Bps=1e7):
    """All pairs share one cable, and nothing else limits them."""
    pairs = pairs_of(ranks)
    return Truth("bus", ranks, np.array([capacity_Bps]), np.ones((1, len(pairs)), bool), np.ones((ranks, ranks)))


def dumbbell(noise=0.02):
    """Two sites of three workers, whose lines are fast, joined by a cable that is slow."""
    pairs = pairs_of(6)
    between = [[a // 3 == side and b // 3 != side for a, b in pairs] for side in (0, 1)]
    nodes = [[pair[end] == rank for pair in pairs] for end in (0, 1) for rank in range(6)]
    capacity = np.array([1e7, 1e7, *[1e8] * 12])
    return Truth("dumbbell", 6, capacity, np.array([*between, *nodes]), np.ones((6, 6)), noise)


def small(kind, seed):
    """The first network of a kind, from a seed on, with at most seven workers."""
    return next(drawn for drawn in (networks.drawn(kind, each) for each in count(seed)) if drawn.ranks <= 7)


def refined(truth, seed=0, most_tests=60, hears=lambda test: None, **known):
    random = np.random.default_rng(seed)
    alone, observations = probed(truth, random)
    refinement = Refinement(alone, Knowledge(observations, noise=truth.noise, **known), most_tests)
    tests, observation = refinement.tests(), None
    with suppress(StopIteration):
        while True:
            test = tests.send(observation)
            hears(test)
            observation = Observation(test.offered_Bps, measured(truth, test.offered_Bps, random))
    return refinement


def reached(truth, refinement):
    rates = refinement.model.carried_Bps
    carried = np.array([rates.get(pair, 0.0) for pair in truth.pairs])
    evidence = Evidence(dict.fromkeys(truth.pairs, 1.0))
    return reached_Bps(truth, *planned.best(evidence, carried, [])) / optimum_Bps(truth)


SUBNETS = {rank: f"10.0.{rank // 3}.{rank + 1}" for rank in range(6)}


def test_equal_subnets_hint_at_what_their_workers_share():
    truth = dumbbell()
    by_subnets, alone = refined(truth, addresses=SUBNETS), refined(truth)
    assert by_subnets.proven and reached(truth, by_subnets) >= 0.9
    assert by_subnets.made < alone.made
    assert {group.name for group in by_subnets.model.groups} >= {"0 + 1 + 2 egress", "3 + 4 + 5 egress"}


def test_a_hint_of_subnets_that_a_test_refutes_is_dropped_and_costs_no_rate():
    # Between the sites nothing is narrow, but they carried little when all sent at once.
    wide = replace(dumbbell(), capacity_Bps=np.array([3e8, 3e8, *[1e8] * 12]))
    alone, observations = probed(wide, np.random.default_rng(0))
    between = [pair for pair in wide.pairs if pair[0] // 3 != pair[1] // 3]
    less = dict(observations[-1].got_Bps) | {pair: 0.3 * observations[-1].got_Bps[pair] for pair in between}
    before = [*observations[:-1], Observation(observations[-1].offered_Bps, less)]
    beliefs = Beliefs(alone, Knowledge(before[-1:], addresses=SUBNETS))
    assert [group.mask.sum() for group in beliefs.groups] == [9, 9]
    offered = dict.fromkeys(between, UNLIMITED)
    beliefs.see(Observation(offered, measured(wide, offered, np.random.default_rng(1))))
    assert beliefs.groups == []
    assert reached(wide, refined(wide, addresses=SUBNETS)) >= 0.9


@pytest.mark.parametrize("addresses", [dict.fromkeys(range(6), "127.0.0.1"), dict.fromkeys(range(6), "::1"), {}])
def test_workers_of_one_machine_get_no_hint(addresses):
    alone, observations = probed(dumbbell(), np.random.default_rng(0))
    assert not [group for group in Refinement(alone, Knowledge(observations, addresses=addresses)).model.groups
                if not group.confirmed]  # fmt: skip


def test_shares_are_max_min_fair():
    uses = np.array([[1, 1, 0], [0, 1, 1]], bool)
    rates = shares(uses, np.array([10.0, 4.0]), np.array([np.inf, np.inf, 1.0]), np.ones(3))
    assert rates.tolist() == [7.0, 3.0, 1.0]


def test_a_slow_cable_between_two_sites_is_found():
    truth = dumbbell()
    refinement = refined(truth)
    assert reached(truth, refinement) >= 0.9
    assert refinement.proven


@pytest.mark.parametrize("kind", [networks.sparse, networks.with_routers])
def test_plans_reach_most_of_what_known_cables_allow(kind):
    trials = [discovered(small(kind, seed), "latency", seed, 30) for seed in (100, 200)]
    assert min(trial.reached for trial in trials) >= 0.9
    assert max(trial.tests for trial in trials) <= 30


@pytest.mark.parametrize("hint", ["none", "latency", "routers"])
def test_in_a_cloud_the_first_plan_is_carried_and_nothing_else_is_tested(hint):
    trials = [discovered(small(networks.cloud, seed), hint, seed) for seed in (100, 200)]
    assert [trial.tests for trial in trials] == [1, 1]
    assert min(trial.reached for trial in trials) >= 0.9


def test_the_same_observations_lead_to_the_same_tests():
    runs = [[], []]
    for run in runs:
        refined(dumbbell(), hears=run.append)
    assert runs[0] == runs[1]


def test_no_group_contradicts_a_test():
    truth = small(networks.sparse, 300)
    refinement = refined(truth, most_tests=12)
    evidence = refinement._beliefs.evidence
    for group in refinement.model.groups:
        carried = evidence.got_Bps @ evidence.mask(group.members)
        assert carried.max() <= (1 + evidence.refuting) * group.capacity_Bps


def test_the_model_is_a_network_at_any_moment():
    truth = small(networks.sparse, 301)
    for most_tests in (1, 2, 5):
        refinement = refined(truth, most_tests=most_tests)
        assert refinement.made <= most_tests
        model = refinement.model
        assert treefold.topology(model.document()).ranks == truth.ranks
        network = treefold.topology(model.carried())
        assert treefold.bound(network).all_reduce.rate_Bps >= 0.95 * refinement.rate_Bps


def test_a_closed_generator_leaves_the_best_so_far():
    alone, observations = probed(bus(), np.random.default_rng(0))
    refinement = Refinement(alone, Knowledge(observations))
    tests = refinement.tests()
    next(tests)
    tests.close()
    assert treefold.topology(refinement.model.carried()).ranks == 4


def test_rounds_say_what_they_learnt():
    truth = small(networks.meshed, 303)
    refinement = refined(truth, most_tests=12)
    assert [each.tests for each in refinement.rounds] == sorted({each.tests for each in refinement.rounds})
    assert all(each.carried_Bps > 0 and each.promised_Bps > 0 for each in refinement.rounds)


def refined_while_slower(truth, slower, after, **known):
    """Return what a refinement finds on a network that becomes slower after some tests."""
    random = np.random.default_rng(1)
    alone, observations = probed(truth, random)
    refinement = Refinement(alone, Knowledge(observations, noise=0.02, **known))
    tests, observation = refinement.tests(), None
    with suppress(StopIteration):
        while True:
            test = tests.send(observation)
            now = truth if refinement.made < after else slower
            observation = Observation(test.offered_Bps, measured(now, test.offered_Bps, random))
    return refinement


@pytest.mark.parametrize("after", [0, 1, 2])
def test_a_network_that_slows_down_meanwhile_is_not_promised_any_more(after):
    truth = dumbbell()
    slower = replace(truth, capacity_Bps=truth.capacity_Bps / 2)
    refinement = refined_while_slower(truth, slower, after)
    assert refinement.made > after and refinement.rate_Bps <= 1.1 * optimum_Bps(slower)


def test_a_plan_that_falls_short_in_the_last_test_is_not_proven():
    refinement = Refinement(dict.fromkeys(pairs_of(3), 1e7), most_tests=1)
    loads = np.full(6, 5e6)
    refinement._beliefs.best, refinement._beliefs.is_tested = planned.Planned(1e7, loads), True
    holds = refinement._holds()
    test = next(holds)
    with pytest.raises(StopIteration) as end:
        holds.send(Observation(test.offered_Bps, {pair: rate / 2 for pair, rate in test.offered_Bps.items()}))
    assert end.value.value is False and not refinement.is_tested


@pytest.mark.parametrize("kind", [networks.meshed, networks.access_lines])
def test_what_was_carried_before_a_cable_became_slow_is_not_promised(kind):
    truth = small(kind, 1)
    crossed = int((truth.uses.sum(axis=1) / truth.capacity_Bps).argmax())
    slower = replace(truth, capacity_Bps=np.where(np.arange(len(truth.uses)) == crossed, 0.4, 1.0) * truth.capacity_Bps)
    latency_s = {pair: float(truth.latency_s[pair]) for pair in truth.pairs}
    refinement = refined_while_slower(truth, slower, 1, latency_s=latency_s)
    assert refinement.rate_Bps <= 1.1 * optimum_Bps(slower) and reached(slower, refinement) >= 0.9


@pytest.mark.parametrize(
    ("alone", "options", "says"),
    [
        ({}, {}, "no pair of workers"),
        ({(0, 1): 0.0, (1, 0): 1e6}, {}, "rate 0.0 of pair 0 -> 1"),
        ({(0, 1): float("nan"), (1, 0): 1e6}, {}, "rate nan of pair 0 -> 1"),
        ({(0, 1): 1e6, (1, 0): 1e6}, {"most_tests": 0}, "most_tests 0"),
        ({(0, 0): 1e6}, {}, "not of two workers"),
        ({(0, 1): 1e6, (1, 0): 1e6, (1, 2): 1e6}, {}, "worker 0 cannot receive from worker 2"),
        ({(0, 1): 1e6, (1, 0): 1e6}, {"knowledge": Knowledge(names=["a"])}, "1 names for 2 workers"),
        ({(0, 1): 1e6, (1, 0): 1e6}, {"knowledge": Knowledge(noise=0.5)}, "noise 0.5"),
    ],
)
def test_bad_input_is_refused(alone, options, says):
    with pytest.raises(treefold.TreefoldError, match=says):
        Refinement(alone, **options)


def test_an_observation_without_numbers_is_refused():
    tests = Refinement({(0, 1): 1e6, (1, 0): 1e6}).tests()
    offered = next(tests).offered_Bps
    with pytest.raises(treefold.TreefoldError, match="0 -> 1 got nan"):
        tests.send(Observation(offered, {(0, 1): float("nan")}))


def test_a_network_that_carries_nothing_ends_with_the_budget():
    refinement = Refinement(dict.fromkeys(pairs_of(3), 1e6), most_tests=12)
    tests, observation = refinement.tests(), None
    with suppress(StopIteration):
        while True:
            observation = Observation(tests.send(observation).offered_Bps, {})
    assert not refinement.proven
    assert refinement.made <= 12
    assert treefold.topology(refinement.model.carried()).ranks == 3


def test_two_workers_that_share_one_line_are_told_so():
    refinement = refined(bus(2))
    assert refinement.proven
    assert refinement.made <= 12
    assert reached(bus(2), refinement) >= 0.9


def test_pairs_that_a_firewall_blocks_are_left_out():
    truth = bus(4)
    alone = {pair: 1e7 for pair in truth.pairs if pair != (0, 3)}
    refinement = Refinement(alone)
    offered = next(refinement.tests()).offered_Bps
    assert (0, 3) not in offered
    assert offered.keys() <= alone.keys()
    assert UNLIMITED not in offered.values()


@pytest.mark.parametrize(("kind", "seed"), [(networks.cloud, 1000), (networks.cloud, 1007), (networks.sparse, 1002)])
def test_any_plan_on_a_whole_model_is_carried(kind, seed):
    truth = small(kind, seed)
    refinement = refined(truth, latency_s={pair: float(truth.latency_s[pair]) for pair in truth.pairs})
    assert refinement.proven and refinement.model.is_whole
    plan = treefold.plan(refinement.model.network(), "packing", size_bytes=1 << 26)
    rates = planned.loads_of(plan)
    loads = np.array([rates.get(pair, 0.0) for pair in truth.pairs])
    assert reached_Bps(truth, 1.0, loads) >= 0.93 * optimum_Bps(truth)


def test_a_model_that_leaves_something_unexplained_is_not_whole():
    truth = dumbbell()
    refinement = refined(truth, most_tests=1)
    assert not refinement.model.is_whole
