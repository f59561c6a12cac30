"""Finds the best plan within what was measured at once, which is feasible whatever the network is.

Rates that a network carried in one test it can carry together, and, by taking turns, so can any convex mixture of
tests. The rate of the best plan is a concave function of what the pairs can carry, and each price of a bound is one of
its slopes: rate <= prices x capacities, for all capacities. So the best mixture is found by cutting planes (Kelley
1960): mix the tests as if the slopes found so far were all (a matrix game), bound the rate of this mixture, and add
that bound's prices. Slopes stay valid when tests are added, so they are kept. Each round costs a bound and a game.
"""

from typing import NamedTuple

import numpy as np

from treefold.discovery import planned
from treefold.discovery.games import best_mixture
from treefold.discovery.observations import Evidence, Vector

_ROUNDS = 40
_GAP = 0.01
_MOST_CUT = 12
"""All cuts between workers are slopes, which are cheap to look through up to so many workers."""
_CUTS = 4
"""Add so many violated cuts a round."""


class Mixture(NamedTuple):
    """The rates that a mixture of tests carries, and the rate of the best plan within it."""

    rate_Bps: float
    capacity_Bps: Vector
    parts: Vector
    """How much of each test the mixture has."""


class Hull:
    """The mixtures of all tests, with the slopes of the rate that were found so far."""

    def __init__(self, evidence: Evidence) -> None:
        self._evidence = evidence
        self._cuts = _cuts(evidence)
        self._slopes: Vector = np.zeros((0, len(evidence.pairs)))

    def best(self) -> Mixture:
        """Return the mixture whose plan is the fastest, within 1 %."""
        tests = self._evidence.got_Bps
        found = Mixture(0.0, np.zeros(len(self._evidence.pairs)), np.zeros(len(tests)))
        if not len(tests):
            return found
        if not len(self._slopes):
            self._slopes = self._cuts[: 2 * self._evidence.ranks]
        for _ in range(_ROUNDS):
            most_Bps, parts = best_mixture(self._slopes @ tests.T)
            if most_Bps <= found.rate_Bps * (1 + _GAP):
                break
            capacity_Bps = parts @ tests
            through = self._cuts @ capacity_Bps
            worst = np.argsort(through, kind="stable")[:_CUTS]
            violated = worst[through[worst] < most_Bps * (1 - _GAP)]
            if len(violated):
                self._slopes = np.vstack([self._slopes, self._cuts[violated]])
                continue
            rate_Bps, slope = planned.bound(self._evidence, capacity_Bps, [])
            if rate_Bps > found.rate_Bps:
                found = Mixture(rate_Bps, capacity_Bps, parts)
            self._slopes = np.vstack([self._slopes, slope])
        return found


def _cuts(evidence: Evidence) -> Vector:
    """Return which pairs lead out of each set of workers, single workers and all but one first."""
    ranks = evidence.ranks
    single = np.eye(ranks, dtype=bool)
    sets = np.vstack([single, ~single])
    if 3 < ranks <= _MOST_CUT:
        every = (np.arange(1, 2**ranks - 1)[:, None] >> np.arange(ranks)) & 1 > 0
        sizes = every.sum(axis=1)
        sets = np.vstack([sets, every[(sizes > 1) & (sizes < ranks - 1)]])
    return np.asarray(sets[:, evidence.source] & ~sets[:, evidence.target], float)
