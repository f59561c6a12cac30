"""Decides which operations of a process group are planned, and makes the treefold group that runs them.

An operation is planned if the group has a plan that fits it, and its tensors are large enough, on the CPU or a device
that is staged (`staging.py`), and of a type and operator that gloo has. All ranks decide alike, because they see the
same sizes and types, and rank 0's options count.
"""

import weakref
from collections.abc import Sequence
from typing import Any

import torch
from torch import distributed as dist

from treefold.environment import unknown_variables
from treefold.errors import MisfitError, TreefoldError
from treefold.rendezvous.meeting import blame, leaving_together
from treefold.rendezvous.validation import Schema, exchange, is_amount, is_name
from treefold.runtime.arrays import WIRE_TYPES, crossing
from treefold.runtime.group import Group
from treefold.text import visible
from treefold.torch import logbook
from treefold.torch.collectives import OPERATORS
from treefold.torch.counting import Counters
from treefold.torch.crossing import Crossing
from treefold.torch.devices import STAGED
from treefold.torch.forming import Formed, Terms, form, form_agreed, meeting_of
from treefold.torch.options import TRANSPORTS, Options, chosen
from treefold.torch.reporting import Status, clear_text, report_once
from treefold.torch.sources import Members, source_of
from treefold.torch.staging import Staging
from treefold.torch.statistics import register, unregister
from treefold.torch.work import bytes_of
from treefold.torch.wrapped import backends_of

_REPORT: dict[str, Schema] = {
    "error": str,
    "name": is_name,
    "plans": bool,
    "discovers": bool,
    "least": is_amount,
    "transport": TRANSPORTS.__contains__,
    "adapt": (False, True, "auto").__contains__,
    "wire": (None, *WIRE_TYPES).__contains__,
    "feedback": bool,
    "staging": is_amount,
    "unknown": [str],
    "tls": bool,
    "address": str,
}
"""The schema of what each rank says of its options before the group forms."""
_FLOAT_BYTES = 4
_OF_SITES = ("all-reduce", "broadcast")
"""The collectives that are planned in groups with several ranks at each site."""
_SUM = dist.ReduceOp.RedOpType.SUM


