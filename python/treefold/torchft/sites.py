"""How the replicas of a quorum agree on a plan: by the sites at which they are, as their ids say.

They do so in two rounds. In the first each says who it is and which plans it has; in the second one of them tells the
plan: the first that has it, else rank 0, which makes it. All end with the same plan, or with the same reason why there
is none. Rank 0's topology counts.
"""

from collections.abc import Sequence
from typing import Any

from treefold._core import Plan
from treefold.errors import TreefoldError
from treefold.rendezvous import Rendezvous, validation
from treefold.runtime import control
from treefold.runtime.rank_mapping import repeated_names
from treefold.text import some, visible
from treefold.torch.sites import site_of
from treefold.torch.sources import Agreed
from treefold.torchft.plans import SitePlans, next_quorums, sorted_sites

_CLAIM: dict[str, validation.Schema] = {"id": validation.is_name, "new": bool, "network": str, "plans": [str]}
"""The schema of what each replica says in the first round."""
_OFFER: dict[str, validation.Schema] = {"plan": str, "reason": str, "sites": [validation.is_name]}
"""The schema of what each replica says in the second round; all but one say nothing."""
_MOST_NAMED = 8


def agree(meeting: Rendezvous, replica_id: str, plans: SitePlans | None, is_new: bool) -> Agreed:
    """Agree with the other replicas of a quorum on its plan; all of them do so at the same time.

    Args:
        meeting: The rendezvous of the replicas.
        replica_id: This replica's id.
        plans: The plans of this replica; None if it was given neither a topology nor a plan.
        is_new: Whether this is its first quorum.

    Returns:
        The plan. Where there is one, the replica's name in the rendezvous is that of its site from now on.

    Raises:
        TreefoldError: If a replica does not come, or sends what none sends.

    """
    network, kept = ("", []) if plans is None else (plans.seed, plans.keys())
    claim = {"id": replica_id, "new": is_new, "network": network, "plans": kept}
    claims = validation.exchange(meeting.exchange, claim, _CLAIM)
    if meeting.size == 1:
        return Agreed(meeting, None, "the quorum has one replica")
    offers = validation.exchange(meeting.exchange, _offer(claims, meeting.rank, plans), _OFFER)
    told = next((offer for offer in offers if offer["plan"]), offers[0])
    if not told["plan"]:
        return Agreed(meeting, None, visible(told["reason"]))
    plan, sites = control.read_plan("a replica", told["plan"]), told["sites"]
    if len(sites) != meeting.size or set(sites) != set(plan.topology.rank_names):
        raise validation.unexpected("a replica", "a plan for other sites than the quorum's")
    meeting.name = sites[meeting.rank]
    if plans is not None:
        _keep(plans, sites, plan, meeting.rank)
    return Agreed(meeting, plan, "")


def _keep(plans: SitePlans, sites: Sequence[str], plan: Plan, rank: int) -> None:
    """Keep the plan of a quorum unless it is a quick one, and plan for the quorums that may come next."""
    if plan.chosen_by is not None:
        plans.keep(sorted_sites(sites), plan)
    plans.foresee(next_quorums(sites, rank, plans.known))


def _offer(claims: Sequence[dict[str, Any]], rank: int, plans: SitePlans | None) -> dict[str, Any]:
    """Return what this replica says in the second round."""
    nothing: dict[str, Any] = {"plan": "", "reason": "", "sites": []}
    if plans is None:
        return nothing | {"reason": _NO_NETWORK if rank == 0 else ""}
    if plans.seed != claims[0]["network"]:
        return nothing
    try:
        sites = _sites_of([claim["id"] for claim in claims], plans.known)
        ours = sorted_sites(sites)
        holder = next((at for at, claim in enumerate(claims) if plans.key(ours) in claim["plans"]), 0)
        if holder != rank:
            return nothing
        plan = plans.get(ours) or plans.make(ours, quickly=not all(claim["new"] for claim in claims))
        return nothing | {"plan": plan.to_json(), "sites": sites}
    except TreefoldError as error:
        return nothing | {"reason": str(error)}


_NO_NETWORK = (
    "the replica with rank 0 has neither a plan nor a topology; give it to all replicas (TREEFOLD_TOPOLOGY), with a "
    "node for each site"
)


def _sites_of(ids: Sequence[str], known: Sequence[str]) -> list[str]:
    """Return the site of each replica, by its id.

    Raises:
        TreefoldError: If a replica is at no site of the network, or two are at the same one.

    """
    sites = [site_of(each, known) for each in ids]
    if foreign := sorted({each for each, site in zip(ids, sites, strict=True) if site not in known}):
        raise TreefoldError(
            f"no node of the topology is called {some(list(map(visible, foreign)), _MOST_NAMED)}; give each "
            f"torchft.Manager the name of its site as replica_id: {some(list(known), _MOST_NAMED)}"
        )
    if repeated := repeated_names(sites):
        raise TreefoldError(
            f"several replicas are at {some(list(map(visible, repeated)), _MOST_NAMED)}; give each torchft.Manager a "
            "replica_id of its own"
        )
    return sites
