"""Tests of a network and what they showed: what was offered to pairs of workers at once, and what each of them got.

All that is ever measured is kept, as rows of two arrays with a column for each pair. What a group of pairs carried in
each test is then one product of matrices.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Pair = tuple[int, int]
"""The source and the target of traffic, as ranks of workers."""
Vector = NDArray[np.float64]
Mask = NDArray[np.bool_]

UNLIMITED = math.inf
"""Offer a pair as much as TCP takes."""


@dataclass(frozen=True)
class Test:
    """Traffic to offer to some pairs at once.

    Attributes:
        offered_Bps: The rate to offer to each pair, in bytes per second; `UNLIMITED` for as much as TCP takes.
        why: What the test is for: `plan`, `random`, `group`, `confirm` or `repeat`.

    """

    __test__ = False
    offered_Bps: Mapping[Pair, float]
    why: str


@dataclass(frozen=True)
class Observation:
    """What pairs got, in bytes per second, in one window of time while so much was offered to them."""

    offered_Bps: Mapping[Pair, float]
    got_Bps: Mapping[Pair, float]


class Evidence:
    """All that was measured of a network; rows are tests, columns are pairs.

    Attributes:
        pairs: The pairs of the columns.
        alone_Bps: The highest rate of each pair that any test showed.
        offered_Bps: What each test offered to each pair; 0 where nothing.
        got_Bps: What each pair got in each test.
        noise: The standard deviation of the relative error of a rate.

    """

    def __init__(self, alone_Bps: Mapping[Pair, float], noise: float = 0.02) -> None:
        """Begin with the rate of each pair alone."""
        self.pairs = sorted(alone_Bps)
        self.ranks = 1 + max(max(pair) for pair in self.pairs)
        self.column = {pair: index for index, pair in enumerate(self.pairs)}
        self.alone_Bps: Vector = np.array([alone_Bps[pair] for pair in self.pairs])
        self.offered_Bps: Vector = np.zeros((0, len(self.pairs)))
        self.got_Bps: Vector = np.zeros((0, len(self.pairs)))
        self.noise = noise
        self.source, self.target = np.array(self.pairs).T

    def add(self, observation: Observation) -> None:
        """Keep what a test showed; a pair that got more than ever alone can carry that."""
        offered, got = self.vector(observation.offered_Bps), self.vector(observation.got_Bps)
        self.offered_Bps = np.vstack([self.offered_Bps, offered])
        self.got_Bps = np.vstack([self.got_Bps, got])
        self.alone_Bps = np.maximum(self.alone_Bps, got * (1 - self.noise))

    def vector(self, values: Mapping[Pair, float]) -> Vector:
        """Return values by pair as a row of all pairs; 0 where there is none."""
        return np.array([values.get(pair, 0.0) for pair in self.pairs])

    def mask(self, members: Sequence[Pair] | frozenset[Pair]) -> Mask:
        """Return which columns belong to these pairs."""
        mask = np.zeros(len(self.pairs), bool)
        mask[[self.column[pair] for pair in members if pair in self.column]] = True
        return mask

    def members(self, mask: Mask) -> frozenset[Pair]:
        """Return the pairs of some columns."""
        return frozenset(self.pairs[column] for column in np.flatnonzero(mask))

    @property
    def short(self) -> NDArray[np.bool_]:
        """Whether each pair got clearly less in each test than was offered to it and than it carries alone."""
        least = np.where(np.isinf(self.offered_Bps), 1 - 4.5 * self.noise, 1 - 3.5 * self.noise)
        demand = np.minimum(self.offered_Bps, self.alone_Bps)
        return (self.offered_Bps > 0) & (self.got_Bps < least * demand)
