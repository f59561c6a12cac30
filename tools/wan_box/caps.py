"""Puts a router in front of each node with a cap, since a box has cables and no shared capacities.

The node's cables lead to the router, and one cable with the widths of the caps leads from there to the node. What other
nodes send on through a capped node passes the router only: it does not count in the caps.
"""

from typing import Any

from treefold import TreefoldError
from treefold.importers.caps import EGRESS, INGRESS

_ENDS = ("source", "target")


def with_routers(value: dict[str, Any]) -> dict[str, Any]:
    """Return a topology document without shared capacities: each cap of a node has become a router.

    Raises:
        TreefoldError: If a shared capacity is not that of all links out of a node or into it.

    """
    nodes = dict.fromkeys(node["name"] for node in value["nodes"])
    widths = {shared["name"]: shared["bandwidth_Bps"] for shared in value.get("shared", ())}
    caps = {name + mark: name for name in nodes for mark in (EGRESS, INGRESS) if name + mark in widths}
    for shared in widths:
        if shared not in caps or not _is_cap(value, shared, caps[shared]):
            problem = f"shared capacity {shared!r} is not a node's cap, and a box builds no others"
            raise TreefoldError(f"{value['name']}: {problem}; make it a cable to a router of the file, or drop it")
    routers = {name: f"{name}/router" for name in dict.fromkeys(caps.values())}
    if taken := nodes.keys() & {*routers.values()}:
        raise TreefoldError(f"{value['name']}: node {min(taken)!r} has the name of a capped node's router; rename it")
    new = [{"name": router, "kind": "switch"} for router in routers.values()]
    lines = [line for name, router in routers.items() for line in _lines(value, name, router, widths)]
    return value | {"nodes": [*value["nodes"], *new], "links": [*_moved(value, routers), *lines], "shared": []}


def _is_cap(value: dict[str, Any], shared: str, name: str) -> bool:
    """Tell whether all links out of a node share the capacity, or all into it, and no others."""
    end = "source" if shared == name + EGRESS else "target"
    return all((link[end] == name) == (shared in link.get("shares", ())) for link in value["links"])


def _lines(value: dict[str, Any], name: str, router: str, widths: dict[str, float]) -> list[dict[str, Any]]:
    """Return the links between a node and its router; one without a cap is as wide as all links of the node."""
    out, into = (sum(link["bandwidth_Bps"] for link in value["links"] if link[end] == name) for end in _ENDS)
    both = ((name, router, widths.get(name + EGRESS, out)), (router, name, widths.get(name + INGRESS, into)))
    return [{"source": source, "target": target, "bandwidth_Bps": rate} for source, target, rate in both if rate]


def _moved(value: dict[str, Any], routers: dict[str, str]) -> list[dict[str, Any]]:
    """Return the links, whose ends at capped nodes are at their routers."""
    return [link | {end: routers.get(link[end], link[end]) for end in _ENDS} for link in value["links"]]
