"""Prints the table of `make bench-wan`: times of treefold and its rivals on WANs in a box, bounds and predictions.

    python -m bench.wan.compare [NETWORK...] [--size 64MiB] [--buckets 16] [--only treefold,tls,int8,gloo] [--json]

Without a topology it uses those of `topologies/`. Every rank of every entry verifies its sums. A time below the bound
means that the traffic did not go over the box; the table marks it. It needs root, and rivals need the Python
environments that `rivals/launch.py` names.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

import treefold
from bench.wan.rivals import launch, ring
from tools import wan_box
from tools.wan_box import Box, Outcome, losses
from treefold import TreefoldError, certificates
from treefold._core import parse_size, wire_bytes

TOPOLOGIES = sorted(Path(__file__).with_name("topologies").glob("*.json"))
TREEFOLD = Path(sys.executable).with_name("treefold")
TIMEOUT_S = 600.0
Row = dict[str, Any]


def predicted_s(topology: str | Path, size: int) -> float:
    """Return the flow simulator's time for the plan of `auto`, with the bandwidths that TCP delivers."""
    value = json.loads(treefold.topology(topology).to_json())
    for link in value["links"]:
        link["bandwidth_Bps"] *= ring.TCP_SHARE
    planned = treefold.plan(treefold.topology(value), size_bytes=size)
    return treefold.simulate(planned, size_bytes=size, simulator="flow").time_s


def treefold_rows(box: Box, topology: str | Path, size: int, iterations: int, buckets: int) -> list[Row]:
    """Run `treefold run` on every worker, whose rank 0 prints the rows; or time buckets with `treefold.runtime`."""
    if buckets > 1:
        env = {"TREEFOLD_TOPOLOGY": absolute(topology)}
        timed = launch.torch(box, "runtime", size, iterations, env=env, buckets=buckets)
        return [{"name": "treefold", **timed}]
    time_s = predicted_s(topology, size)
    return [row | {"name": "treefold", "predicted_s": time_s} for row in run_rows(box, topology, size, iterations)]


def run_rows(
    box: Box, topology: str | Path, size: int, iterations: int, *options: str, keys: Path | None = None
) -> list[Row]:
    """Return the rows of `treefold run` with these options, whose workers have the certificates of a folder."""
    command = [str(TREEFOLD), "run", absolute(topology), "--size", str(size), "--iters", str(iterations), "--json"]
    outcomes = box.run_all([*command, *options], timeout_s=TIMEOUT_S, keys=keys)
    return [row | {"time_s": row["min_time_s"], "median_s": row["median_time_s"]} for row in rows_of(outcomes[0])]


def tls_rows(box: Box, topology: str | Path, size: int, iterations: int, buckets: int) -> list[Row]:
    """Run `treefold run` with a certificate for each worker."""
    only_whole(buckets)
    with tempfile.TemporaryDirectory() as keys:
        certificates.make(box.workers, keys)
        rows = run_rows(box, topology, size, iterations, keys=Path(keys))
    return [row | {"name": "treefold, TLS"} for row in rows]


