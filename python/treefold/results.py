"""The results of planning, simulating and describing: frozen dataclasses, whose fields have units in their names.

`as_dict()` returns what the command line prints with `--json`; tables also have `rows()` and `to_pandas()`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from treefold._core import Plan, format_bandwidth, format_size, format_time
from treefold.records import Record, Table, hidden, inline, optional, plain


@dataclass(frozen=True)
class NetworkSummary(Record):
    """A network in a few numbers."""

    name: str
    """The spec, or the name in the file."""
    accelerators: int
    """How many nodes compute, ranks or not."""
    switches: int
    """How many nodes only forward, or reduce and multicast."""
    links: int
    """How many directed links there are: a cable is two."""
    ranks: int
    """How many accelerators take part in collectives; the others only relay."""
    reduce: int
    """How many switches can reduce."""
    multicast: int
    """How many switches can multicast."""


@dataclass(frozen=True, repr=False)
class Verdict(Record):
    """The result of checking a plan."""

    correct: bool
    """Whether the plan computes its collective."""
    reason: str
    """The first fault of the plan; empty if it is correct."""

    def __bool__(self) -> bool:
        return self.correct

    def __repr__(self) -> str:
        return "Verdict(correct)" if self.correct else f"Verdict(wrong: {self.reason})"


class Bound(NamedTuple):
    """A rate that no plan can beat."""

    rate_Bps: float | None
    """The rate for large vectors, in bytes of the vector a second; None if nothing has to be sent (one rank)."""
    is_exact: bool
    """Whether the bound is as low as it can be."""
    method: str
    """The method that found the bound."""


@dataclass(frozen=True, kw_only=True, repr=False)
class BoundReport(Record):
    """The bounds that no all-reduce on a network can beat."""

    reduce_scatter_all_gather: Bound
    """The bound for a reduce-scatter and an all-gather after it; rings and MultiTree work so."""
    all_reduce: Bound
    """The bound for any all-reduce in which switches only forward."""
    in_network: Bound | None = None
    """The bound for any all-reduce in which switches may reduce; None if none can."""
    latency_s: float
    """The time that no all-reduce of any size can beat: the latency between the two ranks that are farthest apart."""

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
    """The fraction of the time in which links are busy."""

    mean: float
    """The mean of all links."""
    max: float
    """The fraction of the busiest link."""


@dataclass(frozen=True)
class FabricReport(Record):
    """The counts of the packet simulator for a fabric, whose switches reduce."""

    evictions: int
    """How many partial sums left their tables early."""
    timeouts: int
    """How many of the evictions were timeouts."""
    bypasses: int
    """How many operands found no room in a table and were forwarded unreduced."""
    table_bytes: int | None
    """The size of the reduction table of a port."""
    timeout_cycles: int
    """The number of cycles after which an untouched entry is evicted."""
    table_peak_bytes: int
    """The most bytes that any table held."""
    packet_latency_s: float
    """The mean time of a packet between its endpoints."""
    waves: int | None
    """How many waves a rank may have outstanding."""
    memory_read_bytes: int
    """The bytes that all ranks together read from memory."""
    memory_written_bytes: int
    """The bytes that all ranks together wrote to memory."""
    digest: str | None
    """A digest of the order in which operands were added; None unless that order is fixed."""


@dataclass(frozen=True)
class PacketReport(Record):
    """The counts of the packet simulator."""

    cycles: int
    """The time in cycles of the machine's clock."""
    clock_hz: float
    """The machine's clock."""
    packets: int
    """How many packets were sent."""
    flits: int
    """How many flits the packets had, head flits included."""
    head_flits: int
    """How many of the flits were head flits."""
    buffer_peak_flits: int | None
    """The most flits that any virtual channel's buffer held."""
    buffer_cover: float | None
    """The fraction of a link's round trip that buffers cover; below 1 they limit the rate."""
    switches: str
    """The kind of the switches: `routers` or `fabric`."""
    fabric: FabricReport | None = inline()
    """The counts for the fabric; None if there was none."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Prediction(Record):
    """The predicted time of a plan for one size."""

    algorithm: str
    """The algorithm that made the plan; in a comparison, its name as the caller gave it."""
    collective: str
    """The collective that the plan computes."""
    model: str
    """The simulator: `analytic`, `flow` or `packet`."""
    link_model: str
    """The meaning of latency: `propagation` or `hockney`."""
    size_bytes: int
    """The size of the vector."""
    time_s: float
    """The predicted time."""
    algbw_Bps: float | None
    """The size divided by the time, as nccl-tests counts it; None if nothing takes time."""
    busbw_Bps: float | None
    """`algbw_Bps` times the factor of nccl-tests for the collective."""
    bound_s: float | None
    """The time that no all-reduce can beat at this size; None for other collectives."""
    bound_fraction: float | None
    """`bound_s` divided by `time_s`; 1 is the best."""
    link_utilization: LinkUtilization
    """The fraction of the time in which links are busy."""
    busiest_link: str | None = field(default=None, metadata={"is_hidden": True})
    """The link that is busy for the longest time, as `source -> target`; the analytic model does not know it."""
    wall_s: float
    """The time that the simulation itself took."""
    packets: PacketReport | None = inline()
    """The counts of the packet simulator; None if another one was used."""
    chosen: str | None = optional()
    """The algorithm that `auto` chose."""
    winner: bool | None = optional()
    """Whether no other algorithm of a comparison is faster at this size."""

    def __repr__(self) -> str:
        what = f"{self.algorithm}, {self.collective} of {format_size(self.size_bytes)}"
        bound = "" if self.bound_fraction is None else f", {self.bound_fraction:.0%} of the bound"
        return f"Prediction({what}: {format_time(self.time_s)}{bound})"


class Comparison(Table[Prediction]):
    """Predictions for several algorithms and sizes, size by size."""

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
    """An algorithm that `auto` considered."""

    algorithm: str
    """The algorithm, with the number of trees if that was limited."""
    time_s: float | None
    """The predicted time; None if the algorithm was not tried or does not fit."""
    latency_s: float | None
    """The part of the time that even a vector of one byte takes."""
    reason: str | None
    """The reason why it was not tried or does not fit."""


@dataclass(frozen=True, repr=False)
class Choice(Record):
    """The reason why `auto` chose an algorithm."""

    model: str
    """The simulator that compared the candidates."""
    size_bytes: int
    """The size for which they were compared."""
    candidates: tuple[Candidate, ...]
    """All candidates, in the order in which they were tried."""

    def fastest(self) -> Candidate:
        """Return the candidate that was chosen."""
        timed = [(each.time_s, place) for place, each in enumerate(self.candidates) if each.time_s is not None]
        return self.candidates[min(timed)[1]]

    def __repr__(self) -> str:
        tried = f"{len(self.candidates)} candidates by {self.model} at {format_size(self.size_bytes)}"
        return f"Choice({self.fastest().algorithm} of {tried})"


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
    """The algorithm that made the plan."""
    collective: str
    """The collective that the plan computes."""
    size_bytes: int | None
    """The size that the plan was made for; None if it is unknown."""
    topology: NetworkCounts
    """The network that the plan is for."""
    trees: int
    """How many trees the plan has."""
    steps: int | None
    """How many steps the plan takes; None if it streams chunks."""
    max_height: int
    """The height of the highest tree, in edges."""
    mean_height: float
    """The mean height of the trees."""
    max_fanout: int
    """The largest number of children of a node in a tree."""
    mean_max_fanout: float
    """The mean of the largest fanouts of all trees."""
    rate_Bps: float | None
    """The rate that the busiest link allows, in bytes of the vector a second; None if nothing is sent."""
    normalized_throughput: float | None
    """The rate divided by that of trees that would use up all cables (MTree paper); None where that has no meaning."""
    busiest_link: str | None = hidden()
    """The link with the largest load for its bandwidth, which limits the rate, as `source -> target`; None if nothing
    is sent.
    """

    def __repr__(self) -> str:
        return f"PlanSummary({self.algorithm}, {self.collective} on {self.topology.name}, trees={self.trees})"


@dataclass(frozen=True, kw_only=True, repr=False)
class Replanned(Record):
    """A new plan for a changed network, and how it differs from the old plan."""

    plan: Plan = hidden()
    """The new plan."""
    changes: tuple[str, ...]
    """The changes of the network, one line each."""
    serves: bool
    """Whether the old plan still runs on the changed network."""
    old: Prediction | None
    """The old plan's predicted time on the changed network; None if it does not run there."""
    new: Prediction
    """The new plan's predicted time."""
    kept_trees: int
    """How many trees of the old plan the new plan keeps."""

    def __repr__(self) -> str:
        return f"Replanned({self.plan!r}, changes={len(self.changes)}, kept_trees={self.kept_trees})"


