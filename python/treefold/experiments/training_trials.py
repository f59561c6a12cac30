"""Training iterations of both papers' evaluations, measured packet by packet."""

from typing import Any, NamedTuple

import treefold
from treefold._core import Topology
from treefold.machine import Machine
from treefold.training import GPUS, TrainingIteration, load, train

PACKAGES = ("planning", "training")
"""On whose code results depend."""

PAPER_MODELS = ("alexnet", "alphagozero", "fasterrcnn", "googlenet", "ncf", "resnet50", "transformer")
"""Of the MultiTree paper, as it ran them."""

RINGS, PUSH = "ring", "innet-push"
NVLINK = "dgx2:planes=6"
ETHERNETS = {"ethernet 100Gbit/s": 100e9 / 8, "ethernet 10Gbit/s": 10e9 / 8}
"""A port for each accelerator, bytes a second."""
TOKENS = (320, 640, 1280, 2560, 5120, 10240)
"""Of an accelerator; a sentence has 80."""
WORKLOADS = {
    "transformer": ("adam", tuple(tokens // 80 for tokens in TOKENS)),
    "resnet50": ("momentum", (4, 8, 16, 32, 64, 128)),
    "bert-large": ("adam", (1, 2, 4, 8, 16, 32)),
}
"""Optimizer, and samples of an accelerator."""
GENERATIONS = ("volta", "volta-2:1", "volta-4:1")

_KEPT = (
    "iteration_s",
    "compute_s",
    "local_aggregation_s",
    "optimizer_s",
    "stolen_s",
    "communication_s",
    "exposed_communication_s",
    "interpolation_error",
)


def _kept(iteration: TrainingIteration) -> dict[str, Any]:
    row = iteration.as_dict()
    return {key: row[key] for key in _KEPT}


class Accelerators(NamedTuple):
    """The MultiTree paper's models on its accelerators, with one algorithm, without overlap and layer by layer."""

    network: str
    algorithm: str
    flow_control: str = "packet"
    ni: str = "bound"

    @property
    def name(self) -> str:
        """The algorithm, as figures name it."""
        message = ", message-based" if self.flow_control == "message" else ""
        return f"{self.algorithm}{message}{', any interface' if self.ni == 'shared' else ''}"

    def measure(self) -> dict[str, Any]:
        """Train all models."""
        network = treefold.topology(self.network)
        machine = Machine(ni=self.ni, flow_control=self.flow_control)
        rows = []
        for model in PAPER_MODELS:
            for overlap in ("none", "layer"):
                [row] = train(f"{model}:paper", network, self.algorithm, overlap=overlap, machine=machine)
                rows.append({"model": model, "overlap": overlap} | _kept(row))
        return {"rows": rows}


class Gpus(NamedTuple):
    """Three models on 16 GPUs of three generations, with one algorithm."""

    network: str
    algorithm: str

    def measure(self) -> dict[str, Any]:
        """Train all models with all batches, without overlap and with."""
        network = _network(self.network)
        rows = []
        for model, (optimizer, batches) in WORKLOADS.items():
            for gpu in GENERATIONS:
                for batch in batches:
                    for overlap in ("none", "layer"):
                        [row] = train(
                            model,
                            network,
                            self.algorithm,
                            accelerator=GPUS[gpu],
                            batch=batch,
                            overlap=overlap,
                            optimizer=optimizer,
                            machine=Machine(switches="fabric"),
                        )
                        facts = {"model": model, "gpu": gpu, "batch": batch, "overlap": overlap}
                        rows.append(facts | _kept(row))
        return {"rows": rows}


class Megatron(NamedTuple):
    """A model whose parts are spread over some accelerators of a DGX-2."""

    network: str
    model: str
    ranks: int
    algorithm: str
    batch: int = 4
    """With which the smallest model adds up about 8 MB at a time."""

    def measure(self) -> dict[str, Any]:
        """Train it."""
        network = treefold.topology(self.network, ranks=f"0-{self.ranks - 1}")
        [row] = train(
            self.model,
            network,
            self.algorithm,
            accelerator="volta",
            batch=self.batch,
            parallelism="model",
            machine=Machine(switches="fabric"),
        )
        return _kept(row)


class MessageSizes(NamedTuple):
    """How large the all-reduces of a model's layers are."""

    network: str
    model: str

    def measure(self) -> dict[str, Any]:
        """Count them, with gradients of 16 bits."""
        return {"sizes_bytes": [2 * layer.parameters for layer in load(self.model).layers if layer.parameters]}


def _network(name: str) -> Topology:
    """Return 16 GPUs on NVLink, or with an Ethernet port each on a switch that reduces."""
    if name not in ETHERNETS:
        return treefold.topology(name)
    switch = {"name": "switch", "kind": "switch", "reduces": True, "multicasts": True, "latency_s": 150e-9}
    ports = [
        {
            "source": f"GPU{rank}",
            "target": "switch",
            "both_ways": True,
            "bandwidth_Bps": ETHERNETS[name],
            "latency_s": 0.0,
        }
        for rank in range(16)
    ]
    nodes = [*({"name": f"GPU{rank}"} for rank in range(16)), switch]
    return treefold.topology(
        {"format": "treefold-topology", "version": 1, "name": name, "nodes": nodes, "links": ports}
    )
