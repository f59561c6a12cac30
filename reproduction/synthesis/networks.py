"""The networks of the published runs, as TE-CCL's `topologies/*.py` and SCCL's Figure 1 describe them.

An NDv2 is a server of eight GPUs whose NVLinks are those of a DGX-1: 25 GB/s each, two between some pairs. In TE-CCL's
two servers GPU 0 of each sends to GPU 1 of the other; four servers are joined by a switch to which GPU 0 sends and from
which GPU 1 receives. In a DGX-2 a switch joins 16 GPUs, and each odd GPU sends to the even one before it in the other.
"""

import treefold
from treefold import Topology

_PAIRS = "01 04 13 23 26 45 57 67"
"""The pairs of a DGX-1 that two NVLinks join."""
_SINGLE = "02 03 12 15 37 46 47 56"
"""The pairs that one joins."""

Link = tuple[str, str, float, float]
"""Its source and its target, its GB/s, and its latency in microseconds."""


def network(name: str, collective: str, use: str) -> Topology:
    """Return a network, under a name of its own for each use, as planners keep what they know of a network.

    TE-CCL's all-to-alls on two NDv2 have 15 GPUs, as its code takes the first GPU for a switch.
    """
    relays = ("0.0",) if (name, collective) == ("ndv2x2", "all-to-all") else ()
    links = _LINKS[name]()
    nodes = dict.fromkeys(end for link in links for end in link[:2])
    is_switch = {node: node in relays or node.startswith("switch") for node in nodes}
    return treefold.topology(
        {
            "format": "treefold-topology",
            "version": 1,
            "name": f"{name} {use}",
            "nodes": [{"name": node, "kind": "switch" if is_switch[node] else "accelerator"} for node in nodes],
            "links": [
                {"source": source, "target": target, "bandwidth_Bps": gigabytes * 1e9, "latency_s": latency / 1e6}
                for source, target, gigabytes, latency in links
            ],
        }
    )


def size_on(name: str, collective: str, size_bytes: int) -> int:
    """Return the vector for which ranks exchange as much as in the published run with this label."""
    if (name, collective) == ("ndv2x2", "all-to-all"):
        # Every pair of the 15 exchanges a sixteenth.
        return -(-size_bytes * 15 // 16)
    return size_bytes


def _nvlinks(server: int) -> list[Link]:
    """Return the links of a DGX-1."""
    pairs = [(pair, 50.0) for pair in _PAIRS.split()] + [(pair, 25.0) for pair in _SINGLE.split()]
    ends = [(pair[0], pair[1], bandwidth) for pair, bandwidth in pairs]
    both = [*ends, *((b, a, bandwidth) for a, b, bandwidth in ends)]
    return [(f"{server}.{a}", f"{server}.{b}", bandwidth, 0.7) for a, b, bandwidth in sorted(both)]


def _ndv2x2() -> list[Link]:
    return [*_nvlinks(0), *_nvlinks(1), ("0.0", "1.1", 12.5, 1.3), ("1.0", "0.1", 12.5, 1.3)]


def _ndv2x4() -> list[Link]:
    servers = range(4)
    out = [(f"{server}.0", "switch", 12.5, 1.3) for server in servers]
    back = [("switch", f"{server}.1", 12.5, 1.3) for server in servers]
    return [link for server in servers for link in _nvlinks(server)] + out + back


def _dgx2x2() -> list[Link]:
    gpus = [(server, gpu) for server in range(2) for gpu in range(16)]
    out = [(f"{server}.{gpu}", f"switch {server}", 125.0, 0.35) for server, gpu in gpus]
    back = [(switch, gpu, bandwidth, latency) for gpu, switch, bandwidth, latency in out]
    across = [(f"{server}.{gpu}", f"{1 - server}.{gpu - 1}", 12.5, 2.6) for server, gpu in gpus if gpu % 2]
    return [*out, *back, *across]


_LINKS = {"dgx1": lambda: _nvlinks(0), "ndv2x2": _ndv2x2, "ndv2x4": _ndv2x4, "dgx2x2": _dgx2x2}
