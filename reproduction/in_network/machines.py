"""The networks of the in-network paper's evaluation, and one of a single switch, for which section IV-E counts."""

from collections.abc import Sequence

import treefold
from treefold import Topology

DGX2, FAT_TREE = "dgx2:planes=6", "fattree128"
ONE_SWITCH = "one switch"
"""16 accelerators, each with one link of 25 GB/s to the same switch."""


def network_of(name: str, ranks: Sequence[int]) -> Topology:
    """Return a network of the evaluation, of which some accelerators are ranks."""
    return treefold.topology(star(name, 25e9) if name == ONE_SWITCH else name, ranks=ranks)


def star(name: str, bandwidth_Bps: float) -> dict[str, object]:
    """Return 16 accelerators on a switch that reduces, with the latency of section V, as a document."""
    switch = {"name": "switch", "kind": "switch", "reduces": True, "multicasts": True, "latency_s": 150e-9}
    port = {"target": "switch", "both_ways": True, "bandwidth_Bps": bandwidth_Bps, "latency_s": 0.0}
    gpus = [f"GPU{rank}" for rank in range(16)]
    return {
        "format": "treefold-topology",
        "version": 1,
        "name": name,
        "nodes": [*({"name": gpu} for gpu in gpus), switch],
        "links": [{"source": gpu, **port} for gpu in gpus],
    }
