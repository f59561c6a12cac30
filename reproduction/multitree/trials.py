"""Measures one point of the MultiTree paper's evaluation: plans, simulates cycle by cycle, or looks at tables.

The machine is that of section V, Table III, which `treefold.Machine` has by default.
"""

from typing import Any, Literal, NamedTuple

import treefold
from treefold import Machine

FlowControl = Literal["packet", "message"]
Interfaces = Literal["bound", "shared"]


class Point(NamedTuple):
    """A point says what is simulated; its fields are the key under which its result is kept."""

    network: str
    algorithm: str
    size_bytes: int
    flow_control: FlowControl = "packet"
    ni: Interfaces = "bound"
    lockstep: bool = True
    """Whether idle steps are waited out, in plans for which that means something."""
    payload_bytes: int = 256
    rank_order: str | None = None
    """The order in which a ring visits the ranks, as indices, if it is not to look for a short one."""

    @property
    def variant(self) -> str:
        """The algorithm and how it runs, whatever the interfaces are."""
        name = "multiring (ours)" if self.algorithm == "multiring" else self.algorithm
        parts = {
            "message-based": self.flow_control == "message",
            "no lockstep": not self.lockstep,
            "order as theirs": self.rank_order is not None,
        }
        return ", ".join([name, *(part for part, holds in parts.items() if holds)])

    @property
    def name(self) -> str:
        """The variant and its interfaces, as figures name it that mix them."""
        return f"{self.variant}, any interface" if self.ni == "shared" else self.variant

    def measure(self) -> dict[str, Any]:
        """Simulate it."""
        network = treefold.topology(self.network, rank_order=self.rank_order)
        plan = treefold.plan(network, self.algorithm, size_bytes=self.size_bytes)
        machine = Machine(
            interfaces=self.ni,
            flow_control=self.flow_control,
            payload=self.payload_bytes,
            lockstep=None if self.lockstep else False,
        )
        row = treefold.simulate(plan, size_bytes=self.size_bytes, simulator=machine).as_dict()
        kept = ("cycles", "time_s", "algbw_Bps", "bound_fraction", "packets", "flits", "head_flits", "wall_s")
        return {"ranks": network.ranks} | {key: row[key] for key in kept}


class TableSize(NamedTuple):
    """A trial that measures how long MultiTree's schedule tables are."""

    network: str

    def measure(self) -> dict[str, Any]:
        """Make them."""
        network = treefold.topology(self.network)
        tables = treefold.tables(treefold.plan(network, "multitree")).as_dict()
        return {"ranks": network.ranks} | {key: tables[key] for key in ("entries", "entry_bits", "bytes")}
