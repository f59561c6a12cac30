"""Measures training iterations of the in-network paper's evaluation, packet by packet."""

from itertools import product
from typing import Any, NamedTuple

import treefold
from reproduction import training
from reproduction.in_network import machines
from treefold import Machine, Topology
from treefold.training import GPUS, load

PACKAGES, SHARED = training.PACKAGES, (training, machines)
"""Results depend on the code of these packages of treefold and of these modules."""

RINGS, PUSH, PULL = "ring", "innet-push", "innet-pull"
NVLINK = machines.DGX2
ETHERNETS = {"ethernet 100Gbit/s": 100e9 / 8, "ethernet 10Gbit/s": 10e9 / 8}
"""Each accelerator has one port of so many bytes a second."""
SENTENCE = 80
"""A sentence has so many tokens."""
_TOKENS = (320, 640, 1280, 2560, 5120, 10240)
WORKLOADS = {
    "transformer": ("adam", tuple(tokens // SENTENCE for tokens in _TOKENS)),
    "resnet50": ("momentum", (4, 8, 16, 32, 64, 128)),
    "bert-large": ("adam", (1, 2, 4, 8, 16, 32)),
}
"""Each model has its optimizer, and batches of an accelerator in samples."""
GENERATIONS = ("volta", "volta-2:1", "volta-4:1")

_FABRIC = Machine(switches="fabric")


class Gpus(NamedTuple):
    """A trial trains three models on 16 GPUs of three generations, with one algorithm."""

    network: str
    algorithm: str

    def measure(self) -> dict[str, Any]:
        """Train all models with all batches, without overlap and with."""
        network, rows = _network(self.network), []
        for model, (optimizer, batches) in WORKLOADS.items():
            for gpu, batch, overlap in product(GENERATIONS, batches, ("none", "layer")):
                [row] = treefold.train(
                    model,
                    network,
                    self.algorithm,
                    accelerator=GPUS[gpu],
                    batch=batch,
                    overlap=overlap,
                    optimizer=optimizer,
                    simulator=_FABRIC,
                )
                rows.append(
                    {"model": model, "gpu": gpu, "batch": batch, "overlap": overlap} | training.kept(row.as_dict())
                )
        return {"rows": rows}


class Megatron(NamedTuple):
    """A trial trains a model whose parts are spread over some accelerators of a DGX-2."""

    network: str
    model: str
    ranks: int
    algorithm: str
    gpu: str = "volta"
    batch: int = 4
    """The smallest model with this batch adds up about 8 MB at a time."""

    def measure(self) -> dict[str, Any]:
        """Train it."""
        network = treefold.topology(self.network, ranks=f"0-{self.ranks - 1}")
        [row] = treefold.train(
            self.model,
            network,
            self.algorithm,
            accelerator=GPUS[self.gpu],
            batch=self.batch,
            model_parallel=self.ranks,
            simulator=_FABRIC,
        )
        return training.kept(row.as_dict())


class MessageSizes(NamedTuple):
    """A trial counts how large the all-reduces of a model's layers are."""

    network: str
    model: str

    def measure(self) -> dict[str, Any]:
        """Count them, with gradients of 16 bits."""
        return {"sizes_bytes": [2 * layer.parameters for layer in load(self.model).layers if layer.parameters]}


def _network(name: str) -> Topology:
    """Return 16 GPUs on NVLink, or with an Ethernet port each on a switch that reduces."""
    if name not in ETHERNETS:
        return treefold.topology(name)
    return treefold.topology(machines.star(name, ETHERNETS[name]))
