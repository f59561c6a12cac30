"""Makes the network of explicit routes: links from rank to rank, which share the cables that they have in common.

Where the routers between ranks have their own way of sending, which need not be the shortest, a file lists it. Each
route becomes one link: as wide as the narrowest of what it crosses, and as late as all of it together. What two or more
routes cross, a cable or a shared capacity, becomes a shared capacity of them. Two ranks without a route keep the links
from one to the other. All other links vanish, and so do switches, as traffic passes them on routes only. Cost: linear
in the lengths of all routes.

A route may cross a shared capacity several times, as that of a bus which leads to a switch and on from there. Where all
routes cross it equally often, it is narrower by that. Where some cross it more often than others, each counts as one
that crosses it most often, so that no plan uses more than there is.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise, permutations
from typing import Any, NamedTuple

from treefold._core import Link, Topology
from treefold.checks import guess, shown
from treefold.files.problems import fail, warn
from treefold.importers.caps import limits
from treefold.importers.document import Document, make_link, make_shared
from treefold.text import some

_DIGITS = 12
"""Latencies are added up to picoseconds."""
_MOST_HOPS = 1_000_000
"""So many hops take about five seconds, and 200 MB."""
Pair = tuple[str, str]


class _Way(NamedTuple):
    """A way from one rank to another."""

    ends: Pair
    links: list[int]
    """The numbers of the links on the way."""


def routed(document: Document, network: Topology, where: str) -> Document:
    """Return the document of the network that the routes of a document make.

    Args:
        document: A complete document with routes, which is not changed.
        network: The network of the document without its routes.
        where: The file, as errors and warnings name it.

    Raises:
        TreefoldError: If a route names a node that is unknown, uses a link that there is not, passes a node twice, does
            not lead from one accelerator to another, or is the second of its pair.

    Warns:
        TopologyWarning: If some routes cross a shared capacity more often than others.

    """
    ranks = dict.fromkeys(network.rank_names)
    routes = _routes(document["routes"], network, where)
    links = network.links()
    ways = [
        _Way(ends, [place])
        for place, link in enumerate(links)
        if (ends := (link.source, link.target)) not in routes and ends[0] in ranks and ends[1] in ranks
    ]
    ways += [_Way(ends, way) for ends, way in routes.items() if ends[0] in ranks and ends[1] in ranks]
    nodes = [node for node in document["nodes"] if node["kind"] == "accelerator"]
    left = {key: value for key, value in document.items() if key not in ("routes", "shape", "shared")}
    return left | {"nodes": nodes} | _links(ways, network, where)


def warn_of_apart(network: Topology, where: str) -> None:
    """Warn if a network of routes has ranks with neither a route nor a link between them."""
    ranks, joined = network.rank_names, {(link.source, link.target) for link in network.links()}
    count = len(ranks) * (len(ranks) - 1) - len(joined)
    if count:
        source, target = next(pair for pair in permutations(ranks, 2) if pair not in joined)
        pairs = "1 pair of ranks has" if count == 1 else f"{count} pairs of ranks have"
        first = f"{'' if count == 1 else 'first '}{shown(source)} -> {shown(target)}"
        warn(where, f"{pairs} neither a route nor a link ({first}); other ranks pass on what they send")


def _routes(listed: Sequence[Mapping[str, Any]], network: Topology, where: str) -> dict[Pair, list[int]]:
    """Return the numbers of the links on each route."""
    switches = {node.name: node.is_switch for node in network.nodes()}
    joining: dict[Pair, list[int]] = defaultdict(list)
    for number, link in enumerate(network.links()):
        joining[link.source, link.target].append(number)
    found: dict[Pair, list[int]] = {}
    hops = sum((len(route["via"]) + 1) * (1 + route["both_ways"]) for route in listed)
    if hops > _MOST_HOPS:
        raise fail(where, f"its routes have {hops:,} hops in all; treefold reads at most {_MOST_HOPS:,}")
    for place, route in enumerate(listed):
        at = f"{where}: route {place} ({shown(route['source'])} -> {shown(route['target'])})"
        names = [route["source"], *route["via"], route["target"]]
        _check_names(names, switches, at)
        for way in (names, names[::-1])[: 1 + route["both_ways"]]:
            if (way[0], way[-1]) in found:
                raise fail(at, f"{shown(way[0])} -> {shown(way[-1])} has a route already; keep one of them")
            found[way[0], way[-1]] = [_joining(hop, joining, at) for hop in pairwise(way)]
    return found


def _check_names(names: list[str], switches: Mapping[str, bool], where: str) -> None:
    """Refuse a way over unknown nodes, in a circle, or between nodes of which one is a switch."""
    for name in names:
        if name not in switches:
            near = guess(name, switches)
            remedy = f"did you mean {shown(near)}?" if near else f"its nodes are {some(switches, 5)}"
            raise fail(where, f"node {shown(name)} is not in the network; {remedy}")
    if names[0] == names[-1]:
        raise fail(where, "it ends where it begins; give it another target, or leave it out")
    if twice := next((name for name, count in Counter(names).items() if count > 1), None):
        raise fail(where, f"it passes {shown(twice)} twice; name each node on the way once, and 'via' without the ends")
    if switch := next((end for end in (names[0], names[-1]) if switches[end]), None):
        raise fail(where, f"{shown(switch)} is a switch; let routes begin and end at accelerators")


def _joining(hop: Pair, joining: Mapping[Pair, list[int]], where: str) -> int:
    """Return the number of the only link from one node to the next."""
    source, target = map(shown, hop)
    links = joining.get(hop, [])
    if not links:
        remedy = "add one, or name the nodes between them in 'via'"
        if hop[::-1] in joining:
            remedy = "there is one back only; add it, or make the route one-way"
        raise fail(where, f"no link leads from {source} to {target}; {remedy}")
    if len(links) > 1:
        problem = f"{len(links)} parallel links lead from {source} to {target}, and nothing says which it takes"
        raise fail(where, f"{problem}; write them as one link, or put a switch into each and name that in 'via'")
    return links[0]


def _links(ways: list[_Way], network: Topology, where: str) -> dict[str, Any]:
    """Return the links of a document for ways, and what they share."""
    widths_Bps = [*(link.bandwidth_Bps for link in network.links()), *(each.bandwidth_Bps for each in network.shared())]
    crossed = [*_crossed(ways, network)]
    rates_Bps = [min(widths_Bps[each] / times for each, times in counts.items()) for counts in crossed]
    members: dict[int, list[int]] = defaultdict(list)
    for way, counts in enumerate(crossed):
        for each in counts:
            members[each].append(way)
    width_Bps = {each: widths_Bps[each] / max(crossed[way][each] for way in own) for each, own in members.items()}
    kept = _narrow(members, width_Bps, rates_Bps)
    names = _names(network, kept)
    for each in kept:
        _warn_of_unlike([crossed[way][each] for way in members[each]], names[each], where)
    shares: dict[int, list[str]] = defaultdict(list)
    for each in kept:
        for way in members[each]:
            shares[way].append(names[each])
    links, on = network.links(), {node.name: node.latency_s for node in network.nodes()}
    made = [
        _link(way.ends, [links[each] for each in way.links], on, rates_Bps[number], shares[number])
        for number, way in enumerate(ways)
    ]
    shared = [make_shared(names[each], width_Bps[each]) for each in kept]
    return {"links": made} | ({"shared": shared} if shared else {})


def _crossed(ways: list[_Way], network: Topology) -> Iterator[Counter[int]]:
    """Return how often each way crosses each link and shared capacity; these are numbered behind the links."""
    shared: dict[int, list[int]] = defaultdict(list)
    for number, each in enumerate(network.shared(), network.num_links):
        for link in each.links:
            shared[link].append(number)
    for way in ways:
        yield Counter([*way.links, *(each for link in way.links for each in shared.get(link, ()))])


def _narrow(members: Mapping[int, list[int]], width_Bps: Mapping[int, float], rates_Bps: list[float]) -> list[int]:
    """Return those capacities that limit several ways together; the narrowest of those that limit the same ways."""
    narrowest: dict[tuple[int, ...], int] = {}
    for each in sorted(members):
        own = tuple(members[each])
        if len(own) > 1 and limits(width_Bps[each], sum(rates_Bps[way] for way in own)):
            narrowest[own] = min(narrowest.get(own, each), each, key=lambda number: width_Bps[number])
    return sorted(narrowest.values())


def _warn_of_unlike(times: list[int], name: str, where: str) -> None:
    if min(times) < max(times):
        problem = f"routes cross shared capacity {shown(name)} from {min(times)} to {max(times)} times"
        warn(where, f"{problem}; each counts as {max(times)}, which is safe but may leave some of it unused")


def _names(network: Topology, kept: list[int]) -> dict[int, str]:
    """Return the names of capacities: those of shared ones, and for links `cable a -> b`; all names differ."""
    names = dict(enumerate((each.name for each in network.shared()), network.num_links))
    taken, links = set(names.values()), network.links()
    for each in kept:
        if each not in names:
            name = f"cable {links[each].source} -> {links[each].target}"
            while name in taken:
                name += "'"
            names[each] = name
            taken.add(name)
    return names


def _link(
    ends: Pair, links: list[Link], latencies_s: Mapping[str, float], bandwidth_Bps: float, shares: list[str]
) -> dict[str, Any]:
    """Return the link that stands for several in a row: a message occupies it for the longest of their overheads."""
    overheads_s = sorted(link.overhead_s for link in links)
    on_links_s = sum(link.latency_s for link in links) + sum(overheads_s[:-1])
    latency_s = round(on_links_s + sum(latencies_s[link.source] for link in links[1:]), _DIGITS)
    streams = max((link.streams for link in links if link.streams), default=None)
    return make_link(
        *ends,
        bandwidth_Bps=bandwidth_Bps,
        latency_s=latency_s,
        overhead_s=overheads_s[-1],
        streams=streams,
        shares=shares,
    )
