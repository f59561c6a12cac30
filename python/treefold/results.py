"""What planning, simulating and describing return: frozen dataclasses with units in their names.

Each has `as_dict()`, which is what the command line prints with `--json`; tables have `rows()` and `to_pandas()`, too.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from treefold._core import Plan, format_bandwidth, format_size, format_time
from treefold.records import Record, Table, hidden, inline, optional


@dataclass(frozen=True)
class NetworkSummary(Record):
    """A network in a few numbers."""

    name: str
    """The spec, or the name that the file gives."""
    accelerators: int
    """How many nodes compute, ranks or not."""
    switches: int
    """How many nodes only forward, or reduce and multicast."""
    links: int
    """How many directed links there are: a cable is two."""
    ranks: int
    """How many accelerators take part in collectives; the others only relay."""
    reduce: int
    """How many switches add what comes in."""
    multicast: int
    """How many switches copy what comes in."""


@dataclass(frozen=True, repr=False)
class Verdict(Record):
    """What the proof of a plan says."""

    correct: bool
    """Whether the plan computes its collective."""
    reason: str
    """The first fault that was found; empty for a correct plan."""

    def __bool__(self) -> bool:
        return self.correct

    def __repr__(self) -> str:
        return "Verdict(correct)" if self.correct else f"Verdict(wrong: {self.reason})"


class Bound(NamedTuple):
    """A rate that no plan can beat."""

    rate_Bps: float | None
    """Bytes of the vector a second, for large vectors; None where nothing has to be sent (one rank)."""
    is_exact: bool
    """Whether no smaller rate would be a bound of its kind, too."""
    method: str
    """How the bound was found."""


@dataclass(frozen=True, kw_only=True, repr=False)
class BoundReport(Record):
    """What no all-reduce can beat on a network."""

    reduce_scatter_all_gather: Bound
    """For a reduce-scatter followed by an all-gather, as rings and MultiTree work."""
    all_reduce: Bound
    """For any all-reduce in which switches only forward."""
    in_network: Bound | None = None
    """For any all-reduce with the help of switches; None where no switch reduces."""
    latency_s: float
    """What no all-reduce of any size can beat: the time between the two ranks that are farthest apart."""

    def as_dict(self) -> dict[str, Any]:
        """Return what `treefold bound --json` prints."""
        bounds = {f"{name}_Bps": bound for name, bound in self.bounds().items()}
        return {
            **{name: bound.rate_Bps for name, bound in bounds.items()},
            "exact": {name: bound.is_exact for name, bound in bounds.items()},
            "method": {name: bound.method for name, bound in bounds.items()},
            "latency_s": self.latency_s,
        }

    def bounds(self) -> dict[str, Bound]:
        """Return the bounds that the network has, by name."""
        named = {name: getattr(self, name) for name in ("reduce_scatter_all_gather", "all_reduce", "in_network")}
        return {name: bound for name, bound in named.items() if bound is not None}

    def __repr__(self) -> str:
        rates = {name: bound.rate_Bps for name, bound in self.bounds().items()}
        shown = [f"{name}={'unlimited' if rate is None else format_bandwidth(rate)}" for name, rate in rates.items()]
        return f"BoundReport({', '.join(shown)}, latency={format_time(self.latency_s)})"


@dataclass(frozen=True)
class LinkUtilization(Record):
    """The part of the time in which links are busy."""

    mean: float
    """The mean over all links."""
    max: float
    """The part of the busiest link."""


@dataclass(frozen=True)
class FabricReport(Record):
    """What the packet simulator counts in a fabric whose switches reduce."""

    evictions: int
    """How many partial sums left their tables early."""
    timeouts: int
    """How many of these waited too long."""
    bypasses: int
    """How many operands found no room and went on unreduced."""
    table_bytes: int | None
    """The size of a port's reduction table."""
    timeout_cycles: int
    """After how many cycles an untouched entry is evicted."""
    table_peak_bytes: int
    """The most that any table held."""
    packet_latency_s: float
    """The mean time of a packet between its endpoints."""
    waves: int | None
    """How many waves a rank may have outstanding."""
    memory_read_bytes: int
    """What all ranks together read from memory."""
    memory_written_bytes: int
    """What all ranks together wrote to memory."""
    digest: str | None
    """A digest of the order in which operands were added; None unless that order is fixed."""