class PlannedCalls:
    """The planned part of a process group."""

    def __init__(self, given: object, members: Members, wraps: str | None = None) -> None:
        """Agree with the other ranks on what is planned; they do the same at the same time.

        Args:
            given: The options of this group, if it was given some.
            members: Its ranks.
            wraps: The backend to which everything else is passed on; by default the options say it.

        Raises:
            TreefoldError: On every rank, if one of them has options that do not fit.

        """
        self._members, self._is_hook = members, wraps is not None
        self._meeting = members.agreed.meeting if members.agreed else meeting_of(members)
        reports = exchange(self._meeting.exchange, self._own_report(given, wraps), _REPORT)
        least, self._transport, self._adapt = (reports[0][key] for key in ("least", "transport", "adapt"))
        self.crossing = Crossing(reports[0]["wire"], reports[0]["feedback"], least)
        self._has_tls, self._rounded_bytes = self._meeting._credentials is not None, least
        # Only treefold's own connections encrypt. And gloo tries for its whole timeout to reach a replica that is lost.
        self._takes_all = self._has_tls or members.agreed is not None
        self._least_bytes = 1 if self._takes_all else least
        self._possible: dict[str, bool] = {}
        self._stagings: dict[torch.device, Staging] = {}
        self._staging_bytes = int(reports[0]["staging"])
        formed = self._formed(reports)
        self._group, self._reason, self.inside = formed.group, formed.reason, formed.inside
        self.sites, self.at_once = formed.sites, formed.at_once
        if members.are_all and members.agreed is None:
            _worlds[self] = formed
        self._begin_to_count()
        self._first_plan = None if self._group is None else self._group.plan
        self._report(reports)

    def _own_report(self, given: object, wraps: str | None) -> dict[str, Any]:
        """Choose this rank's options, and return what the others have to know of them."""
        self.options, self._source, error = Options(), None, ""
        try:
            self.options = chosen(given)
            logbook.check()
            backends = backends_of(self.options.wraps)
            self._wraps = wraps or " and ".join(sorted(set(backends.values())))
            discovered = None if (world := _world()) is None else world.network
            self._source = source_of(self.options, self._members, discovered)
        except TreefoldError as own:
            error = str(own)
        discovers = self.options.discovers and self._source is None and self._members.size > 1
        return {
            "error": error,
            "name": self._meeting.name or "",
            "plans": discovers or self._source is not None,
            "discovers": discovers,
            "least": self.options.least_bytes,
            "transport": self.options.transport,
            "adapt": self.options.adapt,
            "wire": self.options.wire,
            "feedback": self.options.error_feedback,
            "staging": self.options.staging_bytes,
            "unknown": unknown_variables(),
            "tls": self._meeting._credentials is not None,
            "address": self._meeting._address or "",
        }

    def _formed(self, reports: Sequence[dict[str, Any]]) -> Formed:
        """Join the other ranks now, because others may wait for something else of this one when it begins to run."""
        agreed = bool(reports[0]["discovers"]), self._transport, self._adapt, self.crossing.wire
        terms = Terms(self.options, self._source, *agreed, self._wraps if self._is_hook else self.options.wraps)
        with leaving_together(self._meeting):
            is_planned = _is_planned(reports)
            if self._members.agreed is not None:
                return form_agreed(self._members.agreed, self._members, terms)
            if not is_planned:
                return Formed(None, _why_nothing(self.options, self._members))
            return form(self._meeting, self._members, [each["name"] or None for each in reports], terms, _world())

    def _begin_to_count(self) -> None:
        """Count what the group does from now on."""
        members, group, wire = self._members, self._group, self.crossing.wire
        ranks = list(members.global_ranks) or list(range(members.size))
        self.counters = Counters(ranks, () if self.sites is None else self.sites.of_rank)
        self.rounds = group is not None and wire is not None and self._crosses_as(group, wire)
        if group is not None:
            self.counters.watch(group)
        register(self.counters)
        logbook.begin(ranks[members.rank])

    @property
    def is_encrypted(self) -> bool:
        """Tell whether planned operations are encrypted."""
        return self._has_tls and not self._reason

    @property
    def takes_all(self) -> bool:
        """Tell whether barriers and all-gathers with lists are planned, too."""
        return self._takes_all and not self._reason and self.inside is None

    @property
    def group(self) -> Group:
        """The treefold group, which runs the operations that `takes` accepts."""
        if self._group is None:
            raise TreefoldError("the process group is closed; form a new one")
        return self._group

    @property
    def _is_reporter(self) -> bool:
        """Tell whether this rank reports for its group, and for all groups between the same sites."""
        world, ranks = _world(), list(self._members.global_ranks)
        if self._members.rank or world is None or world.sites is None or not ranks:
            return self._members.rank == 0
        return world.sites.inside(ranks[0])[0] == ranks[0]

    def _report(self, reports: Sequence[dict[str, Any]]) -> None:
        """Let rank 0 report what is planned, or why nothing is, and which variables are unknown."""
        is_reporter = self._is_reporter
        for sentence in sorted({sentence for report in reports for sentence in report["unknown"]}):
            report_once(sentence, f"treefold: {visible(sentence)}", is_reporter)
        if self._members.size > 1 or self._members.are_all:
            is_meant = not self._reason or (self.sites is not None and len(self.sites.names) == 1)
            report_once(self._reason, str(self.status), is_reporter, is_good=is_meant)
        self._report_clear_text(reports)
        group, wire = self._group, self.crossing.wire
        if group is not None and wire is not None and not self.rounds:
            text = (
                f"treefold: sums cross lines as they are, not as {wire}: in plans of {group.plan.algorithm} ranks add "
                "up by themselves; plan with another algorithm"
            )
            report_once(text, text, is_reporter)

    def _report_clear_text(self, reports: Sequence[dict[str, Any]]) -> None:
        """Let rank 0 report what leaves a machine unencrypted although there are certificates."""
        addresses = {report["address"] for report in reports}
        # An address is unknown only where there are several machines.
        if any(report["tls"] for report in reports) and (len(addresses) > 1 or "" in addresses):
            has_all = self._group is not None and self.inside is None and self._is_possible(self._group, "broadcast")
            text = clear_text(self.status, self._is_hook, has_all)
            report_once(text, text, is_reporter=self._is_reporter)

    def _crosses_as(self, group: Group, wire: str) -> bool:
        """Return whether the plan lets numbers cross lines in another type, so that all ranks end alike."""
        elements = max(1, self._rounded_bytes // _FLOAT_BYTES)
        return crossing(group.plan, elements, _FLOAT_BYTES, group.transport.message_s, wire)[0] is not None

    @property
    def status(self) -> Status:
        """A description of the operations that are planned now."""
        plan = None if self._group is None else self._group.plan
        return Status(
            None if plan is None else plan.algorithm,
            None if plan is None else plan.topology.name,
            self._members.size,
            max(1, self._least_bytes),
            self._transport,
            self._wraps,
            self._reason,
            plan is not None and self._adapt,
            None if plan is None else self.crossing.wire,
            plan is not None and self.crossing.error_feedback,
            self.is_encrypted,
            len(self.sites.names) if self.inside is not None and self.sites is not None else None,
            self.at_once,
        )

    def give_up(self) -> None:
        """Let operations fail at this rank's site, and at its place of other sites."""
        if self.inside is not None:
            self.inside.abort()
        if self._group is not None:
            self._group.close()

    def takes(self, tensors: Sequence[torch.Tensor], operator: Any = _SUM, collective: str = "all-reduce") -> bool:
        """Return whether a collective on these tensors is planned; the answer is the same on all ranks."""
        is_full = all(tensor.numel() > 0 for tensor in tensors)
        return is_full and self.is_large(bytes_of(tensors)) and self.takes_any(tensors, operator, collective)

    def is_large(self, size_bytes: int) -> bool:
        """Return whether vectors of this size are planned."""
        return size_bytes >= max(1, self._least_bytes)

    def takes_any(self, tensors: Sequence[torch.Tensor], operator: Any = _SUM, collective: str = "all-reduce") -> bool:
        """Return whether a collective on such tensors is planned if they are large; some may be empty."""
        if self._reason or operator not in OPERATORS:
            return False
        if self.inside is not None and collective not in _OF_SITES:
            return False
        types, device = OPERATORS[operator][1], tensors[0].device
        if not all(_is_plain(each) and each.dtype in types and each.device == device for each in tensors):
            return False
        return self._has_copies(device) and self._is_possible(self.group, collective)

    def _has_copies(self, device: torch.device) -> bool:
        """Return whether tensors of a device are on the host, or can be copied there now; say once why not."""
        if device.type not in STAGED:
            if device.type != "cpu":
                known = " and ".join(each.upper() for each in sorted({"cpu", *STAGED}))
                self._report_device(device, f"it plans {known} tensors")
            return device.type == "cpu"
        staging = self.staging(device)
        if staging is not None and staging.device.is_capturing():
            self._report_device(device, "a graph is being captured, and the network cannot be part of it")
            return False
        return True

    def _report_device(self, device: torch.device, reason: str) -> None:
        text = f"treefold passes {device.type.upper()} tensors on to {self._wraps}: {reason}"
        report_once(device.type + reason, text, is_reporter=self._is_reporter)

    def staging(self, device: torch.device) -> Staging | None:
        """Return what copies tensors of a device; None for those on the host."""
        if device.type not in STAGED or self._first_plan is None:
            return None
        if device not in self._stagings:
            self._stagings[device] = Staging(STAGED[device.type](device), self._first_plan, self._staging_bytes)
        return self._stagings[device]

    def _is_possible(self, group: Group, collective: str) -> bool:
        """Return whether the plan has trees for a collective; some plans have only those that an all-reduce needs."""
        if collective not in self._possible:
            self._possible[collective] = True
            try:
                group.plan_for(collective)
            except MisfitError:
                self._possible[collective] = False
        return self._possible[collective]

    def close(self) -> None:
        """Leave the group."""
        _worlds.pop(self, None)
        group, self._group, self._reason = self._group, None, "the process group is closed; form a new one"
        try:
            unregister(self.counters)
        finally:
            if group is not None:
                group.close()
            if self.inside is not None:
                self.inside.close()

    def abort(self) -> None:
        """Leave the group; operations that are under way fail."""
        if self.inside is not None:
            self.inside.abort()
        self.close()


_worlds: "weakref.WeakKeyDictionary[PlannedCalls, Formed]" = weakref.WeakKeyDictionary()
"""What groups of all ranks have formed: other groups use their part of the network, and the names of sites."""


def _world() -> Formed | None:
    """Return what the group of all ranks has formed, if it has."""
    return next(reversed(list(_worlds.values())), None)


def _is_planned(reports: Sequence[dict[str, Any]]) -> bool:
    """Return whether rank 0 has a plan or a topology.

    Raises:
        TreefoldError: If a rank has an error, or has a plan or a topology where rank 0 has none.

    """
    if blamed := blame([report["error"] for report in reports], "rank"):
        raise TreefoldError(blamed)
    for rank, report in enumerate(reports):
        if report["plans"] and not reports[0]["plans"]:
            raise TreefoldError(f"rank {rank} has a plan or a topology, rank 0 has none; give it to rank 0 (or to all)")
    return bool(reports[0]["plans"])


def _why_nothing(options: Options, members: Members) -> str:
    """Return why nothing is planned, and what to do about it."""
    if members.size == 1:
        return "the process group has one rank; start more"
    if options.plan is not None:
        return (
            f"the plan is for the group of all ranks, and this one has {members.size} of them; give the topology "
            "(TREEFOLD_TOPOLOGY) instead of a plan"
        )
    return (
        "neither a plan nor a topology was given; set TREEFOLD_TOPOLOGY=network.json (or discover, which measures it) "
        "or TREEFOLD_PLAN=plan.json, or call treefold.torch.configure"
    )


def _is_plain(tensor: torch.Tensor) -> bool:
    """Return whether a tensor holds plain numbers in memory."""
    is_lazy = tensor.is_conj() or tensor.is_neg() or tensor.is_quantized
    return tensor.layout == torch.strided and not is_lazy
