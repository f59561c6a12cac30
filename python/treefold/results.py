"""The results of planning, simulating and describing: mostly frozen dataclasses; the names of fields say their units.

`as_dict()` returns a dictionary with the keys that `--json` prints; `treefold plan --json` prints some more.
`Comparison` and `treefold.training.TrainingReport` are sequences of results: their `rows()` is the list that `--json`
prints, and they have `to_pandas()`, too. The result of `treefold.tables` is in `treefold.schedule_tables`, and that of
`treefold.simulate_together` in `treefold.job_results`.
"""

from dataclasses import dataclass
from typing import Any, NamedTuple

from treefold._core import Plan, format_bandwidth, format_size, format_time
from treefold.records import Record, Table, hidden, inline, keyed, optional


@dataclass(frozen=True)
class NetworkSummary(Record):
    """A network in a few numbers.

    Attributes:
        name: The spec, or the name in the file.
        accelerators: How many nodes compute, ranks or not.
        switches: How many nodes only forward, or reduce and multicast.
        links: How many links there are, each in one direction: a cable is two.
        ranks: How many accelerators take part in collectives; the others only relay.
        reduce: How many switches can reduce.
        multicast: How many switches can multicast.

    """

    name: str
    accelerators: int
    switches: int
    links: int
    ranks: int
    reduce: int
    multicast: int


@dataclass(frozen=True, repr=False)
class Verdict(Record):
    """The result of checking a plan.

    Attributes:
        correct: Whether the plan computes its collective, and keeps its promises about the use of links within a step.
        reason: The first fault of the plan; empty if it is correct.

    """

    correct: bool
    reason: str

    def __bool__(self) -> bool:
        return self.correct

    def __repr__(self) -> str:
        return "Verdict(correct)" if self.correct else f"Verdict(wrong: {self.reason})"


class Bound(NamedTuple):
    """A rate that no all-reduce of one kind can beat; the field of `BoundReport` says which kind.

    Attributes:
        rate_Bps: The rate for large vectors, in bytes of the vector per second; None if nothing has to be sent (one
            rank).
        is_exact: Whether the bound is tight: the best plan reaches it.
        method: The method that found the bound, in words, for example `minimum cuts`, `graph strength` or `linear
            program`.

    """

    rate_Bps: float | None
    is_exact: bool
    method: str


