"""Lays out plans, bounds, training times and claims as tables of plain text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from treefold._core import format_bandwidth, format_size, format_time
from treefold.report.align import align, key_values
from treefold.report.comparison import short_buffers
from treefold.results import BoundReport

_WHOLE = 100  # larger rates are printed without fractions
_MOST_ENTRIES, _MOST_LINES = 50, 500  # the most lines of one schedule table, and about the most of all of them


_GAPS = {
    "packing": "the bound is at most {} above this rate",
    "innet": "the in-network bound is at most {} above this rate",
    "blink": "of the trees that were found, at most {} fewer might do",
}
"""The meaning of the gap of each planner."""
_GAP_OF_CHOICE = "the best choice of the trees that were grown is at most {} above this rate"


def plan_table(summary: Mapping[str, Any], busiest_link: str | None) -> str:
    """Lay out a plan's summary with its busiest link and, if `auto` chose the plan, the candidates."""
    network = summary["topology"]
    nodes = f"{network['accelerators']} accelerators, {network['switches']} switches, {network['links']} links"
    steps = "none: the trees stream" if summary["steps"] is None else str(summary["steps"])
    rate = "nothing to send"
    if summary["rate_Bps"] is not None:
        rate = f"{format_bandwidth(summary['rate_Bps'])} at most, by the busiest link: {busiest_link}"
    table = key_values(
        {
            "topology": f"{network['name']} ({nodes})",
            "algorithm": summary["algorithm"],
            "collective": summary["collective"],
            "made for": "not known" if summary["size_bytes"] is None else format_size(summary["size_bytes"]),
            "trees": str(summary["trees"]),
            "steps": steps,
            "height": f"{summary['max_height']} at most, {summary['mean_height']:.2f} on average",
            "fanout": f"{summary['max_fanout']} at most",
            "rate": rate,
            **_proof(summary),
        }
    )
    parts = [table]
    if "choice" in summary:
        parts.append(_choice_table(summary["choice"]))
    if "schedule_tables" in summary:
        parts.append(schedule_tables(summary["schedule_tables"]))
    if "switch_tables" in summary:
        parts.append(switch_tables(summary["switch_tables"]))
    return "\n\n".join(parts)


def schedule_tables(report: Mapping[str, Any]) -> str:
    """Lay out the result of `treefold.tables` as the MultiTree paper does, one table after the other."""
    bits, entries, size = report["entry_bits"], report["entries"], report["bytes"]
    formats = {
        f"{name} flit": ", ".join(f"{field} {width}" for field, width in fields)
        for name, fields in report["flit_formats"].items()
    }
    cost = {"each table": f"{entries} entries of {bits} bits, {size} bytes", **formats}
    return "\n\n".join([*_tables_of_ranks(report), key_values(cost)])


def _tables_of_ranks(report: Mapping[str, Any]) -> Iterator[str]:
    """Yield the tables, cut to what people read; `--json` prints them all."""
    header = ["Op", "FlowID", "Parent", "Children", "Step", "Start", "Size"]
    lines = 0
    for rank, (name, table) in enumerate(zip(report["names"], report["tables"], strict=True)):
        if lines >= _MOST_LINES:
            yield f"# {len(report['tables']) - rank} more tables; --json lists them all"
            return
        shown = [_entry(entry) for entry in table[:_MOST_ENTRIES]]
        more = len(table) - len(shown)
        cut = f"\n# {more} more entries; --json lists them all" if more else ""
        yield f"Accelerator {rank}, {name}\n{align([header, *shown], left={0, 3})}{cut}"
        lines += len(shown)


def switch_tables(tables: Mapping[str, Sequence[Mapping[str, Any]]]) -> str:
    """Lay out the entries of multicast regions by switch, as Fig. 2 of the in-network paper does."""
    header = ["Switch", "Region", "Start", "Size", "From", "Targets", "Operands"]
    rows = [
        [
            switch,
            str(entry["region"]),
            f"{entry['start']:#x}",
            f"{entry['size_bytes']:#x}",
            entry["source"] or "here",
            " ".join(entry["targets"]),
            str(entry["operands"]),
        ]
        for switch, entries in tables.items()
        for entry in entries
    ]
    return align([header, *rows], left={0, 4, 5})


def _entry(entry: Mapping[str, Any]) -> list[str]:
    if entry["op"] == "NOP":
        return ["NOP", "", "", "", str(entry["step"]), "", ""]
    parent = "nil" if entry["parent"] is None else str(entry["parent"])
    children = " ".join(map(str, entry["children"])) or "nil"
    return [entry["op"], str(entry["flow"]), parent, children, *(str(entry[key]) for key in ("step", "start", "size"))]


def _proof(summary: Mapping[str, Any]) -> dict[str, str]:
    """Return rows about what a planner with a solver proved of its plan."""
    proof = {}
    if summary.get("bound_Bps") is not None:
        proof["bound"] = f"{format_bandwidth(summary['bound_Bps'])}: no set of trees carries more"
    if "gap" in summary:
        text, gap = _GAPS.get(summary["algorithm"], _GAP_OF_CHOICE), summary["gap"]
        proof["gap"] = "not known: the solver ran into its limit" if gap is None else text.format(f"{gap:.1%}")
    return proof


