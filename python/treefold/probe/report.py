"""The measurements of a probe as a topology document, and as the JSON object that `treefold probe` prints."""

from collections.abc import Sequence
from typing import Any

from treefold._core import format_time
from treefold.discovery import Group, Model, Round, shared
from treefold.discovery.model import cut_name, group_name
from treefold.importers import Document
from treefold.importers.caps import Cap, cap_nodes
from treefold.importers.document import make_document, make_link, make_node, make_shared
from treefold.probe.links import worker_names
from treefold.probe.measuring import CAPPED
from treefold.probe.results import (
    SOURCE,
    TARGET,
    Measurements,
    Pair,
    Try,
    expected_together,
    outcome_of,
    rate_at_once,
    rates_alone,
)
from treefold.probe.told import with_shared
from treefold.probe.transfers import RoundTrips

_SHARED = 0.7
"""Pairs share bottlenecks if all of them at once carry less than this part of what pairs and nodes allow."""

_LITTLE, _NOTHING = 0.03, 1e-4
"""The pairs that are left out carry less than this part of an all-reduce's rate to or from a worker together, or each
of them less than this part of what the widest pair carries."""
_WITHIN, _FULL = 0.999, 0.95
"""What pairs share is told if they fill this part of it, and is a little less than what its links carry together."""

_BLOATED_S = 0.1
"""A message waits long if it takes so many seconds more while its line is full, and more than twice as long."""

_SHORT_TRIPS = 10
"""A transfer is too short if it takes fewer round trips than this."""


def document(measured: Measurements, links: Document | None = None) -> Document:
    """Return the measured network as a topology document, of which `treefold.topology` makes a network.

    Args:
        measured: The measurements.
        links: The `links` of the probe's settings, whose nodes and shared capacities the network keeps; None if all
            pairs were measured.

    Returns:
        The document: what a topology's JSON file holds. It contains the node caps that were measured, or what pairs
        carried at once if there were tests of that.

    Example:
        >>> from concurrent.futures import ThreadPoolExecutor
        >>> from treefold import probe, runtime
        >>> settings = probe.Settings(seconds=1.0, most_bytes=64 << 20)
        >>> with ThreadPoolExecutor(2) as pool:
        ...     measured = list(pool.map(lambda meeting: probe.measure(meeting, settings), runtime.local(2)))
        >>> treefold.topology(probe.document(measured[0])).num_links
        2

    """
    if links is None:
        names = [worker["name"] for worker in measured.workers]
        empty = make_document(f"probe of {len(names)} workers", [make_node(name) for name in names], [])
    else:
        names = worker_names(links, measured.workers)
        empty = {key: value for key, value in links.items() if key != "shared"}
    if measured.model is not None and measured.model.carried_Bps:
        return (_whole if measured.model.is_whole else _refined)(measured, measured.model, empty)
    filled = empty | {"links": [_link(measured, names, pair, measured.rates[pair]) for pair in measured.rates]}
    if links is not None:
        filled = with_shared(filled, links, measured, names)
    caps = {names[rank]: cap for rank, cap in node_caps(measured).items()}
    return cap_nodes(filled, {name: caps[name] for name in names if name in caps})


def _whole(measured: Measurements, model: Model, empty: Document) -> Document:
    """Return the network of all pairs, with their rates alone and with what they share."""
    links = [_link(measured, list(model.names), pair, rate_Bps) for pair, rate_Bps in model.alone_Bps.items()]
    return shared(empty | {"links": links, "tested": "alone"}, model)


