"""The verbs of the public interface: topology, plan, check, bound, simulate, trace, compare.

Sizes are in bytes, times in seconds, bandwidths in bytes a second, each with its unit in its name.
"""

import json
import math
import os
import re
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from numbers import Real
from typing import Any, NamedTuple, SupportsIndex, TypeVar

from treefold import _core, checks, planning
from treefold._core import Plan, Topology, Trace
from treefold.errors import TreefoldError
from treefold.machine import Machine
from treefold.ranks import positions
from treefold.text import message, some, visible

DEFAULT_SIZE_BYTES = 64 << 20
"""What a plan should be good for unless told otherwise: 64 MiB."""

MODELS = ("analytic", "flow", "packet")
"""Simulators, from fast to faithful."""

LINK_MODELS = ("propagation", "hockney")
"""What a link's latency means: it only delays, or it also occupies the link, once a message."""


class Interrupted(KeyboardInterrupt):
    """The user's interrupt, with the `rows` that were computed before it."""

    def __init__(self, rows: list[Any]) -> None:
        super().__init__()
        self.rows = rows


class Verdict(NamedTuple):
    """What the oracle says of a plan."""

    correct: bool
    reason: str
    """The first fault found; empty for a correct plan."""


def topology(
    source: str | os.PathLike[str] | Mapping[str, Any],
    *,
    bandwidth_Bps: float | None = None,
    latency_s: float | None = None,
    node_cap: str | None = None,
    ranks: str | Sequence[int | str] | None = None,
    rank_order: str | Sequence[int | str] | None = None,
) -> Topology:
    """Return the network that `source` describes.

    Args:
        source: A spec such as `torus:8x8`, a file, or a topology document (the content of treefold's own JSON).
        bandwidth_Bps: Of every link of a spec; of the links of a file that have none.
        latency_s: The same for latencies, one way.
        node_cap: Each accelerator's own egress and ingress: `5Gbit/s`, or a file of caps by name.
        ranks: Which accelerators are ranks, by position or name: `0-7,12` or a list. The others only relay.
        rank_order: The same ranks in another order: rank r is `rank_order[r]`.

    Raises:
        TreefoldError: If the source is unknown, malformed or does not describe a network.

    """
    if bandwidth_Bps is not None:
        bandwidth_Bps = checks.number("bandwidth_Bps", bandwidth_Bps, "bytes a second")
    if latency_s is not None:
        latency_s = checks.number("latency_s", latency_s, "seconds")
    if not isinstance(node_cap, str | os.PathLike | None):
        raise TreefoldError(f"node_cap {checks.shown(node_cap)} is none; give 5Gbit/s, or a file of caps")
    if not isinstance(source, str | os.PathLike | Mapping):
        raise TreefoldError(f"network {checks.shown(source)} is none; give a spec such as torus:8x8, or a file")
    network = _read(source, bandwidth_Bps, latency_s, node_cap)
    if ranks is None and rank_order is None:
        return network
    names = network.accelerator_names
    members = positions(ranks, names) if ranks is not None else [names.index(name) for name in network.rank_names]
    ordered = members if rank_order is None else positions(rank_order, names)
    if sorted(ordered) != sorted(members):
        left_out = [names[member] for member in members if member not in ordered]
        missing = f"; {some(left_out)} missing" if left_out else ""
        raise TreefoldError(f"rank order {rank_order} does not list each of the {len(members)} ranks once{missing}")
    return network.with_ranks(ordered)


def _network(network: Topology | str) -> Topology:
    return network if isinstance(network, Topology) else topology(network)


def _planned(plan: Plan) -> Plan:
    if not isinstance(plan, Plan):
        raise TreefoldError(f"plan {checks.shown(plan)} is none; make one with treefold.plan")
    return plan


