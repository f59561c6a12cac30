"""Says what a box is built from: the nodes, cables and next hops of a topology. Nothing here touches the system.

A cable is the link from one node to another together with its reverse. Links that run in parallel become one cable
with the sum of their rates and the least of their latencies: an address is routed over one device, so a second device
between the same two nodes would stay empty. A link without a reverse gets a reverse of `ONE_WAY_BPS`, which nothing is
routed over: acknowledgements take the topology's own way back, as they would between routers.
"""

import heapq
import json
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import treefold
from tools.wan_box.caps import with_routers
from treefold import TreefoldError

ONE_WAY_BPS = 125_000.0
MOST_BPS = 250e6
MOST_NODES = 200

Pair = tuple[int, int]
"""The places of a direction's source and target."""


@dataclass(frozen=True)
class Direction:
    """One direction of a cable: bytes a second, and seconds on the way."""

    bandwidth_Bps: float
    latency_s: float


@dataclass(frozen=True)
class Network:
    """Nodes have a place each; where `directions[a, b]` is, so is `directions[b, a]`; `links` carry traffic."""

    name: str
    nodes: list[str]
    workers: list[int]
    directions: dict[Pair, Direction]
    links: frozenset[Pair]


def read(source: str | Path | treefold.Topology) -> Network:
    """Read a topology, a file or a spec. Workers are its ranks, in their order; caps of nodes become routers."""
    topology = source if isinstance(source, treefold.Topology) else treefold.topology(source)
    value = with_routers(json.loads(topology.to_json()))
    names = [node["name"] for node in value["nodes"]]
    if len(names) > MOST_NODES:
        raise TreefoldError(f"{topology.name} has {len(names)} nodes: a box holds at most {MOST_NODES}")
    at = {name: place for place, name in enumerate(names)}
    directions = _sum_parallel(value, at)
    links = frozenset(directions)
    for a, b in links:
        directions.setdefault((b, a), Direction(ONE_WAY_BPS, directions[a, b].latency_s))
    _check_rates(topology.name, names, directions)
    return Network(topology.name, names, [at[name] for name in topology.rank_names], directions, links)


def _sum_parallel(value: dict[str, Any], at: dict[str, int]) -> dict[Pair, Direction]:
    """Return a direction for every linked pair. A switch's own latency counts on the way into it."""
    inside = [node.get("latency_s", 0.0) for node in value["nodes"]]
    directions: dict[Pair, Direction] = {}
    for link in value["links"]:
        a, b = at[link["source"]], at[link["target"]]
        for pair in ((a, b), (b, a))[: 2 if link.get("both_ways") else 1]:
            added = Direction(link["bandwidth_Bps"], link.get("latency_s", 0.0) + inside[pair[1]])
            known = directions.get(pair, Direction(0.0, added.latency_s))
            rate = known.bandwidth_Bps + added.bandwidth_Bps
            directions[pair] = Direction(rate, min(known.latency_s, added.latency_s))
    return directions


def _check_rates(name: str, names: list[str], directions: dict[Pair, Direction]) -> None:
    """Refuse rates that one machine cannot carry: the result would be the machine's speed, not the network's."""
    for (a, b), direction in directions.items():
        if direction.bandwidth_Bps > MOST_BPS:
            raise TreefoldError(
                f"{name}: the link {names[a]} -> {names[b]} has {direction.bandwidth_Bps * 8e-6:.0f} Mbit/s: a box "
                f"carries at most {MOST_BPS * 8e-6:.0f} Mbit/s a link; scale the bandwidths of the file down"
            )


def next_hops(network: Network, without: Collection[Pair] = ()) -> list[dict[int, int]]:
    """Return for every node its next node to every other: fewest hops, then least latency, as treefold routes.

    Ties are spread by the node's place, which is what treefold does at the first hop. Pairs in `without` are not used.
    """
    links = [pair for pair in network.links if pair not in without]
    incoming: list[list[int]] = [[] for _ in network.nodes]
    outgoing: list[list[int]] = [[] for _ in network.nodes]
    for a, b in sorted(links):
        incoming[b].append(a)
        outgoing[a].append(b)
    hops: list[dict[int, int]] = [{} for _ in network.nodes]
    for target in range(len(network.nodes)):
        distances = _distances_to(network, incoming, target)
        for node in distances.keys() - {target}:
            neighbours = [b for b in outgoing[node] if b in distances]
            best = [b for b in neighbours if _step(network, distances, node, b) == distances[node]]
            hops[node][target] = best[node % len(best)]
    return hops


def _distances_to(network: Network, incoming: list[list[int]], target: int) -> dict[int, Pair]:
    """Return hops and nanoseconds to `target` of every node that reaches it."""
    distances: dict[int, Pair] = {}
    heap = [((0, 0), target)]
    while heap:
        distance, node = heapq.heappop(heap)
        if node in distances:
            continue
        distances[node] = distance
        for before in incoming[node]:
            if before not in distances:
                heapq.heappush(heap, (_step(network, distances, before, node), before))
    return distances


def _step(network: Network, distances: dict[int, Pair], a: int, b: int) -> Pair:
    """Return the distance of `a` when it goes on over `b`."""
    hops, nanoseconds = distances[b]
    return hops + 1, nanoseconds + round(network.directions[a, b].latency_s * 1e9)


def route(hops: list[dict[int, int]], source: int, target: int) -> list[Pair]:
    """Return the links that packets from `source` to `target` cross."""
    links = []
    while source != target:
        if target not in hops[source]:
            raise TreefoldError(f"node {source} has no route to node {target}")
        links.append((source, hops[source][target]))
        source = hops[source][target]
    return links