def _refined(measured: Measurements, model: Model, empty: Document) -> Document:
    """Return the network of what was carried at once, in which whatever is planned is carried.

    Pairs that the best plan leaves out are left out, as nobody knows what they carry beside the others. What shares a
    capacity that is full, and that made pairs fall short in a test, is told; of equal ones the first.
    """
    carried_Bps = model.carried_Bps
    least_Bps = _NOTHING * max(carried_Bps.values())
    if measured.outcome is not None:
        least_Bps = _LITTLE / len(measured.workers) * measured.outcome.rate_Bps
    used = [pair for pair in measured.rates if carried_Bps.get(pair, 0.0) > least_Bps]
    links = {pair: _link(measured, list(model.names), pair, carried_Bps[pair]) for pair in used}
    capacities: list[dict[str, Any]] = []
    told = set[tuple[Pair, ...]]()
    for group in model.groups:
        members = tuple(sorted(group.members & links.keys()))
        together_Bps = _WITHIN * sum(links[pair]["bandwidth_Bps"] for pair in members)
        limits = len(members) > 1 and together_Bps > _FULL * group.capacity_Bps
        if limits and (group.confirmed or group.support) and members not in told:
            told.add(members)
            name = _name(group, members, model, [each["name"] for each in capacities])
            capacities.append(make_shared(name, _digits(min(group.capacity_Bps, together_Bps))))
            for pair in members:
                links[pair]["shares"] = [*links[pair].get("shares", []), name]
    found = empty | {"links": [*links.values()], "tested": "at once"}
    return found | ({"shared": capacities} if capacities else {})


def _name(group: Group, members: Sequence[Pair], model: Model, taken: Sequence[str]) -> str:
    """Return the name of a group of which these pairs are left, which no other one has."""
    names, ranks = model.names, len(model.names)
    name = cut_name(group.members, names, ranks) or group_name(members, names, ranks)
    count = sum(each == name or each.startswith(f"{name} #") for each in taken)
    return f"{name} #{count + 1}" if count else name


def _link(measured: Measurements, names: list[str], pair: Pair, rate_Bps: float) -> dict[str, Any]:
    source, target = (names[rank] for rank in pair)
    values = _link_values(measured, pair)
    return make_link(
        source,
        target,
        bandwidth_Bps=_digits(rate_Bps),
        latency_s=values["latency_s"],
        overhead_s=values["overhead_s"],
        streams=measured.streams.get(pair),
    )


def _link_values(measured: Measurements, pair: Pair) -> dict[str, float]:
    trips = measured.trips[min(pair), max(pair)]
    values = {
        "bandwidth_Bps": _digits(measured.rates[pair]),
        "latency_s": _digits(trips.least_s / 2, 3),
        "latency_median_s": _digits(trips.median_s / 2, 3),
        "overhead_s": _digits(measured.overheads_s[pair], 2),
    }
    if pair in measured.streams:
        loaded_s, retransmitted = _full(measured, pair)[2:]
        values |= {
            "streams": measured.streams[pair],
            "loaded_latency_s": _digits(_loaded_latency_s(trips, loaded_s), 3),
            "retransmitted": _digits(retransmitted, 2),
        }
    return values


def _full(measured: Measurements, pair: Pair) -> Try:
    """Return the transfer of a pair that filled the line best."""
    return max(measured.tries[pair].values(), key=lambda each: each.rate_Bps)


def _loaded_latency_s(trips: RoundTrips, loaded_s: float) -> float:
    """Return the latency one way while the line is full in that direction only, as during the loaded round trip."""
    return trips.median_s / 2 + max(loaded_s - trips.median_s, 0.0)


def _digits(value: float, digits: int = 4) -> float:
    """Round to as many digits as a measurement is worth."""
    return float(f"{value:.{digits}g}")


def node_caps(measured: Measurements) -> dict[int, Cap]:
    """Return the caps, by rank, of nodes whose links cannot all be used at once."""
    caps = {}
    for rank in range(len(measured.workers)):
        alone = [rates_alone(measured, rank, end) for end in (SOURCE, TARGET)]
        at_once = [rate_at_once(measured, rank, end) for end in (SOURCE, TARGET)]
        if all(alone) and any(cap < CAPPED * sum(rates) for cap, rates in zip(at_once, alone, strict=True)):
            caps[rank] = Cap(*(_digits(max(cap, *rates)) for cap, rates in zip(at_once, alone, strict=True)))
    return caps


def summary(measured: Measurements) -> dict[str, Any]:
    """Return the JSON object of `treefold probe --json`: nodes, links, what pairs share, and notes."""
    names = [worker["name"] for worker in measured.workers]
    caps = node_caps(measured)
    shared = [] if measured.model is None else _shared_capacities(document(measured))
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
            "egress_Bps": _digits(rate_at_once(measured, rank, SOURCE)) or None,
            "ingress_Bps": _digits(rate_at_once(measured, rank, TARGET)) or None,
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
        "rounds": [_round(each) for each in measured.rounds],
        "tests": _tests(measured),
        "shared": shared,
        "notes": _notes(measured),
    }


