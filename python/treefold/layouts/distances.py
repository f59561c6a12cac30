"""Counts the links between nodes: from all nodes to all, or from some nodes that stand far apart."""

import numpy as np

from treefold.layouts.graph import Graph, Numbers, adjacency


def hops(graph: Graph, sources: Numbers) -> Numbers:
    """Return the number of links from each of `sources` to each node; more than all others where there is no way.

    All searches go on at once, breadth-first, so that the cost is that of NumPy: O(sources x links) in all.
    """
    starts, others = adjacency(graph.pairs, graph.size)
    degrees = np.diff(starts)
    found = np.full(len(sources) * graph.size, -1, np.int32)
    mark = np.zeros(len(found), np.int32)
    rows, at = np.arange(len(sources)), np.asarray(sources, np.int64)
    found[rows * graph.size + at] = 0
    steps = 0
    while len(at):
        steps += 1
        counts = degrees[at]
        firsts = np.repeat(starts[at] - np.concatenate([[0], np.cumsum(counts)[:-1]]), counts)
        nodes = others[firsts + np.arange(counts.sum())]
        keys = np.repeat(rows, counts) * graph.size + nodes
        keys = keys[found[keys] < 0]
        mark[keys] = np.arange(len(keys), dtype=np.int32)  # of equal keys, the last one counts
        keys = keys[mark[keys] == np.arange(len(keys))]
        found[keys] = steps
        rows, at = keys // graph.size, keys % graph.size
    found[found < 0] = max(int(found.max(initial=0)) + 1, 2)
    return found.reshape(len(sources), graph.size).astype(np.int64)


def pivots(graph: Graph, count: int) -> tuple[Numbers, Numbers]:
    """Return nodes that stand far apart, and the links from each of them to all nodes.

    Each next pivot is the node that is farthest from those before it (Gonzalez 1985).
    """
    chosen = [int(np.argmax(np.bincount(graph.pairs.ravel(), minlength=graph.size)))]
    rows = [hops(graph, np.array(chosen))[0]]
    nearest = rows[0]
    while len(chosen) < min(count, graph.size):
        farthest = int(np.argmax(nearest))
        chosen.append(farthest)
        rows.append(hops(graph, np.array([farthest]))[0])
        nearest = np.minimum(nearest, rows[-1])
    return np.array(chosen), np.stack(rows)
