"""Prints what `treefold probe` makes of networks that nobody described, and how fast plans for its results are.

    python -m bench.wan.discover [NETWORK...] [--size 64MiB] [--json] [-- OPTIONS OF treefold probe]

Without a network it uses those of `underlays/`, whose routers and shared lines the workers are not told. It builds a
box of each, runs `treefold probe` on every worker, and then `treefold run` on the probe's result. The bound is that of
the true network, as in `compare.py`: TCP can reach 95.5 % of it. It needs root.
"""

import argparse
import contextlib
import json
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import treefold
from bench.wan.compare import TIMEOUT_S, TREEFOLD, Row, judged, run_rows
from tools import wan_box
from tools.wan_box import Box
from treefold import TreefoldError
from treefold._core import parse_size

UNDERLAYS = sorted(Path(__file__).with_name("underlays").glob("*.json"))
TRAFFIC_ON_S, TRAFFIC_OFF_S = 5.0, 10.0


def measure(network: str | Path, wanted: argparse.Namespace) -> Row:
    """Return the row of a network; one that fails says why."""
    size = parse_size(wanted.size)
    bound_s = size / treefold.bound(treefold.topology(network)).all_reduce.rate_Bps
    row = {"network": Path(network).stem, "bound_s": bound_s, "note": ""}
    with wan_box.up(network, "discover", congestion=wanted.congestion) as box, contextlib.ExitStack() as stack:
        if wanted.traffic:
            ends = box.workers[0], box.workers[-1]
            stack.enter_context(box.traffic(*ends, wanted.traffic, TRAFFIC_ON_S, TRAFFIC_OFF_S))
        try:
            return discovered(box, row, size, wanted)
        except TreefoldError as error:
            return {**row, "note": str(error)}


def discovered(box: Box, row: Row, size: int, wanted: argparse.Namespace) -> Row:
    """Probe a box that is up, run on what the probe wrote, and return both in the row."""
    with tempfile.TemporaryDirectory() as directory:
        file, start = Path(directory) / "net.json", time.monotonic()
        command = [str(TREEFOLD), "probe", "-o", str(file), "--json", *wanted.behind]
        outcome = box.run_all(command, timeout_s=TIMEOUT_S)[0]
        row = {**row, "probe_s": time.monotonic() - start, "probed": json.loads(outcome.stdout)}
        row["tests"] = tests(row["probed"])
        (timed,) = run_rows(box, file, size, wanted.iterations)
    return {**row, **judged({**timed, "bound_s": row["bound_s"]}, row["bound_s"])}


def tests(probed: dict[str, Any]) -> int:
    """Return how many tests of many pairs at once a probe has made."""
    return max((each["tests"] for each in probed["rounds"]), default=0)


def table(rows: list[Row], wanted: argparse.Namespace) -> Table:
    """Return the rows as a table."""
    traffic = f", cross traffic of {wanted.traffic}" if wanted.traffic else ""
    shown = Table(title=f"probe, then all-reduce of {wanted.size}{traffic}", title_justify="left")
    shown.add_column("network")
    for heading in ("probe s", "tests", "least s", "bound s", "of bound", "predicted s", "error"):
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column("note")
    formats = {"probe_s": ".0f", "tests": "", "time_s": ".2f", "bound_s": ".2f", "bound_fraction": ".1%"}
    formats |= {"predicted_s": ".2f", "prediction_error": "+.1%"}
    for row in rows:
        cells = [format(row[key], how) if row.get(key) is not None else "" for key, how in formats.items()]
        shown.add_row(row["network"], *cells, row["note"].strip().replace("[", r"\["))
    return shown


def discover(wanted: argparse.Namespace) -> int:
    """Measure every network in turn and print all; return 1 if anything failed."""
    rows = []
    for network in wanted.networks:
        print(Path(network).stem, file=sys.stderr)
        rows.append(measure(network, wanted))
    if wanted.json:
        print(json.dumps(rows))
    else:
        Console(width=None if sys.stdout.isatty() else 140).print(table(rows, wanted))
    return int(any(row["note"] for row in rows))


def main() -> int:
    """Read the command line, and measure."""
    parser = argparse.ArgumentParser(prog="python -m bench.wan.discover", description=__doc__.partition("\n")[0])
    networks = "Topology files; by default those of underlays/."
    parser.add_argument("networks", nargs="*", metavar="NETWORK", default=UNDERLAYS, help=networks)
    parser.add_argument("--size", default="64MiB", help="The size of the vector, by default 64MiB.")
    parser.add_argument(
        "--iterations", type=int, default=3, help="How often it is timed after a warm-up, by default 3."
    )
    traffic = "Send so much from the first worker to the last meanwhile, 5 s of every 15: 10Mbit/s."
    parser.add_argument("--traffic", metavar="RATE", help=traffic)
    parser.add_argument("--congestion", help="TCP's congestion control; by default the machine's.")
    parser.add_argument("--json", action="store_true", help="Print one JSON value and nothing else.")
    given = sys.argv[1:]
    place = given.index("--") if "--" in given else len(given)
    wanted = parser.parse_args(given[:place])
    wanted.behind = given[place + 1 :]
    return wan_box.exit_code(lambda: discover(wanted))


if __name__ == "__main__":
    sys.exit(main())