def _choice_table(choice: Mapping[str, Any]) -> str:
    """Lay out the candidates of `auto`, fastest first: their times, split into latency and the rest."""
    fitting = [candidate for candidate in choice["candidates"] if candidate["reason"] is None]
    rows = []
    for candidate in sorted(fitting, key=lambda candidate: candidate["time_s"]):
        total, latency = candidate["time_s"], candidate["latency_s"]
        parts = f"= {format_time(latency)} latency + {format_time(total - latency)}"
        rows.append([f"  {candidate['algorithm']}", format_time(total), parts])
    others = [candidate for candidate in choice["candidates"] if candidate["reason"] is not None]
    rows += [[f"  {candidate['algorithm']}", "-", candidate["reason"]] for candidate in others]
    title = f"chosen for {format_size(choice['size_bytes'])} by time ({choice['model']} model):"
    return f"{title}\n{align(rows, left={0, 2})}"


_VALID = "\n# exact: no smaller rate would be a bound; valid: no all-reduce is faster, but maybe none reaches the rate"


def bound_table(report: BoundReport) -> str:
    """Lay out the bounds of a network."""
    titles = {
        "reduce_scatter_all_gather": "reduce-scatter, then all-gather",
        "all_reduce": "all-reduce",
        "in_network": "all-reduce with the help of switches",
    }
    rows = [["bound", "rate", "quality", "found by"]]
    for name, bound in report.bounds().items():
        rate = "nothing to send" if bound.rate_Bps is None else format_bandwidth(bound.rate_Bps)
        rows.append([titles[name], rate, "exact" if bound.is_exact else "valid", bound.method])
    rows.append(["latency of the farthest pair", format_time(report.latency_s), "", "fastest route"])
    note = "" if all(bound.is_exact for bound in report.bounds().values()) else _VALID
    return align(rows, left={0, 2, 3}) + note


def train_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Lay out the rows of `treefold.train`; `*` marks the fastest iteration."""
    parts = {
        "iteration": "iteration_s",
        "compute": "compute_s",
        "aggregation": "local_aggregation_s",
        "optimizer": "optimizer_s",
        "overhead": "stolen_s",
        "exposed": "exposed_communication_s",
        "overlapped": "overlapped_communication_s",
    }
    always = ("iteration", "compute", "exposed")
    shown = {name: key for name, key in parts.items() if name in always or any(row[key] for row in rows)}
    header = ["algorithm", *shown, "samples", "speed-up", ""]
    units = ["", *("(ms)" for _ in shown), "(/s)", "(x)", ""]
    body = []
    for row in rows:
        chosen = f" ({row['chosen']})" if "chosen" in row else ""
        times = (f"{row[key] * 1e3:.3f}" for key in shown.values())
        digits = 0 if row["samples_per_s"] >= _WHOLE else 2
        ends = (f"{row['samples_per_s']:,.{digits}f}", f"{row['speedup']:.2f}", "*" if row["winner"] else "")
        body.append([row["algorithm"] + chosen, *times, *ends])
    return f"{align([header, units, *body], left={0, len(header) - 1})}\n{training_summary(rows)}"


def training_summary(rows: Sequence[Mapping[str, Any]]) -> str:
    """Say what is trained and how. The line begins with `#`, as nccl-tests marks lines that are not rows."""
    first = rows[0]
    is_split = first["parallelism"] == "model"
    collective = "reduce-scatter" if first["sharded"] else "all-reduce"
    how = {
        "none": f"one {collective} after the backward pass",
        "layer": f"{collective}s layer by layer",
        "bucket": f"{collective}s by buckets",
    }[first["overlap"]]
    how = "sums inside both passes (model parallelism)" if is_split else how
    how += ", then an all-gather" if first["sharded"] else ""
    error = max((row["interpolation_error"] or 0.0 for row in rows), default=0.0)
    inexact = f"; times of larger sizes are interpolated and may be off by {error:.1%}" if error else ""
    short = short_buffers(min((row["buffer_cover"] or 1.0 for row in rows), default=1.0))
    samples = f"{first['batch']} samples {'of all ranks together' if is_split else 'per rank'}"
    what = f"{first['model']}: {first['parameters']:,} parameters, {samples}"
    return f"# {what}, {first['ranks']} x {first['accelerator']}; {how}, {first['simulator']} model{inexact}{short}"


def claims_table(claims: Sequence[Mapping[str, Any]]) -> str:
    """Lay out the claims of a paper beside our measurements; misses are in capitals."""
    header = ["claim", "paper", "tolerance", "measured", "reproduced"]
    rows = [[claim[key] for key in header[:4]] + ["yes" if claim["reproduced"] else "NO"] for claim in claims]
    return align([header, *rows], left={0, 1, 2, 3, 4})