def wire(name: str) -> Callable[..., list[Row]]:
    """Return a function that times `treefold run` with float32 vectors that cross lines in another type."""

    def rows(box: Box, topology: str | Path, size: int, iterations: int, buckets: int) -> list[Row]:
        only_whole(buckets)
        share = wire_bytes(name, size // 4) / size
        timed = run_rows(box, topology, size, iterations, "--type", "float32", "--wire", name)
        return [row | {"name": f"treefold, {name}", "wire_share": share} for row in timed]

    return rows


def only_whole(buckets: int) -> None:
    """Refuse buckets, which `treefold run` does not have."""
    if buckets > 1:
        raise TreefoldError("it is timed without buckets only")


def torch_rows(box: Box, topology: str | Path, size: int, iterations: int, buckets: int) -> list[Row]:
    """Time `init_process_group("treefold")`: the PyTorch backend over its own connections, and over gloo's messages."""
    rows = []
    for transport, shown in (("tcp", "treefold, PyTorch"), ("torch", "treefold, PyTorch over gloo")):
        env = {"TREEFOLD_TOPOLOGY": absolute(topology), "TREEFOLD_TRANSPORT": transport}
        result = launch.torch(box, "treefold", size, iterations, env=env, buckets=buckets)
        rows.append({"name": shown, "predicted_s": predicted_s(topology, size), **result})
    return rows


def absolute(topology: str | Path) -> str:
    """Return a file's absolute path, or a spec as it is."""
    return str(Path(topology).resolve()) if Path(topology).exists() else str(topology)


def rows_of(outcome: Outcome) -> list[Row]:
    """Return the row, or the list of rows, that a worker printed."""
    try:
        value = json.loads(outcome.stdout)
    except ValueError:
        raise TreefoldError(f"{outcome.node} printed no JSON: {outcome.stdout[-500:]!r}") from None
    return value if isinstance(value, list) else value.get("rows", [value])


def rival(name: str, shown: str) -> Callable[..., list[Row]]:
    """Return a function that times a rival."""

    def rows(box: Box, topology: str | Path, size: int, iterations: int, buckets: int) -> list[Row]:
        return [{"name": shown, **launch.RIVALS[name](box, size, iterations, buckets)}]

    return rows


ENTRIES: dict[str, Callable[..., list[Row]]] = {
    "treefold": treefold_rows,
    "tls": tls_rows,
    "bfloat16": wire("bfloat16"),
    "int8": wire("int8"),
    "torch": torch_rows,
    "gloo": rival("gloo", "gloo"),
    "gloo-best": rival("gloo-best", "gloo, best ring order"),
    "mpi": rival("mpi", "MPICH"),
}


def measure(topology: str | Path, entries: list[str], wanted: argparse.Namespace) -> dict[str, Any]:
    """Return the rows of one network; the row of an entry that fails says why."""
    size, times = parse_size(wanted.size), (wanted.iterations, wanted.buckets)
    loss = None if wanted.loss is None else losses.parse(wanted.loss)
    bound_s = size / treefold.bound(treefold.topology(topology)).all_reduce.rate_Bps
    rows = []
    with wan_box.up(topology, "bench", congestion=wanted.congestion, loss=loss) as box:
        for entry in entries:
            print(f"{Path(topology).stem}: {entry}", file=sys.stderr)
            try:
                rows += [judged(row, bound_s) for row in ENTRIES[entry](box, topology, size, *times)]
            except TreefoldError as error:
                rows.append({"name": entry, "note": str(error)})
        setting = {"congestion_control": box.state.congestion_control, "delays": box.state.delays, "loss": loss}
        head = {"topology": box.network.name, **setting}
    return {**head, "size_bytes": size, "buckets": wanted.buckets, "bound_s": bound_s, "rows": rows}


def judged(row: Row, bound_s: float) -> Row:
    """Add the part of the bound for the bytes that cross, the prediction's error, and a note on impossible results."""
    fraction = bound_s * row.get("wire_share", 1) / row["time_s"]
    row = {**row, "bound_fraction": fraction, "note": ""}
    if "predicted_s" in row:
        row["prediction_error"] = row["predicted_s"] / row["time_s"] - 1
    if fraction > 1:
        row["note"] = "faster than the bound: the traffic did not use the network"
    if row.get("wrong"):
        row["note"] = f"{row['wrong']} wrong values"
    return row


def table(result: dict[str, Any]) -> Table:
    """Return a network's rows as a table."""
    buckets = f" in {result['buckets']} buckets" if result["buckets"] > 1 else ""
    title = f"{result['topology']}, {result['size_bytes'] / 2**20:g} MiB{buckets}, {result['congestion_control']}"
    shown = Table(
        title=f"{title}, delays: {result['delays']}, loss: {losses.shown(result['loss'])}", title_justify="left"
    )
    shown.add_column("all-reduce")
    for heading in ("least s", "median s", "of bound", "predicted s", "error"):
        shown.add_column(heading, justify="right", no_wrap=True)
    shown.add_column("note")
    for row in result["rows"]:
        shown.add_row(row["name"], *cells(row), row["note"].strip().replace("[", r"\["))
    shown.add_row("bound", f"{result['bound_s']:.2f}", "", "100.0%", "", "", "")
    return shown


def cells(row: Row) -> Iterator[str]:
    """Yield the numbers of a row; missing ones stay empty."""
    formats = {"time_s": ".2f", "median_s": ".2f", "bound_fraction": ".1%", "predicted_s": ".2f"}
    for key, how in {**formats, "prediction_error": "+.1%"}.items():
        yield format(row[key], how) if key in row else ""


def wanted_entries(text: str | None) -> list[str]:
    """Return the entries of a list, or all."""
    names = text.split(",") if text else list(ENTRIES)
    for name in names:
        if name not in ENTRIES:
            raise TreefoldError(f"entry {name!r} is unknown; known are {', '.join(ENTRIES)}")
    return names


def main() -> int:
    """Read the command line, and measure every network in turn."""
    parser = argparse.ArgumentParser(prog="python -m bench.wan.compare", description=__doc__.partition("\n")[0])
    parser.add_argument(
        "topologies", nargs="*", default=TOPOLOGIES, help="Topology files; by default those of topologies/."
    )
    parser.add_argument("--size", default="64MiB", help="The size of the vector, by default 64MiB.")
    parser.add_argument("--only", help=f"Measure only some of {','.join(ENTRIES)}.")
    parser.add_argument(
        "--iterations", type=int, default=3, help="How often each is timed after a warm-up, by default 3."
    )
    parser.add_argument(
        "--buckets", type=int, default=1, help="Cut the vector into so many all-reduces, one behind the other."
    )
    parser.add_argument("--congestion", help="TCP's congestion control; by default the machine's.")
    parser.add_argument("--loss", help=losses.HELP)
    parser.add_argument("--json", action="store_true", help="Print one JSON value and nothing else.")
    wanted = parser.parse_args()
    return wan_box.exit_code(lambda: compare(wanted))


def compare(wanted: argparse.Namespace) -> int:
    """Measure every network in turn, and print each when it is done; return 1 if anything failed."""
    console, results = Console(width=None if sys.stdout.isatty() else 140), []
    entries = wanted_entries(wanted.only)
    for topology in wanted.topologies:
        results.append(measure(topology, entries, wanted))
        if not wanted.json:
            console.print(table(results[-1]))
    if wanted.json:
        print(json.dumps(results))
    return int(any("time_s" not in row or row["note"] for one in results for row in one["rows"]))


if __name__ == "__main__":
    sys.exit(main())
