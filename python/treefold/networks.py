"""Makes networks from specs, files and documents, and describes them in a few numbers."""

import json
import os
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeVar

from treefold import _core, checks
from treefold._core import Link, Plan, Topology
from treefold.errors import TreefoldError
from treefold.ranks import places_of
from treefold.results import NetworkSummary, SharedSummary
from treefold.text import message, some

LINK_MODELS = ("propagation", "hockney")
"""The meanings of a link's latency: it only delays a message, or it also occupies the link for each message."""


def topology(
    source: str | os.PathLike[str] | Mapping[str, Any],
    *,
    bandwidth_Bps: float | str | None = None,
    latency_s: float | str | None = None,
    node_cap: str | None = None,
    ranks: str | Sequence[int | str] | None = None,
    rank_order: str | Sequence[int | str] | None = None,
) -> Topology:
    """Return the network that `source` describes.

    Args:
        source: A spec such as `torus:8x8`, the path of a file, or a topology document (the dictionary that a topology's
            JSON file holds).
        bandwidth_Bps: The bandwidth, in bytes per second or as a text such as `10Gbit/s`, of all links of a spec, or of
            the links of a file that have none. By default a spec has its own (16e9 for most), and each link of a file
            must have one. For a spec with skewness it is the mean; a `cluster` or `nvl72`, whose links differ, refuses
            it.
        latency_s: The latency, one way and in seconds or as a text such as `5ms`, of all links of a spec, or of the
            links of a file that have none. By default a spec has its own (150e-9 for most), and a link of a file gets
            that of light in a straight fibre if the file has the coordinates of both ends, else the median of the
            others, or 0 if none has one. A `cluster` or `nvl72` refuses it, too.
        node_cap: The most that each accelerator sends, and the most that it receives: one value for all, for example
            `5Gbit/s`, or the path of a file of caps by name (docs/files.md). It replaces the
            caps that a file has, such as one that `treefold probe` wrote; the value `none` leaves them out. Caps are
            capacities that links share (`Topology.shared`), by the names `X egress` and `X ingress`.
        ranks: The accelerators that are ranks, in rank order, by index in `Topology.accelerator_names` or by
            name: for example `0-7,12`, or a list. By default all are ranks. An accelerator that is
            not a rank is idle: plans may pass through it, unless `without_relays` takes its links away.
        rank_order: The same ranks in another order, by index or by name: rank r is `rank_order[r]`. It lists every rank
            exactly once, and `ring` visits them in this order. By default the order is that of `ranks`, and `ring`
            looks for a short one.

    Raises:
        TreefoldError: If the source is unknown, is malformed or does not describe a network; if a rank does not exist;
            or if a bandwidth, a latency or a cap is not possible.

    Warns:
        TopologyWarning: If latencies were filled in or self-loops dropped (`treefold.importers.TopologyWarning`).

    Example:
        >>> treefold.topology("ring:4", bandwidth_Bps="100Gbit/s")
        Topology("ring:4", ranks=4, links=8)

    """
    network, problem, _ = described(
        source,
        bandwidth_Bps=bandwidth_Bps,
        latency_s=latency_s,
        node_cap=node_cap,
        ranks=ranks,
        rank_order=rank_order,
    )
    if problem is not None:
        raise TreefoldError(problem)
    return network


class Described(NamedTuple):
    """A network, and why its ranks do not reach each other, if they do not: then it can only be shown and saved."""

    network: Topology
    problem: str | None
    cables: Topology
    """The network before routes were made its links; the same if there are none."""


def described(
    source: str | os.PathLike[str] | Mapping[str, Any],
    *,
    bandwidth_Bps: float | str | None,
    latency_s: float | str | None,
    node_cap: str | None,
    ranks: str | Sequence[int | str] | None,
    rank_order: str | Sequence[int | str] | None,
) -> Described:
    """Return the network that `topology` returns or refuses; the other arguments and errors are those of it."""
    if bandwidth_Bps is not None:
        bandwidth_Bps = checks.quantity("bandwidth_Bps", bandwidth_Bps, "bytes per second", _core.parse_bandwidth)
    if latency_s is not None:
        latency_s = checks.quantity("latency_s", latency_s, "seconds", _core.parse_time)
    if not isinstance(node_cap, str | os.PathLike | None):
        raise TreefoldError(f"node_cap {checks.shown(node_cap)} is not a cap; give 5Gbit/s, or a file of caps")
    if not isinstance(source, str | os.PathLike | Mapping):
        raise TreefoldError(
            f"network {checks.shown(source)} is not a network; give a spec such as torus:8x8, or a file"
        )
    found = _read(source, bandwidth_Bps, latency_s, node_cap, ranks)
    return found if rank_order is None else found._replace(network=_in_order(found.network, rank_order))


def _in_order(network: Topology, rank_order: str | Sequence[int | str]) -> Topology:
    """Return the network with its ranks in another order."""
    names = network.accelerator_names
    members = [names.index(name) for name in network.rank_names]
    ordered = places_of(rank_order, names)
    if sorted(ordered) != sorted(members):
        left_out = [names[member] for member in members if member not in ordered]
        missing = f"; {some(left_out)} missing" if left_out else ""
        raise TreefoldError(
            f"rank order {checks.shown(rank_order)} does not list each of the {len(members)} ranks once{missing}"
        )
    return network.with_ranks(ordered, ordered=True)


