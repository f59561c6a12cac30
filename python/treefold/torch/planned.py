"""Decides which operations of a process group are planned, and makes the treefold group that runs them.

An operation is planned if the group has a plan that fits it, and its tensors are large enough, on the CPU or a device
that is staged (`staging.py`), and of a type and operator that gloo has. All ranks decide alike, because they see the
same sizes and types, and rank 0's options count.
"""

import os
import weakref
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

import torch
from torch import distributed as dist

from treefold._core import Plan, Topology
from treefold.environment import unknown_variables, value
from treefold.errors import MisfitError, TreefoldError
from treefold.files.plans import load_plan
from treefold.networks import topology
from treefold.probe import discover
from treefold.probe.settings import BudgetError
from treefold.rendezvous import Rendezvous, from_store
from treefold.rendezvous.meeting import blame, leaving_together
from treefold.rendezvous.validation import Schema, exchange, is_amount, read_names
from treefold.runtime.agreement import AgreedPlans
from treefold.runtime.arrays import WIRE_TYPES, crossing
from treefold.runtime.connections import Connections
from treefold.runtime.engine import MakeEngine
from treefold.runtime.forming import form
from treefold.runtime.group import Group
from treefold.runtime.joining import join
from treefold.runtime.networks import with_named_ranks, with_only
from treefold.runtime.rank_mapping import repeated_names
from treefold.text import visible
from treefold.torch.collectives import OPERATORS
from treefold.torch.crossing import Crossing
from treefold.torch.devices import STAGED
from treefold.torch.engine import TorchEngine
from treefold.torch.options import TRANSPORTS, Options, chosen
from treefold.torch.reporting import Status, clear_text, report_once
from treefold.torch.staging import Staging
from treefold.torch.wrapped import backends_of, gloo

