"""Finds the plan or the network that the options of a process group name, and the part of it that is the group's."""

import os
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, NamedTuple

from torch import distributed as dist

from treefold._core import Plan, Topology
from treefold.environment import value
from treefold.errors import TreefoldError
from treefold.files.plans import load_plan
from treefold.networks import topology
from treefold.rendezvous import Rendezvous
from treefold.runtime.networks import with_named_ranks, with_only
from treefold.torch.options import Options
from treefold.torch.sites import Sites


class Agreed(NamedTuple):
    """An agreement of the ranks, made beforehand, on the plan of a group that stands beside torch's own groups."""

    meeting: Rendezvous
    """Their rendezvous; the workers have the names of the plan's ranks."""
    plan: Plan | None
    """The plan; None if everything is passed on."""
    reason: str
    """The reason why there is no plan; empty if there is one."""
    at_once: int = 1
    """How many such groups run at once over the same links."""


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

    def some(self, ranks: Sequence[int], prefix: str) -> "Members":
        """Return some of the ranks, of which this is one, in this order; their keys in the store have a prefix."""
        numbers = list(self.global_ranks) or list(range(self.size))
        chosen = [numbers[rank] for rank in ranks]
        store = dist.PrefixStore(prefix, self.store)
        return Members(store, list(ranks).index(self.rank), len(ranks), chosen, self.timeout)


def source_of(options: Options, members: Members, discovered: Topology | None) -> Plan | Topology | None:
    """Return the plan or the topology of a process group; None if everything is passed on.

    Args:
        options: The options of the group.
        members: Its ranks.
        discovered: The network that the group of all ranks has discovered, if it has.

    Raises:
        TreefoldError: If a file cannot be read, or a plan is for another number of ranks.

    """
    if members.agreed is not None:
        return members.agreed.plan
    if members.size == 1:
        return None
    if options.plan is not None:
        return _plan_for(options.plan, members)
    network = discovered if options.discovers else options.topology
    return network if network is None or isinstance(network, Topology) else topology(network)


def _plan_for(source: Plan | str | os.PathLike[str], members: Members) -> Plan | None:
    plan = source if isinstance(source, Plan) else load_plan(source)
    if value("TREEFOLD_NAME"):
        return plan
    if not members.are_all:
        return None
    if plan.topology.ranks != members.size:
        raise TreefoldError(
            f"the plan is for {plan.topology.ranks} ranks, the process group has {members.size}; make one for "
            f"{members.size}, or give the topology (TREEFOLD_TOPOLOGY) instead of a plan"
        )
    return plan


def network_of(network: Topology, members: Members) -> Topology:
    """Return the part of a network that has ranks without names: rank r of all is rank r of the network.

    Raises:
        TreefoldError: If it has too few ranks, or for a group of all ranks another number.

    """
    ours = list(members.global_ranks) or list(range(members.size))
    if max(ours) >= network.ranks or (members.are_all and members.size != network.ranks):
        raise TreefoldError(
            f"topology '{network.name}' has {network.ranks} ranks, the process group has {members.size}; give one "
            "with a rank for every process, or name every process's accelerator with TREEFOLD_NAME"
        )
    return with_only(network, ours)


def network_between(network: Topology, sites: Sites, groups: int) -> Topology:
    """Return the network whose ranks are these sites, as each of so many groups has it that run at once."""
    names = sites.names
    if set(names) - set(network.accelerator_names):
        return network  # `join` says which names do not fit
    between = with_named_ranks(network, names)
    return between.divided_among(groups) if groups > 1 else between


def plan_between(plan: Plan, groups: int) -> Plan:
    """Return the plan as each of so many groups has it that run at once over the same links."""
    return plan if groups == 1 else plan.moved_to(plan.topology.divided_among(groups)) or plan
