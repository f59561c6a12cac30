"""The results of planning, simulating and describing: frozen dataclasses, whose fields have units in their names.

`as_dict()` returns what the command line prints with `--json`. `Comparison` and `treefold.training.TrainingReport` are
sequences of results, and also have `rows()` and `to_pandas()`.
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
    """How many links there are, each in one direction: a cable is two."""
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
    """Whether the plan computes its collective, and keeps its promises about the use of links within a step."""
    reason: str
    """The first fault of the plan; empty if it is correct."""

    def __bool__(self) -> bool:
        return self.correct

    def __repr__(self) -> str:
        return "Verdict(correct)" if self.correct else f"Verdict(wrong: {self.reason})"


class Bound(NamedTuple):
    """A rate that no all-reduce can beat."""

    rate_Bps: float | None
    """The rate for large vectors, in bytes of the vector per second; None if nothing has to be sent (one rank)."""
    is_exact: bool
    """Whether the bound is as low as it can be: no lower rate would hold for every plan."""
    method: str
    """The method that found the bound, in words, for example `minimum cuts`, `graph strength` or `linear program`."""


@dataclass(frozen=True, kw_only=True, repr=False)
class BoundReport(Record):
    """The bounds that no all-reduce on a network can beat."""

    reduce_scatter_all_gather: Bound
    """The bound for a reduce-scatter and an all-gather after it; rings and MultiTree work this way."""
    all_reduce: Bound
    """The bound for any all-reduce in which switches only forward."""
    in_network: Bound | None = None
    """The bound for any all-reduce in which switches reduce or multicast as far as they can; None if no switch can do
    either.
    """
    latency_s: float
    """The seconds that no all-reduce of any size can beat: the latency between the two ranks that are farthest apart.
    """

    def as_dict(self) -> dict[str, Any]:
        """Return what `treefold bound --json` prints: the rates by name, `exact`, `method` and `latency_s`."""
        bounds = {f"{name}_Bps": bound for name, bound in self.bounds().items()}
        return {
            **{name: bound.rate_Bps for name, bound in bounds.items()},
            "exact": {name: bound.is_exact for name, bound in bounds.items()},
            "method": {name: bound.method for name, bound in bounds.items()},
            "latency_s": self.latency_s,
        }

    def bounds(self) -> dict[str, Bound]:
        """Return the bounds that the network has, by the names of the fields; `in_network` may be missing."""
        named = {name: getattr(self, name) for name in ("reduce_scatter_all_gather", "all_reduce", "in_network")}
        return {name: bound for name, bound in named.items() if bound is not None}

    def __repr__(self) -> str:
        rates = {name: bound.rate_Bps for name, bound in self.bounds().items()}
        shown = [f"{name}={'unlimited' if rate is None else format_bandwidth(rate)}" for name, rate in rates.items()]
        return f"BoundReport({', '.join(shown)}, latency={format_time(self.latency_s)})"


@dataclass(frozen=True)
class LinkUtilization(Record):
    """How much links are used, from 0 to 1.

    A link's utilization is the time that it would need at its full rate for all that it carries, as a part of the time
    of the collective.
    """

    mean: float
    """The mean utilization of all links."""
    max: float
    """The utilization of the busiest link."""


@dataclass(frozen=True)
class FabricReport(Record):
    """The counts of the packet simulator for a fabric, whose switches reduce."""

    evictions: int
    """How many partial sums left their reduction tables early."""
    timeouts: int
    """How many of the evictions were timeouts."""
    bypasses: int
    """How many operands found no room in a reduction table and were forwarded unreduced."""
    table_bytes: int | None
    """The size of the reduction table of a port, in bytes. None if the plan neither pulls nor pushes, and on a
    deterministic machine, whose reduction tables are as large as they need to be.
    """
    timeout_cycles: int | None
    """The number of cycles after which an untouched entry is evicted; None if `table_bytes` is None."""
    table_peak_bytes: int
    """The most bytes that any reduction table held."""
    packet_latency_s: float
    """The mean time, in seconds, of a packet between its endpoints."""
    waves: int | None
    """How many waves a rank may have outstanding; None if any number may be, and if the plan neither pulls nor
    pushes.
    """
    memory_read_bytes: int
    """The bytes that all ranks together read from memory."""
    memory_written_bytes: int
    """The bytes that all ranks together wrote to memory."""
    digest: str | None
    """A digest of the bits of all sums in floating point, which depend on the order in which switches add; None if the
    plan neither pulls nor pushes.
    """


@dataclass(frozen=True)
class PacketReport(Record):
    """The counts of the packet simulator."""

    cycles: int
    """The time in cycles of the machine's clock."""
    clock_hz: float
    """The machine's clock, in cycles per second."""
    packets: int
    """How many packets were sent."""
    flits: int
    """How many flits the packets had, head flits included."""
    head_flits: int
    """How many of the flits were head flits."""
    buffer_peak_flits: int | None
    """The most flits that any virtual channel's buffer held; None in a fabric, and if nothing was
    sent.
    """
    buffer_cover: float | None
    """The fraction of a link's round trip that buffers cover; if it is below 1, the buffers limit the rate. None in a
    fabric, and if nothing was sent.
    """
    switches: str
    """The kind of the switches: `routers` or `fabric`."""
    fabric: FabricReport | None = inline()
    """The counts for the fabric; None if switches were routers. Dictionaries have its fields beside these."""


