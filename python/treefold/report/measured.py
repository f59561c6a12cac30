"""Lays out measurements of workers: the network between them, and the times of collectives."""

from collections.abc import Mapping, Sequence
from typing import Any

from treefold._core import format_bandwidth, format_time
from treefold.report.align import align
from treefold.report.comparison import rate
from treefold.text import some

_NCCL_TYPES = {"float16": "half", "float32": "float", "float64": "double"}


def run_table(rows: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of the JSON of `treefold run`, with the columns of nccl-tests, bounds and predictions."""
    header = ["size", "count", "type", "redop", "root", "time", "algbw", "busbw", "#wrong", "bound", "predicted", ""]
    units = ["(B)", "(elements)", "", "", "", "(us)", "(GB/s)", "(GB/s)", "", "(%)", "(us)", "algorithm"]
    first = rows[0]
    ranks = f"{first['ranks']} {'rank' if first['ranks'] == 1 else 'ranks'}"
    origin = f"# {first['collective']} of {ranks} over {first['transport']}"
    wires = sorted({row["wire"] for row in rows if row["wire"] is not None})
    wire = "".join(f", across lines as {name}" for name in wires)
    table = align([header, units, *map(_run_cells, rows)], left={2, 3, 11})
    return f"{table}\n{origin}{wire}, mean of {first['iterations']}"


def _run_cells(row: Mapping[str, Any]) -> list[str]:
    bound, predicted = row["bound_fraction"], row["predicted_s"]
    return [
        str(row["size_bytes"]),
        str(row["count"]),
        _NCCL_TYPES.get(row["type"], row["type"]),
        row["redop"],
        str(row["root"]),
        f"{row['time_s'] * 1e6:.2f}",
        rate(row["algbw_Bps"]),
        rate(row["busbw_Bps"]),
        str(row["wrong"]),
        "-" if bound is None else f"{bound * 100:.1f}",
        "-" if predicted is None else f"{predicted * 1e6:.2f}",
        row["algorithm"],
    ]


def probe_table(probed: Mapping[str, Any]) -> str:
    """Return a table of the JSON of `treefold probe`: a row for each pair, a row for each node, and notes."""
    parts = [_pairs(probed["links"]), _nodes(probed["nodes"])]
    if probed["together"] is not None:
        rate, expected = (probed["together"][key] for key in ("rate_Bps", "expected_Bps"))
        is_noted = any(note.startswith("all pairs at once") for note in probed["notes"])
        share = "" if is_noted else f", {rate / expected:.0%} of what pairs and nodes carry alone"
        parts.append(f"all pairs at once: {format_bandwidth(rate)}{share}")
    parts += [_shared(probed["shared"])] if probed["shared"] else []
    parts += [outcome_line(probed["tests"])] if probed["tests"] else []
    parts += [f"note: {note}" for note in probed["notes"]]
    return "\n\n".join(parts)


_UNTAKEN = {
    "seconds": "no time is left for one (allow more seconds)",
    "bytes": "too few bytes are left for one that says anything (allow more bytes)",
    "workers": "there are too many workers",
}
_OVER = {"seconds": "the time is over", "bytes": "the bytes are used up", "tests": "there were as many as are taken"}


def outcome_line(tests: Mapping[str, Any]) -> str:
    """Return a line that says how tests of many pairs at once ended, and what the network is worth for that."""
    count, alone = tests["count"], "so the network says what pairs and nodes carry alone"
    if not count:
        return f"no test of many pairs at once, as {_UNTAKEN[tests['ended_by']]}; {alone}"
    text = f"{count} test{'' if count == 1 else 's'} of many pairs at once: "
    if not tests["rate_Bps"]:
        return f"{text}nothing that was carried lately joins all workers (did the network change?), {alone}"
    carried = "was carried" if tests["carried"] else "is possible in turns of what was carried, and was not tested"
    end = (
        "nothing faster is in sight" if tests["proven"] else f"something faster may be, but {_OVER[tests['ended_by']]}"
    )
    return f"{text}an all-reduce at {format_bandwidth(tests['rate_Bps'])} {carried}; {end}"


def _pairs(links: list[dict[str, Any]]) -> str:
    by_ends = {(link["source"], link["target"]): link for link in links}
    rows = [
        ["pair", "", "latency", "loaded", "->", "<-", "streams", "overhead"],
        ["", "", "(one way)", "(line full)", "(rate)", "(rate)", "", "(per message)"],
    ]
    shown: set[tuple[str, str]] = set()
    for (source, target), link in by_ends.items():
        if (target, source) in shown:
            continue
        shown.add((source, target))
        both = (link, by_ends.get((target, source)))
        measured = [each for each in both if each]
        rows.append(
            [
                source,
                target,
                format_time(link["latency_s"]),
                format_time(max(each["loaded_latency_s"] for each in measured)),
                *(format_bandwidth(each["bandwidth_Bps"]) if each else "-" for each in both),
                str(max(each["streams"] for each in measured)),
                format_time(link["overhead_s"]),
            ]
        )
    return align(rows, left={0, 1})


def _shared(shared: list[dict[str, Any]]) -> str:
    rows = [["shared", "rate", "pairs"], ["", "(together)", ""]]
    for each in shared:
        pairs = [f"{source} -> {target}" for source, target in each["pairs"]]
        rows.append([each["name"], format_bandwidth(each["bandwidth_Bps"]), some(pairs, 3)])
    return align(rows, left={0, 2})


def _nodes(nodes: list[dict[str, Any]]) -> str:
    rows = [["node", "address", "out", "in", ""], ["", "", "(to all)", "(from all)", ""]]
    for node in nodes:
        rates = [format_bandwidth(node[key]) if node[key] else "-" for key in ("egress_Bps", "ingress_Bps")]
        rows.append([node["name"], node["address"], *rates, "capped" if node["capped"] else ""])
    return align(rows, left={0, 1, 4})
