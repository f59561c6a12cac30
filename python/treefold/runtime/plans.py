"""The plans of a group, one for each collective, and one rank's programs for them."""

import warnings
from collections import OrderedDict
from collections.abc import Collection
from contextlib import suppress
from typing import TYPE_CHECKING, Any, NamedTuple

from treefold import checks, declared, planning, plans
from treefold._core import Plan, Program
from treefold.collectives import COLLECTIVES
from treefold.errors import MisfitError, PeerError, TreefoldError
from treefold.results import Replanned
from treefold.runtime.networks import Pair
from treefold.runtime.rank_mapping import RankMapping
from treefold.runtime.tcp import Life
from treefold.runtime.transport import Bytes

if TYPE_CHECKING:
    from treefold.blocks import Blocks

ROUND = "cannot connect; plans go round them"
"""What is said of pairs of workers that are no links."""
REMEDY = "let one of the two listen (TREEFOLD_PORT), or open its port in the firewalls between them"
"""What to do about them."""
_MOST_PROGRAMS = 64


class NextPlan(NamedTuple):
    """A new plan."""

    first: int
    """The number of the first operation that uses it."""
    plan: Plan
    lives: list[Life]


class GroupPlans:
    """An all-reduce's plan, those of other collectives as they are needed, and this rank's programs.

    All ranks have the same plan for an all-reduce, and make the others alone: equal plans give equal results.
    A program is one rank's part of a plan for vectors of one size; the programs that were used last are kept.
    """

    def __init__(self, plan: Plan, rank: int, message_s: float, apart: Collection[Pair] = ()) -> None:
        self.all_reduce = plan
        self._rank, self._message_s = rank, message_s
        self._programs: OrderedDict[Any, Program] = OrderedDict()
        self._others: dict[tuple[str, int], Plan] = {}
        self._has_changed = self._has_told = False
        """Whether the plan is another one than at first, and whether it was told that numbers cross as they are."""
        self._served: set[tuple[str, int]] = set()
        """The collectives, each with its root, whose plans were given."""
        self.apart = set(apart)
        """The pairs of ranks that cannot connect; plans that are made here go round them."""

    def plan_for(self, collective: str, root: int = 0) -> Plan:
        """Return the plan of a collective, made like the all-reduce's; `root` is a rank of the plan."""
        name = checks.name("collective", collective, COLLECTIVES)
        key = (name, root if COLLECTIVES[name].has_root else 0)
        if key not in self._others:
            self._others[key] = self._made(plan_like(self.all_reduce, *key))
        return self._others[key]

    def _made(self, plan: Plan) -> Plan:
        """Return a plan that was made, or one along the all-reduce's trees if it uses pairs that cannot connect."""
        if self.apart.isdisjoint(plan.pairs):
            return plan
        return _derived(self.all_reduce, plan.collective, plan.root or 0, plan.blocks)

    def around(self, plan: Plan, has_failed: Bytes, mapping: RankMapping) -> Plan:
        """Return a plan for the same collective that goes round those of its pairs, too, that cannot connect.

        Raises:
            TreefoldError: If the plan was given, or there is no other one.

        """
        pairs = [pair for pair, failed in zip(plan.pairs, has_failed, strict=True) if failed]
        self.apart |= set(pairs)
        key = (plan.collective, plan.root or 0)
        if key not in self._served:
            self._others.pop(key, None)
            with suppress(MisfitError):
                made = self.plan_for(*key)
                warnings.warn(f"{mapping.describe_pairs(pairs)} {ROUND}", stacklevel=4)
                return made if plan.blocks is None else made.with_blocks(plan.blocks)
        raise PeerError(
            f"the plan of {plan.collective} joins {mapping.describe_pairs(pairs)}, who cannot connect; {REMEDY}"
        )

    def serve(self, plan: Plan) -> None:
        """Use this plan for its collective, until the network changes.

        Raises:
            TreefoldError: If its blocks are unequal, as the blocks of a group's all-to-all differ from call to call.

        """
        if checks.plan(plan).blocks is not None:
            raise TreefoldError(
                "the plan is for an all-to-all with blocks of unequal sizes, which a group is told at each call; plan "
                "it without blocks"
            )
        self._others[plan.collective, plan.root or 0] = plan
        self._served.add((plan.collective, plan.root or 0))

    def current(self, plan: Plan) -> Plan:
        """Return the current plan for the collective of `plan`, which may have been made before the plan changed."""
        if not self._has_changed:
            return plan
        current = self.plan_for(plan.collective, plan.root or 0)
        return current if plan.blocks is None else current.with_blocks(plan.blocks)

    def adopt(self, plan: Plan) -> None:
        """Use this all-reduce, and other plans that follow from it, from now on."""
        self.all_reduce, self._has_changed = plan, True
        self._others.clear()
        self._served.clear()

    def program(self, plan: Plan, elements: int, element_bytes: int, wire: str | None = None) -> Program:
        """Return this rank's program of `plan` for vectors of one size, whose numbers cross lines as `wire`."""
        key = (plan.fingerprint, elements, element_bytes, wire)
        program = self._programs.pop(key, None)
        if program is None:
            program = Program(plan, self._rank, elements, element_bytes, self._message_s, wire)
            if wire is not None and program.wire is None:
                self._tell_crossing(plan, wire)
        self._programs[key] = program
        if len(self._programs) > _MOST_PROGRAMS:
            self._programs.popitem(last=False)
        return program

    def _tell_crossing(self, plan: Plan, wire: str) -> None:
        """Warn once in a group, on rank 0, that the wire type that was asked for has no effect."""
        if self._rank == 0 and not self._has_told:
            self._has_told = True
            warnings.warn(
                f"numbers cross lines as they are, not as {wire}: in plans of {plan.algorithm} ranks add up by "
                "themselves; plan with another algorithm, for example multitree",
                stacklevel=2,
            )