@dataclass(frozen=True, kw_only=True, repr=False)
class Prediction(Record):
    """The predicted time of a plan for one size."""

    algorithm: str
    """The algorithm that made the plan; in a comparison its name as the caller gave it, so that it may be `auto`."""
    collective: str
    """The collective that the plan computes."""
    model: str
    """The simulator that predicted the time: `analytic`, `flow` or `packet`."""
    link_model: str
    """The meaning of latency: `propagation` or `hockney`."""
    size_bytes: int
    """The size of the vector, in bytes."""
    time_s: float
    """The predicted time, in seconds."""
    algbw_Bps: float | None
    """The size divided by the time, as nccl-tests counts it, in bytes per second; None if nothing takes time."""
    busbw_Bps: float | None
    """`algbw_Bps` times the factor of nccl-tests for the collective; None if nothing takes time."""
    bound_s: float | None
    """The seconds that no all-reduce can beat at this size; None for other collectives."""
    bound_fraction: float | None
    """`bound_s` divided by `time_s`; 1 is the best. None for other collectives, and if nothing takes time."""
    link_utilization: LinkUtilization
    """How much links are used: the mean and the largest utilization."""
    busiest_link: str | None = field(default=None, metadata={"is_hidden": True})
    """The link with the largest utilization, as `source -> target`; None if nothing is sent, and from the analytic
    simulator, which does not know it. Dictionaries leave it out.
    """
    wall_s: float
    """The seconds that the simulation itself took."""
    packets: PacketReport | None = inline()
    """The counts of the packet simulator; None if another one was used. Dictionaries have its fields beside these."""
    chosen: str | None = optional()
    """The algorithm that `auto` chose; None if `algorithm` is not `auto`."""
    winner: bool | None = optional()
    """Whether no other algorithm of a comparison is faster at this size; None outside of comparisons."""

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
    """An algorithm that `auto` considered, as `treefold plan --json` lists it under `choice`."""

    algorithm: str
    """The algorithm, with the number of trees if that was limited."""
    time_s: float | None
    """The predicted time, in seconds; None if the algorithm was not tried or does not fit."""
    latency_s: float | None
    """The seconds of that time that even a vector of one byte takes; None if `time_s` is None."""
    reason: str | None
    """The reason why the algorithm was not tried or does not fit; None if it has a time."""


@dataclass(frozen=True, repr=False)
class Choice(Record):
    """The reason why `auto` chose an algorithm, as `treefold plan --json` prints it under `choice`."""

    model: str
    """The simulator that compared the candidates."""
    size_bytes: int
    """The size for which the candidates were compared, in bytes."""
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
    """The spec, or the name in the file."""
    accelerators: int
    """How many nodes compute, ranks or not."""
    switches: int
    """How many nodes only forward, or reduce and multicast."""
    links: int
    """How many links there are, each in one direction: a cable is two."""


