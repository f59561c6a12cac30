"""The network that a probe writes where little was carried, and what it keeps of a file of links."""

from itertools import permutations

import pytest

import treefold
from treefold import probe
from treefold.discovery import UNLIMITED, Group, Knowledge, Model, Observation, Refinement
from treefold.probe import Measurements, RoundTrips
from treefold.probe.names import distinct_names
from treefold.probe.results import Outcome, outcome_of
from treefold.report.measured import outcome_line

PAIRS = list(permutations(range(3), 2))


def measured(pairs=PAIRS, rate_Bps=1e7):
    names = "abcd"[: 1 + max(map(max, pairs))]
    workers = [{"name": name, "address": "127.0.0.1", "named": True} for name in names]
    trips = {pair: RoundTrips(0.01, 0.01) for pair in permutations(range(len(names)), 2)}
    return Measurements(workers, 1.0, 1 << 30, dict.fromkeys(pairs, rate_Bps), trips, dict.fromkeys(pairs, 0.0))


@pytest.mark.parametrize("dead_from", [1, 2, 3, 5])
def test_a_worker_whose_line_dies_while_it_is_tested_leaves_the_network_of_pairs_and_nodes(dead_from):
    found = measured()
    stars = [[pair for pair in PAIRS if pair[end] == rank] for end in (0, 1) for rank in range(3)]
    for star in [*stars, PAIRS]:
        found.at_once.append(dict.fromkeys(star, 5e6))
    found.egress = found.ingress = dict.fromkeys(range(3), 1e7)
    observations = [Observation(dict.fromkeys(got, UNLIMITED), got) for got in found.at_once]
    refinement = Refinement(found.rates, Knowledge(observations, names="abc"))
    tests, observation = refinement.tests(), None
    while (test := next_of(tests, observation)) is not None:
        found.tests += 1
        rates = {
            pair: 0.0 if found.tests >= dead_from and 2 in pair else min(rate, 4e6)
            for pair, rate in test.offered_Bps.items()
        }
        observation = Observation(test.offered_Bps, rates)
    assert not refinement.rate_Bps and not refinement.proven
    assert {group.name for group in refinement.model.groups} >= {"a egress", "b ingress"}
    found.model, found.outcome = refinement.model, Outcome(0.0, carried=False, proven=False, ended_by="tests")
    network = treefold.topology(probe.document(found))
    assert (network.ranks, network.num_links) == (3, 6)
    assert [each.name for each in network.shared()] == [
        f"{name} {way}" for name in "abc" for way in ("egress", "ingress")
    ]
    assert "joins all workers" in outcome_line(outcome_of(found))


def next_of(tests, observation):
    try:
        return next(tests) if observation is None else tests.send(observation)
    except StopIteration:
        return None


def test_a_worker_on_a_very_slow_line_is_not_left_out():
    found = measured()
    carried = {(0, 1): 1e9, (1, 0): 1e9, (1, 2): 5e4, (2, 1): 5e4}
    found.model, found.outcome = Model("abc", found.rates, [], carried, {}), Outcome(5e4, True, True, None)
    network = treefold.topology(probe.document(found))
    assert network.num_links == 4


def test_a_model_that_explains_all_tests_is_written_with_all_pairs_and_what_they_share():
    found = measured()
    carried = {(0, 1): 1e9, (1, 0): 1e9, (1, 2): 5e4, (2, 1): 5e4}
    cap = Group(frozenset({(0, 1), (0, 2)}), 7e5, "a egress", support=1, confirmed=True)
    found.model, found.outcome = (
        Model("abc", found.rates, [cap], carried, {}, is_whole=True),
        Outcome(5e4, True, True, None),
    )
    network = treefold.topology(probe.document(found))
    assert network.num_links == len(found.rates)
    assert {(link.source, link.target): link.bandwidth_Bps for link in network.links()} == {
        ("abc"[one], "abc"[other]): rate for (one, other), rate in found.rates.items()
    }
    assert [(each.name, each.bandwidth_Bps) for each in network.shared()] == [("a egress", 7e5)]