@dataclass(frozen=True)
class PacketReport(Record):
    """What only the packet simulator counts."""

    cycles: int
    """The time in cycles of the machine's clock."""
    clock_hz: float
    """The machine's clock."""
    packets: int
    """How many packets were sent."""
    flits: int
    """How many flits they had, heads included."""
    head_flits: int
    """How many of the flits were heads."""
    buffer_peak_flits: int | None
    """The most flits that any virtual channel's buffer held."""
    buffer_cover: float | None
    """The part of a link's round trip that buffers cover; below 1 they limit the rate."""
    switches: str
    """What switches were: `routers` or a `fabric`."""
    fabric: FabricReport | None = inline()
    """What happened in the fabric, where there was one."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Prediction(Record):
    """The predicted time of a plan for one size."""

    algorithm: str
    """The algorithm that made the plan, or that was asked for."""
    collective: str
    """What the plan computes."""
    model: str
    """The simulator: `analytic`, `flow` or `packet`."""
    link_model: str
    """What latency means: `propagation` or `hockney`."""
    size_bytes: int
    """The size of the vector."""
    time_s: float
    """The predicted time."""
    algbw_Bps: float | None
    """Size over time, as nccl-tests counts it; None where nothing takes time."""
    busbw_Bps: float | None
    """`algbw_Bps` times nccl-tests' factor of the collective."""
    bound_s: float | None
    """What no all-reduce can beat at this size; None for other collectives."""
    bound_fraction: float | None
    """`bound_s` over `time_s`: 1 is the best."""
    link_utilization: LinkUtilization
    """How busy links are."""
    busiest_link: str | None = field(default=None, metadata={"is_hidden": True})
    """The link that is busy for the longest time, as `source -> target`; None from the analytic model."""
    wall_s: float
    """How long the simulation took."""
    packets: PacketReport | None = inline()
    """What the packet simulator counted, if it was the simulator."""
    chosen: str | None = optional()
    """The algorithm that `auto` chose."""
    winner: bool | None = optional()
    """In a comparison, whether no other algorithm is faster at this size."""

    def __repr__(self) -> str:
        what = f"{self.algorithm}, {self.collective} of {format_size(self.size_bytes)}"
        bound = "" if self.bound_fraction is None else f", {self.bound_fraction:.0%} of the bound"
        return f"Prediction({what}: {format_time(self.time_s)}{bound})"


class Comparison(Table[Prediction]):
    """Predictions for algorithms and sizes, size by size."""

    def sizes(self) -> list[int]:
        """Return the sizes that were compared, in bytes."""
        return list(dict.fromkeys(each.size_bytes for each in self))

    def at(self, size_bytes: int) -> list[Prediction]:
        """Return the predictions for one size, the fastest first."""
        return sorted((each for each in self if each.size_bytes == size_bytes), key=lambda each: each.time_s)

    def fastest(self) -> list[Prediction]:
        """Return the fastest prediction for each size."""
        return [self.at(size)[0] for size in self.sizes()]

    def __repr__(self) -> str:
        algorithms = dict.fromkeys(each.algorithm for each in self)
        sizes = [format_size(size) for size in self.sizes()]
        return f"Comparison({len(algorithms)} algorithms, sizes {', '.join(sizes)})"


@dataclass(frozen=True)
class Candidate(Record):
    """How an algorithm fared when `auto` chose."""

    algorithm: str
    """The algorithm, and how many trees it was limited to."""
    time_s: float | None
    """Its predicted time; None where it was not tried or does not fit."""
    latency_s: float | None
    """The part of that time that a vector of one byte takes, too."""
    reason: str | None
    """Why it was not tried, or does not fit."""


