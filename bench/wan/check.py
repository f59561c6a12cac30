"""Checks a box: what TCP carries of each link's rate, alone and with all links busy both ways, and round-trip times.

    python bench/wan/check.py TOPOLOGY [--seconds 4] [--json]

A link's share is about 0.955 of its rate: Ethernet, IP and TCP headers take the rest, and the token bucket counts them.
"""

import argparse
import json
import statistics
import subprocess
import sys
from pathlib import Path
from typing import Any

import box as boxes
import cables
import running

FLOW = [sys.executable, "-ES", str(Path(__file__).with_name("flow.py"))]
PORT = 5000
WARM_S = 1.5
PINGS = 25


def ready(box: boxes.Box, node: str, *arguments: object) -> "subprocess.Popen[str]":
    """Start a listener in a node and wait until it listens."""
    process = box.popen(node, [*FLOW, *map(str, arguments)], stdout=subprocess.PIPE, text=True)
    assert process.stdout and process.stdout.readline() == "ready\n", f"{arguments} did not start in {node}"
    return process


def throughput(
    box: boxes.Box, pairs: list[cables.Pair], seconds: float, warm_s: float = WARM_S
) -> dict[cables.Pair, float]:
    """Return the bytes a second of one stream over each link, all at the same time."""
    names = box.state["nodes"]
    receivers = {(a, b): ready(box, names[b], "receive", PORT + a, warm_s, seconds) for a, b in pairs}
    long = str(seconds + warm_s + 2)
    senders = [box.popen(names[a], [*FLOW, "send", boxes.address(b), str(PORT + a), long]) for a, b in pairs]
    try:
        return {pair: float(process.communicate(timeout=seconds + 60)[0]) for pair, process in receivers.items()}
    finally:
        box.end([*senders, *receivers.values()])


def round_trips(box: boxes.Box, pairs: list[cables.Pair], count: int = PINGS) -> dict[cables.Pair, float | None]:
    """Return the median round-trip time of each pair, one pair after the other; None where nothing came back."""
    names, found = box.state["nodes"], {}
    for a, b in pairs:
        listener = ready(box, names[b], "echo", PORT)
        times = json.loads(box.run(names[a], [*FLOW, "ping", boxes.address(b), str(PORT), str(count)]))
        box.end([listener])
        found[a, b] = statistics.median(times) if times else None
    return found


def measure(box: boxes.Box, seconds: float) -> list[dict[str, Any]]:
    """Return a row a link: its rate and shares, its round trip's latency and what was measured."""
    network = box.network
    pairs = sorted(network.links)
    trips = round_trips(box, pairs)
    alone = {}
    for pair in pairs:
        alone.update(throughput(box, [pair], seconds))
    busy = throughput(box, pairs, seconds)
    hops = cables.next_hops(network)
    names, rows = network.nodes, []
    for a, b in pairs:
        rate = network.directions[a, b].bandwidth_Bps
        way = [*cables.route(hops, a, b), *cables.route(hops, b, a)]
        rtt_s = sum(network.directions[pair].latency_s for pair in way) if box.state["delays"] != "none" else 0.0
        row = {"source": names[a], "target": names[b], "rate_Bps": rate, "alone": alone[a, b] / rate}
        rows.append({**row, "busy": busy[a, b] / rate, "rtt_s": rtt_s, "measured_rtt_s": trips[a, b]})
    return rows


def show(rows: list[dict[str, Any]]) -> None:
    """Print the rows and their extremes."""
    print(f"{'link':<24}{'Mbit/s':>8}{'alone':>8}{'busy':>8}{'rtt ms':>9}{'measured':>9}")
    for row in rows:
        link = f"{row['source']} -> {row['target']}"
        shares = f"{row['rate_Bps'] * 8e-6:>8g}{row['alone']:>8.1%}{row['busy']:>8.1%}"
        measured = "lost" if row["measured_rtt_s"] is None else f"{row['measured_rtt_s'] * 1e3:.1f}"
        print(f"{link:<24}{shares}{row['rtt_s'] * 1e3:>9.1f}{measured:>9}")
    for key in ("alone", "busy"):
        shares = [row[key] for row in rows]
        print(f"{key}: {min(shares):.1%} to {max(shares):.1%}, median {statistics.median(shares):.1%}")


def main() -> int:
    """Build a box, measure, take it down."""
    parser = argparse.ArgumentParser(prog="check.py", description=__doc__.partition("\n")[0])
    boxes.add_topology(parser)
    parser.add_argument("--seconds", type=float, default=4.0, help="that each throughput is measured (4)")
    parser.add_argument("--no-delay", action="store_true", help="rates only")
    parser.add_argument("--congestion", help="TCP's congestion control; else the machine's")
    parser.add_argument("--json", action="store_true", help="print one JSON value")
    wanted = parser.parse_args()
    return running.exit_code(lambda: check(wanted))


def check(wanted: argparse.Namespace) -> int:
    """Measure every link, and show what it carries."""
    with boxes.up(boxes.topology_of(wanted), "check", not wanted.no_delay, wanted.congestion) as box:
        rows = measure(box, wanted.seconds)
        control = box.state["congestion_control"]
    if wanted.json:
        print(json.dumps({"congestion_control": control, "links": rows}))
    else:
        show(rows)
        print(f"congestion control: {control}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
