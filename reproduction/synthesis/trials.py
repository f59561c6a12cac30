"""Measures one plan of ours for a published run: the CPU seconds that planning takes, its time, and what no plan beats.

Times are those of the flow simulator. CPU seconds are those of the process; they differ from machine to machine.
"""

import time
from typing import Any, Literal, NamedTuple

import treefold
from reproduction.synthesis import networks

SHARED = (networks,)
"""Results depend on the code of these modules."""


class Trial(NamedTuple):
    """A trial says what is planned; its fields are the key under which its result is kept."""

    network: str
    collective: str
    size_bytes: int
    algorithm: Literal["auto", "forest"]
    steps: int | None = None

    def measure(self) -> dict[str, Any]:
        """Plan and simulate it."""
        network = networks.network(self.network, self.collective, " ".join(map(str, self[1:])))
        size = networks.size_on(self.network, self.collective, self.size_bytes)
        start = time.process_time()
        plan = treefold.plan(
            network,
            self.algorithm,
            size_bytes=size,
            collective=self.collective,
            simulator="flow",
            steps=self.steps,
        )
        cpu_s = time.process_time() - start
        return {
            "algorithm": plan.algorithm,
            "cpu_s": cpu_s,
            "time_s": treefold.simulate(plan, size_bytes=size, simulator="flow").time_s,
            "bound_s": treefold.bound_at(network, size, self.collective).time_s,
            "steps": treefold.summarize(plan).steps,
        }
