"""Makes the figure `synthesis/published`: what synthesizers have published, beside plans of ours.

TE-CCL's 154 runs, TACCL's ten and four points of SCCL's frontier. Ours are planned for the same network, collective and
size by `auto` and by `forest`; for a point of SCCL, by `forest` within its number of steps.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from reproduction.drawing.panels import Line, Panel, draw_panels
from reproduction.figures import Figure, Results, Row, Settings, networks_of
from reproduction.synthesis import claims
from reproduction.synthesis.published import POINTS, SIZES, Run, label, runs
from reproduction.synthesis.trials import Trial
from treefold import TreefoldError

POINT_SIZE = 10**6
"""The points of SCCL are timed at this size, where latency and bandwidth both count."""


def _wanted(settings: Settings) -> list[Run]:
    """Return the runs on the chosen networks of the chosen sizes."""
    sizes = settings.sizes or tuple(dict.fromkeys(run.size_bytes for run in runs()))
    found = [run for run in runs() if run.network in settings.networks and run.size_bytes in sizes]
    if not found and "dgx1" not in settings.networks:
        known = ", ".join(map(label, SIZES))
        raise TreefoldError(f"no published run has one of the sizes; write some of {known}")
    return found


def _trials(settings: Settings) -> list[Trial]:
    keys = dict.fromkeys((run.network, run.collective, run.size_bytes) for run in _wanted(settings))
    planned = [Trial(*key, algorithm) for key in keys for algorithm in ("auto", "forest")]
    points = POINTS if "dgx1" in settings.networks else ()
    return planned + [Trial("dgx1", point.collective, POINT_SIZE, "forest", point.steps) for point in points]


def _rows(results: Results) -> list[Row]:
    """Return a row for each published run, and for each point."""
    measured = dict(results)
    rows = []
    for run in runs():
        key = (run.network, run.collective, run.size_bytes)
        if (auto := measured.get(Trial(*key, "auto"))) is not None:
            rows.append(_row(run, None, auto, measured[Trial(*key, "forest")]))
    for point in POINTS:
        result = measured.get(Trial("dgx1", point.collective, POINT_SIZE, "forest", point.steps))
        if result is not None:
            mode = f"{point.steps} steps, {point.rounds} rounds of {point.chunks} chunks"
            run = Run("SCCL", "dgx1", point.collective, mode, POINT_SIZE, point.time_s(POINT_SIZE), None)
            rows.append(_row(run, point.steps, result, result))
    return rows


def _row(run: Run, steps: int | None, ours: Mapping[str, Any], forest: Mapping[str, Any]) -> Row:
    return {
        "source": run.source,
        "network": run.network,
        "collective": run.collective,
        "mode": run.mode,
        "size_bytes": run.size_bytes,
        "steps": steps,
        "published_s": run.time_s,
        "solver_s": run.solver_s,
        "algorithm": ours["algorithm"],
        "plan_steps": ours["steps"],
        "time_s": ours["time_s"],
        "cpu_s": ours["cpu_s"],
        "forest_s": forest["time_s"],
        "forest_cpu_s": forest["cpu_s"],
        "bound_s": ours["bound_s"],
    }


def _draw(rows: list[Row], subtitle: str) -> bytes:
    """Draw the part of the bound that plans reach, with a panel for each network and collective."""
    panels = []
    for network in networks_of(rows):
        own = [row for row in rows if row["network"] == network]
        for collective in dict.fromkeys(row["collective"] for row in own):
            panels.append(_panel(network, collective, [row for row in own if row["collective"] == collective]))
    return draw_panels(
        {"part of the bound": panels},
        title="Published plans beside ours",
        subtitle=subtitle,
        x_label="KB",
        log_x=True,
        order=("treefold", "TE-CCL", "TACCL", "SCCL"),
    )


def _panel(network: str, collective: str, rows: Sequence[Row]) -> Panel:
    """Return a panel in which each program has the best of its runs of each size."""

    def line(name: str, chosen: Sequence[Row], key: str) -> Line:
        best = claims.best_runs(chosen)
        return Line(name, [(row["size_bytes"] / 1000, row["bound_s"] / row[key], 0.0) for row in best])

    sources = dict.fromkeys(row["source"] for row in rows)
    published = [line(name, [row for row in rows if row["source"] == name], "published_s") for name in sources]
    return Panel(f"{network} {collective}", [line("treefold", rows, "time_s"), *published])


FIGURES = {
    "published": Figure(
        "Published plans of synthesizers",
        "TE-CCL's 154 runs of all-gathers and all-to-alls, TACCL's ten, and four points of SCCL's frontier of a DGX-1.",
        ("ndv2x2", "ndv2x4", "dgx2x2", "dgx1"),
        _trials,
        _rows,
        claims.published,
        _draw,
        "the flow simulator",
        takes=("sizes",),
    ),
}
