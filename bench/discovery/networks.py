"""Random networks whose cables are not told: wide areas of 6 to 12 sites, with routers or access lines, and clouds.

A network is made of sites at random places, joined by the shortest tree and a few more short cables. Workers stand at
sites; a site without one is a router. Routes are the shortest by latency, or by hops.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from heapq import heappop, heappush
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from bench.discovery.truth import Truth, pairs_of

Random = np.random.Generator
_SPEED = 2e-2
"""Seconds that a message takes across the square in which the sites stand."""


@dataclass
class Sites:
    """Sites and cables while a network is made; a cable is directed, from one site to another."""

    places: NDArray[np.float64]
    capacity: dict[tuple[int, int], float] = field(default_factory=dict)
    latency: dict[tuple[int, int], float] = field(default_factory=dict)

    def join(self, one: int, other: int, random: Random, scale: float = 1e7) -> None:
        """Join two sites by a cable; of one in five the directions differ."""
        there = scale * 2 ** random.uniform(0, 3)
        back = scale * 2 ** random.uniform(0, 3) if random.random() < 0.2 else there
        latency = _SPEED * max(float(np.linalg.norm(self.places[one] - self.places[other])), 0.01)
        self.capacity |= {(one, other): there, (other, one): back}
        self.latency |= {(one, other): latency, (other, one): latency}


def _sparse(count: int, more: float, random: Random) -> Sites:
    """Return sites at random places, joined by the shortest tree and by `more` times as many of the shortest others."""
    sites = Sites(random.random((count, 2)))
    lengths = np.linalg.norm(sites.places[:, None] - sites.places[None], axis=2)
    order = sorted(((lengths[a, b], a, b) for a in range(count) for b in range(a)), key=lambda each: each[0])
    tree = list(range(count))
    spare = []
    for _, a, b in order:
        if tree[a] == tree[b]:
            spare.append((a, b))
            continue
        tree = [tree[a] if each == tree[b] else each for each in tree]
        sites.join(a, b, random)
    nearest = spare[: 3 * round(more * count)]
    for at in random.permutation(len(nearest))[: round(more * count)]:
        sites.join(*nearest[at], random)
    return sites


def _truth(name: str, sites: Sites, homes: list[int], by_hops: bool = False) -> Truth:
    """Return the network of workers at these homes, one each; the route of a pair is the shortest."""
    cables = list(sites.capacity)
    row = {cable: index for index, cable in enumerate(cables)}
    pairs = pairs_of(len(homes))
    uses = np.zeros((len(cables), len(pairs)), bool)
    latency = np.zeros((len(homes), len(homes)))
    ways = {home: _shortest(sites, home, by_hops) for home in homes}
    for column, (source, target) in enumerate(pairs):
        way = ways[homes[source]][homes[target]]
        for cable in pairwise(way):
            uses[row[cable], column] = True
            latency[source, target] += sites.latency[cable]
    capacity = np.array([sites.capacity[cable] for cable in cables])
    kept = uses.any(axis=1)
    return Truth(name, len(homes), capacity[kept], uses[kept], latency)


def _shortest(sites: Sites, home: int, by_hops: bool) -> dict[int, list[int]]:
    """Return the way from one site to each other (Dijkstra)."""
    ways: dict[int, list[int]] = {}
    queue = [(0.0, [home])]
    while queue:
        length, way = heappop(queue)
        if way[-1] in ways:
            continue
        ways[way[-1]] = way
        for (one, other), latency in sites.latency.items():
            if one == way[-1] and other not in ways:
                heappush(queue, (length + (1 + latency if by_hops else latency), [*way, other]))
    return ways


def sparse(random: Random) -> Truth:
    """Return a wide-area network with a worker at each site."""
    count = int(random.integers(6, 13))
    return _truth("sparse", _sparse(count, 0.6, random), list(range(count)))


def meshed(random: Random) -> Truth:
    """Return one in which each site has at least two cables, so that no single cable limits all plans."""
    count = int(random.integers(6, 13))
    sites = _sparse(count, 0.5, random)
    lengths = np.linalg.norm(sites.places[:, None] - sites.places[None], axis=2)
    for site in range(count):
        near = [each for each in np.argsort(lengths[site]).tolist()[1:] if (site, each) not in sites.capacity]
        degree = sum(one == site for one, _ in sites.capacity)
        for other in near[: max(2 - degree, 0)]:
            sites.join(site, other, random)
    return _truth("meshed", sites, list(range(count)))


def by_hops(random: Random) -> Truth:
    """Return one that routes by hops, on which hints of latencies mislead."""
    count = int(random.integers(6, 13))
    return _truth("by hops", _sparse(count, 0.6, random), list(range(count)), True)


def with_routers(random: Random) -> Truth:
    """Return one of twelve sites, six to ten of which have a worker."""
    homes = random.permutation(12)[: int(random.integers(6, 11))]
    return _truth("routers", _sparse(12, 0.5, random), sorted(homes.tolist()))


def access_lines(random: Random) -> Truth:
    """Return one of six to eight workers, two to four of which stand behind one access line."""
    count, behind = int(random.integers(4, 7)), int(random.integers(2, 5))
    sites = _sparse(count, 0.6, random)
    homes = list(range(count))
    places = np.vstack([sites.places, sites.places[:1] + 0.01 * random.random((behind + 1, 2))])
    sites.places = places
    sites.join(0, count, random)
    for worker in range(count + 1, count + 1 + behind):
        sites.join(count, worker, random, 8e7)
    return _truth("access lines", sites, [*homes[1:], *range(count + 1, count + 1 + behind)])


def several_a_site(random: Random) -> Truth:
    """Return one of three to five sites with two or three workers each, on a fast network of the site's own."""
    count = int(random.integers(3, 6))
    sites = _sparse(count, 0.6, random)
    homes = []
    for site in range(count):
        for _ in range(int(random.integers(2, 4))):
            if len(homes) < 12:
                homes.append(len(sites.places))
                sites.places = np.vstack([sites.places, sites.places[site] + 0.005 * random.random((1, 2))])
                sites.join(site, homes[-1], random, 1.6e8)
    return _truth("several a site", sites, homes)


