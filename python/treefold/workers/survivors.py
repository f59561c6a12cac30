"""When a rank is lost: the others meet over the connections that they still have, and form a new group."""

import base64
import json
import time
from typing import Any

from treefold import verbs
from treefold._core import Mesh, Topology, TreefoldError
from treefold.workers.group import Group, RankLostError, join
from treefold.workers.rendezvous import Rendezvous

_BEAT_S = 0.05


def regroup(group: Group, lost: RankLostError, timeout_s: float = 30.0) -> Group:
    """Return a group of the workers that are left, in their old order; the old group is closed.

    All that are left have to call this. The network is taken to be as it was: the machines of lost ranks may still pass
    data on, but are ranks no more.

    Args:
        group: The group that has lost ranks, over TCP.
        lost: The error that told so.
        timeout_s: How long to wait for the others.

    Raises:
        TreefoldError: If another worker is missing, or too few are left.

    """
    left = [worker for worker in range(group.size) if worker not in lost.ranks]
    if group.mesh is None:
        raise TreefoldError("only a group over TCP can form a new one of those who are left; start the others again")
    group.rest()
    meeting = _meeting(group, group.mesh, left, timeout_s)
    try:
        adapt = group.controller is not None
        return join(meeting, network=_without(group, left), patience=group.patience, adapt=adapt)
    finally:
        group.close()


def _without(group: Group, left: list[int]) -> Topology:
    """Return the network with only these workers as ranks."""
    ranks = sorted(group.seats.rank_of_worker[worker] for worker in left)
    topology = group.plan.topology
    return verbs.topology(json.loads(topology.to_json()), ranks=[topology.rank_names[rank] for rank in ranks])


def _meeting(group: Group, mesh: Mesh, left: list[int], timeout_s: float) -> Rendezvous:
    """Return a rendezvous of the workers that are left, by words over the old group's connections."""
    rounds: dict[int, dict[int, bytes]] = {}
    number = 0
    worker_of_rank = group.seats.worker_of_rank

    def take(origin: int, said: dict[str, Any]) -> None:
        if said["kind"] == "meet":
            worker = worker_of_rank[origin]
            rounds.setdefault(said["round"], {})[worker] = base64.b64decode(said["blob"])

    def gather(blob: bytes) -> list[bytes]:
        nonlocal number
        rounds.setdefault(number, {})[group.worker] = blob
        mesh.tell(json.dumps({"kind": "meet", "round": number, "blob": base64.b64encode(blob).decode()}).encode())
        end = time.monotonic() + timeout_s
        while missing := [worker for worker in left if worker not in rounds[number]]:
            if time.monotonic() > end:
                raise RankLostError(f"rank {', '.join(map(str, missing))} did not come to the new group", missing)
            mesh.idle(_BEAT_S)
            for origin, said in group.words():
                take(origin, said)
        number += 1
        return [rounds[number - 1][worker] for worker in left]

    name = group.seats.names[group.rank] if group.seats.by_name else None
    address = mesh.address.rpartition(":")[0].strip("[]")
    return Rendezvous(left.index(group.worker), len(left), name, gather, lambda: None, address)
