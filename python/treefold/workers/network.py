"""What a probe measured, as a topology document and as the JSON object that `treefold probe` prints."""

from typing import Any

from treefold.importers import Document
from treefold.importers.caps import Cap, cap_nodes
from treefold.importers.document import make_document, make_link, make_node
from treefold.workers.mesh import Pair
from treefold.workers.probe import CAPPED, Measured, alone, at_once, expected_together, link_names

_SHARED = 0.7
"""Pairs share bottlenecks if all at once carry less than this of what pairs and nodes allow."""

_SHORT_TRIPS = 10


def document(measured: Measured, links: Document | None) -> Document:
    """Return the network: `links` with measured values, else a full mesh; nodes that are capped get their caps."""
    if links is None:
        names = [worker["name"] for worker in measured.workers]
        empty = make_document(f"probe of {len(names)} workers", [make_node(name) for name in names], [])
    else:
        names, empty = link_names(links, measured.workers), links
    filled = empty | {"links": [_link(measured, names, pair) for pair in measured.rates]}
    caps = {names[rank]: cap for rank, cap in node_caps(measured).items()}
    return cap_nodes(filled, {name: caps[name] for name in names if name in caps})


def _link(measured: Measured, names: list[str], pair: Pair) -> dict[str, Any]:
    source, target = (names[rank] for rank in pair)
    values = _link_values(measured, pair)
    return make_link(
        source,
        target,
        bandwidth_Bps=values["bandwidth_Bps"],
        latency_s=values["latency_s"],
        overhead_s=values["overhead_s"],
    )


def _link_values(measured: Measured, pair: Pair) -> dict[str, float]:
    trips = measured.trips[min(pair), max(pair)]
    return {
        "bandwidth_Bps": _digits(measured.rates[pair]),
        "latency_s": _digits(trips.least_s / 2, 3),
        "latency_median_s": _digits(trips.median_s / 2, 3),
        "overhead_s": _digits(measured.overheads_s[pair], 2),
    }


def _digits(value: float, digits: int = 4) -> float:
    """Round to what a measurement is worth."""
    return float(f"{value:.{digits}g}")


def node_caps(measured: Measured) -> dict[int, Cap]:
    """Return the caps, by rank, of nodes whose links cannot all be used at once."""
    caps = {}
    for rank in range(len(measured.workers)):
        rates = [alone(measured, rank, end) for end in (0, 1)]
        found = [at_once(measured, rank, end) for end in (0, 1)]
        if all(rates) and any(cap < CAPPED * sum(each) for cap, each in zip(found, rates, strict=True)):
            caps[rank] = Cap(*(_digits(max(cap, *each)) for cap, each in zip(found, rates, strict=True)))
    return caps


def summary(measured: Measured) -> dict[str, Any]:
    """Return what a probe prints with --json: workers, links, nodes, and how much all at once carry."""
    names = [worker["name"] for worker in measured.workers]
    caps = node_caps(measured)
    links = [
        {"source": names[pair[0]], "target": names[pair[1]]}
        | _link_values(measured, pair)
        | ({"together_Bps": _digits(measured.together[pair])} if pair in measured.together else {})
        for pair in sorted(measured.rates)
    ]
    nodes = [
        {
            "name": names[rank],
            "address": measured.workers[rank]["address"],
            "egress_Bps": _digits(at_once(measured, rank, 0)) or None,
            "ingress_Bps": _digits(at_once(measured, rank, 1)) or None,
            "capped": rank in caps,
        }
        for rank in range(len(names))
    ]
    return {
        "transfer_s": measured.transfer_s,
        "transfer_most_bytes": measured.most_transfer_bytes,
        "nodes": nodes,
        "links": links,
        "together": _together(measured),
        "notes": _notes(measured),
    }


def _together(measured: Measured) -> dict[str, float] | None:
    if not measured.together:
        return None
    rate = sum(measured.together.values())
    return {"rate_Bps": _digits(rate), "expected_Bps": _digits(expected_together(measured))}


def _notes(measured: Measured) -> list[str]:
    """Say what makes these values less than they seem."""
    notes = []
    together = _together(measured)
    if together and together["rate_Bps"] < _SHARED * together["expected_Bps"]:
        share = together["rate_Bps"] / together["expected_Bps"]
        notes.append(
            f"all pairs at once carry {share:.0%} of what pairs and nodes carry alone: pairs share links that plans do "
            "not know of (if you know the direct ones, list them in a file for --links), or processors are too busy"
        )
    short = [
        pair for pair in sorted(measured.rates) if _duration_s(measured, pair) < _SHORT_TRIPS * _trip_s(measured, pair)
    ]
    if short:
        source, target = (measured.workers[rank]["name"] for rank in short[0])
        more = f" and {len(short) - 1} more" if len(short) > 1 else ""
        notes.append(
            f"{source} -> {target}{more}: measured for less than {_SHORT_TRIPS} round trips, TCP may not have been at "
            "full speed; raise --bytes or --seconds"
        )
    return notes


def _duration_s(measured: Measured, pair: Pair) -> float:
    return min(measured.transfer_s, measured.most_transfer_bytes / measured.rates[pair])


def _trip_s(measured: Measured, pair: Pair) -> float:
    return measured.trips[min(pair), max(pair)].least_s
