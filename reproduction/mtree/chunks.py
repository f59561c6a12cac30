"""Predicts how the time of a streamed tree depends on the number of its chunks (MTree paper, section III-C).

Over the longest route of a tree, `count` chunks of a vector of `size` bytes take

    latency + size path / count + (count - 1) (overhead + size slowest / count)

seconds. For a chain of l equal links with beta seconds per byte, whose latency alpha occupies them (the Hockney link
model), this is equation (4) of the paper with path = l beta and slowest = beta; an all-reduce counts each link twice.
"""

import math
from typing import NamedTuple

from treefold._core import Plan


class Pipeline(NamedTuple):
    """The parameters that decide how long one streamed tree takes."""

    latency_s: float
    """The latency and overheads of the longest route; for an all-reduce, up and down the tree."""
    path_s_per_byte: float
    """The seconds that a byte of the vector takes on all edges of that route together."""
    slowest_s_per_byte: float
    """The seconds that a byte of the vector takes on the slowest of these edges."""
    overhead_s: float
    """The overheads on the busiest link, in seconds, for one chunk of every tree."""
    share: float
    """The part of the vector that the tree carries."""
    chunks: int
    """How many chunks the plan cuts that part into."""

    def time_s(self, size_bytes: float, count: float) -> float:
        """Return the predicted seconds of a vector of `size_bytes` in `count` chunks."""
        chunk_s = self.overhead_s + size_bytes * self.slowest_s_per_byte / count
        return self.latency_s + size_bytes * self.path_s_per_byte / count + (count - 1) * chunk_s

    def best_count(self, size_bytes: float) -> float:
        """Return the number of chunks, not rounded, for which the time is least; it is infinite without overhead."""
        fill_s = size_bytes * (self.path_s_per_byte - self.slowest_s_per_byte)
        if fill_s <= 0:
            return 1.0
        return math.sqrt(fill_s / self.overhead_s) if self.overhead_s > 0 else math.inf


def pipelines(plan: Plan, size_bytes: int) -> list[Pipeline]:
    """Return the pipeline of each streamed tree, as the plan cuts a vector of `size_bytes`."""
    of_trees = plan.pipelines(size_bytes)
    return [Pipeline(*(getattr(each, name) for name in Pipeline._fields)) for each in of_trees]
