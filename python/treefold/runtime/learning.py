"""A group that adapts learns from its operations what its links carry together; no traffic is sent for that.

After each large all-reduce every rank tells rank 0 what has left for its peers by when, and for how long data has
waited (`observing`). A `Learner` explains which links share a capacity, and proposes rates that can be carried at once,
for which rank 0 plans anew. All of this happens in a thread of its own, beside the operations that follow; the
controller announces the plan when it is there.

Only links that fall short from the beginning are learnt about: those that become slow later have changed, which is the
controller's own part. It begins when learning is over, and takes what links carry then for what is usual.
"""

import json
import time
from collections.abc import Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from typing import NamedTuple

from treefold import exporters, plans
from treefold._core import Plan, Topology, format_bandwidth
from treefold.discovery import Group, Knowledge, Learner, Model, Pair
from treefold.errors import OutsideError, TreefoldError
from treefold.runtime.networks import Changes, bandwidths, shared_pairs
from treefold.runtime.observing import Seen, Used
from treefold.simulation import simulate

GAIN = 1.03
"""A plan is used if it promises so many times the rate of the current one; so much better a plan is written down."""
_BEFORE = 2
"""Learning begins after so many operations."""
_KEPT = 0.9
"""There is nothing to learn where a plan keeps this part of its promise."""
_USELESS = 0.1
"""Where a plan keeps less than this part of its promise, the rates of the links alone are not known either."""
_PATIENCE = 4
"""Learning ends after so many operations in a row that led to no other plan."""
_MOST_WAIT = 0.1
"""What is learnt is awaited for this part of an operation, so that it is used an operation earlier."""
_LEAST = 1e-3
"""A link that no plan should use keeps this part of its rate, so that the network stays in one piece."""
_LITTLE = 1e-4
"""A link is left out of a file that carries less than this part of what the busiest one does."""
_MOST_BETWEEN = 100
"""Learning ends after so many operations that teach nothing."""
_MOST_TOLD = 20
"""Ranks tell of so many operations after each new plan. If none of them leads to another plan, learning is over."""
_MOST_RANKS = 32
"""Learning takes too long among more."""


class Step(NamedTuple):
    """What an operation has led to."""

    lines: list[str]
    """What was learnt."""
    plan: Plan | None
    """A plan to use from now on, if there is a better one."""
    is_over: bool
    """Whether nothing more is to be learnt."""


_NOTHING = Step([], None, is_over=False)


def why_not(network: Topology) -> str:
    """Return why nothing can be learnt about a network; empty if something can."""
    ranks = network.ranks
    if network.tested:
        return "its file tells what tests or operations have shown before"
    is_plain = network.accelerators == ranks and not network.switches and 3 <= ranks <= _MOST_RANKS
    if is_plain and len(bandwidths(network)) == network.num_links == ranks * (ranks - 1):
        return ""
    return f"learning takes one link each way between every two of 3 to {_MOST_RANKS} workers, and no other links"