def b4(random: Random) -> Truth:
    """Return Google's B4 of 2013, twelve sites and nineteen cables of one bandwidth, at random places."""
    cables = "0-1 0-2 1-4 2-3 2-5 3-4 3-5 4-6 4-7 5-6 6-7 6-8 6-9 7-8 7-10 8-9 8-10 9-11 10-11"
    sites = Sites(random.random((12, 2)))
    for cable in cables.split():
        one, other = map(int, cable.split("-"))
        sites.join(one, other, random)
    return _truth("B4", sites, list(range(12)))


def cloud(random: Random) -> Truth:
    """Return a network in which only pairs and nodes limit, as in a cloud: the farther, the slower a pair."""
    count = int(random.integers(6, 13))
    places = random.random((count, 2))
    latency = _SPEED * np.maximum(np.linalg.norm(places[:, None] - places[None], axis=2), 0.02)
    pairs = pairs_of(count)
    flow = [4e7 * random.uniform(0.7, 1.3) / (0.2 + 50 * latency[pair]) for pair in pairs]
    out, into = 1.2e8 * 2 ** random.uniform(0, 1, count), 1.2e8 * 2 ** random.uniform(0, 1, count)
    capacity = np.array([*flow, *out, *into])
    uses = np.vstack(
        [
            np.eye(len(pairs), dtype=bool),
            [[pair[0] == rank for pair in pairs] for rank in range(count)],
            [[pair[1] == rank for pair in pairs] for rank in range(count)],
        ]
    )
    return Truth("cloud", count, capacity, uses, latency)


KINDS: list[Callable[[Random], Truth]] = [
    sparse,
    meshed,
    with_routers,
    access_lines,
    several_a_site,
    by_hops,
    b4,
    cloud,
]


def drawn(kind: Callable[[Random], Truth], seed: int, **changes: float) -> Truth:
    """Return the network of a kind that a seed draws, with other noise, cross traffic or unfairness if asked."""
    return replace(kind(np.random.default_rng(seed)), **changes)  # type: ignore[arg-type]
