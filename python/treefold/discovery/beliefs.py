"""What is believed of a network while it is learnt: the evidence, the groups that explain it, and the best plan so far.

Both ways of learning share this: by tests (`refining`), and from operations that run anyway (`learning`).
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from treefold.discovery import hints, planned
from treefold.discovery.explain import WORTH, explain
from treefold.discovery.groups import Shared, caps, other_than, settled, support, supported, unexplained
from treefold.discovery.mixtures import Hull
from treefold.discovery.model import Group, Model, group_name
from treefold.discovery.observations import Evidence, Mask, Observation, Pair, Vector
from treefold.discovery.planned import Planned
from treefold.errors import TreefoldError

DOUBTS = 2
"""A plan that was carried before is doubted if it falls short in so many tests, one after the other."""
ENOUGH = 0.95
"""What was carried is enough if it is this part of what can be hoped for; a group that is so full limits a plan."""
_SMALL = 0.02
"""A test has no part in a mixture if its part is smaller than this."""
_LEAST = 0.01
"""A pair keeps this part of its rate alone, however little it got."""
_CARRIED = 0.97
"""A plan is carried if its pairs together got this part of what was offered to them."""


@dataclass(frozen=True)
class Knowledge:
    """What is known in the beginning, beside the rates of pairs alone.

    Attributes:
        observations: Whole tests that were made before, such as all that a worker sends at once.
        shared: Pairs that are known to share a capacity, and the capacity, in bytes per second.
        names: The names of the workers, by rank; by default their ranks.
        latency_s: The latency of each pair, one way, in seconds; it suggests groups, and which pairs are near.
        trusts_latency: Whether latencies suggest groups. Otherwise they only say which pairs are near.
        hops: The pairs that cross each known hop, such as a router, in one direction of it.
        addresses: The addresses of workers, by rank; those in one subnet may share an access line.
        noise: The standard deviation of the relative error of a measured rate.

    """

    observations: Sequence[Observation] = ()
    shared: Sequence[tuple[Iterable[Pair], float]] = ()
    names: Sequence[str] = ()
    latency_s: Mapping[Pair, float] = field(default_factory=dict)
    trusts_latency: bool = True
    hops: Sequence[Iterable[Pair]] = ()
    addresses: Mapping[int, str] = field(default_factory=dict)
    noise: float = 0.02


class Beliefs:
    """The evidence of a network and what follows from it.

    Attributes:
        evidence: All tests.
        groups: The groups that were learnt or that hints suggest, and that no test refutes; without what is certain.
        best: The best plan of which it is known that the network carries it.
        is_tested: Whether a test has carried that plan as it is, so that it is no mixture of tests.
        hull: The mixtures of all tests.

    """

    def __init__(self, alone_Bps: Mapping[Pair, float], knowledge: Knowledge) -> None:
        self._knowledge = knowledge
        self.evidence = Evidence(alone_Bps, knowledge.noise)
        if 0 < len(knowledge.names) != self.evidence.ranks:
            problem = f"{len(knowledge.names)} names for {self.evidence.ranks} workers"
            raise TreefoldError(f"{problem}; give each worker one, in the order of ranks")
        for observation in knowledge.observations:
            self.evidence.add(observation)
        self.hull = Hull(self.evidence)
        self.best, self.is_tested = Planned(0.0, np.zeros(len(self.evidence.pairs))), False
        self._parts: Vector = np.zeros(0)
        self._ceiling: Vector = np.full(len(self.evidence.pairs), np.inf)
        self.groups = settled(self.evidence, self._hinted())
        self._caps_before: list[Shared] = []

    def _hinted(self) -> list[Shared]:
        known, evidence = self._knowledge, self.evidence
        found = [*hints.of_hops(evidence, known.hops), *hints.of_subnets(evidence, known.addresses)]
        return found + (hints.of_latencies(evidence, known.latency_s) if known.trusts_latency else [])

    # What follows.

    def certain(self) -> list[Shared]:
        """Return the workers' caps, which tests show, or have shown and none refutes, and what is known of sharing."""
        mask = self.evidence.mask
        known = [Shared(mask(pairs), rate_Bps, True, True) for pairs, rate_Bps in self._knowledge.shared]
        shown = caps(self.evidence)
        before = settled(self.evidence, [*known, *self._caps_before])
        return shown + other_than(before, shown)

    def plan(self, uses_groups: bool = True, part: Vector | float = 1.0) -> Planned:
        """Return a plan with all that is believed, or with what is certain; pairs carry a part of what they can."""
        capacity_Bps = part * np.minimum(self.evidence.alone_Bps, self._ceiling)
        groups = self.certain() + (self.groups if uses_groups else [])
        return planned.nearest(self.evidence, capacity_Bps, groups, self._length)

    @property
    def _length(self) -> Vector:
        """The length of each pair; where nothing says so, narrow pairs are long."""
        latency_s = self.evidence.vector(self._knowledge.latency_s)
        return latency_s if latency_s.all() else -self.evidence.alone_Bps

    def most_Bps(self) -> float:
        """Return the rate that no plan beats as far as is certain: by pairs, workers and confirmed groups."""
        certain = self.certain() + [group for group in self.groups if group.confirmed]
        return planned.bound(self.evidence, self.evidence.alone_Bps, certain)[0]

    def has_enough(self, rate_Bps: float) -> bool:
        """Return whether the best plan so far is about as fast as this."""
        return self.best.rate_Bps >= ENOUGH * rate_Bps

    def limiting(self, plan: Planned) -> list[Shared]:
        """Return the groups that limit a plan and that no test of their own has confirmed."""
        filled = [float(plan.loads_Bps @ each.mask) >= ENOUGH * each.capacity_Bps for each in self.groups]
        return [each for each, is_full in zip(self.groups, filled, strict=True) if is_full and not each.confirmed]

    # Learning.

    def see(self, observation: Observation) -> None:
        """Add a test, and hold all groups against what it showed."""
        evidence = self.evidence
        evidence.add(observation)
        exceeded = evidence.got_Bps[-1] > self._ceiling * (1 + evidence.refuting)
        self._ceiling = np.where(exceeded, np.inf, self._ceiling)
        self.groups = settled(evidence, self.groups)

    def was_carried(self) -> bool:
        """Return whether the last test got all that was offered to it."""
        evidence = self.evidence
        together = evidence.got_Bps[-1].sum() >= _CARRIED * evidence.offered_Bps[-1].sum()
        return bool(together and not evidence.short[-1].any())

    def prefer(self, plan: Planned) -> None:
        """Let a plan that was carried be the best, unless something clearly faster is known."""
        if plan.rate_Bps > (1 - 2 * self.evidence.noise) * self.best.rate_Bps:
            self.best, self.is_tested = plan, True

    def mix(self) -> None:
        """Let the best mixture of all tests be the best if it is, and clearly if the best was tested."""
        rate_Bps, capacity_Bps, parts = self.hull.best()
        if rate_Bps > (1 + 2 * self.evidence.noise * self.is_tested) * self.best.rate_Bps:
            self.best, self.is_tested, self._parts = Planned(rate_Bps, capacity_Bps), False, parts

    def doubt(self) -> None:
        """Forget the tests of which the best mixture was made, and all before: they are not true any more.

        Of a plan that was carried before, only the tests count that offered it last, and in which it fell short. The
        workers' caps stay until a test refutes them, as nothing measures them again.
        """
        self._caps_before, tests = self.certain(), len(self.evidence.got_Bps)
        of_mixture = max(np.flatnonzero(self._parts > _SMALL), default=-1)
        newest = tests - 1 - DOUBTS if self.is_tested else of_mixture
        self.evidence.forget(np.arange(tests) <= newest)
        self.groups = settled(self.evidence, self._hinted())
        self.best, self.is_tested = Planned(0.0, np.zeros(len(self.evidence.pairs))), False
        self.mix()

    def forget(self, row: int) -> None:
        """Forget one test, by its row."""
        mask = np.arange(len(self.evidence.got_Bps)) == row
        self.evidence.forget(mask)
        self._parts = self._parts[~mask[: len(self._parts)]]

    def drop_unsupported(self) -> None:
        """Give up the groups for which little speaks."""
        self.groups = supported(self.evidence, self.groups)

    def explain_all(self) -> bool:
        """Return whether the groups explain all that fell short in any test."""
        is_open = unexplained(self.evidence, [*self.certain(), *self.groups]).any()
        return bool(not is_open and np.isinf(self._ceiling).all())

    def explain_anew(self, worth: float) -> bool:
        """Forget what was concluded, and explain all tests together; return whether there is an explanation."""
        self._ceiling[:] = np.inf
        self.groups = settled(self.evidence, self._hinted())
        return self.explain(worth)

    def explain(self, worth: float = WORTH) -> bool:
        """Add groups that explain what fell short in all tests; return whether there are any."""
        found = explain(self.evidence, [*self.certain(), *self.groups], worth)
        self.groups = [*other_than(self.groups, found), *found]
        return bool(found)

    def lower(self) -> None:
        """Lower the pair that fell short most in the last test, where nothing else explains it."""
        if not len(self.evidence.got_Bps):
            return
        got_Bps = self.evidence.got_Bps[-1]
        demand = np.minimum(self.evidence.offered_Bps[-1], self.evidence.alone_Bps)
        parts = np.divide(got_Bps, demand, out=np.ones(len(got_Bps)), where=demand > 0)
        worst = int(parts.argmin())
        lower_Bps = min(got_Bps[worst], self._ceiling[worst] * (1 - self.evidence.slack))
        self._ceiling[worst] = max(lower_Bps, _LEAST * self.evidence.alone_Bps[worst])

    # Saying it.

    @property
    def model(self) -> Model:
        """The best model so far."""
        return self.model_of(self.best.loads_Bps)

    def model_of(self, carried_Bps: Vector) -> Model:
        """Return the model with other rates that pairs should carry at once."""
        evidence = self.evidence
        certain = self.certain()
        groups = self.named([*certain, *other_than(self.groups, certain)])
        alone, carried = evidence.by_pair(evidence.alone_Bps), evidence.by_pair(carried_Bps)
        return Model(self._names, alone, groups, carried, self._knowledge.latency_s)

    @property
    def _names(self) -> Sequence[str]:
        return self._knowledge.names or [str(rank) for rank in range(self.evidence.ranks)]

    def named(self, groups: Iterable[Shared]) -> tuple[Group, ...]:
        """Return groups with names, which differ."""
        taken, named = dict[str, int](), []
        for group in groups:
            members = self.evidence.members(group.mask)
            name = group_name(members, self._names, self.evidence.ranks)
            taken[name] = taken.get(name, 0) + 1
            name += f" #{taken[name]}" if taken[name] > 1 else ""
            found = support(self.evidence, group)
            named.append(Group(frozenset(members), group.capacity_Bps, name, found, group.confirmed))
        return tuple(named)

    def mask_of(self, loads_Bps: Vector, least: float = 1e-3) -> Mask:
        """Return which pairs a plan uses: those that carry more than a small part of what its busiest pair does."""
        return np.asarray(loads_Bps > least * loads_Bps.max())
