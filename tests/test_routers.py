"""The routers on the way, and the pairs of workers whose routes cross the same ways; see also tests_long."""

import random
import socket
import sys
import time
from itertools import pairwise

import pytest

from treefold.probe import routers
from treefold.probe.routers import routers_on_the_way, routes_to, shared_ways


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what ICMP says")
def test_nobody_is_between_this_machine_and_itself():
    start = time.monotonic()
    assert routers_on_the_way("127.0.0.1", 5.0) == []
    assert routes_to(["127.0.0.1", "127.0.0.2", "127.0.0.1"], 5.0) == [[], [], []]
    assert time.monotonic() - start < 2


@pytest.mark.parametrize("address", ["", "nobody.invalid", "1.2.3.4.5", "\0", "é", "fe80::1%nope", "::1%x", "0" * 999])
def test_what_is_no_address_has_an_unknown_route(address):
    assert routers_on_the_way(address, 5.0) == [None]


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what ICMP says")
def test_who_does_not_answer_has_an_unknown_route_and_costs_the_time_that_is_given():
    start = time.monotonic()
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as silent:
        silent.bind(("127.0.0.3", routers._PORT))
        assert routes_to(["127.0.0.3", "127.0.0.2"], 0.3) == [[None], []]
    assert 0.3 <= time.monotonic() - start < 2
    assert routes_to([], 5.0) == []
    assert time.monotonic() - start < 2


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells what ICMP says")
def test_a_machine_without_one_family_asks_with_the_other(monkeypatch):
    def refuse(family):
        if family == socket.AF_INET6:
            raise OSError("no such family")
        return make(family)

    make = routers._socket
    monkeypatch.setattr(routers, "_socket", refuse)
    assert routes_to(["127.0.0.1", "::1"], 0.3) == [[], [None]]
    start = time.monotonic()
    assert routes_to(["::1"], 5.0) == [[None]]
    assert time.monotonic() - start < 2


def sets(routes):
    return [sorted(pairs) for pairs in shared_ways(routes)]


def test_pairs_that_cross_the_same_routers_in_the_same_direction():
    routes = {(0, 1): ["a", "b", "c"], (2, 1): ["d", "b", "c", "x"], (1, 2): ["x", "c", "b"], (3, 4): ["c", "b"]}
    assert sets(routes) == [[(0, 1), (2, 1)], [(1, 2), (3, 4)]]


def test_first_and_last_hops_and_routers():
    routes = {(0, 1): ["a", "p"], (0, 2): ["a", "q"], (3, 2): ["a", "r"], (4, 2): ["s", "r"], (5, 6): ["t"]}
    assert sets(routes) == [
        [(0, 1), (0, 2)],  # from worker 0 to a
        [(0, 1), (0, 2), (3, 2)],  # through a first
        [(3, 2), (4, 2)],  # through r last
    ]


def test_silent_routers_join_nothing():
    assert sets({(0, 1): [None, "b", None], (0, 2): [None, "c", None], (3, 1): ["a", None, None]}) == []
    assert sets({(0, 1): ["a", None, "b"], (2, 3): ["c", None, "d"]}) == []


def test_routes_without_routers_join_nothing():
    assert sets({(0, 1): [], (0, 2): [], (2, 1): []}) == []
    assert sets({}) == []


def test_a_set_is_named_once_and_the_order_does_not_matter():
    drawn = random.Random(1)
    routes = {
        (source, target): [drawn.choice(["a", "b", "c", "d", None]) for _ in range(drawn.randrange(5))]
        for source in range(6)
        for target in range(6)
        if source != target
    }
    found = shared_ways(routes)
    assert found == shared_ways(dict(reversed(routes.items()))) and len(set(found)) == len(found)
    for pairs in found:
        assert len(pairs) > 1
        assert any(hops(pairs, routes, ends) for ends in (True, False))


def hops(pairs, routes, has_ends):
    """Return what all routes of a set have in common: hops, or the first and the last routers."""
    common = []
    for pair in pairs:
        route = routes[pair]
        stops = [pair[0], *route, pair[1]]
        named = [("first", route[0]), ("last", route[-1])]
        common.append({hop for hop in (pairwise(stops) if has_ends else named) if None not in hop})
    return set.intersection(*common)
