"""Measures one point of the in-network paper's evaluation: plans on the first ranks of a network, simulates packets.

The machine is that of section V: a fabric of shared memory, whose parameters `treefold.Machine` has by default.
"""

from typing import Any, Literal, NamedTuple

import treefold
from reproduction.in_network import machines
from treefold import Machine

SHARED = (machines,)
"""Results depend on the code of these modules."""


class Point(NamedTuple):
    """A point says what is simulated; its fields are the key under which its result is kept."""

    network: str
    ranks: int
    algorithm: str
    size_bytes: int
    table_bytes: int | None = None
    waves: int | None = None
    barrier: bool = False
    trunks: Literal["source", "address"] = "source"
    homes: Literal["hashed", "interleaved"] = "hashed"
    reorder: int = 1
    window: int = 1024
    speedup: int = 2

    @property
    def name(self) -> str:
        """The algorithm, as figures name it."""
        parts = {
            "with barrier": self.barrier,
            "homes in turn": self.homes == "interleaved",
            "ways by address": self.trunks == "address",
        }
        return ", ".join([self.algorithm.removeprefix("innet-"), *(part for part, holds in parts.items() if holds)])

    def measure(self) -> dict[str, Any]:
        """Simulate it."""
        network = machines.network_of(self.network, range(self.ranks))
        plan = treefold.plan(network, self.algorithm, size_bytes=self.size_bytes, route_by=self.trunks)
        machine = Machine(
            table=self.table_bytes,
            waves=self.waves,
            barrier=self.barrier,
            home_mapping=self.homes,
            reorder=self.reorder,
            window=self.window,
            speedup=self.speedup,
        )
        row = treefold.simulate(plan, size_bytes=self.size_bytes, simulator=machine).as_dict()
        kept = ("time_s", "algbw_Bps", "evictions", "timeouts", "bypasses", "table_peak_bytes", "packet_latency_s")
        accesses = row["memory_read_bytes"] + row["memory_written_bytes"]
        return {key: row[key] for key in kept} | {"memory_access_bytes": accesses}
