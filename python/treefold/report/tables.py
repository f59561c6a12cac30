"""Lays out plans, bounds, training times and claims as tables of plain text."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from treefold._core import Plan, format_bandwidth, format_size, format_time
from treefold.errors import TreefoldError
from treefold.packet_results import short_buffers
from treefold.planning import PLANNERS
from treefold.planning import replan as replanning
from treefold.report.align import align, key_values
from treefold.report.comparison import busiest
from treefold.results import BoundReport, Choice, PlanSummary, Prediction, Replanned, SizeBound
from treefold.schedule_tables import ScheduleTables, TableEntry

if TYPE_CHECKING:
    from treefold.regions import SwitchEntry
    from treefold.training.results import TrainingIteration

_WHOLE = 100  # larger rates are printed without fractions
_MOST_ENTRIES, _MOST_LINES = 50, 500  # the most lines of one schedule table, and about the most of all of them


def plan_table(summary: PlanSummary, *, proof: Mapping[str, Any] | None = None, choice: Choice | None = None) -> str:
    """Return a table that describes a plan in a few numbers.

    Args:
        summary: The result of `treefold.summarize`.
        proof: What the planner proved about the plan: `bound_Bps` and `gap`, as `treefold plan --json` prints them.
        choice: The candidates, if `auto` chose the plan. Only the command line has `proof` and `choice`;
            `treefold.plan` returns neither.

    Example:
        >>> from treefold import report
        >>> table = report.plan_table(treefold.summarize(treefold.plan("ring:4", "ring")))
        >>> print(table.splitlines()[0])
        topology    ring:4 (4 accelerators, 0 switches, 8 links)

    """
    network = summary.topology
    nodes = f"{network.accelerators} accelerators, {network.switches} switches, {network.links} links"
    rate = "nothing to send"
    if summary.rate_Bps is not None:
        rate = f"{format_bandwidth(summary.rate_Bps)} at most, by the {busiest(summary.busiest_links)}"
    table = key_values(
        {
            "topology": f"{network.name} ({nodes})",
            "algorithm": summary.algorithm,
            "collective": summary.collective,
            "made for": "not known" if summary.size_bytes is None else format_size(summary.size_bytes),
            "trees": str(summary.trees),
            "steps": _steps(summary),
            "height": f"{summary.max_height} at most, {summary.mean_height:.2f} on average",
            "fanout": f"{summary.max_fanout} at most",
            "rate": rate,
            **_proof(summary.algorithm, proof or {}),
        }
    )
    return table if choice is None else f"{table}\n\n{_choice_table(choice)}"


def _steps(summary: PlanSummary) -> str:
    """Say how many steps a plan has; an order of messages is no sequence of steps for which ranks wait."""
    if summary.steps is None:
        return "none: the trees stream"
    is_ordered = "ordered" in summary.pace
    return f"none: links send in an order of {summary.steps} turns" if is_ordered else str(summary.steps)


def replan_table(old: Plan, replanned: Replanned) -> str:
    """Return a table of what has changed about a network, and of the old and the new plan there.

    Args:
        old: The old plan.
        replanned: The result of `treefold.replan` with it.

    Example:
        >>> from treefold import report
        >>> old = treefold.plan("ring:4", "multitree")
        >>> print(report.replan_table(old, treefold.replan(old, "ring:4")))
        old plan  multitree, trees: 4, 4.195ms (75% of the bound)
        new plan  multitree, trees: 4, all of them kept, 4.195ms (75% of the bound)
        times     on the network as it is now, for 64MiB, by flow
        changes   none

    """
    new, changes = replanned.plan, replanning.changes(old.topology, replanned.plan.topology, by_cable=True)
    timed = replanned.new
    kept = "all of them" if replanned.kept_trees == new.num_trees else f"{replanned.kept_trees} of them"
    runs = "it cannot run there" if replanned.old is None else _time(replanned.old)
    shown = [*changes[:_MOST_ENTRIES]] or ["none"]
    if len(changes) > _MOST_ENTRIES:
        shown.append(f"{len(changes) - _MOST_ENTRIES} more; as_dict() lists them all")
    rows = [
        ["old plan", f"{old.algorithm}, trees: {old.num_trees}, {runs}"],
        ["new plan", f"{new.algorithm}, trees: {new.num_trees}, {kept} kept, {_time(replanned.new)}"],
        *([["", replanned.gave_way]] if replanned.gave_way else []),
        ["times", f"on the network as it is now, for {format_size(timed.size_bytes)}, by {timed.simulator}"],
        ["changes", shown[0]],
        *(["", change] for change in shown[1:]),
    ]
    return align(rows, left={0, 1})


def _time(prediction: Prediction) -> str:
    bound = "" if prediction.bound_fraction is None else f" ({prediction.bound_fraction:.0%} of the bound)"
    return f"{format_time(prediction.time_s)}{bound}"


def schedule_table(tables: ScheduleTables) -> str:
    """Return the schedule tables of all ranks as text, in the form of the MultiTree paper, and their size.

    Args:
        tables: The result of `treefold.tables`.

    Example:
        >>> from treefold import report
        >>> tables = treefold.tables(treefold.plan("ring:2", "ring"), size_bytes=8)
        >>> print(report.schedule_table(tables).splitlines()[0])
        Accelerator 0, GPU0

    """
    formats = {
        f"{name} flit": ", ".join(f"{field} {width}" for field, width in fields)
        for name, fields in tables.flit_formats.items()
    }
    cost = {"each table": f"{tables.entries} entries of {tables.entry_bits} bits, {tables.bytes} bytes", **formats}
    return "\n\n".join([*_tables_of_ranks(tables), key_values(cost)])


def _tables_of_ranks(tables: ScheduleTables) -> Iterator[str]:
    """Yield the tables, cut to what people read; `--json` prints them all."""
    header = ["Op", "FlowID", "Parent", "Children", "Step", "Start", "Size"]
    lines = 0
    for rank, (name, table) in enumerate(zip(tables.names, tables.tables, strict=True)):
        if lines >= _MOST_LINES:
            yield f"# {len(tables.tables) - rank} more tables; as_dict() lists them all"
            return
        shown = [_entry(entry) for entry in table[:_MOST_ENTRIES]]
        more = len(table) - len(shown)
        cut = f"\n# {more} more entries; as_dict() lists them all" if more else ""
        yield f"Accelerator {rank}, {name}\n{align([header, *shown], left={0, 3})}{cut}"
        lines += len(shown)


def switch_table(tables: "Mapping[str, Sequence[SwitchEntry]]") -> str:
    """Return a table of the entries of multicast regions by switch, in the form of the in-network paper's Fig. 2.

    Args:
        tables: The result of `treefold.regions.switch_tables`.

    Example:
        >>> from treefold import report
        >>> regions = [treefold.regions.Region(0, 128, "0-1")]
        >>> table = report.switch_table(treefold.regions.switch_tables("dgx2", regions))
        >>> print(table.splitlines()[1])
        SW0          0    0x0  0x80  here  GPU0 GPU1         2

    """
    header = ["Switch", "Region", "Start", "Size", "From", "Targets", "Operands"]
    rows = [
        [
            switch,
            str(entry.region),
            f"{entry.start:#x}",
            f"{entry.size_bytes:#x}",
            entry.source or "here",
            " ".join(entry.targets),
            str(entry.operands),
        ]
        for switch, entries in tables.items()
        for entry in entries
    ]
    return align([header, *rows], left={0, 4, 5})


def _entry(entry: TableEntry) -> list[str]:
    if entry.op == "NOP":
        return ["NOP", "", "", "", str(entry.step), "", ""]
    parent = "nil" if entry.parent is None else str(entry.parent)
    children = " ".join(map(str, entry.children)) or "nil"
    return [entry.op, str(entry.flow), parent, children, str(entry.step), str(entry.start), str(entry.size)]


def _proof(algorithm: str, proved: Mapping[str, Any]) -> dict[str, str]:
    """Return rows about what a planner proved about its plan."""
    proof = {}
    if proved.get("bound_Bps") is not None:
        proof["bound"] = f"{format_bandwidth(proved['bound_Bps'])}: no set of trees carries more"
    if "gap" in proved:
        proof["gap"] = PLANNERS[algorithm].gap.format(f"{proved['gap']:.1%}")
    return proof


def _choice_table(choice: Choice) -> str:
    """Return rows of the candidates of `auto`, fastest first: their times, split into latency and the rest."""
    rows, others = [], []
    for candidate in sorted(choice.candidates, key=lambda candidate: candidate.time_s or 0.0):
        total, latency = candidate.time_s, candidate.latency_s
        if total is None or latency is None:
            others.append([f"  {candidate.algorithm}", "-", candidate.reason or ""])
        else:
            parts = f"= {format_time(latency)} latency + {format_time(total - latency)}"
            rows.append([f"  {candidate.algorithm}", format_time(total), parts])
    title = f"chosen for {format_size(choice.size_bytes)} by time ({choice.simulator} simulator):"
    return f"{title}\n{align(rows + others, left={0, 2})}"


_VALID = "\n# exact: no smaller rate would be a bound; valid: no all-reduce is faster, but maybe none reaches the rate"


def bound_table(report: BoundReport) -> str:
    """Return a text table of the bounds of a network.

    Args:
        report: The result of `treefold.bound`.

    Example:
        >>> from treefold import report
        >>> table = report.bound_table(treefold.bound("ring:4"))
        >>> table.splitlines()[2].split()[:2]
        ['all-reduce', '21.333GB/s']

    """
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


def size_bound_table(bound: SizeBound) -> str:
    """Return the least time of a size as a text table.

    Args:
        bound: The result of `treefold.bound_at`.

    Example:
        >>> from treefold import report
        >>> print(report.size_bound_table(treefold.bound_at("ring:4", "1MiB", "all-gather")))
        collective  all-gather of 1MiB on ring:4
        time        24.726us at least
        limited by  the rate of the links GPU1 -> GPU0, GPU3 -> GPU0, over which GPU1, GPU2, GPU3 send to GPU0
        rate        42.667GB/s for large vectors: exact, minimum cuts
        latency     300ns between the farthest pair

    """
    rate = "nothing to send"
    if bound.rate.rate_Bps is not None:
        quality = "exact" if bound.rate.is_exact else "valid"
        rate = f"{format_bandwidth(bound.rate.rate_Bps)} for large vectors: {quality}, {bound.rate.method}"
    return key_values(
        {
            "collective": f"{bound.collective} of {format_size(bound.size_bytes)} on {bound.network}",
            "time": f"{format_time(bound.time_s)} at least",
            "limited by": bound.limited_by,
            "rate": rate,
            "latency": f"{format_time(bound.latency_s)} between the farthest pair",
        }
    )


def train_table(report: "Sequence[TrainingIteration]") -> str:
    """Return a table of the iterations with each algorithm, and say what speed-ups are over; `*` marks the fastest.

    Args:
        report: The result of `treefold.train`, or some of its iterations.

    Raises:
        TreefoldError: If there is no iteration.

    Example:
        >>> from treefold import report
        >>> table = report.train_table(treefold.train("alexnet", "ring:4", "ring,multiring"))
        >>> print(table.splitlines()[3])
        multiring     32.969   19.602        1.909   11.457    1,941      6.1         1.35  *

    """
    if not report:
        raise TreefoldError("there are no iterations to show")
    parts = {
        "iteration": "iteration_s",
        "compute": "compute_s",
        "aggregation": "local_aggregation_s",
        "optimizer": "optimizer_s",
        "overhead": "compute_overhead_s",
        "exposed": "exposed_communication_s",
        "overlapped": "overlapped_communication_s",
    }
    always = ("iteration", "compute", "exposed")
    shown = {name: key for name, key in parts.items() if name in always or any(getattr(each, key) for each in report)}
    things, key = ("samples", "samples_per_s") if report[0].tokens is None else ("tokens", "tokens_per_s")
    header = ["algorithm", *shown, things, "of peak", "speed-up", ""]
    units = ["", *("(ms)" for _ in shown), "(/s)", "(%)", f"(over {report[0].baseline})", ""]
    body = []
    for each in report:
        chosen = "" if each.chosen is None else f" ({each.chosen})"
        times = (f"{getattr(each, part) * 1e3:.3f}" for part in shown.values())
        rate = getattr(each, key)
        digits = 0 if rate >= _WHOLE else 2
        ends = (f"{rate:,.{digits}f}", f"{each.mfu:.1%}"[:-1], f"{each.speedup:.2f}", "*" if each.winner else "")
        body.append([each.algorithm + chosen, *times, *ends])
    table = align([header, units, *body], left={0, len(header) - 1})
    return "\n".join([table, training_summary(report), _memory_line(report[0]), *_baseline_lines(report)])


def training_summary(report: "Sequence[TrainingIteration]") -> str:
    """Say what is trained and how. The line begins with `#`, as nccl-tests marks lines that are not rows."""
    first = report[0]
    error = max((each.interpolation_error or 0.0 for each in report), default=0.0)
    inexact = f"; times of larger sizes are interpolated and may be off by {error:.1%}" if error else ""
    short = short_buffers(min((each.buffer_cover or 1.0 for each in report), default=1.0))
    warned = f"; {short}" if short else ""
    whose = "per rank" if first.model_parallel == 1 else f"of each group of {first.model_parallel} ranks"
    micro = f"{first.accumulate} micro-batches of " if first.accumulate > 1 else ""
    batch = f"{micro}{first.batch} sample{'s' * (first.batch > 1)}"
    what = f"{first.model}: {first.parameters:,} parameters, {batch} {whose}"
    how = f"{_collectives_of(first)}, {first.simulator} simulator{inexact}{warned}"
    return f"# {what}, {first.ranks} x {first.accelerator}; {how}"


def _collectives_of(first: "TrainingIteration") -> str:
    """Say which collectives an iteration has."""
    sums = "sums inside both passes (model parallelism)"
    if first.ranks == 1:
        return "no collectives"
    if first.model_parallel == first.ranks:
        return sums
    collective = "all-reduce" if first.sharding == "none" else "reduce-scatter"
    units = {"none": "layer by layer", "layer": "layer by layer", "bucket": "by buckets"}[first.overlap]
    if first.sharding == "fsdp":
        beside = ", which compute waits for" if first.overlap == "none" else ", the next one beside the compute"
        how = f"all-gathers before both passes and reduce-scatters, {units}{beside}"
    elif first.overlap == "none":
        how = f"one {collective} after the backward pass"
    else:
        how = f"{collective}s {units}"
    how += ", then an all-gather" if first.sharding in ("zero-1", "zero-2") else ""
    if first.model_parallel == 1:
        return how
    return f"{how}; {sums}" + (", each group simulated alone" if first.simulator == "analytic" else "")


def _memory_line(first: "TrainingIteration") -> str:
    """Say how much memory a rank needs for what, and how much there is."""
    parts = ("parameters", "gradients", "optimizer", "activations")
    listed = ", ".join(f"{part} {getattr(first, f'{part}_bytes') / 1e9:,.1f}" for part in parts)
    size = first.accelerator_memory_bytes
    of = "" if size is None else f" of {size / 1e9:,.0f} GB{': does not fit' if first.memory_bytes > size else ''}"
    return f"# memory of a rank: {first.memory_bytes / 1e9:,.1f} GB{of} ({listed})"


def _baseline_lines(report: "Sequence[TrainingIteration]") -> list[str]:
    """Warn where speed-ups look large because they are over a ring, which leaves most links of most networks idle."""
    if report[0].baseline != "ring" or len(report) == 1:
        return []
    what = "ring, which uses one link of each rank, and one rail between servers"
    return [f"# speed-ups are over {what}; name a stronger algorithm first"]


def claims_table(claims: Sequence[Mapping[str, Any]]) -> str:
    """Return a table of the claims of a paper beside our measurements; `NO` marks those that are not reproduced.

    Args:
        claims: The `claims` of a figure, as `treefold reproduce` writes them to its JSON file.

    Example:
        >>> from treefold import report
        >>> claim = {"claim": "speed-up", "paper": "2", "tolerance": "10 %", "measured": "1.5", "reproduced": False}
        >>> print(report.claims_table([claim]))
        claim     paper  tolerance  measured  reproduced
        speed-up  2      10 %       1.5       NO

    """
    header = ["claim", "paper", "tolerance", "measured", "reproduced"]
    rows = [[claim[key] for key in header[:4]] + ["yes" if claim["reproduced"] else "NO"] for claim in claims]
    return align([header, *rows], left={0, 1, 2, 3, 4})
