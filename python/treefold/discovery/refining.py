"""Refines the model of a network by counterexamples: plan with what is known, offer the plan's traffic, learn.

A plan that carries what it promises is proven for this network, whatever else the network is. If some pairs fall short,
a few random sets of pairs are tested, too, and groups of pairs that share a capacity are found that explain all tests
so far (`explain`). With these the next plan is made. Groups that limit a plan that was carried are tested alone once:
if one carries more, so may a plan. The mixtures of what was carried at once (`mixtures`) are the floor while learning:
when they reach what pairs, workers and confirmed groups allow at most, the loop ends.

The loop does no input or output: it yields tests and is sent observations. The same observations lead to the same
tests.
"""

from collections.abc import Generator, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from treefold.discovery import hints, planned
from treefold.discovery.explain import explain
from treefold.discovery.groups import Shared, caps, same, settled, support, supported, unexplained
from treefold.discovery.mixtures import Hull
from treefold.discovery.model import Group, Model, group_name
from treefold.discovery.observations import UNLIMITED, Evidence, Mask, Observation, Pair, Test, Vector
from treefold.discovery.planned import Planned

Tests = Generator[Test, Observation, None]

_CARRIED = 0.97
"""A plan is carried if its pairs together got this part of what was offered to them."""
_ENOUGH = 0.95
"""What was carried is enough if it is this part of what can be hoped for; and a group limits a plan that fills it so."""
_USED = 1e-3
"""A plan uses a pair that carries more than this part of what its busiest pair does."""
_RANDOM_TESTS = 3
_PAIRS_A_WORKER = 2.5
_LIKELIER = 3.0
"""A random test has so many pairs for each worker, and those that the plan uses are so many times likelier."""
_STOOD = 1.03
"""A group has stood its test if its capacity rose by no more than this factor."""


@dataclass(frozen=True)
class Knowledge:
    """What a refinement begins with, beside the rates of pairs alone.

    Attributes:
        observations: Whole tests that were made before, such as all that a worker sends at once.
        names: The names of the workers, by rank; by default their ranks.
        latency_s: The latency of each pair, one way, in seconds; it suggests groups, and which pairs are near.
        trusts_latency: Whether latencies suggest groups. Otherwise they only say which pairs are near.
        hops: The pairs that cross each known hop in one direction, such as a router.
        addresses: The addresses of workers, by rank, of which those in one subnet may share an access line.
        noise: The standard deviation of the relative error of a measured rate.

    """

    observations: Sequence[Observation] = ()
    names: Sequence[str] = ()
    latency_s: Mapping[Pair, float] = field(default_factory=dict)
    trusts_latency: bool = True
    hops: Sequence[Iterable[Pair]] = ()
    addresses: Mapping[int, str] = field(default_factory=dict)
    noise: float = 0.02


@dataclass(frozen=True)
class Round:
    """What one round of a refinement has learnt.

    Attributes:
        tests: How many tests there were so far.
        promised_Bps: The rate of an all-reduce that the model promised in this round.
        carried_Bps: The highest rate of which it is known so far that the network carries it.
        learnt: The groups that were found in this round.
        dropped: The names of the groups that were given up in this round.

    """

    tests: int
    promised_Bps: float
    carried_Bps: float
    learnt: tuple[Group, ...]
    dropped: tuple[str, ...]