@pytest.mark.parametrize(
    ("tests", "line"),
    [
        ((12, 1e7, True, True, None), "12 tests of many pairs at once: an all-reduce at 10MB/s was carried; nothing"),
        ((1, 1e7, False, False, "seconds"), "turns of what was carried, and was not tested; something faster may be"),
        ((9, 1e7, True, False, "bytes"), "was carried; something faster may be, but the bytes are used up"),
        ((60, 1e7, True, False, "tests"), "was carried; something faster may be, but there were as many as are taken"),
        ((0, 0.0, False, False, "workers"), "no test of many pairs at once, as there are too many workers; so"),
    ],
)
def test_the_last_line_says_what_the_network_is_worth(tests, line):
    assert line in outcome_line(dict(zip(("count", "rate_Bps", "carried", "proven", "ended_by"), tests, strict=True)))


@pytest.mark.parametrize(
    ("names", "distinct"),
    [
        (["a", "b"], ["a", "b"]),
        (["a", "a"], ["a#0", "a#1"]),
        (["a", "a", "a#1"], ["a#0", "a#1#1", "a#1"]),
        (["a#1", "a#1", "a", "a", "a#1#1"], ["a#1#0", "a#1#1#1", "a#2", "a#3", "a#1#1"]),
    ],
)
def test_names_of_workers_differ(names, distinct):
    assert distinct_names(names) == distinct
    assert len(set(distinct)) == len(names)


def told(links, shared, both_ways=False):
    return treefold.importers.complete(
        {
            "format": "treefold-topology",
            "version": 1,
            "name": "told",
            "nodes": [{"name": name} for name in "abc"],
            "links": [
                {"source": pair[0], "target": pair[1], "bandwidth_Bps": 1.0, "latency_s": 0.0, "shares": names,
                 "both_ways": both_ways}
                for pair, names in links.items()
            ],
            "shared": [{"name": name, "bandwidth_Bps": width} for name, width in shared.items()],
        }
    )  # fmt: skip


def shared_of(document):
    return {each.name: each.bandwidth_Bps for each in treefold.topology(document).shared()}


@pytest.mark.filterwarnings("ignore::treefold.importers.TopologyWarning")
@pytest.mark.parametrize(("width", "kept"), [(1.2e7, 1.2e7), (2e7, None), (5e6, 1e7), (1.0, None)])
def test_what_links_share_is_kept_as_told_if_it_limits_what_was_measured(width, kept):
    links = told({"ab": ["duct"], "ac": ["duct"], "ba": [], "ca": []}, {"duct": width})
    found = measured([(0, 1), (0, 2), (1, 0), (2, 0)])
    document = probe.document(found, links)
    assert shared_of(document) == ({} if kept is None else {"duct": kept})
    found.at_once.append({(0, 1): 7.5e6, (0, 2): 7.5e6})
    assert shared_of(probe.document(found, links)) == ({} if kept is None else {"duct": max(kept, 1.5e7)})


@pytest.mark.filterwarnings("ignore::treefold.importers.TopologyWarning")
def test_both_directions_of_a_link_share_what_is_told_and_caps_are_measured_anew():
    links = told({"ab": ["duct"], "ac": ["duct", "b ingress"]}, {"duct": 3e7, "b ingress": 3.5e7}, both_ways=True)
    capped = told({"ab": ["a egress"], "ac": ["a egress"], "ba": [], "ca": []}, {"a egress": 2.0})
    found = measured([(0, 1), (1, 0), (0, 2), (2, 0)])
    found.egress, found.ingress = {0: 1.5e7}, {0: 2e7}
    assert shared_of(probe.document(found, links)) == {"duct": 3e7, "a egress": 1.5e7}
    network = treefold.topology(probe.document(found, links))
    assert [len(each.links) for each in network.shared()] == [4, 2]
    assert shared_of(probe.document(found, capped)) == {"a egress": 1.5e7}


@pytest.mark.filterwarnings("ignore::treefold.importers.TopologyWarning")
def test_a_shared_capacity_that_has_the_name_of_a_cap_is_renamed():
    links = told({"ab": ["a egress"], "ac": ["a egress"]}, {"a egress": 3e7}, both_ways=True)
    found = measured([(0, 1), (1, 0), (0, 2), (2, 0)])
    found.egress, found.ingress = {0: 1.5e7}, {0: 2e7}
    assert shared_of(probe.document(found, links)) == {"a egress (as told)": 3e7, "a egress": 1.5e7}