def plan_like(all_reduce: Plan, collective: str, root: int, blocks: "Blocks | None" = None) -> Plan:
    """Return a plan of another collective, for the network and the size of an all-reduce's plan.

    An all-reduce's is the plan itself. If `auto` chose its algorithm, it chooses again, by the same simulator. If the
    algorithm plans each collective in a way of its own, it does so. Otherwise, and if limits allow nothing else, the
    trees of the all-reduce serve. So they do from or to a root: a search for every root would take minutes where each
    rank broadcasts once, as optimizers with parts of the state do.

    Raises:
        MisfitError: If the trees do not fit the collective, or it takes more steps than the plan's limit.

    """
    steps = all_reduce.options.get("steps")
    if collective == "all-reduce" and _keeps(all_reduce, steps):
        return all_reduce
    if COLLECTIVES[collective].has_root:
        with suppress(MisfitError):  # where the trees do not fit, there may still be an algorithm
            derived = all_reduce.derive(collective, root)
            if _keeps(derived, steps):
                return derived
    if (algorithm := _algorithm_like(all_reduce)) is None:
        return _derived(all_reduce, collective, root, blocks)
    try:
        return plans.plan(
            all_reduce.topology.with_plain_switches(),
            algorithm,
            size_bytes=all_reduce.size_bytes,
            collective=collective,
            root=root,
            blocks=blocks,
            simulator=all_reduce.chosen_by or "flow",
            **declared.read("planner", all_reduce.options),
        )
    except MisfitError:
        if steps is not None:
            raise
        return _derived(all_reduce, collective, root, blocks)


def _keeps(plan: Plan, steps: int | None) -> bool:
    """Return whether a plan has no more steps than a limit, if there is one; streams have no number of steps."""
    return steps is None or (plan.steps is not None and plan.steps <= steps)


def _derived(all_reduce: Plan, collective: str, root: int, blocks: "Blocks | None") -> Plan:
    """Return the plan of another collective along the trees of an all-reduce."""
    derived = all_reduce.derive(collective, root)
    return derived if blocks is None else derived.with_blocks(blocks)


def _algorithm_like(all_reduce: Plan) -> str | None:
    """Return the algorithm that plans other collectives; None if they are derived from the plan's trees."""
    if all_reduce.chosen_by is not None:
        return "auto"
    is_known = all_reduce.algorithm in planning.PLANNERS
    has_own = is_known and planning.collectives(all_reduce.algorithm) == "each"
    return all_reduce.algorithm if has_own else None


def lines(replanned: Replanned) -> list[str]:
    """Return what has changed, and why the old algorithm or limits gave way if they did."""
    return [*replanned.changes, *([replanned.gave_way] if replanned.gave_way else [])]