_REPORT: dict[str, Schema] = {
    "error": str,
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
_SUM = dist.ReduceOp.RedOpType.SUM


class Agreed(NamedTuple):
    """An agreement of the ranks, made beforehand, on the plan of a group that stands beside torch's own groups."""

    meeting: Rendezvous
    """Their rendezvous; the workers have the names of the plan's ranks."""
    plan: Plan | None
    """The plan; None if everything is passed on."""
    reason: str
    """The reason why there is no plan; empty if there is one."""


@dataclass(frozen=True)
class Members:
    """The ranks of a process group."""

    store: Any
    """A store that only these ranks use, and only for this."""
    rank: int
    size: int
    global_ranks: Sequence[int]
    """Their numbers in the group of all ranks; empty if this is that group."""
    timeout: timedelta
    """How long operations wait for other ranks."""
    agreed: Agreed | None = None
    """What they have agreed on already; by default the group agrees on the plan that its options ask for."""

    @property
    def are_all(self) -> bool:
        """Tell whether these are all ranks, in their order."""
        world = dist.get_world_size() if dist.is_initialized() else self.size
        return world == self.size and list(self.global_ranks) in ([], list(range(self.size)))


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
        self._meeting = members.agreed.meeting if members.agreed else _meeting_of(members)
        self.options, self._source, own_error = Options(), None, ""
        try:
            self.options = chosen(given)
            backends = backends_of(self.options.wraps)
            self._wraps = wraps or " and ".join(sorted(set(backends.values())))
            self._source = source_of(self.options, members)
        except TreefoldError as error:
            own_error = str(error)
        discovers = self.options.discovers and self._source is None and members.size > 1
        mine = {"error": own_error, "plans": discovers or self._source is not None, "least": self.options.least_bytes}
        mine |= {"discovers": discovers}
        mine |= {"transport": self.options.transport, "adapt": self.options.adapt, "unknown": unknown_variables()}
        mine |= {"wire": self.options.wire, "feedback": self.options.error_feedback}
        mine |= {"staging": self.options.staging_bytes}
        mine |= {"tls": self._meeting._credentials is not None, "address": self._meeting._address or ""}
        reports = exchange(self._meeting.exchange, mine, _REPORT)
        least, self._transport, self._adapt = (reports[0][key] for key in ("least", "transport", "adapt"))
        self.crossing = Crossing(reports[0]["wire"], reports[0]["feedback"], least)
        self._has_tls, self._rounded_bytes = self._meeting._credentials is not None, least
        self._least_bytes = 1 if self._has_tls else least  # only treefold's own connections encrypt
        self._group: Group | None = None
        self._discovers = bool(reports[0]["discovers"])
        self._possible: dict[str, bool] = {}
        self._stagings: dict[torch.device, Staging] = {}
        self._staging_bytes = int(reports[0]["staging"])
        with leaving_together(self._meeting):
            self._reason = "" if _is_planned(reports) else _why_nothing(self.options, members)
            # The ranks join now, because others may wait for something else of this rank when it begins an operation.
            self._group = None if self._reason else self._joined()
        self._first_plan = None if self._group is None else self._group.plan
        self._report(reports)

    @property
    def is_encrypted(self) -> bool:
        """Tell whether planned operations are encrypted."""
        return self._has_tls and not self._reason

    @property
    def group(self) -> Group:
        """The treefold group, which runs the operations that `takes` accepts."""
        if self._group is None:
            raise TreefoldError("the process group is closed; form a new one")
        return self._group

    def _report(self, reports: Sequence[dict[str, Any]]) -> None:
        """Let rank 0 report what is planned, or why nothing is, and which variables are unknown."""
        is_reporter = self._members.rank == 0
        for sentence in sorted({sentence for report in reports for sentence in report["unknown"]}):
            report_once(sentence, f"treefold: {visible(sentence)}", is_reporter)
        if self._members.size > 1 or self._members.are_all:
            report_once(self._reason, str(self.status), is_reporter, is_good=not self._reason)
        self._report_clear_text(reports)
        group, wire = self._group, self.crossing.wire
        if group is not None and wire is not None and not self._crosses_as(group, wire):
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
            has_all = self._group is not None and self._is_possible(self._group, "broadcast")
            text = clear_text(self.status, self._is_hook, has_all)
            report_once(text, text, is_reporter=self._members.rank == 0)

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
        )

    def _joined(self) -> Group:
        """Join the other ranks, which do the same."""
        if self._members.agreed is not None:
            return self._formed(self._members.agreed)
        plan = self._source if isinstance(self._source, Plan) else None
        network = self._source if isinstance(self._source, Topology) else None
        if self._discovers:
            network = self._discovered()
        named, wire, (connections, engine) = _named(network, self._meeting), self.crossing.wire, self._carriers()
        if engine is not None:
            return join(self._meeting, plan, named, connections=connections, engine=engine, wire=wire)
        return join(self._meeting, plan, named, connections=connections, adapt=self._adapt, wire=wire)

    def _formed(self, agreed: Agreed) -> Group:
        """Form the group of a plan on which all ranks have agreed."""
        assert agreed.plan is not None
        connections, engine = self._carriers()
        return form(agreed.meeting, AgreedPlans(agreed.plan), connections, engine, self._adapt)

    def _carriers(self) -> tuple[Connections, MakeEngine | None]:
        """Return how the ranks are connected, and what makes the engine that carries messages; None stands for TCP."""
        timeout_s = self._members.timeout.total_seconds()
        if self._transport == "torch":
            return Connections(silence_s=timeout_s), self._engine
        return Connections(operation_s=timeout_s), None

    def _discovered(self) -> Topology:
        """Measure the network together with the other ranks, or use what they measured before; rank 0 tells of it."""

        def say(line: str) -> None:
            report_once(line, f"treefold: {line}", is_reporter=self._members.rank == 0, is_good=True)

        options = self.options
        try:
            network = discover(self._meeting, options.discovered_file, options.probe, say, say)
        except BudgetError as error:
            option = "probe_seconds" if error.setting == "seconds" else "probe_bytes"
            raise TreefoldError(f"{error.problem}; allow more {option} (TREEFOLD_{option.upper()})") from None
        if self._members.are_all:
            _of_all_ranks[self] = network
        return network

    def _engine(self, worker_of_rank: list[int]) -> TorchEngine:
        members = self._members
        store = dist.PrefixStore("messages/", members.store)
        return TorchEngine(gloo(store, members.rank, members.size, members.timeout), worker_of_rank, store)

    def takes(self, tensors: Sequence[torch.Tensor], operator: Any = _SUM, collective: str = "all-reduce") -> bool:
        """Return whether a collective on these tensors is planned; the answer is the same on all ranks."""
        total = sum(tensor.numel() * tensor.element_size() for tensor in tensors)
        is_full = all(tensor.numel() > 0 for tensor in tensors)
        return is_full and self.is_large(total) and self.takes_any(tensors, operator, collective)

    def is_large(self, size_bytes: int) -> bool:
        """Return whether vectors of this size are planned."""
        return size_bytes >= max(1, self._least_bytes)

    def takes_any(self, tensors: Sequence[torch.Tensor], operator: Any = _SUM, collective: str = "all-reduce") -> bool:
        """Return whether a collective on such tensors is planned if they are large; some may be empty."""
        if self._reason or operator not in OPERATORS:
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
        report_once(device.type + reason, text, is_reporter=self._members.rank == 0)

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
        _of_all_ranks.pop(self, None)
        group, self._group, self._reason = self._group, None, "the process group is closed; form a new one"
        if group is not None:
            group.close()


