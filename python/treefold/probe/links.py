"""Chooses the pairs of workers that a probe measures: all, or those that a topology document joins by a link."""

import os
import warnings
from collections.abc import Sequence
from typing import Any

from treefold import importers
from treefold.errors import TreefoldError
from treefold.importers import Document
from treefold.importers.routes import routed
from treefold.networks import topology
from treefold.probe.results import Pair

UNKNOWN_BPS = 1.0
"""The bandwidth of links of which a file does not tell any."""


def read_links(path: str | os.PathLike[str]) -> Document:
    """Read a network whose links may lack what a probe measures; give the document to `Settings` as `links`.

    Args:
        path: The path of a file as `treefold.topology` reads it; its links need no bandwidths and latencies. Of a file
            with routes, these are the links.

    Raises:
        TreefoldError: If the file cannot be read, or does not describe a network.

    Example:
        >>> from treefold import probe
        >>> treefold.save(treefold.topology("ring:3"), "ring.json")
        >>> probe.Settings(links=probe.read_links("ring.json")).links["name"]
        'ring:3'

    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", importers.TopologyWarning)
        document = importers.read(path, bandwidth_Bps=UNKNOWN_BPS, latency_s=0.0)
        if "routes" not in document:
            return document
        links = [link | {"shares": []} for link in document["links"]]
        cables = {key: value for key, value in document.items() if key not in ("routes", "shared")} | {"links": links}
        return routed(document, topology(cables), os.fspath(path))


def directed_links(document: Document | None, workers: Sequence[dict[str, Any]]) -> list[Pair]:
    """Return the pairs (source, target) of workers to measure: the links of `document`, or all pairs without one.

    Raises:
        TreefoldError: If the workers do not match the document's accelerators, or a link is not between two of them.

    """
    if document is None:
        return [(one, other) for one in range(len(workers)) for other in range(len(workers)) if one != other]
    ranks = {name: rank for rank, name in enumerate(worker_names(document, workers))}
    pairs: list[Pair] = []
    for link in document["links"]:
        ends = link["source"], link["target"]
        if foreign := next((end for end in ends if end not in ranks), None):
            raise TreefoldError(
                f"link {ends[0]} -> {ends[1]}: '{foreign}' is not a worker, and only links between two workers can be "
                "measured; leave the link out, or probe all pairs, without a list of links"
            )
        pair = ranks[ends[0]], ranks[ends[1]]
        pairs += [pair, pair[::-1]] if link["both_ways"] else [pair]
    if repeated := next((pair for pair in pairs if pairs.count(pair) > 1), None):
        one, other = (workers[rank]["name"] for rank in repeated)
        raise TreefoldError(
            f"link {one} -> {other} stands twice, and parallel links look like one to a probe; keep one"
        )
    if not pairs:
        raise TreefoldError(f"network '{document['name']}' has no links to measure; list some, or probe without a list")
    return pairs


def worker_names(document: Document, workers: Sequence[dict[str, Any]]) -> list[str]:
    """Return the document's name of each worker: its own name where every worker has one, else by order.

    Raises:
        TreefoldError: If the workers do not match the document's accelerators.

    """
    names = document.get("ranks") or [node["name"] for node in document["nodes"] if node["kind"] == "accelerator"]
    own = [str(worker["name"]) for worker in workers]
    if len(names) != len(workers):
        problem = f"network '{document['name']}' has {len(names)} accelerators, but there are {len(workers)} workers"
        raise TreefoldError(f"{problem}; start one worker for each")
    if not all(worker["named"] for worker in workers):
        return list(names)
    if foreign := next((name for name in own if name not in names), None):
        problem = f"worker '{foreign}' is not an accelerator of network '{document['name']}' ({', '.join(names[:8])})"
        raise TreefoldError(f"{problem}; set TREEFOLD_NAME to one of them, each to another")
    return own