class Learning:
    """What a rank has to do with learning; but for `close`, its methods return at once. Rank 0 learns."""

    def __init__(self, plan: Plan, algorithm: str | None, file: str | None) -> None:
        """Begin with the plan of a group.

        Args:
            plan: The plan, whose network is the one to learn about.
            algorithm: None for new plans by the algorithm of the plan, or by packing if `auto` chose it; or `auto`.
            file: The file to which the network is written whenever a better plan was carried.

        """
        self.network, self.applies = plan.topology, not why_not(plan.topology)
        self.is_over = not self.applies
        self._seen: Seen | None = None
        """The last operation of which all ranks have told."""
        self._waiting: Seen | None = None
        """The last operation, while ranks have still to tell of it."""
        self._told: dict[int, tuple[int, Used]] = {}
        """The last operation of which each rank has told, some before rank 0 has ended it."""
        self._number = 0
        """The number of the last operation that teaches something."""
        self._told_plan, self._told_of = plan, 0
        """The plan that runs, and of how many of its operations this rank has told."""
        self._counted_on = frozenset(bandwidths(self.network)) if self.network.tested == "at once" else None
        """The links whose slowing down counts, if the network says what links carry at once; None if it does not."""
        self._plan, self.has_taught = plan, False
        """The newest plan, and whether it was learnt."""
        self._pool = ThreadPoolExecutor(1, "treefold-learning")
        self._step: Future[Step] | None = None
        self._student = _Student(plan, algorithm, file)

    @property
    def is_under_way(self) -> bool:
        """Whether links that fall short are learnt about, so that nobody takes them for changed."""
        return not self.is_over and self._number > 0

    @property
    def is_studied(self) -> bool:
        """Whether nothing is being learnt, nor about to be."""
        return self.is_over or (self._waiting is None and (self._step is None or self._step.done()))

    def patience_s(self, seconds: float) -> float:
        """Return how long to wait until something is learnt from an operation that took so many seconds.

        With that it must be no slower than the slowest before learning began, and not much slower than without; and
        where there is too little time, none is wasted.
        """
        left_s = min(self._student.slowest_s - seconds, _MOST_WAIT * seconds)
        return left_s if self._student.study_s < left_s and not self.is_over else 0.0

    def tells(self, plan: Plan) -> bool:
        """Return whether this rank tells of one more operation of a plan: of the first few after each new plan."""
        if plan is not self._told_plan:
            self._told_plan, self._told_of = plan, 0
        self._told_of += 1
        return self.applies and self._told_of <= _MOST_TOLD

    def begin(self, number: int, plan: Plan, size_bytes: int, own: Used) -> None:
        """Await what the other ranks tell of an operation, of which rank 0 tells `own`."""
        self._number, self._waiting = number, Seen(plan, size_bytes)
        self.hear(0, number, own)

    def hear(self, rank: int, number: int, own: Used) -> None:
        """Take what a rank tells of an operation."""
        self._told[rank] = number, own
        told = {rank: own for rank, (number, own) in self._told.items() if number == self._number}
        if self._waiting is None or self.is_over or len(told) < self.network.ranks:
            return
        self._waiting.used = told
        seen, self._waiting = self._waiting, None
        if not seen.is_together:
            return
        self._seen = seen
        # A plan is used by the operation after the next one, and each teaches something; the last plan ends learning.
        is_newest = self._seen.plan.fingerprint == self._plan.fingerprint
        if self._step is None and (is_newest or not self._student.is_done):
            self._step = self._pool.submit(self._student.study, self._seen)

    def take(self, number: int) -> Step:
        """Return what an operation has led to since the last call; the last operation has this number."""
        if self.is_over:
            return _NOTHING
        if self._step is None or not self._step.done():
            self.is_over = self._number > 0 and number - self._number > _MOST_BETWEEN
            return _NOTHING
        done, self._step = self._step, None
        step = done.result()
        self.is_over = step.is_over
        if step.plan is not None:
            self._plan, self.has_taught = step.plan, True
        return step

    def settle(self, network: Topology) -> dict[Pair, float]:
        """End learning: from now on compare with what the network carries at once. Return what is usual there.

        That is the factor by which each link's rate differs from what the network says while nothing has changed. A
        link that the plan does not use has the rate that it has alone; one that it uses, what was last measured.
        """
        alone, said = bandwidths(self.network), bandwidths(network)
        rates = {pair: rate for pair, rate in alone.items() if said.get(pair, rate) < 2 * _LEAST * rate}
        self._counted_on = frozenset(said.keys() - rates.keys())
        rates |= {} if self._seen is None else self._seen.measured_Bps()
        return {pair: rate / said[pair] for pair, rate in rates.items() if pair in said}

    def counted(self, changes: Changes) -> Changes:
        """Return the changes that count: all of them, or in a network that was learnt, what became slower.

        Such a network, or one that was tested at once, says what links carry at once. That a link can carry more while
        others are idle is no news.
        """
        if self._counted_on is None:
            return changes
        slower = {pair: by for pair, by in changes.factors.items() if by < 1 and pair in self._counted_on}
        return changes._replace(factors=slower)

    def close(self) -> None:
        """Learn no more; what is under way ends first."""
        self.is_over = True
        self._pool.shutdown()


