"""Draws the random networks of `topologies/`: a tree that joins all workers, and further cables, from a seed.

    python -m bench.wan.draw [DIRECTORY]

Bandwidths are multiples of 5 Mbit/s, from 50 to 150 unless `rates_Mbps` says otherwise. On `seven-asymmetric` both
directions of a cable differ.
"""

import json
import random
import sys
from pathlib import Path

NETWORKS = {
    "six-dense": {"seed": 1, "workers": 6, "cables": 10},
    "seven-asymmetric": {"seed": 2, "workers": 7, "cables": 12, "symmetric": False},
    "eight-sparse": {"seed": 3, "workers": 8, "cables": 10},
    "eight-dense": {"seed": 5, "workers": 8, "cables": 16},
    "six-delayed": {"seed": 4, "workers": 6, "cables": 10, "latencies_ms": (5, 40)},
    "three-far": {"seed": 6, "workers": 3, "cables": 3, "latencies_ms": (50, 50), "rates_Mbps": (400, 400)},
    "six-far": {"seed": 7, "workers": 6, "cables": 10, "latencies_ms": (20, 80), "rates_Mbps": (100, 300)},
}


def pairs(random: random.Random, workers: int, cables: int) -> list[tuple[int, int]]:
    """Return the edges of a random tree, and random further edges."""
    chosen = [(random.randrange(worker), worker) for worker in range(1, workers)]
    others = [(a, b) for b in range(workers) for a in range(b) if (a, b) not in chosen]
    return sorted(chosen + random.sample(others, cables - len(chosen)))


def draw(
    name: str,
    seed: int,
    workers: int,
    cables: int,
    symmetric: bool = True,
    latencies_ms: tuple[int, int] | None = None,
    rates_Mbps: tuple[int, int] = (50, 150),
) -> str:
    """Return the text of a topology file."""
    drawn = random.Random(seed)
    lines = []
    for a, b in pairs(drawn, workers, cables):
        latency = {"latency": f"{drawn.randint(*latencies_ms) if latencies_ms else 0}ms"}
        directions = ((a, b),) if symmetric else ((a, b), (b, a))
        for source, target in directions:
            rate = f"{drawn.randrange(rates_Mbps[0], rates_Mbps[1] + 1, 5)}Mbit/s"
            link = {"source": f"w{source}", "target": f"w{target}", "bandwidth": rate}
            lines.append(json.dumps({**link, **latency, **({"both_ways": True} if symmetric else {})}))
    nodes = ", ".join(json.dumps({"name": f"w{worker}"}) for worker in range(workers))
    head = f'{{"format": "treefold-topology", "version": 1, "name": "{name}",\n "nodes": [{nodes}],\n "links": [\n  '
    return head + ",\n  ".join(lines) + "]}\n"


if __name__ == "__main__":
    directory = Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).with_name("topologies")
    for name, options in NETWORKS.items():
        (directory / f"{name}.json").write_text(draw(name, **options))