def _read(
    source: str | os.PathLike[str] | Mapping[str, Any],
    bandwidth_Bps: float | None,
    latency_s: float | None,
    node_cap: str | None,
) -> Topology:
    where = None if isinstance(source, Mapping) else os.fspath(source)
    if isinstance(source, str) and not os.path.isfile(source) and _looks_like_spec(source):
        network = Topology.from_spec(source, bandwidth_Bps, latency_s)
        if node_cap is None:
            return network
        source = json.loads(network.to_json())
    from treefold import importers

    if isinstance(source, Mapping):
        document = importers.complete(source, bandwidth_Bps=bandwidth_Bps, latency_s=latency_s, node_cap=node_cap)
    else:
        document = importers.read(source, bandwidth_Bps=bandwidth_Bps, latency_s=latency_s, node_cap=node_cap)
    return _built(document, where)


def _built(document: Mapping[str, Any], where: str | None) -> Topology:
    """Return the network of a document; what is wrong with it names its file, if there is one, and no internal text."""
    try:
        return Topology.from_json(json.dumps(document))
    except RecursionError:
        problem = "nested too deeply; flatten it"
    except TreefoldError as error:
        problem = re.sub(r" at line \d+ column \d+", "", str(error))
    raise TreefoldError(problem if where is None else message(where, problem))


def _looks_like_spec(source: str) -> bool:
    """Tell specs, and misspelt ones, from names of files that do not exist."""
    try:
        is_path = os.path.exists(source) or "/" in source or os.path.splitext(source)[1][1:].isalpha()
        return _core.is_spec(source) or not is_path
    except UnicodeEncodeError:  # names of files need not be text
        return False


def plan(
    network: Topology | str,
    algorithm: str = "auto",
    *,
    size_bytes: int = DEFAULT_SIZE_BYTES,
    collective: str = "all-reduce",
    root: int = 0,
    model: str = "analytic",
    **wishes: Any,
) -> Plan:
    """Return a plan for a collective on a network (or spec).

    Args:
        network: The network.
        algorithm: One of `treefold.algorithms()`, or `auto` for the fastest at `size_bytes`.
        size_bytes: Size of the vector that the plan should be good for.
        collective: `all-reduce`, `reduce-scatter`, `all-gather`, `broadcast`, `reduce` or `all-to-all`.
        root: Rank that broadcasts or receives.
        model: Simulator by which `auto` judges: one of `treefold.MODELS`; for packet it judges by flow.
        wishes: Fields of `treefold.planning.Wishes`: the limits trees, height (heights) and least_rate_Bps, which only
            some algorithms have (the others refuse them, auto leaves them out); and for the algorithms to which
            they mean something rho, seed, pipeline, turn, neighbors, trunks.

    Raises:
        TreefoldError: If the algorithm is unknown or does not fit the network, naming those that do.

    """
    return plan_and_facts(network, algorithm, size_bytes, collective, root, model, **wishes)[0]


def plan_and_facts(
    network: Topology | str,
    algorithm: str = "auto",
    size_bytes: int = DEFAULT_SIZE_BYTES,
    collective: str = "all-reduce",
    root: int = 0,
    model: str = "analytic",
    **wishes: Any,
) -> tuple[Plan, dict[str, Any]]:
    """Like `plan`, with what `treefold plan --json` adds: for `auto` why it chose, else what the planner found out."""
    network = _network(network)
    _check_root(network, root)
    checks.arguments("plan", wishes, (field for field in planning.Wishes._fields if field != "size_bytes"))
    algorithm = checks.name("algorithm", algorithm, ["auto", *_names()])
    collective = checks.name("collective", collective, _core.collectives())
    by_packets = model_of(model) == "packet"
    # A packet simulation of every candidate would take minutes.
    model = "flow" if by_packets else model_of(model)
    wishes.setdefault("ranks_relay", not by_packets)
    asked = planning.Wishes(size_bytes=_whole(size_bytes), **wishes)
    asked = planning.check(asked, algorithm)
    if algorithm != "auto":
        planned, facts = _plan_with(network, algorithm, asked, collective, root, model)
        return planned.made_for(asked.size_bytes), facts
    keepers = planning.keepers(asked)
    if keepers is None:
        planned, candidates = _plan_in_core(network, algorithm, asked, collective, root, model)
        planned, facts = _race(network, list(planning.PLANNERS), asked, collective, root, model, planned, candidates)
    else:
        names = [name for name in _names() if name in keepers]
        planned, facts = _race(network, names, asked, collective, root, model, None, [])
    return planned.made_for(asked.size_bytes, model), facts