class _Student:
    """What is learnt, in the thread that learns."""

    def __init__(self, plan: Plan, algorithm: str | None, file: str | None) -> None:
        self._network, self._file = plan.topology, file
        self._algorithm = "packing" if algorithm == "auto" or plan.chosen_by else None
        self._before: list[Seen] = []
        self._learner: Learner | None = None
        self._written_Bps, self._fruitless = 0.0, 0
        self.is_done = False
        """Whether there is nothing to do but to test the newest plan."""
        self._told: set[frozenset[Pair]] = set()
        self.slowest_s = self.study_s = 0.0
        """The time of the slowest operation before learning began, and of what was last learnt."""

    def study(self, seen: Seen) -> Step:
        """Learn from an operation, and plan anew if that is worth it."""
        start_s = time.monotonic()
        try:
            return self._study(seen)
        except TreefoldError as error:
            return Step([f"learnt: no more, {error}"], None, is_over=True)
        finally:
            self.study_s = time.monotonic() - start_s

    def _study(self, seen: Seen) -> Step:
        if self._learner is None:
            self._before.append(seen)
            if len(self._before) < _BEFORE or not self._is_worth_while():
                return Step([], None, is_over=len(self._before) >= _BEFORE)
            self._learner = self._begun()
        lines = self._write(seen)
        if self.is_done:
            return Step(lines, None, is_over=True)
        self._learner.see(seen.observations(), seen.carried_Bps(), seen.rate_Bps)
        model = self._learner.proposal()
        plan, promised_Bps = self._planned(seen, model)
        self._fruitless = 0 if plan is not None else self._fruitless + 1
        self.is_done = self._learner.done or self._fruitless >= _PATIENCE
        if plan is not None:
            lines += [*self._groups(model), _faster(seen.rate_Bps, promised_Bps)]
        # The last plan's operation says what is usual from then on.
        return Step(lines, plan, is_over=self.is_done and plan is None)

    def _is_worth_while(self) -> bool:
        """Return whether the first plan is clearly slower than it promised, though not by far."""
        seen = max(self._before, key=lambda each: each.rate_Bps)
        promised_Bps = _promised_Bps(seen.plan, seen.size_bytes)
        return _USELESS * promised_Bps <= seen.rate_Bps < _KEPT * promised_Bps

    def _begun(self) -> Learner:
        """Return a learner that knows the links alone, what they share, and all operations but the last one."""
        network, rates = self._network, bandwidths(self._network)
        ranks = {name: rank for rank, name in enumerate(network.rank_names)}
        latency_s = {(ranks[link.source], ranks[link.target]): link.latency_s for link in network.links()}
        shared = [(pairs, capacity_Bps) for capacity_Bps, pairs in shared_pairs(network)]
        knowledge = Knowledge(shared=shared, names=network.rank_names, latency_s=latency_s)
        self.slowest_s = max(each.seconds for each in self._before)
        learner = Learner(rates, min(each.rate_Bps for each in self._before), knowledge)
        self._written_Bps = max(each.rate_Bps for each in self._before)
        for each in self._before[:-1]:
            learner.see(each.observations(), each.carried_Bps(), each.rate_Bps)
        return learner

    def _planned(self, seen: Seen, model: Model) -> tuple[Plan | None, float]:
        """Return a plan within what the model says can be carried, and its rate; no plan if it is not better."""
        alone = bandwidths(self._network)
        rates = {pair: max(model.carried_Bps.get(pair, 0.0), _LEAST * alone[pair]) for pair in alone}
        network = _with_rates(self._network, rates)
        plan = self._made(seen, network)
        promised_Bps = _promised_Bps(plan, seen.size_bytes)
        is_better = promised_Bps >= GAIN * seen.rate_Bps and plan.fingerprint != seen.plan.fingerprint
        return (plan if is_better else None), promised_Bps

    def _made(self, seen: Seen, network: Topology) -> Plan:
        """Return a plan for a network, by the algorithm and with the options of the one that ran, where they fit."""
        if self._algorithm is not None:
            size_bytes = seen.size_bytes if seen.plan.size_bytes is None else seen.plan.size_bytes
            return plans.plan(network, self._algorithm, size_bytes=size_bytes)
        return plans.replan(seen.plan, network, size_bytes=seen.size_bytes).plan

    def _groups(self, model: Model) -> list[str]:
        """Return a line for each shared capacity that was not told before."""
        new = [group for group in model.groups if group.members not in self._told]
        self._told |= {group.members for group in new}
        return [f"learnt: {_capacity(group)}" for group in new]

    def _write(self, seen: Seen) -> list[str]:
        """Write the network to its file if the plan was better than the one before; return a line if that failed."""
        if self._file is None or seen.rate_Bps < GAIN * self._written_Bps:
            return []
        self._written_Bps = seen.rate_Bps
        try:
            exporters.write(json.loads(carried(self._network, seen).to_json()) | {"tested": "at once"}, self._file)
        except OutsideError as error:
            return [f"learnt: {error}"]
        return []


def carried(network: Topology, seen: Seen) -> Topology:
    """Return the network of what was carried at once: each link has the rate that it had in an operation."""
    rates = seen.carried_Bps()
    least = _LITTLE * max(rates.values())
    used = {pair: rate for pair, rate in rates.items() if rate > least}
    names = network.rank_names
    unused = [(names[one], names[other]) for one, other in bandwidths(network).keys() - used.keys()]
    return _with_rates(network, used).without_links(unused, one_way=True)


def _with_rates(network: Topology, rates_Bps: Mapping[Pair, float]) -> Topology:
    """Return the network with these rates of its links."""
    names = network.rank_names
    named = {(names[one], names[other]): float(f"{rate:.4g}") for (one, other), rate in rates_Bps.items()}
    return network.with_bandwidths(named, one_way=True)


def _promised_Bps(plan: Plan, size_bytes: int) -> float:
    """Return the rate that a plan promises on its network."""
    return size_bytes / simulate(plan, size_bytes=size_bytes, simulator="flow").time_s


def _capacity(group: Group) -> str:
    return f"{group.name} carry {format_bandwidth(group.capacity_Bps)} together"


def _faster(rate_Bps: float, promised_Bps: float) -> str:
    return f"learnt: {format_bandwidth(promised_Bps)} instead of {format_bandwidth(rate_Bps)}"
