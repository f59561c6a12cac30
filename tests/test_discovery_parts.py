"""The parts of discovery: games against an oracle, mixtures, explanations, hints, and the documents of models."""

import tracemalloc
from itertools import combinations

import highspy
import numpy as np
import pytest

import treefold
from treefold.discovery import Group, Model, Observation, shared
from treefold.discovery.explain import cuts, explain
from treefold.discovery.games import best_mixture
from treefold.discovery.groups import Shared, caps, full, settled, unexplained
from treefold.discovery.hints import of_hops, of_latencies, of_subnets
from treefold.discovery.mixtures import Hull
from treefold.discovery.model import group_name
from treefold.discovery.observations import UNLIMITED, Evidence

PAIRS = [(source, target) for source in range(4) for target in range(4) if source != target]


def value_of(game):
    """The value of a matrix game by HiGHS."""
    columns = game.shape[1]
    solver = highspy.Highs()
    solver.setOptionValue("output_flag", False)
    for _ in range(columns + 1):
        solver.addVar(0, highspy.kHighsInf)
    solver.changeColCost(columns, -1.0)
    every = np.arange(columns, dtype=np.int32)
    solver.addRow(1, 1, columns, every, np.ones(columns))
    for row in game:
        solver.addRow(0, highspy.kHighsInf, columns + 1, np.arange(columns + 1, dtype=np.int32), np.append(row, -1.0))
    solver.run()
    return solver.getSolution().col_value[columns]


def evidence(tests=(), alone=None):
    found = Evidence(alone or dict.fromkeys(PAIRS, 10.0))
    for offered, got in tests:
        found.add(Observation(offered, got))
    return found


@pytest.mark.parametrize("seed", range(8))
def test_mixtures_have_the_value_of_the_game(seed):
    random = np.random.default_rng(seed)
    game = random.random((int(random.integers(1, 40)), int(random.integers(1, 60)))) * (random.random() < 0.5 or 1e7)
    value, mixture = best_mixture(game)
    assert value == pytest.approx(value_of(game), rel=1e-6)
    assert mixture.sum() == pytest.approx(1)
    assert (game @ mixture).min() == pytest.approx(value)


def test_a_row_of_nothing_has_no_value():
    assert best_mixture(np.array([[0.0, 0.0], [1.0, 2.0]]))[0] == 0


def test_the_best_mixture_takes_turns():
    cables = [[(0, 1), (1, 0), (2, 3), (3, 2)], [(1, 2), (2, 1), (3, 0), (0, 3)]]
    tests = [(dict.fromkeys(pairs, 4e6), dict.fromkeys(pairs, 4e6)) for pairs in cables]
    found = Hull(evidence(tests, dict.fromkeys(PAIRS, 1e7))).best()
    assert found.parts == pytest.approx([0.5, 0.5], abs=0.02)
    halves = dict.fromkeys([*cables[0], *cables[1]], 2e6)
    assert found.rate_Bps == pytest.approx(treefold.bound(network(halves)).all_reduce.rate_Bps, rel=0.02)


def network(rates):
    return treefold.topology(Model([f"w{rank}" for rank in range(4)], rates, [], rates, {}).document())


def test_a_group_that_was_full_explains_and_one_that_carried_more_is_refuted():
    offered = {(0, 1): UNLIMITED, (2, 3): UNLIMITED}
    seen = evidence([(offered, {(0, 1): 5.0, (2, 3): 5.0})])
    group = Shared(seen.mask(offered), 10.0)
    assert unexplained(seen, []).sum() == 2
    assert unexplained(seen, [group]).sum() == 0
    assert full(seen, [group]).tolist() == [[True]]
    assert settled(seen, [group, Shared(seen.mask(offered), 8.0)]) == [group]
    [raised] = settled(seen, [Shared(seen.mask(offered), 8.0, fixed=True)])
    assert raised.capacity_Bps == pytest.approx(10.0)


def test_caps_come_only_from_tests_of_all_that_a_worker_sends():
    star = {(0, target): UNLIMITED for target in (1, 2, 3)}
    got = dict.fromkeys(star, 4.0)
    [cap] = caps(evidence([(star, got)]))
    assert cap.capacity_Bps == pytest.approx(12.0)
    assert caps(evidence([(got, got)])) == []


def test_explanations_are_sets_that_fell_short_together():
    random = np.random.default_rng(0)
    truth = [(0, 1), (2, 3), (3, 1)]
    tests = []
    for _ in range(12):
        chosen = [PAIRS[column] for column in random.choice(12, 6, replace=False)]
        crossing = [pair for pair in chosen if pair in truth]
        got = {pair: 10.0 / len(crossing) if pair in crossing else 10.0 for pair in chosen}
        tests.append((dict.fromkeys(chosen, UNLIMITED), got))
    seen = evidence(tests)
    found = explain(seen, [])
    assert set(truth) in [set(seen.members(each.mask)) for each in found]
    assert explain(seen, found) == []


def test_what_two_workers_send_together_is_a_cut():
    out = [pair for pair in PAIRS if pair[0] < 2 <= pair[1]]
    seen = evidence([(dict.fromkeys(out, UNLIMITED), dict.fromkeys(out, 3.0))] * 4)
    assert set(out) in [set(seen.members(each.mask)) for each in cuts(seen)]


