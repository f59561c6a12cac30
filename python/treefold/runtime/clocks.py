"""How far the clock of a rank is from that of rank 0, so that times of different machines can be compared.

Rank 0 and each other rank send each other a byte, several times, over a connection of their own. No byte comes before
it leaves, so each one that a rank sends bounds the difference of both clocks from one side, and each one that it gets
bounds it from the other side. The least delays of both directions bound it best; the middle is what clock
synchronization takes (Cristian, "Probabilistic clock synchronization", 1989; NTP), and half of the least round trip is
how far it may be off. As one clock may run faster than another one, clocks are compared twice; between both moments
their difference is taken to change evenly. Cost: 16 round trips and milliseconds, and a connection to rank 0.
"""

import json
import time
from functools import lru_cache
from typing import NamedTuple

import numpy as np

from treefold import plans
from treefold._core import Plan, Recording, Topology
from treefold.runtime.group import Group
from treefold.runtime.recordings import Times, table_of
from treefold.runtime.tcp import TcpTransport

_ROUNDS = 16
_PAUSE_S = 1e-3
"""How long ranks wait before each round, so that rank 0 waits for them: what comes too early is received too late."""


class Clock(NamedTuple):
    """A clock at one moment, beside that of rank 0."""

    at_s: float = 0.0
    """The moment, by this clock."""
    offset_s: float = 0.0
    """The seconds that the clock of rank 0 shows more."""
    uncertainty_s: float = 0.0
    """How many seconds the offset may be wrong."""

    def corrected(self, times: Times, later: "Clock") -> Times:
        """Return times of this clock as those of rank 0's; `later` is the same clock at a later moment."""
        passed_s = later.at_s - self.at_s
        drift = (later.offset_s - self.offset_s) / passed_s if passed_s > 0 else 0.0
        return np.where(times != 0.0, times + self.offset_s + drift * (times - self.at_s), 0.0)


def compare(group: Group, transport: TcpTransport) -> Clock:
    """Compare the clock of this rank with that of rank 0; all ranks call this together.

    Args:
        group: The group of the ranks.
        transport: Its transport.

    Raises:
        RankLostError: If a rank is gone.
        TreefoldError: If rank 0 and another one cannot connect.

    """
    if group.size == 1:
        return Clock()
    own = np.stack([_round(group, transport) for _ in range(_ROUNDS)])
    hub = own.copy() if group.rank == 0 else np.zeros_like(own)
    group.run(group.plan, hub.reshape(-1))
    return Clock(at_s=float(own.max())) if group.rank == 0 else _between(own, hub)


def _round(group: Group, transport: TcpTransport) -> Times:
    """Send a byte to rank 0, and get one back; return the times of both, a row of each kind."""
    recording = Recording()
    if group.rank != 0:
        time.sleep(_PAUSE_S)
    with transport.recorded(recording):
        group.run(_star(group.size), np.zeros(1, np.uint8), "bxor")
    return table_of([recording]).reshape(3, -1)


def _between(own: Times, hub: Times) -> Clock:
    """Return this clock from the times of this rank and of rank 0 in all rounds."""
    sent, received = np.flatnonzero(own[0, 0]), np.flatnonzero(own[0, 2])
    most_s = float((hub[:, 2, sent] - own[:, 0, sent]).min())
    least_s = float((hub[:, 0, received] - own[:, 2, received]).max())
    return Clock(float(own.max()), (most_s + least_s) / 2, abs(most_s - least_s) / 2)


@lru_cache(maxsize=4)
def _star(ranks: int) -> Plan:
    """Return an all-reduce in which each rank sends to rank 0, and gets an answer."""
    names = [f"rank {rank}" for rank in range(ranks)]
    rates = {"bandwidth_Bps": 1e9, "latency_s": 0.0, "both_ways": True}
    document = {
        "format": "treefold-topology",
        "version": 1,
        "name": "clocks",
        "nodes": [{"name": name} for name in names],
        "links": [{"source": names[0], "target": name, **rates} for name in names[1:]],
    }
    return plans.plan(Topology.from_json(json.dumps(document)), "ps")
