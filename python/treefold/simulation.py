"""Simulates plans: predicts times, traces transfers, and makes the schedule tables of network interfaces."""

import time
from collections.abc import Callable, Iterable
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from treefold import _core, checks, progress
from treefold._core import Plan, Trace
from treefold.bounds import least_seconds
from treefold.checks import DEFAULT_SIZE_BYTES
from treefold.errors import TreefoldError
from treefold.networks import link_model_of, under
from treefold.options import Machine
from treefold.results import FabricReport, LinkUtilization, PacketReport, Prediction
from treefold.schedule_tables import ScheduleTables

if TYPE_CHECKING:
    from treefold._core import PacketCounts

SIMULATORS = ("analytic", "flow", "packet")
"""The simulators, from the fastest to the most detailed."""


class Simulator(NamedTuple):
    """A simulator, and for `packet` the machine that it simulates."""

    name: str
    machine: Machine | None = None

    @property
    def named(self) -> str | Machine:
        """The argument `simulator` that names this simulator."""
        return self.machine or self.name


def simulator_of(simulator: str | Machine | None, default: str = "analytic") -> Simulator:
    """Return the simulator of a name or a machine; a machine means the packet simulator.

    Raises:
        TreefoldError: If it is unknown.

    """
    if isinstance(simulator, Machine):
        return Simulator("packet", simulator)
    return Simulator(default if simulator is None else checks.name("simulator", simulator, SIMULATORS))


def simulate(
    plan: Plan,
    *,
    size_bytes: int | str | None = None,
    simulator: str | Machine | None = None,
    link_model: str = "propagation",
) -> Prediction:
    """Predict the time of a plan.

    Args:
        plan: The plan.
        size_bytes: The size of the vector, in bytes or as a text with a unit such as `1MiB`; by default the size that
            the plan was made for, or 64 MiB if that is unknown.
        simulator: The simulator: one of `treefold.SIMULATORS`, by default `analytic`; or a `treefold.Machine`, on which
            the packet simulator runs the plan.
        link_model: The meaning of a link's latency: `propagation` (it only delays a message) or `hockney` (it also
            occupies the link).

    Raises:
        TreefoldError: If a simulator or a link model is unknown, the size is not a whole number of bytes from 0 to
            1e18 nor the text of one, the parameters of the machine do not fit together, or the machine gives a packet
            up after its `retries`.
        MisfitError: If switches of the plan reduce and those of the machine are routers, or nothing of the plan reads
            an option of the machine that is not at its default.

    Example:
        >>> treefold.simulate(treefold.plan("torus:4x4", "ring"), size_bytes=1 << 20)
        Prediction(ring, all-reduce of 1MiB by analytic: 127.38us, 24% of the bound)
        >>> machine = treefold.Machine(virtual_channels=2)
        >>> treefold.simulate(treefold.plan("torus:4x4", "ring"), size_bytes=4096, simulator=machine).packets.cycles
        5624

    """
    used, link_model = simulator_of(simulator), link_model_of(link_model)
    if used.name != "analytic":
        return _simulate_events(plan, size_bytes, used, link_model, False)[0]
    size, plan = size_for(plan, size_bytes), under(plan, link_model)
    start = time.perf_counter()
    found = _core.simulate_analytic(plan, size)
    used_links = LinkUtilization(found.mean_utilization, found.max_utilization)
    simulated = _Simulated(found.time_s, used_links, time.perf_counter() - start)
    return _prediction(plan, size, "analytic", link_model, simulated)


