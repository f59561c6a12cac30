"""The command `simulate`."""

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from treefold import _core, networks, plans, simulation, together
from treefold._core import Plan
from treefold.cli.groups import expanded, flags_given, quantity
from treefold.cli.options import (
    Json,
    MaybeSize,
    NetworkOptions,
    PlannerOptions,
    PlanOptions,
    SimulatorOptions,
    simulator_option,
)
from treefold.cli.terminal import check_alone, show, working
from treefold.errors import TreefoldError
from treefold.files.plans import is_plan_file, load_plan
from treefold.files.writing import check_writable, write_text_atomically
from treefold.report import compare_table, jobs_table
from treefold.results import Prediction
from treefold.simulation import Simulator


@dataclass(frozen=True, kw_only=True)
class Simulation:
    """The options of `simulate` itself; None if they are not given."""

    size: MaybeSize = None
    trace: Annotated[
        Path | None,
        typer.Option(
            help="Write all transfers to this file, for Perfetto; of in-network plans, packet writes counters instead."
        ),
    ] = None
    background: Annotated[
        float | None,
        typer.Option(
            metavar="LOAD",
            help="Send short messages between random accelerators, at this fraction of each one's bandwidth.",
        ),
    ] = None
    background_bytes: Annotated[
        str | None, typer.Option(metavar="SIZE", help="The size of such a message; 64B if not given.")
    ] = None
    as_json: Json = False

    def size_bytes(self) -> int | None:
        """Return the size of the vector; None if it is not given."""
        return None if self.size is None else _core.parse_size(self.size)

    def traffic(self) -> together.Background | None:
        """Return the background traffic; None if there is none."""
        size_bytes = quantity("--background-bytes", _core.parse_size, self.background_bytes)
        size = None if size_bytes is None else int(size_bytes)
        return together.background_of(self.background or 0.0, size, None)


@dataclass(frozen=True, kw_only=True)
class SimulateWith(SimulatorOptions):
    """The options of simulators, whose default also depends on what is simulated."""

    simulator: Annotated[
        str | None,
        simulator_option("analytic; flow with several plans, --background or --trace; packet with --machine or --set"),
    ] = None


@expanded
def simulate(
    sources: Annotated[
        list[str],
        typer.Argument(metavar="NETWORK|PLAN.json...", help="A network, or plans, which run at once."),
    ],
    *,
    what: PlanOptions,
    run: Simulation,
    planner: PlannerOptions,
    simulator_options: SimulateWith,
    network_options: NetworkOptions,
) -> None:
    """Predict the time of a collective, or of several at once.

    Examples:
    treefold simulate torus:8x8 -a multitree --size 1MiB --simulator packet
    treefold simulate dgx2:planes=6 -a innet-push --set wave=4KiB
    treefold simulate a.json b.json --background 0.1 --trace trace.json

    """
    size_bytes, background = run.size_bytes(), run.traffic()
    is_one = len(sources) == 1 and background is None
    simulator = simulator_options.asked("analytic" if is_one and run.trace is None else "flow")
    link_model = networks.link_model_of(simulator_options.link_model)
    check_alone(run.trace, run.as_json)
    if run.trace is not None:
        _check_trace(run.trace, simulator)
    asked = _Asked(what, planner, network_options, simulator, link_model)
    planned = [_planned(source, size_bytes, asked, is_only=len(sources) == 1) for source in sources]
    if is_one:
        with working("simulating"):
            row = _simulated(planned[0], size_bytes, simulator, link_model, run.trace)
        note = own_size(planned[0]) if size_bytes is None else ""
        show(row.as_dict(), run.as_json, lambda: compare_table([row]) + note, written=run.trace)
        return
    with working("simulating"):
        jobs = together.jobs_of(planned, size_bytes, simulator, link_model, background)
        result, traces = together.interference(jobs, alone=True, record=run.trace is not None)
    if run.trace is not None:
        write_text_atomically(run.trace, _core.chrome_of_jobs(traces))
    show(result.as_dict(), run.as_json, lambda: jobs_table(result), written=run.trace)


@dataclass(frozen=True)
class _Asked:
    """What is asked of a plan that is not in a file, and how it will be simulated."""

    what: PlanOptions
    planner: PlannerOptions
    network: NetworkOptions
    simulator: Simulator
    link_model: str


def _planned(source: str, size_bytes: int | None, asked: _Asked, is_only: bool) -> Plan:
    """Return the plan of a file, or plan for a network, if that is the only source."""
    if is_plan_file(source):
        if given := flags_given(asked.what, asked.planner, asked.network):
            raise TreefoldError(f"{source} is already a plan; drop {', '.join(given)}")
        return load_plan(source)
    loaded = asked.network.load(source)
    if not is_only:
        raise TreefoldError(
            f"{source} is not the file of a plan, and only plans run together; write one with "
            f"'treefold plan {source} -o FILE.json'"
        )
    with working("planning"):
        return plans.plan(
            networks.under(loaded, asked.link_model),
            size_bytes=size_bytes,
            simulator=asked.simulator.name,
            **asked.what.asked(),
            **asked.planner.asked(),
        )


def _simulated(
    plan: Plan, size_bytes: int | None, simulator: Simulator, link_model: str, trace: Path | None
) -> Prediction:
    """Return the prediction, and write the transfers to `trace` if it is given."""
    if trace is None:
        return simulation.simulate(plan, size_bytes=size_bytes, simulator=simulator.named, link_model=link_model)
    row, recorded = simulation.simulate_and_trace(plan, size_bytes, simulator.named, link_model)
    write_text_atomically(trace, recorded.to_chrome())
    return row


def _check_trace(path: Path, simulator: Simulator) -> None:
    """Refuse a trace that could not be made or written, before a long simulation."""
    if simulator.name == "analytic":
        raise TreefoldError("the analytic simulator has no trace; use --simulator flow or packet")
    check_writable(path)


def own_size(plan: Plan) -> str:
    """Return a line below a table that says where the size came from."""
    return "" if plan.size_bytes is None else "\n# the plan was made for this size; --size sets another"
