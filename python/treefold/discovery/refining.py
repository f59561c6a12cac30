"""Refines the model of a network by counterexamples: plan with what is known, offer the plan's traffic, learn.

A plan that carries what it promises is proven for this network, whatever else the network is. If some pairs fall short,
a few random sets of pairs are tested, too, and groups of pairs that share a capacity are found that explain all tests
so far (`explain`). With these the next plan is made. If nothing explains them, the plan is offered again: what passes
is not structure, and is forgotten. Groups that limit a plan that was carried are tested alone once:
if one carries more, so may a plan. The mixtures of what was carried at once (`mixtures`) are the floor while learning:
when they reach what pairs, workers and confirmed groups allow at most, the loop ends. In the end the best plan or
mixture is offered once more: if it is not carried, the network has changed, and what it was made of is forgotten.

The loop does no input or output: it yields tests and is sent observations. The same observations lead to the same
tests.
"""

from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from treefold.discovery.beliefs import DOUBTS, Beliefs, Knowledge
from treefold.discovery.groups import Shared, other_than, same
from treefold.discovery.model import Group, Model
from treefold.discovery.observations import UNLIMITED, Evidence, Mask, Observation, Pair, Test, Vector
from treefold.discovery.planned import Planned
from treefold.errors import TreefoldError

Tests = Generator[Test, Observation, None]