@dataclass(frozen=True, kw_only=True, repr=False)
class BoundReport(Record):
    """Bounds on three kinds of all-reduce on a network, and a latency that none of them can beat.

    Attributes:
        reduce_scatter_all_gather: The bound for a reduce-scatter and an all-gather after it; rings and MultiTree work
            this way.
        all_reduce: The bound for any all-reduce in which switches only forward.
        in_network: The bound for any all-reduce in which switches reduce or multicast as far as they can; None if no
            switch can do either.
        latency_s: The seconds that no all-reduce of any size can beat: the latency between the two ranks that are
            farthest apart.

    """

    reduce_scatter_all_gather: Bound
    all_reduce: Bound
    in_network: Bound | None = None
    latency_s: float

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

    A link's utilization is the time that its messages would occupy it at its full bandwidth, overheads included,
    divided by the time of the collective.

    Attributes:
        mean: The mean utilization of all links.
        max: The utilization of the busiest link.

    """

    mean: float
    max: float


@dataclass(frozen=True)
class FabricReport(Record):
    """The counts of the packet simulator for a fabric, whose switches reduce.

    Attributes:
        op: The operator by which switches reduced; None if they reduced nothing.
        evictions: How many partial sums left their reduction tables early.
        timeouts: How many of the evictions were timeouts.
        bypasses: How many times a pull found no room for an entry in a reduction table, so that its answers were
            forwarded unreduced.
        stalls: How many pulls had to wait at their first switch for an entry in its reduction table.
        failed_allocations: How many times a wave asked for a counter of its wave controller and found none.
        retransmissions: How many packets were sent again over a link because they, or one before them, arrived corrupt.
        duplicates: How many packets arrived on a link a second time and were dropped.
        table_bytes: The size of the reduction table of a port, in bytes. None if the plan neither pulls nor pushes, and
            on a deterministic machine, whose reduction tables are as large as they need to be.
        timeout_cycles: The number of cycles after which an untouched entry is evicted; None if nothing is pushed, or
            `table_bytes` is None.
        table_peak_bytes: The most bytes that any reduction table held.
        packet_latency_s: The mean time, in seconds, of a packet between its endpoints.
        waves: How many waves a rank may have outstanding; None if any number may be, and if the plan neither pulls nor
            pushes.
        memory_read_bytes: The bytes that all ranks together read from memory.
        memory_written_bytes: The bytes that all ranks together wrote to memory.
        digest: A digest of the bits of all sums in floating point, which depend on the order in which switches add;
            None if the plan neither pulls nor pushes.

    """

    op: str | None
    evictions: int
    timeouts: int
    bypasses: int
    stalls: int
    failed_allocations: int
    retransmissions: int
    duplicates: int
    table_bytes: int | None
    timeout_cycles: int | None
    table_peak_bytes: int
    packet_latency_s: float
    waves: int | None
    memory_read_bytes: int
    memory_written_bytes: int
    digest: str | None


@dataclass(frozen=True)
class PacketReport(Record):
    """The counts of the packet simulator.

    Attributes:
        cycles: The time in cycles of the machine's clock.
        clock_hz: The machine's clock, in cycles per second.
        packets: How many packets were sent.
        flits: How many flits the packets had, head flits included.
        head_flits: How many of the flits were head flits.
        buffer_peak_flits: The most flits that any virtual channel's buffer held; None in a fabric, and if nothing was
            sent.
        buffer_cover: The size of buffers divided by what a link carries in its round trip; below 1, buffers limit the
            rate. None in a fabric, and if nothing was sent.
        switches: The kind of the switches: `routers` or `fabric`.
        fabric: The counts for the fabric; None if switches were routers. Dictionaries have its fields beside these.

    """

    cycles: int
    clock_hz: float
    packets: int
    flits: int
    head_flits: int
    buffer_peak_flits: int | None
    buffer_cover: float | None
    switches: str
    fabric: FabricReport | None = inline()


@dataclass(frozen=True, kw_only=True, repr=False)
class Prediction(Record):
    """The predicted time of a plan for one size.

    Attributes:
        algorithm: The algorithm that made the plan; in a comparison its name as the caller gave it, so that it may be
            `auto`.
        collective: The collective that the plan computes.
        simulator: The simulator that predicted the time: `analytic`, `flow` or `packet` (`model` in dictionaries and
            JSON).
        link_model: The meaning of latency: `propagation` or `hockney`.
        size_bytes: The size of the vector, in bytes.
        time_s: The predicted time, in seconds.
        algbw_Bps: The size divided by the time, as nccl-tests counts it, in bytes per second; None if nothing takes
            time.
        busbw_Bps: The bandwidth `algbw_Bps` times the factor of nccl-tests for the collective; None if nothing takes
            time.
        bound_s: The seconds that no all-reduce can beat at this size; None for other collectives.
        bound_fraction: The fraction `bound_s` / `time_s`; 1 is the best. None for other collectives, and if nothing
            takes time.
        link_utilization: How much links are used: the mean and the largest utilization.
        busiest_link: The link with the largest utilization, as `source -> target`; None if nothing is sent, and from
            the analytic simulator, which does not know it. Dictionaries leave it out.
        wall_s: The seconds that the simulation itself took.
        packets: The counts of the packet simulator; None if another one was used. Dictionaries have its fields beside
            these.
        chosen: The algorithm that `auto` chose; None if `algorithm` is not `auto`.
        winner: Whether this is the fastest algorithm of a comparison at this size, the first of them if several are
            equally fast; False if nothing takes time, and None outside of comparisons.

    """

    algorithm: str
    collective: str
    simulator: str = keyed("model")
    link_model: str
    size_bytes: int
    time_s: float
    algbw_Bps: float | None
    busbw_Bps: float | None
    bound_s: float | None
    bound_fraction: float | None
    link_utilization: LinkUtilization
    busiest_link: str | None = hidden(None)
    wall_s: float
    packets: PacketReport | None = inline()
    chosen: str | None = optional()
    winner: bool | None = optional()

    def __repr__(self) -> str:
        what = f"{self.algorithm}, {self.collective} of {format_size(self.size_bytes)} by {self.simulator}"
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
    """An algorithm that `auto` considered, as `treefold plan --json` lists it under `choice`.

    Attributes:
        algorithm: The algorithm, with the number of trees if that was limited.
        time_s: The predicted time, in seconds; None if the algorithm was not tried or does not fit.
        latency_s: The seconds of that time that even a vector of one byte takes; None if `time_s` is None.
        reason: The reason why the algorithm was not tried or does not fit; None if it has a time.

    """

    algorithm: str
    time_s: float | None
    latency_s: float | None
    reason: str | None


@dataclass(frozen=True, kw_only=True, repr=False)
class Choice(Record):
    """The reason why `auto` chose an algorithm, as `treefold plan --json` prints it under `choice`.

    Attributes:
        simulator: The simulator that compared the candidates (`model` in dictionaries and JSON).
        size_bytes: The size for which the candidates were compared, in bytes.
        candidates: All candidates, in the order in which they were tried.

    """

    simulator: str = keyed("model")
    size_bytes: int
    candidates: tuple[Candidate, ...]

    def fastest(self) -> Candidate:
        """Return the candidate that was chosen."""
        timed = [(each.time_s, place) for place, each in enumerate(self.candidates) if each.time_s is not None]
        return self.candidates[min(timed)[1]]

    def __repr__(self) -> str:
        tried = f"{len(self.candidates)} candidates by {self.simulator} at {format_size(self.size_bytes)}"
        return f"Choice({self.fastest().algorithm} of {tried})"


@dataclass(frozen=True)
class NetworkCounts(Record):
    """The network of a plan in a few numbers.

    Attributes:
        name: The spec, or the name in the file.
        accelerators: How many nodes compute, ranks or not.
        switches: How many nodes only forward, or reduce and multicast.
        links: How many links there are, each in one direction: a cable is two.

    """

    name: str
    accelerators: int
    switches: int
    links: int


@dataclass(frozen=True, kw_only=True, repr=False)
class PlanSummary(Record):
    """A plan in a few numbers.

    Attributes:
        algorithm: The algorithm that made the plan.
        collective: The collective that the plan computes.
        size_bytes: The size that the plan was made for, in bytes; None if it is unknown. The plan runs at any size.
        topology: The network that the plan is for.
        trees: How many trees the plan has.
        steps: How many steps the plan takes, from the first send to the last; None if its trees stream chunks.
        max_height: The height of the highest tree, in edges.
        mean_height: The mean height of the trees.
        max_fanout: The largest number of children of a node in a tree.
        mean_max_fanout: The largest fanout of each tree, averaged over the trees.
        rate_Bps: The throughput for large vectors, in bytes of the vector per second, which the busiest link limits;
            None if nothing is sent.
        normalized_throughput: The rate as a fraction of the rate at which trees would use all cables fully (MTree
            paper); None if a link has no opposite one, if nothing is sent, and for collectives other than all-reduce.
        busiest_link: The link with the largest load for its bandwidth, which limits the rate, as `source -> target`;
            None if nothing is sent. Dictionaries leave it out.

    """

    algorithm: str
    collective: str
    size_bytes: int | None
    topology: NetworkCounts
    trees: int
    steps: int | None
    max_height: int
    mean_height: float
    max_fanout: int
    mean_max_fanout: float
    rate_Bps: float | None
    normalized_throughput: float | None
    busiest_link: str | None = hidden()

    def __repr__(self) -> str:
        return f"PlanSummary({self.algorithm}, {self.collective} on {self.topology.name}, trees={self.trees})"


@dataclass(frozen=True, kw_only=True, repr=False)
class Replanned(Record):
    """A new plan for a changed network, and how it differs from the old plan.

    Attributes:
        plan: The new plan.
        changes: The changes of the network, one line for each.
        gave_way: The reason why the old plan's algorithm or limits gave way; empty if they did not.
        serves: Whether the old plan can still run on the changed network.
        old: The prediction for the old plan on the changed network; None if it does not run there.
        new: The prediction for the new plan.
        kept_trees: How many trees of the old plan the new plan keeps.

    """

    plan: Plan = hidden()
    changes: tuple[str, ...]
    gave_way: str
    serves: bool
    old: Prediction | None
    new: Prediction
    kept_trees: int

    def __repr__(self) -> str:
        return f"Replanned({self.plan!r}, changes={len(self.changes)}, kept_trees={self.kept_trees})"
