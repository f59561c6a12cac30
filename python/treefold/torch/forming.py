"""Forms the treefold group of a process group: finds its sites, measures the network if asked, and joins the others."""

from collections.abc import Sequence
from typing import Any, NamedTuple

from torch import distributed as dist

from treefold._core import Plan, Topology
from treefold.errors import TreefoldError
from treefold.probe import discover
from treefold.probe.settings import BudgetError
from treefold.rendezvous import Rendezvous, from_store
from treefold.rendezvous.meeting import all_or_none
from treefold.rendezvous.validation import exchange, is_name
from treefold.runtime.agreement import AgreedPlans
from treefold.runtime.connections import Connections
from treefold.runtime.control import read_plan
from treefold.runtime.engine import MakeEngine
from treefold.runtime.forming import form as form_group
from treefold.runtime.group import Group
from treefold.runtime.joining import join
from treefold.torch import wrapped
from treefold.torch.engine import TorchEngine
from treefold.torch.inside import Inside, inside_of
from treefold.torch.options import Options
from treefold.torch.reporting import report_once
from treefold.torch.sites import Sites, sites_of
from treefold.torch.sources import Agreed, Members, network_between, network_of, plan_between

_PROBE_TIMEOUT_S = 3600.0
"""How long ranks wait while others at their site measure the network."""


class Terms(NamedTuple):
    """What a process group needs to form: options on which its ranks have agreed, and this rank's own."""

    options: Options
    source: Plan | Topology | None
    """This rank's plan or network; rank 0's counts."""
    discovers: bool
    """Whether the ranks measure their network first."""
    transport: str
    adapt: bool | str
    wire: str | None
    wraps: str | None
    """The backends that the groups inside sites wrap."""


class Formed(NamedTuple):
    """What has formed."""

    group: Group | None
    """The ranks that run plans together; None if nothing is planned."""
    reason: str = ""
    """The reason why nothing is planned."""
    sites: Sites | None = None
    """The sites of the ranks; None if they have no names."""
    at_once: int = 1
    """How many such groups run at once over the same links, each with its part of them."""
    inside: Inside | None = None
    """The ranks at this rank's site, if there are several."""
    network: Topology | None = None
    """The network that the ranks have measured."""


def form(
    meeting: Rendezvous, members: Members, names: Sequence[str | None], terms: Terms, world: Formed | None
) -> Formed:
    """Form the group; all ranks call this together.

    Args:
        meeting: The rendezvous of the ranks.
        members: The ranks.
        names: Their names.
        terms: What they have agreed on.
        world: What the group of all ranks has formed, if it has.

    Raises:
        TreefoldError: On every rank, if names, network and plan do not fit, or a rank is missing.

    """
    network = None
    if terms.discovers:
        network = _discovered(meeting, members, names, terms)
        terms = terms._replace(source=network)
    sites, reason = _agreed_sites(meeting, members, names, terms)
    if reason:
        return Formed(None, reason, sites, network=network)
    if sites is None:
        terms = terms._replace(source=_part(terms.source, members))
        return Formed(_joined(meeting, members, terms), network=network)
    at_once = sites.at_once(None if world is None else world.sites)
    if not sites.is_across:
        terms = terms._replace(source=_shared(meeting, terms.source))
    terms = terms._replace(source=_between(terms.source, sites, at_once))
    if sites.is_across:
        meeting.name = sites.of_rank[members.rank]
        return Formed(_joined(meeting, members, terms), "", sites, at_once, network=network)
    group, inside = _joined_across(meeting, members, sites, terms)
    return Formed(group, "", sites, at_once, inside, network)


def _joined_across(meeting: Rendezvous, members: Members, sites: Sites, terms: Terms) -> tuple[Group, Inside]:
    """Join the ranks at the same place of other sites, while others do; and the ranks at this rank's site."""
    here = sites.inside(members.rank)
    across = members.some(sites.across(members.rank), f"across/{here.index(members.rank)}/")
    joined: list[Group] = []

    def join_across() -> None:
        own = meeting_of(across)
        own.name = sites.of_rank[members.rank]
        joined.append(_joined(own, across, terms))

    try:
        all_or_none(meeting, join_across)  # or nobody waits for others at its site
        return joined[0], all_or_none(meeting, lambda: inside_of(members, sites, terms.wraps))
    except TreefoldError:
        for group in joined:
            group.close()
        raise


def meeting_of(members: Members) -> Rendezvous:
    """Return the rendezvous of the ranks; all of them call this together."""
    return from_store(members.store, members.rank, members.size, members.timeout.total_seconds(), prefix="treefold")


def _agreed_sites(
    meeting: Rendezvous, members: Members, names: Sequence[str | None], terms: Terms
) -> tuple[Sites | None, str]:
    """Return the sites of the ranks, and why nothing is planned; rank 0 knows the network, and tells the others."""
    told: dict[str, Any] = {"error": "", "reason": "", "sites": None}
    if members.rank == 0:
        try:
            sites, told["reason"] = _sites(members, names, terms.source)
            told["sites"] = None if sites is None else list(sites.of_rank)
        except TreefoldError as error:
            told["error"] = str(error)
    first = exchange(meeting.exchange, told, {"error": str, "reason": str, "sites": _are_sites})[0]
    if first["error"]:
        raise TreefoldError(first["error"])
    return None if first["sites"] is None else Sites(first["sites"]), first["reason"]


def _are_sites(value: Any) -> bool:
    return value is None or (isinstance(value, list) and all(map(is_name, value)))


