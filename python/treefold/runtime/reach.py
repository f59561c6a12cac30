"""Pairs of workers that cannot connect: how workers find them, and how plans go round them.

A worker that does not listen calls the others, and a firewall may let calls through one way only; so a pair connects if
either end can call the other. Pairs that cannot are no links. Only the pairs that a plan uses are tried: workers
connect them, worker 0 plans anew on the network without those that failed, and so on until all pairs of a plan connect.
"""

import warnings
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import combinations

from treefold._core import Plan, Topology
from treefold.errors import MisfitError, PeerError, TreefoldError, kind_of, of_kind
from treefold.networks import without_relays
from treefold.plans import replan
from treefold.rendezvous import Rendezvous, validation
from treefold.rendezvous.meeting import all_or_none
from treefold.runtime.agreement import AgreedPlans, shared_plan
from treefold.runtime.networks import Pair, direct_pairs, pair_of
from treefold.runtime.plans import REMEDY, ROUND
from treefold.runtime.rank_mapping import RankMapping
from treefold.runtime.tcp import TcpTransport
from treefold.text import visible

_REPORT: list[validation.Schema] = [(validation.is_count, validation.is_count, str)]
"""The schema of what each worker says of the ranks that it did not reach."""
_ALONG_LINKS = ("forest", "multitree")
"""Algorithms in whose plans ranks send to those to which a link joins them."""


def connected_plan(meeting: Rendezvous, transport: TcpTransport, agreed: AgreedPlans, keeps_idle: bool) -> Plan:
    """Connect the workers as a plan needs it; all workers call this together.

    Args:
        meeting: The rendezvous of the workers.
        transport: This worker's connections.
        agreed: The plan of an all-reduce, which gives way to another one if pairs of it cannot connect.
        keeps_idle: Whether links that the plan does not use are connected, too.

    Returns:
        The plan, all of whose pairs are connected; `transport.apart` then has the pairs that do not connect.

    Raises:
        TreefoldError: On every worker, if no plan goes round the pairs that cannot connect, or if the plan was given.

    """
    plan, mapping = agreed.all_reduce, transport.mapping
    apart = dict.fromkeys(_silent_pairs(transport.addresses), "neither of them listens")
    told: set[Pair] = set()
    while True:
        if concerned := apart.keys() & (set(plan.pairs) | direct_pairs(plan.topology)):
            told |= concerned
            plan = _shared_around(meeting, plan, apart, agreed.is_given, mapping)
        idle = direct_pairs(plan.topology) - apart.keys() if keeps_idle else set()
        failed = _failed(meeting, transport, plan, idle)
        if not failed:
            break
        apart |= failed
    if told:
        warnings.warn(f"{mapping.describe_pairs(sorted(told))} {ROUND}", stacklevel=2)
    transport.apart |= apart.keys()
    return plan


def _silent_pairs(addresses: Sequence[str]) -> list[Pair]:
    """Return the pairs of ranks of which neither listens."""
    return list(combinations([rank for rank, address in enumerate(addresses) if address.endswith(":0")], 2))


def _failed(meeting: Rendezvous, transport: TcpTransport, plan: Plan, idle: set[Pair]) -> dict[Pair, str]:
    """Connect the pairs of a plan and idle ones; return which pairs of all workers failed, and why."""
    # Who reaches all others at once waits meanwhile for those who do not, and only as long as exchanges wait.
    missed = all_or_none(meeting, lambda: transport.connect(plan, idle, meeting._timeout_s / 2))
    reports = validation.exchange(meeting.exchange, [[*pair, why] for pair, why in missed.items()], _REPORT)
    # The end that has called knows why, and the other one only that no call came.
    by_caller = sorted((why for report in reports for why in report), key=lambda each: "did not connect" not in each[2])
    return {pair_of(one, other): visible(why) for one, other, why in by_caller if max(one, other) < transport.size}


def _shared_around(
    meeting: Rendezvous, plan: Plan, apart: Mapping[Pair, str], is_given: bool, mapping: RankMapping
) -> Plan:
    """Return the plan of worker 0 that goes round pairs; all workers call this together."""

    def own() -> Plan | None:
        if meeting.rank:
            return None
        return _checked(plan, apart, mapping) if is_given else _around(plan, apart, mapping)

    try:
        planned = all_or_none(meeting, own)
    except TreefoldError as error:  # of worker 0, which plans, but the error is not about it
        raise of_kind(kind_of(error), str(error).removeprefix("worker 0: ")) from None
    return shared_plan(meeting, planned)


def _checked(plan: Plan, apart: Mapping[Pair, str], mapping: RankMapping) -> Plan:
    """Return a plan that was given; it must not use pairs that cannot connect."""
    if used := sorted(set(plan.pairs) & apart.keys()):
        raise PeerError(
            f"the plan that was given joins {mapping.describe_pairs(used)}, who cannot connect ({apart[used[0]]}); "
            f"{REMEDY}, or give the network instead of a plan"
        )
    return plan


def _around(plan: Plan, apart: Mapping[Pair, str], mapping: RankMapping) -> Plan:
    """Return a plan like this one that does not use pairs that cannot connect."""
    network = without_pairs(plan.topology, apart, mapping)
    for joined in (network, *_without_relays(network)):
        for algorithm in (None, "auto", *_ALONG_LINKS):
            with suppress(MisfitError):
                made = replan(plan, joined, algorithm).plan
                if apart.keys().isdisjoint(made.pairs):
                    return made
    pairs = sorted(apart)
    raise PeerError(
        f"no plan for network '{plan.topology.name}' goes round {mapping.describe_pairs(pairs)}, who cannot connect "
        f"({apart[pairs[0]]}); {REMEDY}"
    )


def _without_relays(network: Topology) -> list[Topology]:
    """Return the network without its relays, if it has some and does without: two ranks connect past a relay."""
    if len(network.accelerator_names) == network.ranks:
        return []
    try:
        return [without_relays(network)]
    except TreefoldError:
        return []


def without_pairs(network: Topology, apart: Mapping[Pair, str], mapping: RankMapping) -> Topology:
    """Return the network without the links between ranks that cannot connect.

    Raises:
        PeerError: If it falls into parts, naming a worker that can connect to no other one, if there is one.

    """
    joined = direct_pairs(network)
    lost = sorted(joined & apart.keys())
    if not lost:
        return network
    names = network.rank_names
    try:
        return network.without_links([(names[one], names[other]) for one, other in lost])
    except TreefoldError:
        pass
    for rank in range(network.ranks):
        own = [pair for pair in lost if rank in pair]
        if own and not any(rank in pair for pair in joined - apart.keys()):
            raise PeerError(
                f"{mapping.describe(rank)} can connect to no other worker ({apart[own[0]]}); let it or the others "
                "listen (TREEFOLD_PORT), or open its port in the firewalls between them"
            )
    raise PeerError(
        f"the workers fall into parts, as {mapping.describe_pairs(lost)} cannot connect ({apart[lost[0]]}); {REMEDY}"
    )