_of_all_ranks: "weakref.WeakKeyDictionary[PlannedCalls, Topology]" = weakref.WeakKeyDictionary()
"""The network that a group of all ranks has discovered, of which other groups use their part."""


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


def _meeting_of(members: Members) -> Rendezvous:
    """Return a new rendezvous of the ranks."""
    return from_store(members.store, members.rank, members.size, members.timeout.total_seconds(), prefix="treefold")


def _why_nothing(options: Options, members: Members) -> str:
    """Return why nothing is planned, and what to do about it."""
    if members.agreed is not None:
        return members.agreed.reason
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


def source_of(options: Options, members: Members) -> Plan | Topology | None:
    """Return the plan or the topology of a process group; None if everything is passed on."""
    if members.agreed is not None:
        return members.agreed.plan
    if members.size == 1:
        return None
    if options.plan is not None:
        return _plan_for(options.plan, members)
    network = next(iter(_of_all_ranks.values()), None) if options.discovers else options.topology
    return None if network is None else _topology_for(network, members)


def _plan_for(source: Plan | str | os.PathLike[str], members: Members) -> Plan | None:
    plan = source if isinstance(source, Plan) else load_plan(source)
    if not members.are_all:
        return None
    if plan.topology.ranks != members.size:
        raise TreefoldError(
            f"the plan is for {plan.topology.ranks} ranks, the process group has {members.size}; make one for "
            f"{members.size}, or give the topology (TREEFOLD_TOPOLOGY) instead of a plan"
        )
    return plan


def _topology_for(source: Topology | str | os.PathLike[str], members: Members) -> Topology:
    network = source if isinstance(source, Topology) else topology(source)
    if value("TREEFOLD_NAME"):
        return network
    ours = list(members.global_ranks) or list(range(members.size))
    if max(ours) >= network.ranks or (members.are_all and members.size != network.ranks):
        raise TreefoldError(
            f"topology '{network.name}' has {network.ranks} ranks, the process group has {members.size}; give one "
            "with a rank for every process, or name every process's accelerator with TREEFOLD_NAME"
        )
    return with_only(network, ours)


def _named(network: Topology | None, meeting: Rendezvous) -> Topology | None:
    """Return the network with the group's accelerators as its ranks if every worker has a name."""
    names = read_names(meeting.exchange((meeting.name or "").encode()))
    if network is None:
        return None
    if None in names or set(names) - set(network.accelerator_names) or repeated_names(names):
        return network  # `join` says which names do not fit
    return with_named_ranks(network, names)