def _sites(members: Members, names: Sequence[str | None], source: Plan | Topology | None) -> tuple[Sites | None, str]:
    """Return the sites of the ranks, and why nothing is planned if nothing is."""
    network = source.topology if isinstance(source, Plan) else source
    sites = sites_of(names, None if network is None else network.accelerator_names)
    reason = "" if sites is None else sites.why_nothing
    if sites is None and isinstance(source, Topology):
        network_of(source, members)  # or an error, before the others rely on rank 0
    if isinstance(source, Plan) and not reason and not _fits(source, sites, members):
        reason = (
            f"the plan is for {source.topology.ranks} ranks, and this group has others; give the topology "
            "(TREEFOLD_TOPOLOGY) instead of a plan"
        )
    return sites, reason


def _fits(plan: Plan, sites: Sites | None, members: Members) -> bool:
    """Return whether a plan is for a group; for one of all ranks it has to be, or joining is an error."""
    if members.are_all and (sites is None or sites.is_across):
        return True
    return sites is not None and set(sites.names) == set(plan.topology.rank_names)


def _part(source: Plan | Topology | None, members: Members) -> Plan | Topology | None:
    """Return the plan or the part of the network that is the group's; rank 0's part counts."""
    if isinstance(source, Topology):
        return network_of(source, members) if members.rank == 0 else None
    return source


def _shared(meeting: Rendezvous, source: Plan | Topology | None) -> Plan | Topology:
    """Return rank 0's plan or network: of each of the groups that run at once, another rank plans."""
    told = ["", ""] if source is None or meeting.rank else [type(source).__name__, source.to_json()]
    kind, text = exchange(meeting.exchange, told, (str, str))[0]
    return read_plan("rank 0", text) if kind == Plan.__name__ else Topology.from_json(text)


def _between(source: Plan | Topology | None, sites: Sites, at_once: int) -> Plan | Topology | None:
    """Return the plan or the network between the sites, as each of the groups has it that run at once."""
    if isinstance(source, Plan):
        return plan_between(source, at_once)
    return None if source is None else network_between(source, sites, at_once)


def _joined(meeting: Rendezvous, members: Members, terms: Terms) -> Group:
    """Join the other ranks, which do the same."""
    plan = terms.source if isinstance(terms.source, Plan) else None
    network = terms.source if isinstance(terms.source, Topology) else None
    connections, engine = _carriers(members, terms.transport)
    if engine is not None:
        return join(meeting, plan, network, connections=connections, engine=engine, wire=terms.wire)
    return join(meeting, plan, network, connections=connections, adapt=terms.adapt, wire=terms.wire)


def _carriers(members: Members, transport: str) -> tuple[Connections, MakeEngine | None]:
    """Return how the ranks are connected, and what makes the engine that carries messages; None stands for TCP."""
    timeout_s = members.timeout.total_seconds()
    if transport != "torch":
        return Connections(operation_s=timeout_s), None

    def engine(worker_of_rank: list[int]) -> TorchEngine:
        store = dist.PrefixStore("messages/", members.store)
        gloo = wrapped.gloo(store, members.rank, members.size, members.timeout)
        return TorchEngine(gloo, worker_of_rank, store)

    return Connections(silence_s=timeout_s), engine


def form_agreed(agreed: Agreed, members: Members, terms: Terms) -> Formed:
    """Form the group of a plan on which its ranks have agreed; all of them call this together."""
    if agreed.plan is None:
        return Formed(None, agreed.reason)
    connections, engine = _carriers(members, terms.transport)
    plans = AgreedPlans(plan_between(agreed.plan, agreed.at_once))
    group = form_group(agreed.meeting, plans, connections, engine, terms.adapt)
    names, rank_of = group.mapping.names, group.mapping.rank_of_worker
    return Formed(group, "", Sites([names[rank] for rank in rank_of]), agreed.at_once)


def _discovered(meeting: Rendezvous, members: Members, names: Sequence[str | None], terms: Terms) -> Topology | None:
    """Return the network between the sites, which one rank of each measures; None if there is one site."""
    sites = sites_of(names, None)
    if sites is None or sites.is_across:
        return _measured(meeting, members, terms.options)
    leaders = [sites.of_rank.index(site) for site in sites.names]
    waiting = from_store(members.store, members.rank, members.size, _seconds(members, leaders), prefix="measured")
    told = {"error": "", "network": ""}
    if members.rank in leaders and len(leaders) > 1:
        chosen = members.some(leaders, "leaders/")
        own = meeting_of(chosen)
        own.name = sites.of_rank[members.rank]
        try:
            told["network"] = _measured(own, chosen, terms.options).to_json()
        except TreefoldError as error:
            told["error"] = str(error)
    all_told = exchange(waiting.exchange, told, {"error": str, "network": str})
    if failed := next((each["error"] for each in all_told if each["error"]), ""):
        raise TreefoldError(failed)
    return Topology.from_json(all_told[0]["network"]) if all_told[0]["network"] else None


def _seconds(members: Members, leaders: Sequence[int]) -> float:
    """Return how long a rank waits for the others: those that do not measure wait until others have."""
    timeout_s = members.timeout.total_seconds()
    return timeout_s if members.rank in leaders else max(timeout_s, _PROBE_TIMEOUT_S)


def _measured(meeting: Rendezvous, members: Members, options: Options) -> Topology:
    """Measure the network together with the other ranks, or use what they measured before; rank 0 tells of it."""

    def say(line: str) -> None:
        report_once(line, f"treefold: {line}", is_reporter=members.rank == 0, is_good=True)

    try:
        return discover(meeting, options.discovered_file, options.probe, say, say)
    except BudgetError as error:
        option = "probe_seconds" if error.setting == "seconds" else "probe_bytes"
        raise TreefoldError(f"{error.problem}; allow more {option} (TREEFOLD_{option.upper()})") from None
