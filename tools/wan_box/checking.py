"""Checks a box: what TCP carries of each link's rate, alone and with all links busy both ways, and round-trip times.

A link's share is about 0.955 of its rate: Ethernet, IP and TCP headers take the rest, and the token bucket counts them.
"""

import json
import statistics
import subprocess
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from tools.wan_box.box import Box
from tools.wan_box.names import address
from tools.wan_box.network import Pair, next_hops, route

_FLOW = [sys.executable, "-ES", str(Path(__file__).with_name("flow.py"))]
_PORT = 5000
_WARM_S = 1.5
_PINGS = 25


@dataclass(frozen=True)
class LinkCheck:
    """The measurements of one link: parts of its rate, and seconds."""

    source: str
    target: str
    rate_Bps: float
    alone: float
    busy: float
    rtt_s: float
    measured_rtt_s: float | None
    """None where nothing came back."""


def measure(box: Box, seconds: float) -> list[LinkCheck]:
    """Measure every link of a box."""
    network = box.network
    pairs = sorted(network.links)
    trips = round_trips(box, pairs)
    alone = {pair: throughput(box, [pair], seconds)[pair] for pair in pairs}
    busy = throughput(box, pairs, seconds)
    rows = []
    for a, b in pairs:
        rate = network.directions[a, b].bandwidth_Bps
        shares = (alone[a, b] / rate, busy[a, b] / rate)
        expected_s = _round_trip_s(box, a, b)
        rows.append(LinkCheck(network.nodes[a], network.nodes[b], rate, *shares, expected_s, trips[a, b]))
    return rows


def _round_trip_s(box: Box, a: int, b: int) -> float:
    """Return the latency of the routes there and back, as the box has it."""
    if box.state.delays == "none":
        return 0.0
    hops = next_hops(box.network)
    return sum(box.network.directions[pair].latency_s for pair in [*route(hops, a, b), *route(hops, b, a)])


def throughput(box: Box, pairs: list[Pair], seconds: float, warm_s: float = _WARM_S) -> dict[Pair, float]:
    """Return the bytes a second of one stream over each link, all at the same time."""
    nodes = box.network.nodes
    receivers = {(a, b): _listen(box, nodes[b], "receive", _PORT + a, warm_s, seconds) for a, b in pairs}
    long = str(seconds + warm_s + 2)
    senders = [box.popen(nodes[a], [*_FLOW, "send", address(b), str(_PORT + a), long]) for a, b in pairs]
    try:
        return {pair: float(process.communicate(timeout=seconds + 60)[0]) for pair, process in receivers.items()}
    finally:
        box.end([*senders, *receivers.values()])


def round_trips(box: Box, pairs: list[Pair], count: int = _PINGS) -> dict[Pair, float | None]:
    """Return the median round-trip time of each pair, one pair after the other; None where nothing came back."""
    nodes, medians = box.network.nodes, {}
    for a, b in pairs:
        listener = _listen(box, nodes[b], "echo", _PORT)
        times = json.loads(box.run(nodes[a], [*_FLOW, "ping", address(b), str(_PORT), str(count)]))
        box.end([listener])
        medians[a, b] = statistics.median(times) if times else None
    return medians


def _listen(box: Box, node: str, *arguments: object) -> "subprocess.Popen[str]":
    """Start a listener in a node and wait until it listens."""
    process = box.popen(node, [*_FLOW, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "ready\n", f"{arguments} did not start in {node}"
    return process


def show(rows: list[LinkCheck], congestion_control: str, as_json: bool) -> None:
    """Print the rows and their extremes, or one JSON value."""
    if as_json:
        print(json.dumps({"congestion_control": congestion_control, "links": [asdict(row) for row in rows]}))
        return
    print(f"{'link':<24}{'Mbit/s':>8}{'alone':>8}{'busy':>8}{'rtt ms':>9}{'measured':>9}")
    for row in rows:
        measured = "lost" if row.measured_rtt_s is None else f"{row.measured_rtt_s * 1e3:.1f}"
        shares = f"{row.rate_Bps * 8e-6:>8g}{row.alone:>8.1%}{row.busy:>8.1%}"
        print(f"{f'{row.source} -> {row.target}':<24}{shares}{row.rtt_s * 1e3:>9.1f}{measured:>9}")
    for name, parts in (("alone", [row.alone for row in rows]), ("busy", [row.busy for row in rows])):
        print(f"{name}: {min(parts):.1%} to {max(parts):.1%}, median {statistics.median(parts):.1%}")
    print(f"congestion control: {congestion_control}")