class Refinement:
    """A model that is refined by tests; at any moment `model` is the best so far.

    Attributes:
        rounds: What each round has learnt.
        tests: How many tests were made.
        proven: Whether the loop has ended because nothing faster is in sight, rather than for lack of tests.

    """

    def __init__(
        self, alone_Bps: Mapping[Pair, float], knowledge: Knowledge | None = None, most_tests: int = 60, seed: int = 0
    ) -> None:
        """Begin with the rate of each pair alone, and what else is known.

        Args:
            alone_Bps: The rate of each pair alone, in bytes per second; pairs that cannot connect are left out.
            knowledge: What else is known.
            most_tests: End after so many tests.
            seed: The seed of the random tests.

        """
        self._knowledge = knowledge or Knowledge()
        self._evidence = evidence = Evidence(alone_Bps, self._knowledge.noise)
        for observation in self._knowledge.observations:
            evidence.add(observation)
        self.most_tests = most_tests
        self.tests_made = 0
        self.rounds: list[Round] = []
        self.proven = False
        self._random = np.random.default_rng(seed)
        self._hull = Hull(evidence)
        self._best = Planned(0.0, np.zeros(len(evidence.pairs)))
        self._ceiling: Vector = np.full(len(evidence.pairs), np.inf)
        self._groups = settled(evidence, self._hinted())

    def _hinted(self) -> list[Shared]:
        known, evidence = self._knowledge, self._evidence
        found = [*hints.of_hops(evidence, known.hops), *hints.of_subnets(evidence, known.addresses)]
        return found + (hints.of_latencies(evidence, known.latency_s) if known.trusts_latency else [])

    @property
    def rate_Bps(self) -> float:
        """The highest rate of an all-reduce of which it is known that the network carries it."""
        return self._best.rate_Bps

    @property
    def model(self) -> Model:
        """The best model so far."""
        evidence = self._evidence
        groups = self._named([*caps(evidence), *self._groups])
        alone, carried = evidence.by_pair(evidence.alone_Bps), evidence.by_pair(self._best.loads_Bps)
        return Model(self._names, alone, groups, carried, self._knowledge.latency_s)

    @property
    def _names(self) -> Sequence[str]:
        return self._knowledge.names or [str(rank) for rank in range(self._evidence.ranks)]

    def _named(self, groups: Iterable[Shared]) -> tuple[Group, ...]:
        """Return groups with names that differ."""
        evidence, taken, named = self._evidence, dict[str, int](), []
        for group in groups:
            members = evidence.members(group.mask)
            name = group_name(members, self._names, evidence.ranks)
            taken[name] = taken.get(name, 0) + 1
            name += f" #{taken[name]}" if taken[name] > 1 else ""
            found = support(evidence, group)
            named.append(Group(frozenset(members), group.capacity_Bps, name, found, group.confirmed))
        return tuple(named)

    # The loop.

    def tests(self) -> Tests:
        """Yield tests, and learn from the observation that is sent for each; the end of the generator is the end."""
        self._mix()
        while not self.proven and self.tests_made < self.most_tests:
            before = self._groups
            plan = self._plan()
            yield from self._round(plan)
            self._record(plan, before)

    def _round(self, plan: Planned) -> Tests:
        """Offer a plan unless it is known to be carried; then confirm what limits it, or explain why it fell short."""
        is_carried = self._best.rate_Bps >= _ENOUGH * plan.rate_Bps
        if not is_carried or not self.tests_made:
            is_carried = yield from self._offer(plan)
        if self._best.rate_Bps >= _ENOUGH * self._most():
            self.proven = True
        elif is_carried:
            yield from self._confirm(plan)
        else:
            yield from self._explain(plan)

    def _plan(self) -> Planned:
        """Return a plan with all that is known; hints do not count before there is a need for them."""
        capacity_Bps = np.minimum(self._evidence.alone_Bps, self._ceiling)
        is_enough = not self.tests_made and self._best.rate_Bps >= _ENOUGH * self._most()
        groups = caps(self._evidence) + ([] if is_enough else self._groups)
        return planned.nearest(self._evidence, capacity_Bps, groups, self._length)

    @property
    def _length(self) -> Vector:
        """How long each pair is; where nothing says so, narrow pairs are long."""
        latency_s = self._evidence.vector(self._knowledge.latency_s)
        return latency_s if latency_s.all() else -self._evidence.alone_Bps

    def _most(self) -> float:
        """Return the rate that no plan beats as far as is certain: by pairs, workers and confirmed groups."""
        certain = caps(self._evidence) + [group for group in self._groups if group.confirmed]
        return planned.bound(self._evidence, self._evidence.alone_Bps, certain)[0]

    def _mix(self) -> None:
        """Let the best mixture of all tests be the best if it is."""
        rate_Bps, capacity_Bps = self._hull.best()
        if rate_Bps > self._best.rate_Bps:
            self._best = Planned(rate_Bps, capacity_Bps)

    def _test(self, offered_Bps: Vector, why: str) -> Generator[Test, Observation, Mask]:
        """Make a test, and hold all groups against what it showed; return which pairs fell short."""
        evidence = self._evidence
        observation = yield Test(evidence.by_pair(offered_Bps), why)
        self.tests_made += 1
        evidence.add(observation)
        got = evidence.got_Bps[-1]
        self._ceiling = np.where(got > self._ceiling * (1 + evidence.refuting), np.inf, self._ceiling)
        self._groups = settled(evidence, self._groups)
        return np.asarray(evidence.short[-1])

    def _offer(self, plan: Planned) -> Generator[Test, Observation, bool]:
        """Offer a plan's traffic; return whether it was carried."""
        evidence = self._evidence
        used = plan.loads_Bps > _USED * plan.loads_Bps.max()
        short = yield from self._test(np.where(used, plan.loads_Bps * (1 - evidence.noise), 0.0), "plan")
        offered, got = evidence.offered_Bps[-1], evidence.got_Bps[-1]
        is_carried = not short.any() and got.sum() >= _CARRIED * offered.sum()
        if is_carried and plan.rate_Bps > (1 - 2 * evidence.noise) * self._best.rate_Bps:
            self._best = plan
        self._mix()
        return bool(is_carried)

    def _confirm(self, plan: Planned) -> Tests:
        """Test the groups that limit a plan, each alone; if all stand, the plan is proven."""
        limits = [each for each in self._groups if not each.confirmed and self._is_filled(each, plan)]
        stand = True
        while limits and self.tests_made < self.most_tests:
            together = _apart(self._evidence, limits)
            limits = [each for each in limits if each not in together]
            mask = np.any([each.mask for each in together], axis=0)
            yield from self._test(np.where(mask, UNLIMITED, 0.0), "group")
            stand &= all([self._stood(each) for each in together])
        self._mix()
        self.proven = stand and not limits

    def _is_filled(self, group: Shared, plan: Planned) -> bool:
        return float(plan.loads_Bps @ group.mask) >= _ENOUGH * group.capacity_Bps

    def _stood(self, group: Shared) -> bool:
        """Return whether a group stood its test, and confirm it; one that was not full limits nothing, and is dropped."""
        now = next((each for each in self._groups if same(each, group)), None)
        if now is None:
            return False
        others = [each for each in self._groups if each is not now]
        short = self._evidence.short[-1] & group.mask
        if group.fixed and not short.any():
            self._groups = others
            return False
        self._groups = [replace(each, confirmed=True) if each is now else each for each in self._groups]
        return now.capacity_Bps <= _STOOD * group.capacity_Bps

    def _explain(self, plan: Planned) -> Tests:
        """Find groups that explain why a plan fell short, with the help of a few random tests."""
        evidence, offered_in = self._evidence, len(self._evidence.got_Bps) - 1
        self._groups = supported(evidence, self._groups)
        used = plan.loads_Bps > _USED * plan.loads_Bps.max()
        weights = np.where(used, _LIKELIER, 1.0)
        for _ in range(min(_RANDOM_TESTS, self.most_tests - self.tests_made)):
            count = min(len(used), round(_PAIRS_A_WORKER * evidence.ranks))
            columns = self._random.choice(len(used), count, replace=False, p=weights / weights.sum())
            offered = np.zeros(len(used))
            offered[columns] = UNLIMITED
            yield from self._test(offered, "random")
        self._mix()
        found = explain(evidence, [*caps(evidence), *self._groups])
        self._groups = [*self._groups, *found]
        if not found:
            self._lower(offered_in)

    def _lower(self, test: int) -> None:
        """Lower the pair that fell short most in a test, as nothing else explains it."""
        offered, got = self._evidence.offered_Bps[test], self._evidence.got_Bps[test]
        parts = np.divide(got, offered, out=np.ones(len(got)), where=offered > 0)
        worst = int(parts.argmin())
        self._ceiling[worst] = min(got[worst], self._ceiling[worst] * (1 - self._evidence.slack))

    def _record(self, plan: Planned, before: Sequence[Shared]) -> None:
        learnt = [each for each in self._groups if not any(same(each, old) for old in before)]
        gone = [old for old in before if not any(same(each, old) for each in self._groups)]
        dropped = tuple(each.name for each in self._named(gone))
        self.rounds.append(
            Round(self.tests_made, plan.rate_Bps, self._best.rate_Bps, self._named(learnt), dropped)
        )


def _apart(evidence: Evidence, groups: Sequence[Shared]) -> list[Shared]:
    """Return the first of some groups, and others that have no worker in common with it nor with each other."""
    found: list[Shared] = []
    taken: set[int] = set()
    for group in groups:
        ends = evidence.ends(group.mask)
        if not ends & taken:
            found.append(group)
            taken |= ends
    return found