def _plan_with(
    network: Topology, algorithm: str, asked: planning.Wishes, collective: str, root: int, model: str
) -> tuple[Plan, dict[str, Any]]:
    """Plan with a named algorithm; what planners prove, they prove of all-reduces."""
    if algorithm in planning.PLANNERS:
        planned, facts = planning.plan(algorithm, network, asked)
        derived = planned.derive(collective, root)
        return derived, facts if derived.collective == planned.collective else {}
    return _plan_in_core(network, algorithm, asked, collective, root, model)[0], {}


def _plan_in_core(
    network: Topology, algorithm: str, asked: planning.Wishes, collective: str, root: int, model: str
) -> tuple[Plan, list[dict[str, Any]]]:
    """Plan with an algorithm of the core, or with the best of them; return how they fared, too."""
    wishes = (asked.trees, asked.turn, asked.neighbors, asked.trunks, asked.seed, asked.pipeline)
    planned, candidates = _core.plan(network, algorithm, asked.size_bytes, collective, root, *wishes, model)
    listed = [
        {"algorithm": name, "time_s": seconds, "latency_s": latency, "reason": reason}
        for name, (seconds, latency), reason in candidates
    ]
    return planned, listed


def _race(
    network: Topology,
    names: Sequence[str],
    asked: planning.Wishes,
    collective: str,
    root: int,
    model: str,
    best: Plan | None,
    candidates: list[dict[str, Any]],
) -> tuple[Plan, dict[str, Any]]:
    """Let the planners of these names compete with the best plan so far; return it, and how all fared."""
    least = min((candidate["time_s"] for candidate in candidates if candidate["reason"] is None), default=math.inf)
    for name in names:
        candidate: dict[str, Any] = {"algorithm": name, "time_s": None, "latency_s": None, "reason": None}
        candidates.append(candidate)
        candidate["reason"] = None if best is None else _why_not(network, name, best, least, asked.size_bytes)
        if candidate["reason"] is not None:
            continue
        try:
            planned, _ = _plan_with(network, name, asked, collective, root, model)
        except TreefoldError as error:
            candidate["reason"] = str(error)
            continue
        candidate["time_s"], latency_s = (_time(planned, size, model) for size in (asked.size_bytes, 1))
        candidate["latency_s"] = min(candidate["time_s"], latency_s)
        if candidate["time_s"] < least:
            best, least = planned, candidate["time_s"]
    if best is None:
        raise TreefoldError(next(each["reason"] for each in candidates if each["algorithm"] == "packing"))
    return best, {"choice": {"model": model, "size_bytes": asked.size_bytes, "candidates": candidates}}


def _why_not(network: Topology, name: str, best: Plan, time_s: float, size_bytes: int) -> str | None:
    """Return why no other planner need be tried, if none need."""
    if not planning.is_quick(network, name):
        return f"takes long with {network.ranks} ranks and {network.links} links: not tried unless it is named"
    if best.collective == "all-reduce" and time_s <= 1.01 * _bounds(network).seconds(size_bytes):
        return f"not tried: {best.algorithm} is within 1 % of what no plan can beat"
    return None


def _time(plan: Plan, size_bytes: int, model: str) -> float:
    if model == "flow":
        return _core.simulate_flow(plan, size_bytes, False).time_s
    return _core.simulate_analytic(plan, [size_bytes])[0][0]


REPLANNED = ("trees", "height", "heights", "least_rate_Bps", "pipeline")
"""Wishes that replanning heeds."""


