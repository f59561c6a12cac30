"""Learns a network from the operations that run on it anyway: no traffic is sent for the sake of a test.

Each operation consists of windows, and each window is an observation: what each pair carried in it, and which pairs
always had data waiting and so fell short. What was concluded from few of them misleads: after each operation all are
explained anew. The groups that do make the next plan, and running it tests them for free.

A plan is only proposed if it is not much slower than what ran before learning began. What was measured at once can be
carried again, and so can mixtures of it, so the worst case of a plan, whatever the network is, is the highest rate at
which its traffic fits into a mixture (a matrix game). That is far too careful where much is known. So it also counts
that a plan for what is believed was never seen to be more than a few times slower than believed, and is mixed with the
best one that is known to be carried, as far as both in turns would be fast enough. Each step widens what is known.
"""

from collections.abc import Iterable, Mapping

import numpy as np

from treefold.discovery.beliefs import Beliefs, Knowledge
from treefold.discovery.games import best_mixture
from treefold.discovery.groups import Shared
from treefold.discovery.model import Model
from treefold.discovery.observations import Observation, Pair, Vector
from treefold.discovery.planned import Planned
from treefold.errors import TreefoldError

_SLOWER = 0.05
"""A plan may in the worst case be slower by this part than the slowest operation before learning began."""
_WRONG = 6.0
"""A plan is taken to be no more than so many times slower than what is believed says.

Simulated plans were up to 4 times slower than believed. With 4 here, two of 40 networks had operations that were 10 and
19 % slower than the slowest before learning; with 6, none was more than 4 % slower.
"""
_STEPS = (1.0, 0.8, 0.6, 0.45, 0.35, 0.25, 0.18, 0.12, 0.08, 0.05, 0.03)
"""The parts of a new plan that are tried in a mixture, the highest first."""
_WORTH = 4.0
"""A pair that fell short in an operation is worth so many members of the group that explains it."""
_STUCK, _VARIED = 2, 0.3
"""After so many operations in a row that were no faster, pairs carry up to this part less in a plan, by chance."""
_GAIN = 1.03
"""A proposal is worth it if it promises so many times the rate of the last one that was carried."""
_PATIENCE = 8
"""Learning ends after so many operations in a row that were not faster than the best before them."""


class Learner:
    """A model that operations refine; at any moment `model` is the best so far.

    Attributes:
        operations: How many operations were seen.
        done: Whether nothing faster is in sight.

    """

    def __init__(self, alone_Bps: Mapping[Pair, float], slowest_Bps: float, knowledge: Knowledge | None = None) -> None:
        """Begin with the rate of each pair alone, and what else is known.

        Args:
            alone_Bps: The rate of each pair alone, in bytes per second.
            slowest_Bps: The rate of the slowest operation before learning began: its bytes by its seconds.
            knowledge: What else is known. Its observations are what makes steps large.

        Raises:
            TreefoldError: If a rate is not a number above 0.

        """
        if not 0 < slowest_Bps < np.inf:
            raise TreefoldError(f"slowest_Bps {slowest_Bps} is not a number above 0; give the rate of an operation")
        self._beliefs = Beliefs(alone_Bps, knowledge or Knowledge())
        self._slowest_Bps = slowest_Bps
        self._fastest_Bps = slowest_Bps
        self._fruitless = 0
        self.operations = 0
        self.done = False
        self._beliefs.mix()

    @property
    def rate_Bps(self) -> float:
        """The highest rate of an all-reduce of which it is known that the network carries it."""
        return self._beliefs.best.rate_Bps

    @property
    def model(self) -> Model:
        """The best model so far."""
        return self._beliefs.model

    def see(self, observations: Iterable[Observation], carried_Bps: Mapping[Pair, float], rate_Bps: float) -> None:
        """Learn from an operation.

        Args:
            observations: What each pair carried in windows of the operation; `UNLIMITED` is what was offered to pairs
                for which data always waited, and to others as much as they carried.
            carried_Bps: What each pair carried in the mean of the whole operation.
            rate_Bps: The rate of the operation: the bytes of a vector by the seconds that it took.

        """
        beliefs = self._beliefs
        for observation in observations:
            beliefs.see(observation)
        self.operations += 1
        is_faster = rate_Bps > _GAIN * self._fastest_Bps
        self._fastest_Bps = max(self._fastest_Bps, rate_Bps)
        self._fruitless = 0 if is_faster else self._fruitless + 1
        beliefs.prefer(Planned(rate_Bps, beliefs.evidence.vector(carried_Bps)))
        beliefs.mix()
        if not beliefs.explain_anew(_WORTH):
            beliefs.lower()

    def proposal(self) -> Model:
        """Return the model to plan with next: a plan within its `carried_Bps` is safe, and tests what is believed."""
        beliefs = self._beliefs
        plan = beliefs.plan()
        is_stuck = self._fruitless >= _PATIENCE and beliefs.has_enough(plan.rate_Bps)
        self.done |= is_stuck or beliefs.has_enough(beliefs.most_Bps())
        if self.done or plan.rate_Bps < _GAIN * beliefs.best.rate_Bps:
            return beliefs.model
        return beliefs.model_of(self._safe(self._varied(plan)))

    def _varied(self, plan: Planned) -> Planned:
        """Return another plan where the last ones taught nothing: the same again would teach nothing, either."""
        if self._fruitless < _STUCK:
            return plan
        random = np.random.default_rng(self.operations)
        part = 1 - _VARIED * random.random(len(self._beliefs.evidence.pairs))
        other = self._beliefs.plan(part=part)
        return other if other.rate_Bps >= _GAIN * self._beliefs.best.rate_Bps else plan

    def _safe(self, plan: Planned) -> Vector:
        """Return the traffic of a plan, mixed with that of the best known one as far as its worst case demands it."""
        best = self._beliefs.best
        known = best.loads_Bps / best.rate_Bps
        for part in _STEPS:
            mixed = part * plan.loads_Bps / plan.rate_Bps + (1 - part) * known
            in_turns_Bps = 1 / (part * _WRONG / plan.rate_Bps + (1 - part) / best.rate_Bps)
            if max(self._worst_Bps(mixed), in_turns_Bps) >= (1 - _SLOWER) * self._slowest_Bps:
                return mixed * (part * plan.rate_Bps + (1 - part) * best.rate_Bps)
        return best.loads_Bps

    def _worst_Bps(self, loads: Vector) -> float:
        """Return the rate at which a plan runs whatever the network is, from its loads at the rate 1."""
        used = self._beliefs.mask_of(loads, 1e-6)
        evidence = self._beliefs.evidence
        full = [_shares(np.where(each.mask, evidence.alone_Bps, 0.0), each) for each in self._beliefs.certain()]
        tests = np.vstack([evidence.got_Bps, np.diag(evidence.alone_Bps), *full])
        return best_mixture((tests[:, used] / loads[used]).T)[0]


def _shares(alone_Bps: Vector, shared: Shared) -> Vector:
    """Return what pairs get that fill what they share: the same, or what they carry alone if that is less."""
    ascending = np.sort(alone_Bps[shared.mask])
    before = np.concatenate([[0.0], np.cumsum(ascending)[:-1]])
    levels = (shared.capacity_Bps - before) / np.arange(len(ascending), 0, -1)
    level = levels[np.argmax(levels <= ascending)] if (levels <= ascending).any() else np.inf
    return np.minimum(alone_Bps, level)
