"""The plan of a group, the plans that are derived from it, and one rank's programs for them."""

from collections import OrderedDict
from typing import Any

from treefold._core import Plan, Program

_MOST_PROGRAMS = 64


class GroupPlans:
    """An all-reduce's plan, the plans of other collectives by the same trees, and this rank's programs.

    A program is one rank's part of a plan for vectors of one size; the programs that were used last are kept.
    """

    def __init__(self, plan: Plan, rank: int, message_s: float) -> None:
        self.all_reduce = plan
        self._rank, self._message_s = rank, message_s
        self._programs: OrderedDict[Any, Program] = OrderedDict()
        self._derived: dict[tuple[str, int], Plan] = {}

    def derived(self, collective: str, root: int = 0) -> Plan:
        """Return the plan of another collective by the same trees; `root` is a rank of the plan."""
        if (collective, root) not in self._derived:
            self._derived[collective, root] = self.all_reduce.derive(collective, root)
        return self._derived[collective, root]

    def current(self, plan: Plan) -> Plan:
        """Return the current plan for the collective of `plan`, which may have been made before the plan changed."""
        if plan.collective == "all-reduce":
            return self.all_reduce
        derived = self.derived(plan.collective, plan.root or 0)
        return derived if plan.blocks is None else derived.with_blocks(plan.blocks)

    def adopt(self, plan: Plan) -> None:
        """Use this all-reduce, and what is derived from it, from now on."""
        self.all_reduce = plan
        self._derived.clear()

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
