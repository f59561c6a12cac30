"""Chunks of streamed trees: the MTree paper's model (III-C, corrected), and plans with chunk counts of one's choice.

Over a path of l links, `count` chunks take (2, 4 with the errata)

    sum(alpha) + (count - 1) max(alpha) + (sum(t) - max(t)) / count + max(t)

where alpha is what a message costs a link, t what the tree's whole part of the vector costs it. The trees' rates fill
the links, so t is what all trees put on the link: each tree only has its part of the link's bandwidth.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Sequence
from typing import Any, NamedTuple

from treefold._core import Plan

Document = dict[str, Any]


class Pipeline(NamedTuple):
    """What decides a tree's time, in seconds."""

    latency: float
    """Sum of the longest way's alphas."""
    overhead: float
    """What one chunk of every tree costs the busiest link."""
    path: float
    """Sum of the longest way's transfer times of the whole span."""
    slowest: float
    """The largest of them."""

    def seconds(self, count: int) -> float:
        """Time in `count` chunks."""
        pipelined = (self.path - self.slowest) / count + self.slowest
        return self.latency + (count - 1) * self.overhead + pipelined

    def best(self) -> int:
        """Return the best count: of the two whole numbers around the root, the better one."""
        if self.overhead <= 0 or self.path <= self.slowest:
            return 1
        count = max(int(((self.path - self.slowest) / self.overhead) ** 0.5), 1)
        return min((count, count + 1), key=self.seconds)


def pipelines(plan: Plan, size_bytes: int) -> list[Pipeline]:
    """Return the model of each tree of a streamed plan whose lanes are links."""
    document = json.loads(plan.under("hockney").to_json())
    lanes, [phase] = document["lanes"], document["phases"]
    links = {(link["source"], link["target"]): link for link in _named(document)}
    units: defaultdict[tuple[int, int], int] = defaultdict(int)
    messages: defaultdict[tuple[int, int], int] = defaultdict(int)
    for tree in phase["trees"]:
        for _, _, ends in _edges(tree, lanes):
            units[ends] += tree["span"][1] - tree["span"][0]
            messages[ends] += 1

    def cost(ends: tuple[int, int]) -> tuple[float, float, float]:
        link = links[ends]
        alpha = link.get("overhead_s", 0.0)
        part = size_bytes * units[ends] / document["units"]
        return alpha, messages[ends] * alpha, part / link["bandwidth_Bps"]

    return [_pipeline(tree, lanes, cost) for tree in phase["trees"]]


def _pipeline(tree: Document, lanes: list[Document], cost: Any) -> Pipeline:
    """Add up the longest way of each half."""
    so_far: dict[tuple[str, int], tuple[float, float]] = {}
    overhead = slowest = 0.0
    for half, (parent, child), ends in _edges(tree, lanes):
        alpha, of_a_chunk, drain = cost(ends)
        latency, path = so_far.get((half, parent), (0.0, 0.0))
        so_far[half, child] = (latency + alpha, path + drain)
        overhead, slowest = max(overhead, of_a_chunk), max(slowest, drain)
    ways = [[way for (half, _), way in so_far.items() if half == name] for name in ("up", "down")]
    latency, path = (sum(max((way[i] for way in each), default=0.0) for each in ways) for i in (0, 1))
    return Pipeline(latency, overhead, path, slowest)


def _named(document: Document) -> list[Document]:
    """Return the links between nodes as the plan numbers them: ranks first, in their order, then the others."""
    topology = document["topology"]
    names = [node["name"] for node in topology["nodes"]]
    ranks = topology.get("ranks") or names
    order = [*ranks, *(name for name in names if name not in set(ranks))]
    number = {name: place for place, name in enumerate(order)}
    return [link | {"source": number[link["source"]], "target": number[link["target"]]} for link in topology["links"]]


def _edges(tree: Document, lanes: list[Document]) -> list[tuple[str, tuple[int, int], tuple[int, int]]]:
    """Return half, (parent, child) and (source, target) of every edge, breadth-first."""
    found = []
    for half, other in (("up", "down"), ("down", "up")):
        mirrored = tree[half] == "mirror"
        edges = tree[other if mirrored else half]
        for number in [] if edges == "none" else edges["edges"]["lanes"]:
            lane = (lanes[number]["source"], lanes[number]["target"])
            ends = lane[::-1] if mirrored else lane
            found.append((half, ends[::-1] if half == "up" else ends, ends))
    return found


def fanouts(plan: Plan) -> list[int]:
    """Return each tree's largest number of children of a node."""
    document = json.loads(plan.to_json())
    trees = [tree for phase in document["phases"] for tree in phase["trees"]]
    parents = ([parent for half, (parent, _), _ in _edges(tree, document["lanes"]) if half == "up"] for tree in trees)
    return [max(Counter(each).values(), default=0) for each in parents]


def with_counts(plan: Plan, counts: Sequence[int]) -> Plan:
    """Return the plan with its trees cut into `counts` chunks."""
    document = json.loads(plan.to_json())
    trees = [tree for phase in document["phases"] for tree in phase["trees"]]
    for tree, count in zip(trees, counts, strict=True):
        tree["chunk"] = {"count": count}
    return Plan.from_json(json.dumps(document))