@dataclass(frozen=True)
class Choice(Record):
    """Why `auto` chose an algorithm."""

    model: str
    """The simulator that compared the candidates."""
    size_bytes: int
    """The size for which they were compared."""
    candidates: tuple[Candidate, ...]
    """All of them, in the order in which they were tried."""

    def fastest(self) -> Candidate:
        """Return the candidate that was chosen."""
        timed = [(each.time_s, place) for place, each in enumerate(self.candidates) if each.time_s is not None]
        return self.candidates[min(timed)[1]]


@dataclass(frozen=True)
class NetworkCounts(Record):
    """The network of a plan in a few numbers."""

    name: str
    accelerators: int
    switches: int
    links: int


@dataclass(frozen=True, kw_only=True, repr=False)
class PlanSummary(Record):
    """A plan in a few numbers."""

    algorithm: str
    """The algorithm that made it."""
    collective: str
    """What it computes."""
    size_bytes: int | None
    """The size that it was made for; None where that is not known."""
    topology: NetworkCounts
    """The network that it is for."""
    trees: int
    """How many trees it has."""
    steps: int | None
    """How many steps it takes; None for a plan that streams chunks."""
    max_height: int
    """The height of the highest tree, in hops of ranks."""
    mean_height: float
    """The mean height of its trees."""
    max_fanout: int
    """The most children that a node has in a tree."""
    mean_max_fanout: float
    """The mean over trees of each tree's largest fanout."""
    rate_Bps: float | None
    """The rate that the busiest link allows, in bytes of the vector a second; None where nothing is sent."""
    normalized_throughput: float | None
    """The rate over that of trees that would use up all cables (MTree paper); None where that has no meaning."""

    def __repr__(self) -> str:
        return f"PlanSummary({self.algorithm}, {self.collective} on {self.topology.name}, trees={self.trees})"


@dataclass(frozen=True, kw_only=True, repr=False)
class Replanned(Record):
    """What became of a plan when its network changed."""

    plan: Plan = hidden()
    """The new plan."""
    changes: tuple[str, ...]
    """What is different about the network, a line each; empty when nothing is."""
    serves: bool
    """Whether the old plan still runs there."""
    old: Prediction | None
    """The old plan's time on the changed network; None where it does not run."""
    new: Prediction
    """The new plan's time."""
    kept_trees: int
    """How many trees of the new plan are the old plan's."""

    def __repr__(self) -> str:
        return f"Replanned({self.plan!r}, changes={len(self.changes)}, kept_trees={self.kept_trees})"


class TableEntry(NamedTuple):
    """An entry of a schedule table (MultiTree paper, Fig. 5)."""

    op: str
    """`Reduce`, `Gather` or `NOP`."""
    flow: int
    """The tree."""
    parent: int | None
    """The rank that the entry sends to; None at a root."""
    children: list[int]
    """The ranks that it waits for, or sends to."""
    step: int
    """The step in which it works."""
    start: int
    """Where its part of the vector starts, in bytes."""
    size: int
    """How many bytes its part has."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ScheduleTables(Record):
    """The schedule tables that network interfaces execute, and what they cost in hardware."""

    tables: Sequence[Sequence[TableEntry]]
    """The entries of each rank."""
    names: tuple[str, ...]
    """The names of the ranks."""
    entries: int
    """The length of the longest table."""
    entry_bits: int
    """The bits of an entry."""
    bytes: int
    """The size of a table in hardware."""
    flit_types: dict[str, int]
    """The codes of the types of flits (Table II)."""
    flit_formats: dict[str, list[tuple[str, int]]]
    """The fields of each flit and their bits (Fig. 8)."""

    def as_dict(self) -> dict[str, Any]:
        """Return what `treefold plan --tables --json` prints."""
        listed = [[entry._asdict() for entry in table] for table in self.tables]
        others = ("names", "entries", "entry_bits", "bytes", "flit_types", "flit_formats")
        return {"tables": listed, **{name: _listed(getattr(self, name)) for name in others}}

    def __repr__(self) -> str:
        return f"ScheduleTables({len(self.tables)} ranks, {self.entries} entries of {self.entry_bits} bits at most)"


def _listed(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