class TableEntry(NamedTuple):
    """An entry of a schedule table (MultiTree paper, Fig. 5)."""

    op: str
    """`Reduce`, `Gather` or `NOP`."""
    flow: int
    """The number of the tree."""
    parent: int | None
    """The rank that the entry sends to; None at a root."""
    children: list[int]
    """The ranks that the entry waits for, or sends to."""
    step: int
    """The step in which the entry is executed."""
    start: int
    """The start of its part of the vector, in bytes."""
    size: int
    """The size of its part of the vector, in bytes."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ScheduleTables(Record):
    """The schedule tables that network interfaces execute, and their cost in hardware."""

    tables: Sequence[Sequence[TableEntry]]
    """The entries of each rank's table."""
    names: tuple[str, ...]
    """The names of the ranks."""
    entries: int
    """The length of the longest table."""
    entry_bits: int
    """The number of bits of an entry."""
    bytes: int
    """The size of a table in hardware, in bytes."""
    flit_types: dict[str, int]
    """The codes of the types of flits (Table II)."""
    flit_formats: dict[str, list[tuple[str, int]]]
    """The fields of each flit and their bits (Fig. 8)."""

    def as_dict(self) -> dict[str, Any]:
        """Return what `treefold plan --tables --json` prints."""
        listed = [[entry._asdict() for entry in table] for table in self.tables]
        others = ("names", "entries", "entry_bits", "bytes", "flit_types", "flit_formats")
        return {"tables": listed, **{name: plain(getattr(self, name)) for name in others}}

    def __repr__(self) -> str:
        return f"ScheduleTables({len(self.tables)} ranks, {self.entries} entries of {self.entry_bits} bits at most)"
