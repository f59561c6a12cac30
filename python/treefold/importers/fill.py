"""Completes documents of all formats: drops self-loops, and fills in missing bandwidths and latencies."""

import math
from typing import Any

from treefold._core import format_bandwidth, format_time
from treefold.checks import shown
from treefold.files.problems import fail, warn
from treefold.importers.document import Document, direction_count
from treefold.importers.values import Quantity, measure

_SHOWN_LOOPS = 3
_EARTH_RADIUS_M = 6_371_000
_LIGHT_IN_FIBRE = 2e8
"""The speed of light in glass, in metres per second: two thirds of that in a vacuum."""


def drop_self_loops(document: Document, where: str) -> Document:
    """Return the document without links from a node to itself; a warning counts them."""
    loops = [link["source"] for link in document["links"] if link["source"] == link["target"]]
    if not loops:
        return document
    names = ", ".join(dict.fromkeys(loops[:_SHOWN_LOOPS])) + (", ..." if len(loops) > _SHOWN_LOOPS else "")
    warn(where, f"{len(loops)} self-loop{'s' if len(loops) > 1 else ''} dropped (at {names})")
    return document | {"links": [link for link in document["links"] if link["source"] != link["target"]]}


def fill_missing(document: Document, where: str, bandwidth_Bps: float | None, latency_s: float | None) -> Document:
    """Return the document with a bandwidth and a latency on every link; a warning counts the missing values.

    Args:
        document: The document, which is not changed.
        where: The file, as errors and warnings name it.
        bandwidth_Bps: The value for missing bandwidths, in bytes per second.
        latency_s: The value for missing latencies, in seconds; by default that of light in a straight fibre where the
            positions of both ends are known, and elsewhere the median of the others, or 0.

    Raises:
        TreefoldError: If bandwidths are missing and none is given, or an argument is not a possible value.

    """
    measure(bandwidth_Bps, Quantity("bandwidth_Bps", "bandwidth", "B/s"), "bandwidth_Bps")
    measure(latency_s, Quantity("latency_s", "latency", "s"), "latency_s")
    links, parts = document["links"], []
    if latency_s is None and (straight := _straight(document)):
        parts.append(_counted([*straight.values()], "latency", "that of light in a straight fibre"))
        links = [straight.get(place, link) for place, link in enumerate(links)]
    without_bandwidth, without_latency = _without(links, "bandwidth_Bps"), _without(links, "latency_s")
    if without_bandwidth and bandwidth_Bps is None:
        raise fail(where, f"{_counted(without_bandwidth, 'bandwidth')}; give them one, such as bandwidth_Bps=1.25e9")
    filling_s, rule = (latency_s, "") if latency_s is not None else _usual_latency(links)
    if without_bandwidth and bandwidth_Bps is not None:
        parts.append(_counted(without_bandwidth, "bandwidth", format_bandwidth(bandwidth_Bps)))
    if without_latency:
        parts.append(_counted(without_latency, "latency", (format_time(filling_s) if filling_s else "0s") + rule))
    if parts:
        warn(where, ", ".join(parts))
    filling = {"bandwidth_Bps": bandwidth_Bps, "latency_s": filling_s}
    return document | {"links": [filling | link for link in links]}


def _straight(document: Document) -> dict[int, dict[str, Any]]:
    """Return the links without latency whose ends have positions, by place, with the latency of light between them."""
    known = {node["name"]: node for node in document["nodes"] if "latitude" in node}
    straight = {}
    for place, link in enumerate(document["links"]):
        if "latency_s" not in link and link["source"] in known and link["target"] in known:
            metres = _distance_m(known[link["source"]], known[link["target"]])
            straight[place] = link | {"latency_s": round(metres / _LIGHT_IN_FIBRE, 9)}
    return straight


def _distance_m(a: dict[str, Any], b: dict[str, Any]) -> float:
    """Return the length of the great circle between two nodes, by the haversine formula."""
    (north, east), (other_north, other_east) = (
        [math.radians(node[key]) for key in ("latitude", "longitude")] for node in (a, b)
    )
    across = math.cos(north) * math.cos(other_north) * math.sin((other_east - east) / 2) ** 2
    return 2 * _EARTH_RADIUS_M * math.asin(math.sqrt(math.sin((other_north - north) / 2) ** 2 + across))


def _without(links: list[dict[str, Any]], field: str) -> list[dict[str, Any]]:
    return [link for link in links if field not in link]


def _counted(links: list[dict[str, Any]], what: str, taken: str = "") -> str:
    """Say how many directed links lack a value, which link is the first, and which value they take."""
    count, first = sum(map(direction_count, links)), f"{shown(links[0]['source'])} - {shown(links[0]['target'])}"
    many = f"{count} link without {what} ({first})" if count == 1 else f"{count} links without {what} (first {first})"
    verb = "takes" if count == 1 else "take"
    return f"{many} {verb} {taken}" if taken else many


def _usual_latency(links: list[dict[str, Any]]) -> tuple[float, str]:
    """Return the median of the known latencies, or 0, and the end of a warning that names the rule."""
    known = sorted(link["latency_s"] for link in links if "latency_s" in link for _ in range(direction_count(link)))
    if not known:
        return 0.0, "; set latency_s"
    middle = len(known) // 2
    median = float(known[middle] if len(known) % 2 else (known[middle - 1] + known[middle]) / 2)
    return median, ", the median of the others"