def trace(
    plan: Plan,
    *,
    size_bytes: int | str | None = None,
    simulator: str | Machine | None = None,
    link_model: str = "propagation",
) -> Trace:
    """Simulate a plan, and record when each transfer started and ended, and how busy each link was.

    Args:
        plan: The plan.
        size_bytes: The size of the vector, in bytes or as a text with a unit such as `1MiB`; by default the size that
            the plan was made for, or 64 MiB if that is unknown.
        simulator: The simulator: `flow`, the default, or `packet`; or a `treefold.Machine`, on which the packet
            simulator runs the plan.
        link_model: The meaning of a link's latency: `propagation` (it only delays a message) or `hockney` (it also
            occupies the link).

    Returns:
        A trace. `transfers()` returns a NumPy array for each column: source, target, tree, phase, step, chunk, reduces,
        bytes, start_s, sent_s and received_s (see `Trace.transfers`). `links()` lists how busy each link was.
        `to_chrome()` returns the text of a Chrome trace, which Perfetto shows. `columns()` adds what each transfer
        waited for, `critical_path()` says which transfers decide the time, and `busy()` how busy each link was, when.

    Raises:
        TreefoldError: If the simulator is unknown or has no trace, the link model is unknown, the size is not a whole
            number of bytes from 0 to 1e18 nor the text of one, or the parameters of the machine do not fit together.
        MisfitError: If the packet simulator should trace an in-network plan, whose packets are too many to keep each,
            or if nothing of the plan reads an option of the machine that is not at its default.

    Example:
        >>> treefold.trace(treefold.plan("ring:4", "ring"), size_bytes=4096).links()[1]
        LinkUse("GPU0" -> "GPU1", busy for 384ns)

    """
    return simulate_and_trace(plan, size_bytes, simulator, link_model)[1]


def simulate_and_trace(
    plan: Plan, size_bytes: int | str | None, simulator: str | Machine | None, link_model: str
) -> tuple[Prediction, Trace]:
    """Return the prediction of an event simulator together with its trace."""
    used, link_model = simulator_of(simulator, "flow"), link_model_of(link_model)
    if used.name == "analytic":
        raise TreefoldError("the analytic simulator has no trace; use flow or packet")
    return _simulate_events(plan, size_bytes, used, link_model, True)


def _simulate_events(
    plan: Plan, size_bytes: int | str | None, simulator: Simulator, link_model: str, record: bool
) -> tuple[Prediction, Trace]:
    """Return a prediction and a trace; the trace lists transfers only if `record` is true."""
    size, plan = size_for(plan, size_bytes), under(plan, link_model)
    listener = listener_for(f"{simulator.name} simulator, {plan.algorithm}", [(plan, size)])
    start = time.perf_counter()
    counts = None
    if simulator.name == "flow":
        trace = _core.simulate_flow(plan, size, record, listener)
    else:
        run = _core.simulate_packet(plan, size, record, simulator.machine, listener)
        trace, counts = run.trace, run.counts
    found = Found(trace, counts, time.perf_counter() - start)
    return predicted(plan, size, simulator.name, link_model, found), trace


class Found(NamedTuple):
    """What an event simulator has found of a plan."""

    trace: Trace
    counts: "PacketCounts | None"
    """The counts of the packet simulator; None if it was another."""
    wall_s: float
    """The seconds that the simulation took."""


def predicted(plan: Plan, size: int, simulator: str, link_model: str, found: Found) -> Prediction:
    """Return the prediction of an event simulator.

    Args:
        plan: The plan.
        size: The size of the vector, in bytes.
        simulator: The name of the simulator.
        link_model: The name of the link model.
        found: What the simulator has found.

    """
    trace, counts, wall_s = found
    packets = None if counts is None else _packet_report(counts)
    used = trace.utilization
    busiest = tuple(trace.busiest_links)
    simulated = _Simulated(trace.time_s, LinkUtilization(used.mean, used.max), wall_s, busiest, packets)
    return _prediction(plan, size, simulator, link_model, simulated)


def listener_for(task: str, jobs: Iterable[tuple[Plan, int]]) -> Callable[[float], None] | None:
    """Return what reports how far a simulation is; the analytic simulator estimates how far it has to go.

    Args:
        task: What is simulated, in words.
        jobs: The plans that run, each with the size of its vector in bytes.

    """
    if not progress.is_heard():
        return None
    expected_s = sum(_core.simulate_analytic(plan, size).time_s for plan, size in jobs)
    return lambda simulated_s: progress.report(task, min(simulated_s / max(expected_s, 1e-12), 1.0))


