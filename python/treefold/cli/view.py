"""The command `view`: a page that shows plans, as a file or from a server.

What makes pages needs NumPy, and what serves them a web server: both are imported only then.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from treefold import auto, networks
from treefold._core import Plan, Topology, Trace
from treefold.cli.groups import completing, expanded, flags_given
from treefold.cli.options import (
    CollectiveOptions,
    NetworkOptions,
    PlannerOptions,
    SimulatorOptions,
    simulator_option,
)
from treefold.cli.terminal import notify, working
from treefold.errors import TreefoldError
from treefold.files.plans import is_plan_file, load_plan
from treefold.files.traces import is_trace_file, load_trace
from treefold.files.writing import check_writable_as

if TYPE_CHECKING:
    from treefold.viewing import Page


@dataclass(frozen=True, kw_only=True)
class Shown:
    """The options of `view` itself."""

    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="Write the page to this file, .html, and open no browser.")
    ] = None
    size: Annotated[
        str | None,
        typer.Option(
            metavar="SIZES",
            help="The size of the vector, or several: a list such as 1MiB,3MiB, or a range such as 32KiB:64MiB; by "
            "default the size that each plan was made for, or 64MiB.",
        ),
    ] = None
    trace: Annotated[
        Path | None,
        typer.Option(help="Show this trace of the plan, which 'treefold run --trace' wrote, beside the prediction."),
    ] = None
    serve: Annotated[
        bool, typer.Option("--serve", help="Serve the page on the loopback address; the default without -o.")
    ] = False
    port: Annotated[int | None, typer.Option(help="The port to serve on; by default any that is free.")] = None

    def check(self) -> None:
        """Refuse a file that could not be written, and what does not go together with a file."""
        if self.output is None:
            return
        if self.serve or self.port is not None:
            flag = "--serve" if self.serve else f"--port {self.port}"
            raise TreefoldError(f"{flag} and -o {self.output}: a page is served or written; drop one of the two")
        check_writable_as(self.output, ".html", "pages")


@dataclass(frozen=True, kw_only=True)
class ViewWith(SimulatorOptions):
    """The options of simulators; all but `analytic` have something to show."""

    simulator: Annotated[str | None, simulator_option("flow; packet with --machine or --set")] = None


@expanded
def view(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="NETWORK|PLAN.json...", help="Plans, or networks that are planned for."),
    ],
    algorithms: Annotated[
        list[str] | None,
        typer.Option(
            "--algorithm",
            "-a",
            help="The algorithms that plan for the networks, separated by commas; by default auto.",
            autocompletion=completing(auto.names()),
        ),
    ] = None,
    *,
    what: CollectiveOptions,
    shown: Shown,
    planner: PlannerOptions,
    simulator_options: ViewWith,
    network_options: NetworkOptions,
) -> None:
    """Show in a browser what plans send, and when.

    The page shows the network, the trees, how busy links are, and each transfer. It is one file that needs no server
    and no network. Two plans stand side by side, on the same clock.

    Examples:
    treefold view torus:8x8 -a ring,multitree --size 1MiB -o torus.html
    treefold view plan.json
    treefold view b4 -a packing,mtree --size 1MiB:1GiB

    """
    from treefold import viewing

    shown.check()
    loaded = [_loaded(source, (what, planner, network_options), network_options) for source in sources]
    are_plans = all(isinstance(each, Plan) for each in loaded)
    if algorithms and are_plans:
        raise TreefoldError(f"{sources[0]} is already a plan; drop --algorithm")
    measured = [] if shown.trace is None else [_measured(shown.trace, loaded)]
    with working("simulating"):
        page = viewing.view(
            *loaded,
            *measured,
            algorithm=",".join(algorithms or ["auto"]),
            size_bytes=shown.size if shown.size or not measured else measured[0].size_bytes,
            simulator=simulator_options.asked("flow").named,
            link_model=networks.link_model_of(simulator_options.link_model),
            names=[*sources, *[str(shown.trace)] * len(measured)],
            **({} if are_plans else what.asked() | planner.asked()),
        )
    if shown.output is None:
        _serve(page, shown.port or 0)
        return
    with working("writing"):
        page.save(shown.output)
    notify(f"wrote {shown.output}; open it in a browser")


def _loaded(source: str, given: tuple[object, ...], network_options: NetworkOptions) -> Plan | Topology:
    """Return the plan of a file, or a network."""
    if is_trace_file(source):
        raise TreefoldError(f"{source} is a trace; name the file of its plan, and add --trace {source}")
    if source in auto.names() and not Path(source).exists():
        raise TreefoldError(f"{source} is an algorithm, and no network; name a network, and write -a {source}")
    if not is_plan_file(source):
        return network_options.load(source)
    if flags := flags_given(*given):
        raise TreefoldError(f"{source} is already a plan; drop {', '.join(flags)}")
    return load_plan(source)


def _measured(path: Path, loaded: Sequence[Plan | Topology]) -> Trace:
    """Return the trace of a run of the only plan."""
    if len(loaded) != 1 or not isinstance(loaded[0], Plan):
        raise TreefoldError(
            f"--trace {path}: give the file of the one plan that was run, as 'treefold plan -o' wrote it"
        )
    if is_plan_file(str(path)):
        raise TreefoldError(f"--trace {path}: it is a plan; give a trace, which 'treefold run --trace' writes")
    return load_trace(path, loaded[0])


def _serve(page: "Page", port: int) -> None:
    import webbrowser

    from treefold.viewing.server import PageServer

    with working("preparing the page"):
        server = PageServer(page, port)
    notify(f"serving {server.address} until you press Ctrl-C")
    webbrowser.open(server.address)
    server.serve()
