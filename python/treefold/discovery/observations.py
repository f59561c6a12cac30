"""Tests of a network and what they showed: what was offered to pairs of workers at once, and what each of them got.

All that was ever measured is kept as rows of two arrays, which have a column for each pair. What a group of pairs
carried in each test is then one product of matrices.
"""

import math
from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from treefold.errors import TreefoldError

Pair = tuple[int, int]
"""The source and the target of traffic, as ranks of workers."""
Vector = NDArray[np.float64]
"""A rate for each pair, in bytes per second; or a row of those for each test."""
Mask = NDArray[np.bool_]
"""Whether each pair is meant; or a row of those for each test or group."""

UNLIMITED = math.inf
"""The rate to offer to a pair that should get as much as TCP takes."""

_LEAST_BPS = 1.0
_LIMITED, _UNLIMITED = 3.5, 4.5
"""A pair fell short if it got so many standard deviations less than what was offered to it, or than its rate alone.

The rate alone has noise, too.
"""


@dataclass(frozen=True)
class Test:
    """Traffic to offer to some pairs at once.

    Attributes:
        offered_Bps: The rate to offer to each pair, in bytes per second; `UNLIMITED` for as much as TCP takes.
        why: The purpose of the test: `plan`, `random`, `group` or `repeat`.

    """

    __test__ = False
    offered_Bps: Mapping[Pair, float]
    why: str


@dataclass(frozen=True)
class Observation:
    """The rates that pairs got in one window of time while so much was offered to them.

    Attributes:
        offered_Bps: The rate that was offered to each pair, in bytes per second; pairs that are absent had no traffic.
        got_Bps: The rate that each pair got, in bytes per second.

    """

    offered_Bps: Mapping[Pair, float]
    got_Bps: Mapping[Pair, float]


def running(got_Bps: Mapping[Pair, float], waiting: Container[Pair]) -> Observation:
    """Return what traffic shows that nobody offered for a test.

    Args:
        got_Bps: What each pair carried, in bytes per second; those that carried nothing are left out.
        waiting: The pairs that always had data waiting, and would have carried more. To others that much was offered.

    """
    rates = {pair: rate for pair, rate in got_Bps.items() if rate > 0}
    return Observation({pair: UNLIMITED if pair in waiting else rate for pair, rate in rates.items()}, rates)


class Evidence:
    """All that was measured of a network: a row for each test, a column for each pair.

    Attributes:
        pairs: The pair of each column.
        ranks: How many workers there are.
        source: The source of each pair.
        target: The target of each pair.
        alone_Bps: The rate of each pair alone, or what it got in a test if that was more.
        offered_Bps: The rates that each test offered to each pair; 0 where it offered nothing.
        got_Bps: The rate of each pair in each test.
        noise: The standard deviation of the relative error of a rate.

    """

    def __init__(self, alone_Bps: Mapping[Pair, float], noise: float = 0.02) -> None:
        """Begin with the rate of each pair alone.

        Raises:
            TreefoldError: If there is no pair, a worker does not reach another, or a rate or the noise is none.

        """
        _check_pairs(alone_Bps)
        if not 0 <= noise <= 0.2:
            raise TreefoldError(f"noise {noise} is not between 0 and 0.2; give the relative error of a measured rate")
        self.pairs = sorted(alone_Bps)
        self.ranks = 1 + max(max(pair) for pair in self.pairs)
        self._column = {pair: index for index, pair in enumerate(self.pairs)}
        self.source, self.target = np.array(self.pairs).T
        self.alone_Bps: Vector = self.vector(alone_Bps)
        self.offered_Bps: Vector = np.zeros((0, len(self.pairs)))
        self.got_Bps: Vector = np.zeros((0, len(self.pairs)))
        self.noise = noise

    @property
    def slack(self) -> float:
        """The part by which a sum of rates may differ from a capacity that it fills."""
        return 2.5 * self.noise

    @property
    def refuting(self) -> float:
        """The part by which a sum of rates exceeds a capacity that it refutes."""
        return 4 * self.noise

    def add(self, observation: Observation) -> None:
        """Keep what a test showed; a pair that got more than ever alone can carry that.

        Raises:
            TreefoldError: If a rate that a pair got is not a number of at least 0.

        """
        for (source, target), rate_Bps in observation.got_Bps.items():
            if not 0 <= rate_Bps < math.inf:
                raise TreefoldError(f"pair {source} -> {target} got {rate_Bps} B/s; give a number of at least 0")
        offered = self.vector(observation.offered_Bps)
        got = self.vector(observation.got_Bps)
        self.offered_Bps = np.vstack([self.offered_Bps, offered])
        self.got_Bps = np.vstack([self.got_Bps, got])
        self.alone_Bps = np.maximum(self.alone_Bps, got * (1 - self.noise))

    def forget(self, tests: Mask) -> None:
        """Forget some tests, by their rows."""
        self.offered_Bps, self.got_Bps = self.offered_Bps[~tests], self.got_Bps[~tests]

    def vector(self, values: Mapping[Pair, float]) -> Vector:
        """Return values by pair as a row; 0 where there is none."""
        return np.array([values.get(pair, 0.0) for pair in self.pairs], float)

    def by_pair(self, values: Vector) -> dict[Pair, float]:
        """Return the values of a row that are above 0, by pair."""
        return {pair: float(value) for pair, value in zip(self.pairs, values, strict=True) if value > 0}

    def mask(self, members: Iterable[Pair]) -> Mask:
        """Return which columns belong to these pairs; pairs without a column are left out."""
        mask = np.zeros(len(self.pairs), bool)
        mask[[self._column[pair] for pair in members if pair in self._column]] = True
        return mask

    def members(self, mask: Mask) -> list[Pair]:
        """Return the pairs of some columns."""
        return [self.pairs[column] for column in np.flatnonzero(mask)]

    def ends(self, mask: Mask) -> set[int]:
        """Return the workers between which the pairs of some columns are."""
        return set(self.source[mask].tolist()) | set(self.target[mask].tolist())

    @property
    def short(self) -> Mask:
        """Whether each pair got clearly less in each test than was offered to it, and than it carries alone."""
        errors = np.where(np.isinf(self.offered_Bps), _UNLIMITED, _LIMITED)
        demand = np.minimum(self.offered_Bps, self.alone_Bps)
        return (self.offered_Bps > 0) & (self.got_Bps < (1 - errors * self.noise) * demand)


def _check_pairs(alone_Bps: Mapping[Pair, float]) -> None:
    """Raise a TreefoldError if pairs or their rates are none, or do not let all workers reach each other."""
    if not alone_Bps:
        raise TreefoldError("there is no pair of workers to learn about; measure the rate of at least one alone")
    for (source, target), rate_Bps in alone_Bps.items():
        if source == target or min(source, target) < 0:
            raise TreefoldError(f"pair {source} -> {target} is not of two workers; give two ranks that differ")
        if not _LEAST_BPS <= rate_Bps < math.inf:
            problem = f"rate {rate_Bps} of pair {source} -> {target} is not a number of at least {_LEAST_BPS:g} B/s"
            raise TreefoldError(f"{problem}; leave the pair out")
    ranks = 1 + max(max(pair) for pair in alone_Bps)
    for pairs, verb in ((alone_Bps, "send to"), ([pair[::-1] for pair in alone_Bps], "receive from")):
        reached = {0}
        for _ in range(ranks):
            reached |= {target for source, target in pairs if source in reached}
        if apart := sorted(set(range(ranks)) - reached):
            raise TreefoldError(f"worker 0 cannot {verb} worker {apart[0]}, not even through others; leave that out")