def replan(
    plan: Plan, network: Topology | str, *, size_bytes: int | None = None, model: str = "flow", **wishes: Any
) -> tuple[Plan, dict[str, Any]]:
    """Plan anew after the network of `plan` has changed: its capacities, links or nodes.

    Args:
        plan: The old plan.
        network: The network as it is now.
        size_bytes: What the new plan should be good for; by default what the old one was made for.
        model: Simulator of the report's rows.
        wishes: What `packing` heeds of `treefold.planning.Wishes`: trees, height, heights, least_rate_Bps, pipeline.

    Returns:
        A plan for `network` that keeps the old trees that are still good, and a report: `changes` (a line each),
        `serves` (whether the old plan still runs), `old` and `new` (rows of `simulate`; `old` is None when it does
        not), `kept_trees`.

    Raises:
        TreefoldError: If the plan is no all-reduce, or a wish cannot be met.

    """
    from treefold.planning.replan import replan as planned_anew

    network = _network(network)
    checks.arguments("replan", wishes, REPLANNED)
    size = size_for(plan, size_bytes)
    asked = planning.check(planning.Wishes(size_bytes=size, **wishes), "packing")
    result = planned_anew(plan, network, asked)
    rows = [None if each is None else simulate(each, size_bytes=size, model=model) for each in (result.old, result.new)]
    report = {"changes": result.changes, "serves": result.old is not None, "old": rows[0], "new": rows[1]}
    return result.new.made_for(size), report | {"kept_trees": result.kept}


def size_for(plan: Plan, size_bytes: int | None) -> int:
    """Return the size that was asked for, or else what the plan was made for, or else 64 MiB."""
    made_for = _planned(plan).size_bytes
    if size_bytes is not None:
        return _whole(size_bytes)
    return DEFAULT_SIZE_BYTES if made_for is None else made_for


def check(plan: Plan) -> Verdict:
    """Prove or refute that `plan` computes its collective."""
    reason = _planned(plan).check()
    return Verdict(reason is None, visible(reason or ""))


def simulate(
    plan: Plan,
    *,
    size_bytes: int | None = None,
    model: str | None = None,
    link_model: str = "propagation",
    machine: Machine | None = None,
) -> dict[str, Any]:
    """Predict the time of `plan` for a vector of `size_bytes`; the keys are those of `treefold simulate --json`.

    Args:
        plan: The plan.
        size_bytes: Size of the vector; by default what the plan was made for.
        model: One of `treefold.MODELS`; by default `analytic`, or `packet` if a machine is given.
        link_model: One of `treefold.LINK_MODELS`.
        machine: What the packet model simulates.

    Raises:
        TreefoldError: If a model is unknown, the size is no size, or the machine cannot work.

    """
    model, link_model = model_of(model, machine), link_model_of(link_model)
    if model != "analytic":
        return _simulate_events(plan, size_bytes, model, link_model, machine, False)[0]
    size, plan = size_for(plan, size_bytes), under(plan, link_model)
    start = time.perf_counter()
    [result] = _core.simulate_analytic(plan, [size])
    return _row(plan, size, (model, link_model), result, time.perf_counter() - start)


def trace(
    plan: Plan,
    *,
    size_bytes: int | None = None,
    link_model: str = "propagation",
    model: str | None = None,
    machine: Machine | None = None,
) -> Trace:
    """Simulate `plan` by events and keep when each transfer started and ended, and how busy each link was.

    `transfers()` has a NumPy column each for source, target, tree, phase, step, chunk, reduces, bytes, start_s, sent_s
    and received_s; `links()` lists each link's name, the seconds in which it carried anything, and those that it would
    have needed at its full rate; `to_chrome()` is the file that Perfetto opens.

    Raises:
        TreefoldError: If a model is unknown or keeps no trace, the size is no size, or the machine cannot work.

    """
    return simulate_and_trace(plan, size_bytes, link_model, model, machine)[1]


def simulate_and_trace(
    plan: Plan, size_bytes: int | None, link_model: str, model: str | None = None, machine: Machine | None = None
) -> tuple[dict[str, Any], Trace]:
    """Return the row of an event simulator (`flow`, or `packet` if a machine is given) together with its trace."""
    model, link_model = model_of(model, machine, "flow"), link_model_of(link_model)
    if model == "analytic":
        raise TreefoldError("the analytic model keeps no trace; use flow or packet")
    return _simulate_events(plan, size_bytes, model, link_model, machine, True)