def test_latencies_that_add_up_say_which_pairs_lead_over_others():
    line = {(a, b): abs(a - b) * 1e-2 for a, b in PAIRS}
    found = of_latencies(evidence(), line)
    assert set(evidence().members(found[0].mask)) == {(0, 1), (0, 2), (0, 3)}
    assert len(found) == 6
    assert of_latencies(evidence(), {}) == []
    assert of_latencies(evidence(), dict.fromkeys(PAIRS, 1e-2)) == []


def starred(ranks, most_Bps, tests=0):
    """The evidence of workers that send and receive no more than a cap each, and of some random tests."""
    random = np.random.default_rng(1)
    pairs = [(source, target) for source in range(ranks) for target in range(ranks) if source != target]
    found = Evidence(dict.fromkeys(pairs, most_Bps / 3))
    for end in (0, 1):
        for rank in range(ranks):
            star = [pair for pair in pairs if pair[end] == rank]
            got = {pair: most_Bps / (ranks - 1) * random.uniform(0.98, 1.02) for pair in star}
            found.add(Observation(dict.fromkeys(star, UNLIMITED), got))
    for _ in range(tests):
        got = {pair: most_Bps / ranks * random.uniform(0.1, 1.0) for pair in pairs if random.random() < 0.4}
        found.add(Observation(dict.fromkeys(got, UNLIMITED), got))
    return found


def test_cuts_are_all_sets_of_few_workers_whose_fullest_tests_agree():
    found = starred(9, 3e8, tests=8)
    expected = {}
    for size in range(1, 5):
        for inside in combinations(range(9), size):
            for ends in ((found.source, found.target), (found.target, found.source)):
                mask = np.isin(ends[0], inside) & ~np.isin(ends[1], inside)
                rates = found.got_Bps @ mask
                tests = np.argsort(-rates, kind="stable")[:4]
                active = mask & (found.got_Bps[tests] > 0)
                if (
                    rates[tests[-1]] >= 0.9 * rates[tests[0]]
                    and (found.short[tests] & active).sum() >= 0.6 * active.sum()
                ):
                    expected[mask.tobytes()] = rates[tests].mean()
    assert {each.mask.tobytes(): pytest.approx(each.capacity_Bps) for each in cuts(found)} == expected != {}


@pytest.mark.parametrize("ranks", [36, 48])
def test_cuts_of_many_workers_take_little_memory(ranks):
    found = starred(ranks, 3e8)
    tracemalloc.start()
    many = cuts(found)
    most_bytes = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert most_bytes < 200 << 20
    assert len(many) <= 2000
    assert many or ranks > 36, "sets of four agree"


def test_cuts_of_too_few_tests_are_none():
    assert cuts(evidence()) == []


def test_hops_and_subnets_are_sets_whose_capacity_is_still_to_be_measured():
    [hop] = of_hops(evidence(), [[(0, 1), (0, 2)], [(0, 2), (0, 1)], [(3, 1)]])
    assert hop.fixed
    assert hop.capacity_Bps == 10.0
    addresses = {0: "10.0.0.1", 1: "10.0.0.2", 2: "10.0.7.1", 3: "no address"}
    leaving, entering = (set(evidence().members(each.mask)) for each in of_subnets(evidence(), addresses))
    assert leaving == {(0, 2), (0, 3), (1, 2), (1, 3)}
    assert entering == {(2, 0), (2, 1), (3, 0), (3, 1)}
    assert not any(each.fixed for each in of_subnets(evidence(), addresses)), "a cloud's subnet shares nothing"


@pytest.mark.parametrize(
    ("members", "name"),
    [
        ([(0, 1), (0, 2), (0, 3)], "a egress"),
        ([(1, 0), (2, 0), (3, 0)], "a ingress"),
        ([(0, 2), (0, 3), (1, 2), (1, 3)], "a + b egress"),
        ([(0, 1), (2, 3), (1, 3)], "a -> b + b -> d + c -> d"),
        ([(0, 1), (2, 3), (1, 3), (3, 0)], "a -> b + b -> d + 2 more"),
    ],
)
def test_names_of_groups_say_which_pairs_they_have(members, name):
    assert group_name(members, "abcd", 4) == name


def test_documents_have_shared_capacities_and_other_links_stay():
    names = ["w0", "w1", "w2", "w3"]
    group = Group(frozenset({(0, 1), (0, 2)}), 1.5e7, "line", 3, True)
    rates = dict.fromkeys(PAIRS, 1e7)
    model = Model(names, rates, [group], rates, {(0, 1): 2e-3})
    found = {(link.source, link.target): link for link in model.network().links()}
    assert found["w0", "w1"].latency_s == 2e-3
    document = model.document() | {"shared": []}
    again = shared(document, model)
    assert again["shared"] == [{"name": "line", "bandwidth_Bps": 1.5e7}]
    assert treefold.bound(model.network()).all_reduce.rate_Bps < treefold.bound(network(rates)).all_reduce.rate_Bps
