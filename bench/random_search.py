"""Looks for better plans at random: `python -m bench.random_search NETWORK SIZE [SEARCHES]`.

Where `auto` stays far below the bound, either the plan or the bound may be to blame. Each search changes the network a
little at random (bandwidths and latencies by up to a third, or by much less), and the size by up to a factor of
four. It plans for that with every algorithm that may be the fastest at such sizes, moves the plans to the real network,
and simulates them there. So trees, their rates and the order of their messages differ in each search. The result is the
best of all of them beside the plan of `auto`, under the flow simulator.
"""

import random
import sys
from collections.abc import Iterator
from typing import Any

import treefold as tf
from treefold.results import Prediction

PLANNERS: list[tuple[str, dict[str, Any]]] = [
    *((name, {}) for name in ("forest", "packing", "multitree", "exchange", "swing", "bine", "direct", "nccl")),
    *(("hierarchical", {"inside": inside, "between": between}) for inside in ("direct", "forest", "packing")
      for between in ("exchange", "direct", "forest", "multitree")),
]  # fmt: skip
TRIED = 5
"""So many of the planners are tried in each search, at random."""


def main() -> None:
    """Print the best plan of `auto`, and the best of all searches."""
    text, size = sys.argv[1], sys.argv[2]
    searches = int(sys.argv[3]) if len(sys.argv) > 3 else 100
    network = tf.topology(text)
    best = tf.simulate(tf.plan(network, size_bytes=size, simulator="flow"), size_bytes=size, simulator="flow")
    found = [row for seed in range(searches) for row in _search(network, best.size_bytes, random.Random(seed))]
    other = min(found, key=lambda row: row.time_s)
    parts = [f"{row.algorithm} {row.time_s * 1e6:.3f} us ({row.bound_fraction or 0:.1%})" for row in (best, other)]
    print(f"{network.name}, {size}: auto {parts[0]}; best of {len(found)} plans of {searches} searches {parts[1]}")


def _search(network: tf.Topology, size_bytes: int, chance: random.Random) -> Iterator[Prediction]:
    """Plan for a network and a size that differ a little; return what the plans take on the real network."""
    changed = _changed(network, chance)
    wanted = max(1, int(size_bytes * 2 ** chance.uniform(-2, 2)))
    for name, options in chance.sample(PLANNERS, TRIED):
        try:
            plan = tf.plan(changed, name, size_bytes=wanted, **options).moved_to(network)
        except tf.MisfitError:
            continue
        if plan is not None and plan.check() is None:
            yield tf.simulate(plan, size_bytes=size_bytes, simulator="flow")


def _changed(network: tf.Topology, chance: random.Random) -> tf.Topology:
    cables = sorted({tuple(sorted((link.source, link.target))) for link in network.links()})
    much = 10 ** chance.uniform(-4, -0.5)
    least = min((link.latency_s for link in network.links() if link.latency_s), default=0.0)
    scaled = network.with_scaled_bandwidths({cable: chance.uniform(1 - much, 1 + much) for cable in cables})
    return scaled.with_added_latencies({cable: chance.uniform(0, much * least) for cable in cables})


if __name__ == "__main__":
    main()