@dataclass(frozen=True, kw_only=True, repr=False)
class PlanSummary(Record):
    """A plan in a few numbers."""

    algorithm: str
    """The algorithm that made the plan."""
    collective: str
    """The collective that the plan computes."""
    size_bytes: int | None
    """The size that the plan was made for, in bytes; None if it is unknown. The plan runs at any size."""
    topology: NetworkCounts
    """The network that the plan is for."""
    trees: int
    """How many trees the plan has."""
    steps: int | None
    """How many steps the plan takes, from the first send to the last; None if its trees stream chunks."""
    max_height: int
    """The height of the highest tree, in edges."""
    mean_height: float
    """The mean height of the trees."""
    max_fanout: int
    """The largest number of children of a node in a tree."""
    mean_max_fanout: float
    """The mean of the largest fanouts of all trees."""
    rate_Bps: float | None
    """The rate that the busiest link allows, in bytes of the vector per second; None if nothing is sent."""
    normalized_throughput: float | None
    """The rate as a fraction of the rate at which trees would use all cables fully (MTree paper); None if a link has
    no opposite one, if nothing is sent, and for collectives other than all-reduce.
    """
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
    """The changes of the network, one line for each."""
    serves: bool
    """Whether the old plan still runs on the changed network."""
    old: Prediction | None
    """The prediction for the old plan on the changed network; None if it does not run there."""
    new: Prediction
    """The prediction for the new plan."""
    kept_trees: int
    """How many trees of the old plan the new plan keeps."""

    def __repr__(self) -> str:
        return f"Replanned({self.plan!r}, changes={len(self.changes)}, kept_trees={self.kept_trees})"


class TableEntry(NamedTuple):
    """An entry of a schedule table (MultiTree paper, Fig. 5)."""

    op: str
    """`Reduce`, `Gather` or `NOP`, which lets a step pass in which the rank sends nothing."""
    flow: int
    """The number of the tree, counted from 0."""
    parent: int | None
    """The next rank towards the root: a `Reduce` sends to it, a `Gather` receives from it. None at a root."""
    children: list[int]
    """The next ranks away from the root: a `Reduce` waits for them, a `Gather` sends to them."""
    step: int
    """The step in which the entry is executed, counted from 1."""
    start: int
    """The start of its part of the vector, in bytes."""
    size: int
    """The size of its part of the vector, in bytes."""


@dataclass(frozen=True, kw_only=True, repr=False)
class ScheduleTables(Record):
    """The schedule tables that network interfaces execute, and how much memory they take there.

    Tables and figures with numbers are those of the MultiTree paper.
    """

    tables: Sequence[Sequence[TableEntry]]
    """The entries of each rank's schedule table, rank 0 first."""
    names: tuple[str, ...]
    """The names of the ranks, rank 0 first."""
    entries: int
    """The number of entries of the longest schedule table."""
    entry_bits: int
    """The number of bits of an entry."""
    bytes: int
    """The memory that a network interface needs for the longest schedule table, in bytes."""
    flit_types: dict[str, int]
    """The codes of the types of flits (Table II), by the name of the type."""
    flit_formats: dict[str, list[tuple[str, int]]]
    """The fields of each kind of flit, each with its number of bits (Fig. 8)."""

    def as_dict(self) -> dict[str, Any]:
        """Return what `treefold plan --tables --json` prints."""
        listed = [[entry._asdict() for entry in table] for table in self.tables]
        others = ("names", "entries", "entry_bits", "bytes", "flit_types", "flit_formats")
        return {"tables": listed, **{name: plain(getattr(self, name)) for name in others}}

    def __repr__(self) -> str:
        return f"ScheduleTables({len(self.tables)} ranks, {self.entries} entries of {self.entry_bits} bits at most)"