_RANDOM_TESTS = 3
_PAIRS_A_WORKER = 2.5
_LIKELIER = 3.0
"""A random test has so many pairs for each worker, and those that the plan uses are so many times likelier."""
_STALE = 3
"""A mixture is offered if it was the best for so many rounds, as the network may have changed."""
_STOOD = 1.03
"""A group has stood its test if its capacity rose by no more than this factor."""


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
    """A model that tests refine; at any moment `model` is the best so far.

    Attributes:
        rounds: What each round has learnt.
        made: The number of tests so far.
        proven: Whether the loop has ended because nothing faster is in sight, rather than for lack of tests.

    Example:
        >>> from contextlib import suppress
        >>> from treefold.discovery import Observation, Refinement
        >>> refinement = Refinement(dict.fromkeys([(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)], 1e7))
        >>> tests, observation = refinement.tests(), None
        >>> with suppress(StopIteration):
        ...     while True:
        ...         test = tests.send(observation)
        ...         observation = Observation(test.offered_Bps, test.offered_Bps)  # this network carries all
        >>> refinement.proven
        True

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

        Raises:
            TreefoldError: If a rate is not a number above 0, there is none, or no test is allowed.

        """
        if most_tests < 1:
            raise TreefoldError(
                f"most_tests {most_tests} is less than 1; allow at least one test, that of the first plan"
            )
        self._beliefs = Beliefs(alone_Bps, knowledge or Knowledge())
        self._most = most_tests
        self._random = np.random.default_rng(seed)
        self.made = 0
        self._carried_at = -1
        self.rounds: list[Round] = []
        self.proven = False

    def finish(self) -> None:
        """End after one more test at most, which offers the best plan if none has offered it yet."""
        self._most = min(self._most, self.made + 1)

    @property
    def rate_Bps(self) -> float:
        """The highest rate of an all-reduce of which it is known that the network carries it."""
        return self._beliefs.best.rate_Bps

    @property
    def is_tested(self) -> bool:
        """Whether a test has carried the best plan as it is, so that it is no mixture of several tests."""
        return self._beliefs.is_tested

    @property
    def model(self) -> Model:
        """The best model so far."""
        return replace(self._beliefs.model, is_whole=self.proven and self._beliefs.explain_all())

    def tests(self) -> Tests:
        """Yield tests, and learn from the observation that is sent for each; the end of the generator is the end."""
        self._beliefs.mix()
        while not self.proven and (self._left or not self.made):
            before = self._beliefs.groups
            plan = self._plan()
            yield from self._round(plan)
            if not self.proven and self._is_stale:
                yield from self._holds()
            self._record(plan, before)
        if not self.proven:
            yield from self._holds()

    @property
    def _is_stale(self) -> bool:
        """Whether the best mixture was never offered, though nothing better was found in this round and some before."""
        last = [self._beliefs.best.rate_Bps, *(each.carried_Bps for each in self.rounds[1 - _STALE :])]
        return not self._beliefs.is_tested and len(last) == _STALE and min(last) == max(last)

    @property
    def _left(self) -> int:
        """The number of tests that may still be made; one is kept for the best plan unless that was tested last."""
        return max(self._most - self.made - (not self._carried_last), 0)

    def _plan(self) -> Planned:
        """Return a plan; hints do not count before there is a need for them."""
        needs_groups = self.made > 0 or not self._beliefs.has_enough(self._beliefs.most_Bps())
        return self._beliefs.plan(needs_groups)

    def _round(self, plan: Planned) -> Tests:
        """Offer a plan unless it is known to be carried; then confirm what limits it, or explain why it fell short."""
        is_carried = self._beliefs.has_enough(plan.rate_Bps)
        if not is_carried or not self.made:
            is_carried = yield from self._offer(plan)
        if self._beliefs.has_enough(self._beliefs.most_Bps()):
            self.proven = yield from self._holds()
        elif is_carried:
            yield from self._confirm(plan)
        else:
            yield from self._explain(plan)

    def _test(self, offered_Bps: Vector, why: str) -> Tests:
        observation = yield Test(self._beliefs.evidence.by_pair(offered_Bps), why)
        self.made += 1
        self._beliefs.see(observation)

    def _offer(self, plan: Planned) -> Generator[Test, Observation, bool]:
        """Offer a plan's traffic; return whether it was carried."""
        beliefs = self._beliefs
        used, noise = beliefs.mask_of(plan.loads_Bps), beliefs.evidence.noise
        yield from self._test(np.where(used, plan.loads_Bps * (1 - noise), 0.0), "plan")
        if is_carried := beliefs.was_carried():
            self._prefer(plan)
        beliefs.mix()
        return is_carried

    def _confirm(self, plan: Planned) -> Tests:
        """Test the groups that limit a plan, each alone; if all stand, the plan is proven."""
        evidence, limits, stand = self._beliefs.evidence, self._beliefs.limiting(plan), True
        while limits and self._left:
            together = apart(evidence, limits)
            limits = [each for each in limits if each not in together]
            mask = np.any([each.mask for each in together], axis=0)
            yield from self._test(np.where(mask, UNLIMITED, 0.0), "group")
            stood = [self._stood(each) for each in together]
            stand &= all(stood)
        self._beliefs.mix()
        if stand and not limits:
            self.proven = yield from self._holds()

    def _holds(self) -> Generator[Test, Observation, bool]:
        """Return whether the best plan so far is carried: on a network that has changed it is not any more.

        A plan that was carried before is doubted only if it falls short twice, as noise may be the reason once.
        """
        beliefs = self._beliefs
        best, was_tested = beliefs.best, beliefs.is_tested
        if not best.rate_Bps or (was_tested and self._carried_last):
            return was_tested
        for doubts in range(DOUBTS if was_tested else 1):
            if self.made >= self._most:
                beliefs.is_tested = was_tested and not doubts
                return beliefs.is_tested
            yield from self._test(best.loads_Bps * (1 - 2 * beliefs.evidence.noise), "repeat")
            if beliefs.was_carried():
                self._prefer(best)
                return True
        beliefs.doubt()
        return False

    def _prefer(self, plan: Planned) -> None:
        self._beliefs.prefer(plan)
        if self._beliefs.best is plan:
            self._carried_at = self.made

    @property
    def _carried_last(self) -> bool:
        """Whether the last test was one of the best plan, which carried it."""
        return self.made == self._carried_at

    def _stood(self, group: Shared) -> bool:
        """Return whether a group stood its test, and confirm it; one known by hops that was not full limits nothing."""
        beliefs = self._beliefs
        now = next((each for each in beliefs.groups if same(each, group)), None)
        if now is None:
            return False
        fell_short: Mask = beliefs.evidence.short[-1] & group.mask
        if group.fixed and not fell_short.any():
            beliefs.groups = [each for each in beliefs.groups if each is not now]
            return False
        beliefs.groups = [replace(each, confirmed=True) if each is now else each for each in beliefs.groups]
        return now.capacity_Bps <= _STOOD * group.capacity_Bps

    def _explain(self, plan: Planned) -> Tests:
        """Find groups that explain why a plan fell short, with the help of a few random tests."""
        beliefs, row = self._beliefs, len(self._beliefs.evidence.got_Bps) - 1
        beliefs.drop_unsupported()
        weights = np.where(beliefs.mask_of(plan.loads_Bps), _LIKELIER, 1.0)
        count = min(len(weights), round(_PAIRS_A_WORKER * beliefs.evidence.ranks))
        for _ in range(min(_RANDOM_TESTS, self._left)):
            columns = self._random.choice(len(weights), count, replace=False, p=weights / weights.sum())
            chosen = np.zeros(len(weights))
            chosen[columns] = UNLIMITED
            yield from self._test(chosen, "random")
        beliefs.mix()
        if not beliefs.explain() and self._left:
            yield from self._repeat(plan, row)

    def _repeat(self, plan: Planned, row: int) -> Tests:
        """Offer a plan again that fell short in a test without a reason: forget that test if it is carried now."""
        beliefs = self._beliefs
        if (yield from self._offer(plan)):
            beliefs.forget(row)
        else:
            beliefs.lower()

    def _record(self, plan: Planned, before: Sequence[Shared]) -> None:
        beliefs = self._beliefs
        learnt, gone = other_than(beliefs.groups, before), other_than(before, beliefs.groups)
        dropped = tuple(each.name for each in beliefs.named(gone))
        carried_Bps = beliefs.best.rate_Bps
        self.rounds.append(Round(self.made, plan.rate_Bps, carried_Bps, beliefs.named(learnt), dropped))


def apart(evidence: Evidence, groups: Sequence[Shared]) -> list[Shared]:
    """Return the first of some groups, and others that have no worker in common with it nor with each other."""
    found: list[Shared] = []
    taken: set[int] = set()
    for group in groups:
        ends = evidence.ends(group.mask)
        if not ends & taken:
            found.append(group)
            taken |= ends
    return found