def fitted(plan: Plan, simulator: Simulator) -> Simulator:
    """Return a simulator for a plan, whose machine has the defaults of all options that nothing of the plan reads."""
    if simulator.machine is None:
        return simulator
    default = Machine()
    unread = _core.unread_options(plan, simulator.machine)
    left_out: dict[str, Any] = {name: getattr(default, name) for name in unread}
    return Simulator("packet", replace(simulator.machine, **left_out))


def _packet_report(counts: "PacketCounts") -> PacketReport:
    values = {each.name: getattr(counts, each.name) for each in fields(PacketReport)}
    if counts.fabric is not None:
        values["fabric"] = FabricReport(
            **{each.name: getattr(counts.fabric, each.name) for each in fields(FabricReport)}
        )
    return PacketReport(**values)


class _Simulated(NamedTuple):
    """What a simulator found out; `Prediction` explains the fields."""

    time_s: float
    link_utilization: LinkUtilization
    wall_s: float
    busiest_links: tuple[str, ...] = ()
    packets: PacketReport | None = None


def _prediction(plan: Plan, size: int, simulator: str, link_model: str, simulated: _Simulated) -> Prediction:
    time_s = simulated.time_s
    algbw = size / time_s if time_s > 0 else None
    bound_s = least_seconds(plan, size)
    return Prediction(
        network=plan.topology.name,
        algorithm=plan.algorithm,
        collective=plan.collective,
        simulator=simulator,
        link_model=link_model,
        size_bytes=size,
        algbw_Bps=algbw,
        busbw_Bps=None if algbw is None else algbw * plan.bus_factor,
        bound_s=bound_s,
        bound_fraction=bound_s / time_s if time_s > 0 else None,
        **simulated._asdict(),
    )


def tables(plan: Plan, *, size_bytes: int | str | None = None, machine: Machine | None = None) -> ScheduleTables:
    """Return the schedule tables that network interfaces execute (MultiTree paper, Fig. 5), and how large they are.

    Args:
        plan: The plan.
        size_bytes: The size of the vector, in bytes or as a text with a unit such as `1MiB`; by default the size that
            the plan was made for, or 64 MiB if that is unknown.
        machine: The machine, which determines the fields of flits and their widths; by default `treefold.Machine()`.

    Raises:
        TreefoldError: If the size is not a whole number of bytes from 0 to 1e18 nor the text of one, the machine cannot
            work, or the plan has so many empty steps that its tables would be nearly all NOPs.

    Example:
        >>> treefold.tables(treefold.plan("torus:4x4", "multitree"), size_bytes=65536)
        ScheduleTables(16 ranks, 25 entries of 200 bits at most)

    """
    if machine is not None and not isinstance(machine, Machine):
        raise TreefoldError(
            f"machine {checks.shown(machine)} is not a treefold.Machine; write for example treefold.Machine(ports=2)"
        )
    made = _core.schedule_tables(plan, size_for(plan, size_bytes))
    tables = made.entries
    entries = max(map(len, tables), default=0)
    flits = _core.flit_formats(plan.topology, machine)
    return ScheduleTables(
        tables=tables,
        names=tuple(plan.topology.rank_names),
        entries=entries,
        entry_bits=made.entry_bits,
        bytes=-(-entries * made.entry_bits // 8),
        flit_types=flits.types,
        flit_formats={name: list(bits.items()) for name, bits in flits.formats.items()},
    )


def size_for(plan: Plan, size_bytes: int | str | None) -> int:
    """Return `size_bytes` as a number, or else the size that the plan was made for, or else 64 MiB."""
    made_for = checks.plan(plan).size_bytes
    if size_bytes is not None:
        return checks.size(size_bytes)
    return DEFAULT_SIZE_BYTES if made_for is None else made_for
