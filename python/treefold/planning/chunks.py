"""How the time of a streamed tree depends on the number of its chunks: MTree, III-C, and its whole curve.

Over the longest way of a tree, `count` chunks of a vector of `size` bytes take

    latency + size path / count + (count - 1) (overhead + size slowest / count)

seconds. On a chain of l equal links whose latency alpha occupies them (the Hockney link model) and beta seconds a byte,
this is the paper's (4) with path = l beta and slowest = beta; for an all-reduce l counts the links up and down again.
"""

import math
from typing import NamedTuple

from treefold._core import Plan


class Pipeline(NamedTuple):
    """What decides how long one tree of a stream takes."""

    latency_s: float
    """Latency and overheads of the longest way; up and down again for an all-reduce."""
    path: float
    """Seconds a byte of the vector: sum over that way of each edge's time for the tree's part."""
    slowest: float
    """Seconds a byte of the vector: the largest of them."""
    overhead_s: float
    """What a chunk of every tree costs the busiest link in overheads."""
    share: float
    """Part of the vector that the tree carries."""
    chunks: int
    """How many chunks the plan cuts it into."""

    def time_s(self, size_bytes: float, count: float) -> float:
        """Return the predicted seconds of a vector of `size_bytes` in `count` chunks."""
        chunk_s = self.overhead_s + size_bytes * self.slowest / count
        return self.latency_s + size_bytes * self.path / count + (count - 1) * chunk_s

    def best_count(self, size_bytes: float) -> float:
        """Return the number of chunks, not rounded, for which the time is least: infinite without overhead."""
        fill_s = size_bytes * (self.path - self.slowest)
        if fill_s <= 0:
            return 1.0
        return math.sqrt(fill_s / self.overhead_s) if self.overhead_s > 0 else math.inf


def pipelines(plan: Plan, size_bytes: int) -> list[Pipeline]:
    """Return the pipeline of each streamed tree, with the chunks that the plan has for a vector of `size_bytes`."""
    return [Pipeline(*numbers) for numbers in plan.pipelines(size_bytes)]


def curve(plan: Plan, size_bytes: int, counts: list[int]) -> list[float]:
    """Return the predicted seconds of the plan for each number of chunks a tree: the slowest tree's time."""
    trees = pipelines(plan, size_bytes)
    return [max((tree.time_s(size_bytes, count) for tree in trees), default=0.0) for count in counts]


def offset_curve(plan: Plan, size_bytes: int, offsets: list[int]) -> list[float]:
    """Return the predicted seconds where every tree has so many chunks more than its own best number, at least 1."""
    trees = pipelines(plan, size_bytes)
    return [max(t.time_s(size_bytes, max(1, t.chunks + offset)) for t in trees) for offset in offsets]
