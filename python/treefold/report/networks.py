"""Lays out a network for people: its size, its nodes, its links and what these share."""

from collections.abc import Sequence

from treefold._core import Link, Node, Topology, format_bandwidth, format_time
from treefold.report.align import align, key_values
from treefold.text import some

_MOST_LINES = 40
"""A longer list of nodes, links or shared capacities is shown only on request."""
_MOST_SHARING = 4
"""So many of the links that share a capacity are named."""


def network_table(network: Topology, is_whole: bool = False) -> str:
    """Return a table of a network: counts, ranges of bandwidth and latency, and what it consists of if that is little.

    Args:
        network: The network, for example from `treefold.topology`.
        is_whole: Whether to list all nodes, all links and all shared capacities. By default nodes are listed if there
            are at most 40, and so are the others.

    Example:
        >>> from treefold import report
        >>> print(report.network_table(treefold.topology("line:2")).splitlines()[0])
        name          line:2

    """
    links = network.links()
    parts = [key_values(_counts(network, links))]
    listed = [("nodes", _nodes(network.nodes()), {0, 1}), ("links", _links(links), {0, 1})]
    if shared := _shared(network, links):
        listed.append(("shared capacities", shared, {0, 2}))
    for title, rows, left in listed:
        if not rows:
            parts.append(f"{title}: none")
        elif is_whole or len(rows) <= _MOST_LINES:
            parts.append(f"{title}:\n{align(rows, left=left)}")
        else:
            what = "cables and one-way links" if title == "links" else title
            parts.append(f"# {len(rows)} {what} are not listed; is_whole=True lists them")
    return "\n\n".join(parts)


def _counts(network: Topology, links: Sequence[Link]) -> dict[str, str]:
    table = {
        "name": network.name,
        "accelerators": str(network.accelerators),
        "ranks": str(network.ranks),
        "switches": str(network.switches),
        "links": f"{network.num_links}, each in one direction",
    }
    if network.switches:
        reduces, multicasts = network.abilities()
        table["switches that reduce"] = str(sum(reduces))
        table["switches that multicast"] = str(sum(multicasts))
    if shared := network.shared():
        table["shared capacities"] = str(len(shared))
    if links:
        widths = _range([format_bandwidth(each) for each in sorted({link.bandwidth_Bps for link in links})])
        table["bandwidth"] = widths + (", beside all other links" if network.tested == "at once" else "")
        table["latency"] = _range([format_time(each) for each in sorted({link.latency_s for link in links})])
    return table


def _range(values: Sequence[str]) -> str:
    return values[0] if values[0] == values[-1] else f"{values[0]} to {values[-1]}"


def _nodes(nodes: Sequence[Node]) -> list[list[str]]:
    return [[f"  {node.name}", _role(node)] for node in nodes]


def _role(node: Node) -> str:
    if node.is_switch:
        abilities = [name for name, has in (("reduces", node.reduces), ("multicasts", node.multicasts)) if has]
        return ", ".join(["switch", *abilities])
    return "idle" if node.rank is None else f"rank {node.rank}"


def _links(links: Sequence[Link]) -> list[list[str]]:
    """Return a row for each cable, or one for each direction if the two differ or one is missing."""
    rows = []
    waiting: dict[tuple[str, str], list[Link]] = {}
    for link in links:
        back = waiting.get((link.target, link.source), [])
        twin = next((each for each in back if _values(each) == _values(link)), None)
        if twin is None:
            waiting.setdefault((link.source, link.target), []).append(link)
        else:
            back.remove(twin)
            rows.append([f"  {twin.source} - {twin.target}", *_values(link)])
    one_way = [link for listed in waiting.values() for link in listed]
    return rows + [[f"  {link.source} -> {link.target}", *_values(link)] for link in one_way]


def _shared(network: Topology, links: Sequence[Link]) -> list[list[str]]:
    """Return a row for each shared capacity: its name, its bandwidth, and the links that share it."""
    return [
        [f"  {shared.name}", format_bandwidth(shared.bandwidth_Bps), _sharing([links[each] for each in shared.links])]
        for shared in network.shared()
    ]


def _sharing(links: Sequence[Link]) -> str:
    """Say which links share a capacity."""
    sources, targets = {link.source for link in links}, {link.target for link in links}
    if len(links) > _MOST_SHARING and len(sources) == 1:
        return f"{len(links)} links out of {links[0].source}"
    if len(links) > _MOST_SHARING and len(targets) == 1:
        return f"{len(links)} links into {links[0].target}"
    return some([f"{link.source} -> {link.target}" for link in links], _MOST_SHARING)


def _values(link: Link) -> list[str]:
    overhead = f"overhead {format_time(link.overhead_s)}" if link.overhead_s else ""
    streams = "" if link.streams is None else f"{link.streams} stream{'' if link.streams == 1 else 's'}"
    return [format_bandwidth(link.bandwidth_Bps), format_time(link.latency_s), overhead, streams]
