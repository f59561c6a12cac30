"""Multicast regions: the fabric manager of the in-network paper (section IV-A), which fills the switches' tables.

Accelerators register a range of global addresses. Each switch has an entry for it: the targets to which a packet goes
on that comes from the root, or from another switch; and how many operands make the sum of what is below.
"""

import json
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any, NamedTuple

from treefold._core import Plan, Topology, format_size
from treefold.errors import TreefoldError
from treefold.verbs import plan, topology

LINE_BYTES = 128
"""Of a packet: regions begin at a multiple of it (section IV-D)."""
ADDRESSES = 1 << 64
"""Global addresses have 64 bits."""


class Region(NamedTuple):
    """A range of global addresses, and the accelerators whose memory it stands for."""

    start: int
    size_bytes: int
    members: str | Sequence[int | str] | None = None
    """By position or name, as `ranks` of `treefold.topology`; None: all ranks."""


def switch_tables(
    network: Topology | str, regions: Sequence[Region], algorithm: str = "innet-push"
) -> dict[str, list[dict[str, Any]]]:
    """Return for each switch, by name, the entries for these regions.

    An entry has `region` (its place in the list), `start`, `size_bytes`, `source` (the switch from which packets come,
    None at a root), `targets` (names of switches and accelerators) and `operands` (how many make a sum here).

    Raises:
        TreefoldError: If regions overlap (pushes forbid aliasing), one has fewer than two members, is empty or does not
            begin at a multiple of a packet's payload; if switches do not multicast.

    """
    network = network if isinstance(network, Topology) else topology(network)
    _check(regions)
    tables: dict[str, list[dict[str, Any]]] = {}
    for number, region in enumerate(regions):
        own = network if region.members is None else topology(json.loads(network.to_json()), ranks=region.members)
        if own.ranks < 2:
            raise TreefoldError(
                f"region {_name(region)} has one member, {own.rank_names[0]}: a reduction needs two at least"
            )
        own_plan = plan(own, algorithm, size_bytes=region.size_bytes)
        for (switch, source, targets), operands in _entries(own_plan).items():
            entry = {"region": number, "start": region.start, "size_bytes": region.size_bytes, "source": source}
            tables.setdefault(switch, []).append(entry | {"targets": list(targets), "operands": operands})
    if not tables:
        raise TreefoldError(f"no switch multicasts in plans of {algorithm}: name innet, innet-push or innet-pull (-a)")
    return {switch: tables[switch] for switch in sorted(tables, key=_in_order)}


def _check(regions: Sequence[Region]) -> None:
    if not regions:
        raise TreefoldError("no region was given; name at least one, as 0x0:1MiB")
    for region in regions:
        if not 0 <= region.start < ADDRESSES:
            raise TreefoldError(f"region at {region.start:#x}: addresses go from 0x0 to {ADDRESSES - 1:#x}")
        if region.size_bytes < 1:
            raise TreefoldError(f"region at {region.start:#x} is empty; give it a size of at least 1 B")
        if region.start % LINE_BYTES:
            raise TreefoldError(
                f"region {_name(region)} does not begin at a multiple of {LINE_BYTES} bytes, what a packet carries"
            )
    ordered = sorted(regions, key=lambda region: region.start)
    for before, after in pairwise(ordered):
        if before.start + before.size_bytes > after.start:
            raise TreefoldError(
                f"regions {_name(before)} and {_name(after)} overlap: switches could not tell their operands apart; "
                f"start the second at {-(-(before.start + before.size_bytes) // LINE_BYTES) * LINE_BYTES:#x} or later"
            )


def _name(region: Region) -> str:
    return f"{region.start:#x}:{format_size(region.size_bytes)}"


def _in_order(name: str) -> tuple[str, int]:
    letters = name.rstrip("0123456789")
    return letters, int(name[len(letters) :] or 0)


def _entries(own_plan: Plan) -> dict[tuple[str, str | None, tuple[str, ...]], int]:
    """Return switch, source and targets of each multicast, and how many ranks are below: alike for many home ports."""
    document = json.loads(own_plan.to_json())
    names = _names(own_plan.topology, document["topology"])
    ranks = set(own_plan.topology.rank_names)
    entries: dict[tuple[str, str | None, tuple[str, ...]], int] = {}
    for tree in (tree for phase in document["phases"] for tree in phase["trees"]):
        children: dict[int, list[int]] = {}
        parent: dict[int, int] = {}
        for sender, target in _down(tree, document["lanes"]):
            children.setdefault(sender, []).append(target)
            parent[target] = sender
        for node, targets in children.items():
            if names[node] in ranks:
                continue
            source = None if node == tree["root"] else names[parent[node]]
            below = _below(node, children, names, ranks)
            entries[names[node], source, tuple(names[target] for target in targets)] = below
    return entries


def _down(tree: Mapping[str, Any], lanes: Sequence[Mapping[str, Any]]) -> list[tuple[int, int]]:
    """Return source and target of the edges by which a tree broadcasts."""
    if tree["down"] == "mirror":
        up = tree["up"]["edges"]["lanes"]
        return [(lanes[lane]["target"], lanes[lane]["source"]) for lane in up]
    down = [] if tree["down"] == "none" else tree["down"]["edges"]["lanes"]
    return [(lanes[lane]["source"], lanes[lane]["target"]) for lane in down]


def _names(network: Topology, document: Mapping[str, Any]) -> list[str]:
    """Return names as plan files number nodes: ranks, other accelerators, switches."""
    ranks = network.rank_names
    others = [name for name in network.accelerator_names if name not in ranks]
    return [*ranks, *others, *(node["name"] for node in document["nodes"] if node["kind"] == "switch")]


def _below(node: int, children: Mapping[int, list[int]], names: Sequence[str], ranks: set[str]) -> int:
    open_nodes, count = [node], 0
    while open_nodes:
        at = open_nodes.pop()
        count += names[at] in ranks
        open_nodes.extend(children.get(at, []))
    return count
