"""Judges our plans beside the published runs, size by size, and beside the points of SCCL's frontier."""

from collections.abc import Callable, Sequence

from reproduction.figures import Claim, Row, networks_of, ours
from reproduction.synthesis.published import label

SLOWER = 0.01
"""A plan may take longer than a published one by this part."""
LARGE = 64_000
"""From this size on ours should be faster, where the bound allows it."""
MOST_CPU_S = 10.0
"""The CPU seconds that planning may take; solvers took 4 to 30,855 seconds."""


def best_runs(rows: Sequence[Row]) -> list[Row]:
    """Return the row of the fastest published run of each size."""
    best: dict[int, Row] = {}
    for row in rows:
        known = best.get(row["size_bytes"])
        if known is None or row["published_s"] < known["published_s"]:
            best[row["size_bytes"]] = row
    return [best[size] for size in sorted(best)]


def published(rows: list[Row]) -> list[Claim]:
    """Judge all networks and collectives of the rows."""
    found: list[Claim] = []
    for network in networks_of(rows):
        own = [row for row in rows if row["network"] == network]
        for collective in dict.fromkeys(row["collective"] for row in own):
            alike = [row for row in own if row["collective"] == collective]
            name = f"{network} {collective}"
            for source in dict.fromkeys(row["source"] for row in alike):
                found += _JUDGES[source](name, [row for row in alike if row["source"] == source])
    return found


def _teccl(name: str, rows: list[Row]) -> list[Claim]:
    best = best_runs(rows)
    return [
        _none_slower(f"{name}: sizes at which ours is not slower than the best run of TE-CCL", best),
        _few_slower(f"{name}: all runs of TE-CCL that ours is not slower than", rows),
        _faster(name, [row for row in best if row["size_bytes"] >= LARGE]),
        *(ours(_quick(name, best, *each)) for each in (("auto", "cpu_s"), ("forest", "forest_cpu_s"))),
    ]


def _taccl(name: str, rows: list[Row]) -> list[Claim]:
    return [_none_slower(f"{name}: sizes at which ours is not slower than TACCL", rows)]


def _sccl(name: str, rows: list[Row]) -> list[Claim]:
    if rows[0]["collective"] == "all-gather":
        return [_point(name, row) for row in rows]
    return [ours(_point(f"{name} (quoted from memory)", row)) for row in rows]


_JUDGES: dict[str, Callable[[str, list[Row]], list[Claim]]] = {"TE-CCL": _teccl, "TACCL": _taccl, "SCCL": _sccl}


def _none_slower(text: str, rows: Sequence[Row]) -> Claim:
    excess = {id(row): row["time_s"] / row["published_s"] - 1 for row in rows}
    slower = [row for row in rows if excess[id(row)] > SLOWER]
    worst = [f"{label(row['size_bytes'])} by {excess[id(row)]:.1%}" for row in slower]
    listed = f"; slower: {', '.join(worst)}" if worst else ""
    measured = f"{len(rows) - len(slower)} of {len(rows)}{listed}"
    return Claim(text, f"all {len(rows)}", f"{SLOWER:.0%}", measured, not slower)


def _few_slower(text: str, rows: Sequence[Row]) -> Claim:
    excess = [row["time_s"] / row["published_s"] - 1 for row in rows]
    behind = sum(each > SLOWER for each in excess)
    measured = f"{len(rows) - behind} of {len(rows)}; {min(excess):+.1%} to {max(excess):+.1%}"
    return Claim(text, f"all {len(rows)}", f"{SLOWER:.0%}", measured, behind == 0)


def _faster(name: str, rows: Sequence[Row]) -> Claim:
    gains = [row["published_s"] / row["time_s"] for row in rows]
    behind = [
        label(row["size_bytes"])
        for row in rows
        if row["time_s"] >= row["published_s"] and row["time_s"] > row["bound_s"] * (1 + SLOWER)
    ]
    measured = f"{min(gains):.3f} to {max(gains):.3f}" + (f"; not at {', '.join(behind)}" if behind else "")
    text = f"{name}: time of the best run of TE-CCL over ours from 64 KB on"
    return Claim(text, "above 1", "where ours is more than 1% above the bound", measured, not behind)


def _quick(name: str, rows: Sequence[Row], algorithm: str, key: str) -> Claim:
    seconds = [row[key] for row in rows]
    measured = f"{min(seconds):.2f} to {max(seconds):.2f}"
    solvers = [row["solver_s"] for row in rows]
    text = f"{name}: CPU seconds of {algorithm} (solver of TE-CCL: {min(solvers):,.0f} to {max(solvers):,.0f} s)"
    return Claim(text, f"at most {MOST_CPU_S:.0f}", "none", measured, max(seconds) <= MOST_CPU_S)


def _point(name: str, row: Row) -> Claim:
    text = f"{name} in {row['mode']}: steps, and time of {label(row['size_bytes'])} over that of SCCL's model"
    ratio = row["time_s"] / row["published_s"]
    is_there = row["plan_steps"] <= row["steps"] and ratio <= 1 + 1e-3
    return Claim(text, f"{row['steps']}, 1", "0.1%", f"{row['plan_steps']}, {ratio:.4f}", is_there)
