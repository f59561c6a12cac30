"""Measures training iterations of the MultiTree paper's evaluation, packet by packet."""

from typing import Any, NamedTuple

import treefold
from reproduction import training
from reproduction.multitree.trials import FlowControl, Interfaces
from treefold import Machine

PACKAGES, SHARED = training.PACKAGES, (training,)
"""Results depend on the code of these packages of treefold and of these modules."""

MODELS = ("alexnet", "alphagozero", "fasterrcnn", "googlenet", "ncf", "resnet50", "transformer")
"""The models of the paper, which are trained as it ran them."""


class Accelerators(NamedTuple):
    """A trial trains the paper's models on its accelerators, with one algorithm, without overlap and by layers."""

    network: str
    algorithm: str
    flow_control: FlowControl = "packet"
    ni: Interfaces = "bound"

    @property
    def name(self) -> str:
        """The algorithm, as figures name it, whatever the interfaces are."""
        return f"{self.algorithm}, message-based" if self.flow_control == "message" else self.algorithm

    def measure(self) -> dict[str, Any]:
        """Train all models."""
        network = treefold.topology(self.network)
        machine = Machine(interfaces=self.ni, flow_control=self.flow_control)
        rows = []
        for model in MODELS:
            for overlap in ("none", "layer"):
                [row] = treefold.train(f"{model}:paper", network, self.algorithm, overlap=overlap, simulator=machine)
                rows.append({"model": model, "overlap": overlap} | training.kept(row.as_dict()))
        return {"rows": rows}
