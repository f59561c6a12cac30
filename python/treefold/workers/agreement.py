"""What workers agree on before they connect: who is which rank of the plan, and which plan.

Who is which rank is told by names where every worker has one, else by order. Rank 0 says which plan.
"""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from treefold import verbs
from treefold._core import Plan, Topology
from treefold.errors import TreefoldError
from treefold.workers import notices, said
from treefold.workers.rendezvous import Rendezvous, all_or_none


@dataclass
class Seats:
    """Which worker is which rank of the plan."""

    rank_of_worker: list[int]
    names: list[str]
    """Of the plan's ranks."""
    by_name: bool = False
    """Whether the workers came with these names."""

    @property
    def are_in_order(self) -> bool:
        """Whether ranks are numbered as workers are."""
        return self.rank_of_worker == sorted(self.rank_of_worker)

    @property
    def worker_of_rank(self) -> list[int]:
        """The other way round."""
        return [self.rank_of_worker.index(rank) for rank in range(len(self.rank_of_worker))]


def seat(names: Sequence[str | None], topology: Topology) -> Seats:
    """Return which rank of `topology` each worker is: by name where every worker has one, else by order.

    Raises:
        TreefoldError: If their number differs, or names do not match.

    """
    ranks = topology.rank_names
    if len(names) != len(ranks):
        raise TreefoldError(
            f"{len(names)} workers for {len(ranks)} ranks of network '{topology.name}'; start {len(ranks)} workers, or "
            f"plan for {len(names)} ranks of it (--ranks)"
        )
    if None in names:
        return Seats(list(range(len(ranks))), ranks)
    if twice := _twice(names):
        raise TreefoldError(f"several workers are called {', '.join(twice)}; give each its own TREEFOLD_NAME")
    strangers, absent = sorted(set(map(str, names)) - set(ranks)), sorted(set(ranks) - set(map(str, names)))
    if strangers or absent:
        raise TreefoldError(
            f"the workers' names do not match network '{topology.name}': it has no rank {', '.join(strangers)}, and no "
            f"worker is called {', '.join(absent)}; set TREEFOLD_NAME to its accelerators' names"
        )
    return Seats([ranks.index(str(name)) for name in names], ranks, True)


def _twice(names: Sequence[str | None]) -> list[str]:
    return sorted({str(name) for name in names if names.count(name) > 1})


def _everyone(names: Sequence[str | None]) -> Topology:
    """Return a network that joins all workers directly; they have their own names where every worker has one."""
    network = verbs.topology(f"full:{len(names)}" if len(names) > 1 else "line:1")
    if None in names or len(set(names)) < len(names):
        return network
    document = json.loads(network.to_json())
    name = dict(zip(network.rank_names, names, strict=True))
    document["nodes"] = [node | {"name": name[node["name"]]} for node in document["nodes"]]
    ends = ("source", "target")
    document["links"] = [link | {end: name[link[end]] for end in ends} for link in document["links"]]
    return Topology.from_json(json.dumps(document))


def planned(
    names: Sequence[str | None],
    network: Topology | None,
    size_bytes: int,
    wishes: dict[str, Any],
    collective: str = "all-reduce",
) -> Plan:
    """Return an all-reduce for the workers of these names, from which `collective` can be derived.

    On a network, workers with names are its ranks, and its other accelerators relay; without a network, workers are
    thought to reach each other equally well.

    Raises:
        TreefoldError: If workers and network do not match.

    """
    if network is None:
        network = _everyone(names)
    elif set(names) != set(network.rank_names) and set(names) < set(network.accelerator_names) and not _twice(names):
        network = network.with_ranks(sorted(network.accelerator_names.index(str(name)) for name in names))
    seat(names, network)
    for_size = wishes | {"size_bytes": size_bytes, "model": "flow"}
    if collective != "all-reduce" and wishes.get("algorithm", "auto") == "auto":
        for_size["algorithm"] = verbs.plan(network, collective=collective, **for_size).algorithm
    return verbs.plan(network, **for_size)


def check_base(plan: Plan) -> None:
    """Refuse a plan that a group cannot start from.

    Raises:
        TreefoldError: If it is no all-reduce.

    """
    if plan.collective != "all-reduce":
        raise TreefoldError(
            f"the plan is for {plan.collective}, and other collectives are derived from an all-reduce's; plan without "
            f"--collective, and run that plan with --collective {plan.collective}"
        )


def agreed_plan(
    rendezvous: Rendezvous,
    plan: Plan | None,
    network: Topology | None,
    size_bytes: int,
    wishes: dict[str, Any],
    collective: str = "all-reduce",
) -> Plan:
    """Return rank 0's plan, which it makes where it has none.

    Raises:
        TreefoldError: On every rank, if one has an error or another plan than rank 0.

    """
    names = said.read_names(rendezvous.exchange((rendezvous.name or "").encode()))

    def own() -> Plan | None:
        if plan is not None:
            check_base(plan)
        elif rendezvous.rank == 0:
            return planned(names, network, size_bytes, wishes, collective)
        return plan

    mine = all_or_none(rendezvous, own)
    words: dict[str, Any] = {"plan": "", "fingerprint": None}
    if mine is not None:
        words = {"plan": mine.to_json() if rendezvous.rank == 0 else "", "fingerprint": mine.fingerprint}
    first, *others = said.exchange(rendezvous.exchange, words, {"plan": str, "fingerprint": int | None})
    for rank, other in enumerate(others, 1):
        if other["fingerprint"] not in (None, first["fingerprint"]):
            raise TreefoldError(f"rank {rank} has another plan than rank 0; give all workers the same file")
    plan_of: Plan = notices.tried("rank 0", Plan.from_json, first["plan"])
    return plan_of
