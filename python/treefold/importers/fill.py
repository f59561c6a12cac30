"""Completes documents of all formats: drops self-loops, and fills in missing bandwidths and latencies."""

from typing import Any

from treefold._core import format_bandwidth, format_time
from treefold.checks import shown
from treefold.files.problems import fail, warn
from treefold.importers.document import Document, direction_count
from treefold.importers.values import Quantity, measure

_SHOWN_LOOPS = 3


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
        latency_s: The value for missing latencies, in seconds; by default the median of the known ones, or 0.

    Raises:
        TreefoldError: If bandwidths are missing and none is given, or an argument is not a possible value.

    """
    measure(bandwidth_Bps, Quantity("bandwidth_Bps", "bandwidth", "B/s"), "bandwidth_Bps")
    measure(latency_s, Quantity("latency_s", "latency", "s"), "latency_s")
    links = document["links"]
    without_bandwidth, without_latency = _without(links, "bandwidth_Bps"), _without(links, "latency_s")
    if without_bandwidth and bandwidth_Bps is None:
        raise fail(where, f"{_counted(without_bandwidth, 'bandwidth')}; give them one, such as bandwidth_Bps=1.25e9")
    filling_s, rule = (latency_s, "") if latency_s is not None else _usual_latency(links)
    parts = []
    if without_bandwidth and bandwidth_Bps is not None:
        parts.append(_counted(without_bandwidth, "bandwidth", format_bandwidth(bandwidth_Bps)))
    if without_latency:
        parts.append(_counted(without_latency, "latency", (format_time(filling_s) if filling_s else "0s") + rule))
    if parts:
        warn(where, ", ".join(parts))
    filling = {"bandwidth_Bps": bandwidth_Bps, "latency_s": filling_s}
    return document | {"links": [filling | link for link in links]}


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