def _simulate_events(
    plan: Plan, size_bytes: int | None, model: str, link_model: str, machine: Machine | None, record: bool
) -> tuple[dict[str, Any], Trace]:
    """Return a row and a trace, which lists transfers only if it is to be a record."""
    size, plan = size_for(plan, size_bytes), under(plan, link_model)
    start = time.perf_counter()
    facts: dict[str, Any] = {}
    if model == "flow":
        seen = _core.simulate_flow(plan, size, record)
    else:
        seen, facts = _core.simulate_packet(plan, size, record, (machine or Machine()).options())
    result = (seen.time_s, *seen.utilization)
    return _row(plan, size, (model, link_model), result, time.perf_counter() - start) | facts, seen


def tables(plan: Plan, *, size_bytes: int | None = None, machine: Machine | None = None) -> dict[str, Any]:
    """Return the schedule tables that network interfaces execute (MultiTree paper, Fig. 5), and what they cost.

    `tables` has, for every rank, entries with op, flow, parent, children, step, start and size (bytes); `entries` is
    the length of the longest one, `entry_bits` and `bytes` what it takes in hardware. `flit_types` (Table II) and
    `flit_formats` (Fig. 8: fields and bits) say how messages look on the wire. `names` are those of the ranks. The size
    is by default what the plan was made for.
    """
    _check_machine(machine)
    found, entry_bits = _core.schedule_tables(plan, size_for(plan, size_bytes))
    keys = ("op", "flow", "parent", "children", "step", "start", "size")
    listed = [[dict(zip(keys, entry, strict=True)) for entry in table] for table in found]
    entries = max(map(len, listed), default=0)
    cost = {"entries": entries, "entry_bits": entry_bits, "bytes": -(-entries * entry_bits // 8)}
    types, formats = _core.flit_formats(plan.topology, (machine or Machine()).options())
    names = plan.topology.rank_names
    return {"tables": listed, "names": names, **cost, "flit_types": dict(types), "flit_formats": dict(formats)}


def bound(network: Topology | str) -> dict[str, Any]:
    """Return what no plan can beat, as rates for large vectors; the keys are those of `treefold bound --json`.

    A rate is None where nothing has to be sent (one rank): the bound is infinite. `exact` tells whether no smaller rate
    would be a bound of its kind too. `latency_s` is what no all-reduce of any size can beat.
    """
    network = _network(network)
    bounds = _bounds(network)
    rates = bounds.rates
    return {
        **{f"{name}_Bps": rate for name, rate, _, _ in rates},
        "exact": {f"{name}_Bps": exact for name, _, exact, _ in rates},
        "method": {f"{name}_Bps": method for name, _, _, method in rates},
        "latency_s": bounds.latency_s,
    }


@lru_cache(maxsize=16)
def _bounds(network: Topology) -> _core.Bounds:
    """Compute a network's bounds once, however often and for however many sizes they are asked for."""
    bounds = network.bounds()
    if all(exact for _, _, exact, _ in bounds.rates):
        return bounds
    from treefold.planning.bound_program import tighten

    return tighten(network, bounds)


def compare(
    network: Topology | str,
    algorithms: str | Sequence[str] | None = None,
    *,
    sizes_bytes: Sequence[int],
    model: str | None = None,
    link_model: str = "propagation",
    machine: Machine | None = None,
    collective: str = "all-reduce",
    root: int = 0,
) -> list[dict[str, Any]]:
    """Simulate algorithms at several sizes: one row a size and algorithm, `winner` true for the fastest of a size.

    Args:
        network: The network (or spec).
        algorithms: Names; when None all that fit, on large networks without those that need a solver. Each plans
            afresh for every size. What does not fit is left out with a warning.
        sizes_bytes: Sizes of the vector.
        model: One of `treefold.MODELS`; by default `analytic`, or `packet` if a machine is given.
        link_model: One of `treefold.LINK_MODELS`; planners plan for it too.
        machine: What the packet model simulates.
        collective: What to compute.
        root: Rank that broadcasts or receives.

    Raises:
        TreefoldError: If a named algorithm is unknown, or none fits.
        Interrupted: When the user interrupts, with the rows so far.

    """
    network = _network(network)
    names = contenders(network, algorithms)
    if not isinstance(sizes_bytes, Iterable):
        raise TreefoldError(f"sizes {checks.shown(sizes_bytes)} are no list; write for example [1024, 1048576]")
    sizes = [_whole(size) for size in sizes_bytes]
    if not sizes:
        raise TreefoldError("nothing to compare; name at least one size")
    # What is wrong for all algorithms is refused here: whatever is refused below does not fit.
    model, link_model = model_of(model, machine), link_model_of(link_model)
    _check_root(network, root)
    network = under(network, link_model)
    collective = checks.name("collective", collective, _core.collectives())
    machine = common_machine(network, names, model, machine)
    rows: list[dict[str, Any]] = []
    for turn, size in enumerate(sizes, 1):
        at_size: list[dict[str, Any]] = []
        misfits: dict[str, TreefoldError] = {}
        try:
            with planning.at(f"{_core.format_size(size)} ({turn} of {len(sizes)})"):
                for name in names:
                    with planning.at(name), fitting(name, misfits):
                        planned, facts = plan_and_facts(network, name, size, collective, root, model)
                        row = simulate(planned, size_bytes=size, model=model, link_model=link_model, machine=machine)
                        chosen = {"chosen": _chosen(facts["choice"])} if name == "auto" else {}
                        at_size.append(row | {"algorithm": name} | chosen)
        except KeyboardInterrupt:
            raise Interrupted(rows + [row | {"winner": False} for row in at_size]) from None
        names = without(misfits, names, is_told=algorithms is not None)
        rows += _with_winner(at_size)
    return rows


def _with_winner(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Mark the fastest row; there is none where nothing takes time."""
    winner = min(rows, key=lambda row: row["time_s"])
    return [row | {"winner": row is winner and row["time_s"] > 0} for row in rows]


@contextmanager
def fitting(name: str, misfits: dict[str, TreefoldError]) -> Iterator[None]:
    """Note an algorithm that does not fit, and why."""
    try:
        yield
    except TreefoldError as error:
        misfits[name] = error


def without(misfits: Mapping[str, TreefoldError], names: Sequence[str], *, is_told: bool) -> list[str]:
    """Return the names of those that fit; refuse where there are none, and warn of the others if that is to be told."""
    left = [name for name in names if name not in misfits]
    if not left:
        raise TreefoldError("; ".join(dict.fromkeys(map(str, misfits.values()))))
    for name, error in misfits.items() if is_told else ():
        warnings.warn(f"{name} is left out: {error}", stacklevel=3)
    return left


def contenders(network: Topology, algorithms: str | Sequence[str] | None) -> list[str]:
    """Return the algorithms that were named; when None all that need not be named to be tried."""
    if algorithms is None:
        return [name for name in _names() if planning.is_quick(network, name)]
    is_list = isinstance(algorithms, Sequence) and not isinstance(algorithms, str)
    listed: Sequence[Any] = algorithms if is_list else [algorithms]
    given = [part for each in listed for part in (each.split(",") if isinstance(each, str) else [each])]
    if not given:
        raise TreefoldError("nothing to compare; name at least one algorithm")
    known = ["auto", *_names()]
    return list(dict.fromkeys(checks.name("algorithm", each, known) for each in given))


def common_machine(network: Topology, names: Sequence[str], model: str, machine: Machine | None) -> Machine | None:
    """Return one machine for all algorithms: a fabric if one of them needs it."""
    if model != "packet" or not any(map(planning.is_in_network, names)) or not planning.is_fabric(network):
        return machine
    machine = machine or Machine()
    return replace(machine, switches=machine.switches or "fabric")


def _chosen(choice: Mapping[str, Any]) -> str:
    """Return the name of the fastest candidate."""
    fitting = [candidate for candidate in choice["candidates"] if candidate["time_s"] is not None]
    return str(min(fitting, key=lambda candidate: candidate["time_s"])["algorithm"])


def _check_machine(machine: Machine | None) -> None:
    if machine is not None and not isinstance(machine, Machine):
        raise TreefoldError(f"machine {checks.shown(machine)} is none; write for example treefold.Machine(ports=2)")


def model_of(model: str | None, machine: Machine | None = None, default: str = "analytic") -> str:
    """Return the model that was asked for; naming a machine asks for `packet`."""
    _check_machine(machine)
    model = ("packet" if machine is not None else default) if model is None else checks.name("model", model, MODELS)
    if machine is not None and model != "packet":
        raise TreefoldError(
            f"the {model} model knows no routers and interfaces; use --model packet, or drop what is theirs"
        )
    return model


def link_model_of(link_model: str) -> str:
    """Return the link model that was asked for."""
    return checks.name("link model", link_model, LINK_MODELS)


_Seen = TypeVar("_Seen", Plan, Topology)


def under(value: _Seen, link_model: str) -> _Seen:
    """Return a network, or a plan on its network, as a link model sees it."""
    return value if link_model == "propagation" else value.under(link_model)


def _check_root(network: Topology, root: int) -> None:
    if not isinstance(root, SupportsIndex) or not 0 <= root.__index__() < network.ranks:
        raise TreefoldError(
            f"root {checks.shown(root)} does not exist: there are {network.ranks} ranks, 0 to {network.ranks - 1}"
        )


def _row(
    plan: Plan, size: int, models: tuple[str, str], result: tuple[float, float, float], wall_s: float
) -> dict[str, Any]:
    time_s, mean, maximum = result
    algbw = size / time_s if time_s > 0 else None
    bound_s = _bounds(plan.topology).seconds(size) if plan.collective == "all-reduce" else None
    return {
        "algorithm": plan.algorithm,
        "collective": plan.collective,
        "model": models[0],
        "link_model": models[1],
        "size_bytes": size,
        "time_s": time_s,
        "algbw_Bps": algbw,
        "busbw_Bps": None if algbw is None else algbw * plan.bus_factor,
        "bound_s": bound_s,
        "bound_fraction": None if bound_s is None or time_s <= 0 else bound_s / time_s,
        "link_utilization": {"mean": mean, "max": maximum},
        "wall_s": wall_s,
    }


def _whole(size_bytes: int) -> int:
    is_number = isinstance(size_bytes, Real) and not isinstance(size_bytes, bool)
    if not is_number or not 0 <= size_bytes <= 10**18 or size_bytes != int(size_bytes):
        raise TreefoldError(f"size {checks.shown(size_bytes)}: must be a whole number of bytes between 0 and 1e18")
    return int(size_bytes)


def describe(network: Topology) -> dict[str, Any]:
    """Return what `treefold topology --json` prints; `reduce` and `multicast` count the switches that do."""
    reduces, multicasts = network.abilities()
    return {
        "name": network.name,
        "accelerators": network.accelerators,
        "switches": network.switches,
        "links": network.links,
        "ranks": network.ranks,
        "reduce": sum(reduces),
        "multicast": sum(multicasts),
    }


def summarize(plan: Plan) -> dict[str, Any]:
    """Return what `treefold plan --json` prints, but for `wall_s`."""
    plan = _planned(plan)
    max_height, mean_height, max_fanout, mean_max_fanout = plan.shape
    network = describe(plan.topology)
    return {
        "algorithm": plan.algorithm,
        "collective": plan.collective,
        "size_bytes": plan.size_bytes,
        "topology": {key: network[key] for key in ("name", "accelerators", "switches", "links")},
        "trees": plan.trees,
        "steps": plan.steps,
        "max_height": max_height,
        "mean_height": mean_height,
        "max_fanout": max_fanout,
        "mean_max_fanout": mean_max_fanout,
        "rate_Bps": plan.rate,
        "normalized_throughput": _normalized(plan),
    }


def _normalized(plan: Plan) -> float | None:
    """Return an all-reduce's rate over that of trees that would use up all cables.

    None where a link has no other direction, and of a single rank, whose tree has no cable to use up.
    """
    cables, ranks = plan.topology.cable_capacity, plan.topology.ranks
    if cables is None or plan.rate is None or ranks < 2 or plan.collective != "all-reduce":
        return None
    return plan.rate / (cables / (ranks - 1))


def algorithms() -> dict[str, str]:
    """Return the name and a summary of every algorithm."""
    return _names()


def _names() -> dict[str, str]:
    return dict(_core.algorithms()) | planning.PLANNERS