def _tests(measured: Measurements) -> dict[str, Any] | None:
    tests = outcome_of(measured)
    return None if tests is None else tests | {"rate_Bps": _digits(tests["rate_Bps"])}


def _round(each: Round) -> dict[str, Any]:
    learnt = [group.name for group in each.learnt]
    return {
        "tests": each.tests,
        "promised_Bps": _digits(each.promised_Bps),
        "carried_Bps": _digits(each.carried_Bps),
        "learnt": learnt,
        "dropped": [*each.dropped],
    }


def _shared_capacities(found: Document) -> list[dict[str, Any]]:
    """Return the shared capacities of a document, each with the pairs that share it."""
    pairs: dict[str, list[list[str]]] = {}
    for link in found["links"]:
        for name in link.get("shares", []):
            pairs.setdefault(name, []).append([link["source"], link["target"]])
    return [each | {"pairs": pairs[each["name"]]} for each in found.get("shared", [])]


def _together(measured: Measurements) -> dict[str, float] | None:
    if not measured.together:
        return None
    rate = sum(measured.together.values())
    return {"rate_Bps": _digits(rate), "expected_Bps": _digits(expected_together(measured))}


def _notes(measured: Measurements) -> list[str]:
    """Return remarks on what makes the measurements less reliable than they seem."""
    notes = []
    together = _together(measured)
    if measured.model is None and together and together["rate_Bps"] < _SHARED * together["expected_Bps"]:
        share = together["rate_Bps"] / together["expected_Bps"]
        notes.append(
            f"all pairs at once carry {share:.0%} of what pairs and nodes carry alone: pairs share links that plans do "
            "not know (if you know the direct links, list them in a file of links), or processors are too busy"
        )
    notes += _notes_of_buffers(measured)
    short = [
        pair for pair in sorted(measured.rates) if _duration_s(measured, pair) < _SHORT_TRIPS * _trip_s(measured, pair)
    ]
    if short:
        source, target = (measured.workers[rank]["name"] for rank in short[0])
        more = f" and {len(short) - 1} more" if len(short) > 1 else ""
        notes.append(
            f"{source} -> {target}{more}: measured for less than {_SHORT_TRIPS} round trips, so TCP may not have been "
            "at full speed; allow more bytes or seconds"
        )
    return notes


def _notes_of_buffers(measured: Measurements) -> list[str]:
    """Return a remark on lines on which messages wait long behind others (bufferbloat)."""
    idle_s = {pair: measured.trips[min(pair), max(pair)].median_s / 2 for pair in sorted(measured.streams)}
    loaded_s = {pair: _link_values(measured, pair)["loaded_latency_s"] for pair in idle_s}
    slow = [pair for pair in idle_s if loaded_s[pair] - idle_s[pair] > _BLOATED_S and loaded_s[pair] > 2 * idle_s[pair]]
    if not slow:
        return []
    worst = max(slow, key=lambda pair: loaded_s[pair] - idle_s[pair])
    source, target = (measured.workers[rank]["name"] for rank in worst)
    more = f" and {len(slow) - 1} more" if len(slow) > 1 else ""
    times = f"{format_time(loaded_s[worst])} while the line is full, and {format_time(idle_s[worst])} while it is idle"
    return [
        f"{source} -> {target}{more}: a message takes {times}: it waits in a large buffer (bufferbloat), so small "
        "all-reduces beside others, and all other traffic there, are slow; turn on fair queueing (fq_codel or CAKE) "
        "in front of the narrow line, or choose BBR as TCP's congestion control"
    ]


def _duration_s(measured: Measurements, pair: Pair) -> float:
    return min(measured.transfer_s, measured.most_transfer_bytes / measured.rates[pair])


def _trip_s(measured: Measurements, pair: Pair) -> float:
    return measured.trips[min(pair), max(pair)].least_s