def without_relays(network: Topology | str) -> Topology:
    """Return the network without the links of accelerators that are no ranks, because these work for other jobs.

    Args:
        network: A `Topology`, a spec, or the path of a file.

    Raises:
        TreefoldError: If a spec or file does not describe a network, or ranks cannot reach each other any more.

    Example:
        >>> corner = treefold.topology("mesh:3x3", ranks="0,1,3")
        >>> corner.num_links, treefold.without_relays(corner).num_links
        (24, 4)

    """
    network = as_network(network)
    pairs = [(link.source, link.target) for link in _links_of_idle(network)]
    try:
        return network.without_links(sorted(set(pairs)), one_way=True)
    except TreefoldError as error:
        problem = f"without idle accelerators, some ranks do not reach others ({error})"
        raise TreefoldError(f"{network.name}: {problem}; let them relay, or choose other ranks") from None


def _links_of_idle(network: Topology) -> list[Link]:
    """Return the links of accelerators that are no ranks."""
    idle = {node.name for node in network.nodes() if node.rank is None and not node.is_switch}
    return [link for link in network.links() if link.source in idle or link.target in idle]


def like(network: Topology, old: Topology, relays: str | None = None) -> Topology:
    """Return a changed network with the ranks that it had, if it has no choice of ranks of its own.

    Ranks that are gone are left out. If all accelerators were ranks, in the order of the file, they are so again. Idle
    accelerators relay as `relays` says, `all` or `none`; by default none does if none had links in the old network.
    """
    names = network.accelerator_names
    kept = [names.index(name) for name in old.rank_names if name in names]
    has_own = network.rank_names != names
    if not has_own and old.rank_names != old.accelerator_names and kept:
        network = network.with_ranks(kept)
    were_closed = old.ranks < old.accelerators and not _links_of_idle(old)
    return without_relays(network) if relays == "none" or (relays is None and were_closed) else network


def as_network(network: Topology | str) -> Topology:
    """Return the network itself, or make it from a spec or the path of a file."""
    return network if isinstance(network, Topology) else topology(network)


def _read(
    source: str | os.PathLike[str] | Mapping[str, Any],
    bandwidth_Bps: float | None,
    latency_s: float | None,
    node_cap: str | None,
    ranks: str | Sequence[int | str] | None,
) -> Described:
    where = None if isinstance(source, Mapping) else os.fspath(source)
    if isinstance(source, str) and not os.path.isfile(source) and _looks_like_spec(source):
        network = Topology.from_spec(source, bandwidth_Bps, latency_s)
        if node_cap is None:
            chosen = network if ranks is None else network.with_ranks(places_of(ranks, network.accelerator_names))
            return Described(chosen, None, network)
        source = json.loads(network.to_json())
    from treefold import importers

    if isinstance(source, Mapping):
        document = importers.complete(source, bandwidth_Bps=bandwidth_Bps, latency_s=latency_s, node_cap=node_cap)
    else:
        document = importers.read(source, bandwidth_Bps=bandwidth_Bps, latency_s=latency_s, node_cap=node_cap)
    if ranks is not None:  # before the network is built, as all of its ranks must reach each other
        names = [node["name"] for node in document["nodes"] if node["kind"] == "accelerator"]
        document = {**document, "ranks": [names[place] for place in places_of(ranks, names)]}
    cables, problem = _built({key: value for key, value in document.items() if key != "routes"}, where)
    network = cables
    if "routes" in document:
        from treefold.importers.routes import routed, warn_of_apart

        network, problem = _built(routed(document, cables, where or document["name"]), where)
        if problem is not None:
            problem += "; routes, and links between ranks, are all that joins them: add routes"
        elif cables.accelerators + cables.switches > cables.ranks:
            warn_of_apart(network, where or document["name"])
    return Described(network, problem if problem is None or where is None else message(where, problem), cables)


def _built(document: Mapping[str, Any], where: str | None) -> tuple[Topology, str | None]:
    """Return the network of a document; an error names the file, if there is one, but no place in the JSON text."""
    try:
        return _core.described_topology(json.dumps(document))
    except RecursionError:
        problem = "nested too deeply; flatten it"
    except TreefoldError as error:
        problem = re.sub(r" at line \d+ column \d+", "", str(error))
    raise TreefoldError(problem if where is None else message(where, problem))


def _looks_like_spec(source: str) -> bool:
    """Tell a spec, which may be misspelt, from the name of a file that does not exist."""
    try:
        is_path = os.path.exists(source) or "/" in source or os.path.splitext(source)[1][1:].isalpha()
        return _core.is_spec(source) or not is_path
    except UnicodeEncodeError:  # names of files need not be text
        return False


def link_model_of(link_model: str) -> str:
    """Return the name of a link model, as `LINK_MODELS` spells it.

    Raises:
        TreefoldError: If it is unknown.

    """
    return checks.name("link model", link_model, LINK_MODELS)


_NetworkOrPlan = TypeVar("_NetworkOrPlan", Plan, Topology)


def under(value: _NetworkOrPlan, link_model: str) -> _NetworkOrPlan:
    """Return a network, or a plan and its network, with the latencies that a link model gives to links."""
    return value if link_model == "propagation" else value.under(link_model)


def describe(network: Topology | str) -> NetworkSummary:
    """Summarize a network in a few numbers.

    Args:
        network: A `Topology`, a spec, or the path of a file.

    Raises:
        TreefoldError: If a spec or file does not describe a network.

    Example:
        >>> treefold.describe("dgx2:planes=6").switches
        12

    """
    network = as_network(network)
    reduces, multicasts = network.abilities()
    return NetworkSummary(
        name=network.name,
        accelerators=network.accelerators,
        switches=network.switches,
        links=network.num_links,
        ranks=network.ranks,
        reduce=sum(reduces),
        multicast=sum(multicasts),
        shared=tuple(_shared(network)),
    )


def _shared(network: Topology) -> Iterator[SharedSummary]:
    names = [f"{link.source} -> {link.target}" for link in network.links()]
    for shared in network.shared():
        yield SharedSummary(shared.name, shared.bandwidth_Bps, tuple(names[link] for link in shared.links))
