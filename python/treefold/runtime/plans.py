"""The plans of a group, one for each collective, and one rank's programs for them."""

from collections import OrderedDict
from contextlib import suppress
from typing import Any

from treefold import checks, declared, planning, plans
from treefold._core import Plan, Program
from treefold.collectives import COLLECTIVES
from treefold.errors import MisfitError
from treefold.runtime.networks import with_plain_switches

_MOST_PROGRAMS = 64


class GroupPlans:
    """An all-reduce's plan, those of other collectives as they are needed, and this rank's programs.

    All ranks have the same plan for an all-reduce, and make the others alone: equal plans give equal results.
    A program is one rank's part of a plan for vectors of one size; the programs that were used last are kept.
    """

    def __init__(self, plan: Plan, rank: int, message_s: float) -> None:
        self.all_reduce = plan
        self._rank, self._message_s = rank, message_s
        self._programs: OrderedDict[Any, Program] = OrderedDict()
        self._others: dict[tuple[str, int], Plan] = {}

    def plan_for(self, collective: str, root: int = 0) -> Plan:
        """Return the plan of a collective, made like the all-reduce's; `root` is a rank of the plan."""
        meaning = COLLECTIVES[checks.name("collective", collective, COLLECTIVES)]
        key = (collective, root if meaning.has_root else 0)
        if key not in self._others:
            self._others[key] = plan_like(self.all_reduce, *key)
        return self._others[key]

    def current(self, plan: Plan) -> Plan:
        """Return the current plan for the collective of `plan`, which may have been made before the plan changed."""
        current = self.plan_for(plan.collective, plan.root or 0)
        return current if plan.blocks is None else current.with_blocks(plan.blocks)

    def adopt(self, plan: Plan) -> None:
        """Use this all-reduce, and other plans that follow from it, from now on."""
        self.all_reduce = plan
        self._others.clear()

    def program(self, plan: Plan, elements: int, element_bytes: int) -> Program:
        """Return this rank's program of `plan` for vectors of one size."""
        key = (plan.fingerprint, elements, element_bytes)
        program = self._programs.pop(key, None)
        if program is None:
            program = Program(plan, self._rank, elements, element_bytes, self._message_s)
        self._programs[key] = program
        if len(self._programs) > _MOST_PROGRAMS:
            self._programs.popitem(last=False)
        return program


def plan_like(all_reduce: Plan, collective: str, root: int) -> Plan:
    """Return a plan of another collective, for the network and the size of an all-reduce's plan.

    An all-reduce's is the plan itself. If `auto` chose its algorithm, it chooses again, by the same simulator. If the
    algorithm plans each collective in a way of its own, it does so. Otherwise, and if limits allow nothing else, the
    trees of the all-reduce serve. So they do from or to a root: a search for every root would take minutes where each
    rank broadcasts once, as optimizers with parts of the state do.
    """
    if collective == "all-reduce":
        return all_reduce
    if COLLECTIVES[collective].has_root:
        with suppress(MisfitError):  # where the trees do not fit, there may still be an algorithm
            return all_reduce.derive(collective, root)
    if (algorithm := _algorithm_like(all_reduce)) is not None:
        with suppress(MisfitError):
            return plans.plan(
                with_plain_switches(all_reduce.topology),
                algorithm,
                size_bytes=all_reduce.size_bytes,
                collective=collective,
                root=root,
                simulator=all_reduce.chosen_by or "flow",
                **declared.read("planner", all_reduce.options),
            )
    return all_reduce.derive(collective, root)


def _algorithm_like(all_reduce: Plan) -> str | None:
    """Return the algorithm that plans other collectives; None if they are derived from the plan's trees."""
    if all_reduce.chosen_by is not None:
        return "auto"
    is_known = all_reduce.algorithm in planning.PLANNERS
    has_own = is_known and planning.collectives(all_reduce.algorithm) == "each"
    return all_reduce.algorithm if has_own else None
