"""The command `compare`: algorithms over sizes on one network, or the winners on several."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from treefold import comparison, winning
from treefold._core import Topology
from treefold.cli.groups import expanded
from treefold.cli.options import (
    Algorithms,
    CollectiveOptions,
    Json,
    NetworkOptions,
    Networks,
    PlannerOptions,
    SimulatorOptions,
    Sizes,
)
from treefold.cli.terminal import show_rows, working
from treefold.errors import TreefoldError
from treefold.files.writing import check_writable, write_bytes_atomically, write_text_atomically
from treefold.report import (
    check_format,
    compare_table,
    plot_comparison,
    plot_format,
    plot_winners,
    winners_table,
)
from treefold.report.comparison import MOST_ROWS
from treefold.results import Comparison
from treefold.winner_results import WinnerMap

_OF_ONE_NETWORK = {"ranks": "--ranks", "rank_order": "--rank-order"}
"""The options that number the accelerators of one network."""


@dataclass(frozen=True, kw_only=True)
class Report:
    """The options for output of `compare`."""

    show_all: Annotated[
        bool,
        typer.Option(
            "--all", help=f"Show every algorithm at every size; by default only if that takes at most {MOST_ROWS} rows."
        ),
    ] = False
    plot: Annotated[Path | None, typer.Option(help="Also draw the comparison to this file, .png, .svg or .pdf.")] = None
    map_file: Annotated[
        Path | None,
        typer.Option("--map", help="Show only the winners, as with several networks, and draw them to this file."),
    ] = None
    csv: Annotated[
        Path | None, typer.Option(help="Also write all rows to this file, with the keys of --json as columns.")
    ] = None
    as_json: Json = False

    def check(self, count: int) -> None:
        """Refuse files that could not be written, and what does not go together with so many networks."""
        for flag in [*["--plot"] * (self.plot is not None), *["--all"] * self.show_all]:
            if self.map_file is not None:
                raise TreefoldError(f"{flag} shows all algorithms, and --map only the winners; drop one of the two")
            _check_is_one(flag, count)
        for path in (self.plot, self.map_file):
            if path is not None:
                check_plot(path)
        if self.csv is not None:
            check_writable(self.csv)


@expanded
def compare(
    sources: Networks,
    algorithms: Algorithms = None,
    sizes: Sizes = "32KiB:64MiB",
    *,
    what: CollectiveOptions,
    shown: Report,
    planner: PlannerOptions,
    simulator_options: SimulatorOptions,
    network_options: NetworkOptions,
) -> None:
    """Compare the predicted times of algorithms over sizes.

    With several networks, or --map, only the winner on each network at each size is shown: the fastest algorithm, how
    many times as long ring, nccl and multitree take, and which algorithms take at most 1 % longer.

    Examples:
    treefold compare torus:8x8
    treefold compare b4 -a packing,mtree,ring --sizes 1MiB:1GiB --simulator flow
    treefold compare dgx2:planes=6 --plot dgx2.svg --all
    treefold compare torus:8x8 dgx1 b4 --sizes 1KiB,1MiB,1GiB --map winners.svg

    """
    shown.check(len(sources))
    networks = _loaded(sources, network_options)
    arguments: dict[str, Any] = {
        "sizes_bytes": sizes,
        "simulator": simulator_options.asked().named,
        "link_model": simulator_options.link_model,
        **what.asked(),
        **planner.asked(),
    }
    if len(networks) > 1 or shown.map_file is not None:
        _show_winners(networks, algorithms, arguments, shown)
    else:
        _show_comparison(networks[0], algorithms, arguments, shown)


def check_plot(path: Path) -> None:
    """Refuse a picture that could not be drawn or written, before a long computation."""
    check_format(plot_format(path))
    check_writable(path)


def _loaded(sources: list[str], options: NetworkOptions) -> list[Topology]:
    """Load the networks; refuse options that only one network can have."""
    for flag in (flag for name, flag in _OF_ONE_NETWORK.items() if getattr(options, name) is not None):
        _check_is_one(flag, len(sources))
    return [options.load(source) for source in sources]


def _check_is_one(flag: str, count: int) -> None:
    """Refuse an option with several networks."""
    if count > 1:
        raise TreefoldError(f"{flag} is for one network, and {count} are compared; drop it, or compare one")


def _show_comparison(
    network: Topology, algorithms: list[str] | None, arguments: Mapping[str, Any], shown: Report
) -> None:
    """Compare algorithms on one network."""

    def table(rows: Comparison) -> str:
        return compare_table(rows, is_whole=shown.show_all)

    try:
        with working("comparing"):
            rows = comparison.compare(network, algorithms, **arguments)
    except comparison.Interrupted as stop:
        show_rows(Comparison(stop.rows), shown.as_json, table)
        raise
    if shown.plot is not None:
        picture = plot_comparison(rows, title=network.name, format=plot_format(shown.plot))
        write_bytes_atomically(shown.plot, picture)
    if shown.csv is not None:
        write_text_atomically(shown.csv, rows.to_csv())
    show_rows(rows, shown.as_json, table)


def _show_winners(
    networks: list[Topology], algorithms: list[str] | None, arguments: Mapping[str, Any], shown: Report
) -> None:
    """Find the winners on networks."""
    try:
        with working("comparing"):
            rows = winning.winners(networks, algorithms, **arguments)
    except comparison.Interrupted as stop:
        show_rows(WinnerMap(stop.rows), shown.as_json, winners_table)
        raise
    if shown.map_file is not None:
        write_bytes_atomically(shown.map_file, plot_winners(rows, format=plot_format(shown.map_file)))
    if shown.csv is not None:
        write_text_atomically(shown.csv, rows.to_csv())
    show_rows(rows, shown.as_json, winners_table)
