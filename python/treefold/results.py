"""The results of planning, simulating and describing: mostly frozen dataclasses; the names of fields say their units.

`as_dict()` of a dataclass returns a dictionary with the keys that `--json` prints; `treefold plan --json` prints some
more. `Bound` is a named tuple without it: `BoundReport.as_dict()` has its values. `Comparison` and
`treefold.training.TrainingReport` are sequences of results: their `rows()` is the list that `--json` prints, and they
have `to_pandas()`, too. The result of `treefold.tables` is in `treefold.schedule_tables`, that of
`treefold.simulate_together` in `treefold.job_results`, and that of `treefold.winners` in `treefold.winner_results`.
"""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

from treefold import checks, html
from treefold._core import Plan, format_bandwidth, format_size, format_time
from treefold.packet_results import FabricReport, LinkUtilization, PacketReport, short_buffers
from treefold.plan_results import Algorithm, Candidate, Choice, NetworkCounts, PlanSummary
from treefold.records import Record, Table, hidden, inline, keyed, optional

__all__ = [
    "Algorithm",
    "Bound",
    "BoundReport",
    "Candidate",
    "Choice",
    "Comparison",
    "FabricReport",
    "LinkUtilization",
    "NetworkCounts",
    "NetworkSummary",
    "PacketReport",
    "PlanSummary",
    "Prediction",
    "Replanned",
    "SharedSummary",
    "SizeBound",
    "Verdict",
]


@dataclass(frozen=True, repr=False)
class SharedSummary(Record):
    """A capacity that several links share.

    Attributes:
        name: The name; that of a node's cap is the node's, followed by `egress` or `ingress`.
        bandwidth_Bps: What its links carry together at most.
        links: The links that share it, as `source -> target`.

    Example:
        >>> [egress, ingress] = treefold.describe(treefold.topology("line:3", node_cap="20GB/s")).shared
        >>> egress.name, egress.bandwidth_Bps, egress.links
        ('GPU1 egress', 20000000000.0, ('GPU1 -> GPU0', 'GPU1 -> GPU2'))

    """

    name: str
    bandwidth_Bps: float
    links: tuple[str, ...]

    def __repr__(self) -> str:
        return f"SharedSummary({self.name}, {format_bandwidth(self.bandwidth_Bps)}, {len(self.links)} links)"


@dataclass(frozen=True)
class NetworkSummary(Record):
    """A network in a few numbers.

    Attributes:
        name: The spec, or the name in the file.
        accelerators: How many nodes compute, ranks or not.
        switches: How many nodes only forward, or reduce and multicast.
        links: How many links there are, each in one direction: a cable is two.
        ranks: How many accelerators take part in collectives; the others are idle.
        reduce: How many switches can reduce.
        multicast: How many switches can multicast.
        shared: The capacities that links share, such as caps of nodes.

    Example:
        >>> summary = treefold.describe("dgx2:planes=6")
        >>> summary.accelerators, summary.switches, summary.reduce
        (16, 12, 12)
        >>> summary.as_dict()["ranks"]
        16

    """

    name: str
    accelerators: int
    switches: int
    links: int
    ranks: int
    reduce: int
    multicast: int
    shared: tuple[SharedSummary, ...] = field(repr=False)

    def _repr_html_(self) -> str:
        rows = [{**each.as_dict(), "links": len(each.links)} for each in self.shared]
        table = html.of_rows("Shared capacities", rows) if rows else ""
        return html.of_record(html.title_of(self), self.as_dict()) + table


@dataclass(frozen=True, repr=False)
class Verdict(Record):
    """The result of checking a plan.

    Attributes:
        correct: Whether the plan computes its collective, and keeps its promises about the use of links within a step.
        reason: The first fault of the plan; empty if it is correct.

    Example:
        >>> verdict = treefold.check(treefold.plan("ring:4", "ring"))
        >>> bool(verdict), verdict.reason
        (True, '')

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
        is_exact: Whether no smaller rate would be a bound.
        method: The method that found the bound, in words, for example `graph strength` or `linear program`. `minimum
            cuts meet the ranks' capacity` says that the smallest cut is as large as the capacity of the ranks' own
            links.

    Example:
        >>> treefold.bound("ring:4").all_reduce
        Bound(rate_Bps=21333333333.333332, is_exact=True, method="minimum cuts meet the ranks' capacity")

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

    Example:
        >>> report = treefold.bound("torus:4x4")
        >>> report
        BoundReport(reduce_scatter_all_gather=34.133GB/s, all_reduce=34.133GB/s, latency=600ns)
        >>> report.latency_s
        6e-07

    """

    reduce_scatter_all_gather: Bound
    all_reduce: Bound
    in_network: Bound | None = None
    latency_s: float

    def as_dict(self) -> dict[str, Any]:
        """Return what `treefold bound --json` prints: the rates by name, `exact`, `method` and `latency_s`.

        Example:
            >>> treefold.bound("ring:4").as_dict()["exact"]
            {'reduce_scatter_all_gather_Bps': True, 'all_reduce_Bps': True}

        """
        bounds = {f"{name}_Bps": bound for name, bound in self.bounds().items()}
        return {
            **{name: bound.rate_Bps for name, bound in bounds.items()},
            "exact": {name: bound.is_exact for name, bound in bounds.items()},
            "method": {name: bound.method for name, bound in bounds.items()},
            "latency_s": self.latency_s,
        }

    def bounds(self) -> dict[str, Bound]:
        """Return the bounds that the network has, by the names of the fields; `in_network` may be missing.

        Example:
            >>> list(treefold.bound("ring:4").bounds())
            ['reduce_scatter_all_gather', 'all_reduce']

        """
        named = {name: getattr(self, name) for name in ("reduce_scatter_all_gather", "all_reduce", "in_network")}
        return {name: bound for name, bound in named.items() if bound is not None}

    def __repr__(self) -> str:
        rates = {name: bound.rate_Bps for name, bound in self.bounds().items()}
        shown = [f"{name}={'unlimited' if rate is None else format_bandwidth(rate)}" for name, rate in rates.items()]
        return f"BoundReport({', '.join(shown)}, latency={format_time(self.latency_s)})"


@dataclass(frozen=True, kw_only=True, repr=False)
class SizeBound(Record):
    """The time that a collective takes at least for one size, whatever the plan.

    Attributes:
        network: The name of the network.
        collective: The collective.
        size_bytes: The size of the vector, in bytes.
        time_s: The least time, in seconds.
        limited_by: What causes it, as the end of a sentence: the rate of some links, the latency of the farthest pair,
            or what some ranks have for another.
        links: The links whose rate limits it, as `source -> target`: those of the narrowest cut, or those that are too
            few together whichever routes are taken. There are none where something else limits it.
        shared: The names of the shared capacities that limit it in the same way.
        rate: The bound on the rate of large vectors.
        latency_s: The latency between the two ranks that are farthest apart of those that learn of each other.

    Example:
        >>> bound = treefold.bound_at("ring:4", "1MiB", "all-gather")
        >>> bound.limited_by
        'the rate of the links GPU1 -> GPU0, GPU3 -> GPU0, over which GPU1, GPU2, GPU3 send to GPU0'
        >>> bound.rate.rate_Bps, bound.rate.is_exact
        (42666666666.666664, True)

    """

    network: str
    collective: str
    size_bytes: int
    time_s: float
    limited_by: str
    links: tuple[str, ...]
    shared: tuple[str, ...]
    rate: Bound
    latency_s: float

    def as_dict(self) -> dict[str, Any]:
        """Return what `treefold bound --size --json` prints; the rate is flat: `rate_Bps`, `exact`, `method`.

        Example:
            >>> list(treefold.bound_at("ring:4", "1MiB").as_dict())[:4]
            ['network', 'collective', 'size_bytes', 'time_s']

        """
        rate = {"rate_Bps": self.rate.rate_Bps, "exact": self.rate.is_exact, "method": self.rate.method}
        names = ("network", "collective", "size_bytes", "time_s", "limited_by")
        fields = {name: getattr(self, name) for name in names} | {"links": [*self.links], "shared": [*self.shared]}
        return {**fields, **rate, "latency_s": self.latency_s}

    def __repr__(self) -> str:
        what = f"{self.collective} of {format_size(self.size_bytes)}"
        return f"SizeBound({what}: at least {format_time(self.time_s)}, limited by {self.limited_by})"


@dataclass(frozen=True, kw_only=True, repr=False)
class Prediction(Record):
    """The predicted time of a plan for one size.

    Attributes:
        network: The name of the network.
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
        bound_s: The seconds that no plan of the collective can beat at this size.
        bound_fraction: The fraction `bound_s` / `time_s`; 1 is the best. It is None if nothing takes time.
        link_utilization: How much links are used: the mean and the largest utilization.
        busiest_links: The links with the largest utilization, all that are within 0.1 %, as `source -> target`; none
            from the analytic simulator, which does not know them. Dictionaries leave them out.
        wall_s: The seconds that the simulation itself took.
        packets: The counts of the packet simulator; None if another one was used. Dictionaries have its fields beside
            these.
        chosen: The algorithm that `auto` chose; None if `algorithm` is not `auto`.
        winner: Whether this is the fastest algorithm of a comparison at this size, the first of them if several are
            equally fast; False if nothing takes time, and None outside of comparisons.

    Example:
        >>> prediction = treefold.simulate(treefold.plan("torus:4x4", "multitree"), size_bytes="1MiB")
        >>> f"{prediction.time_s * 1e6:.1f} us", prediction.as_dict()["model"]
        ('42.5 us', 'analytic')

    """

    network: str
    algorithm: str
    collective: str
    simulator: str = keyed("model")
    link_model: str
    size_bytes: int
    time_s: float
    algbw_Bps: float | None
    busbw_Bps: float | None
    bound_s: float
    bound_fraction: float | None
    link_utilization: LinkUtilization
    busiest_links: tuple[str, ...] = hidden(())
    wall_s: float
    packets: PacketReport | None = inline()
    chosen: str | None = optional()
    winner: bool | None = optional()

    @property
    def warnings(self) -> tuple[str, ...]:
        """The reasons to doubt the prediction, as sentences.

        At present there is one: buffers so short that they limit the rate.
        """
        short = short_buffers(None if self.packets is None else self.packets.buffer_cover)
        return (short,) if short else ()

    def __repr__(self) -> str:
        what = f"{self.algorithm}, {self.collective} of {format_size(self.size_bytes)} by {self.simulator}"
        bound = "" if self.bound_fraction is None else f", {self.bound_fraction:.0%} of the bound"
        warned = "".join(f"; {each}" for each in self.warnings)
        return f"Prediction({what}: {format_time(self.time_s)}{bound}{warned})"


class Comparison(Table[Prediction]):
    """Predictions for several algorithms and sizes, size by size.

    Example:
        >>> comparison = treefold.compare("torus:4x4", "ring,multitree", sizes_bytes=["1KiB", "1MiB"])
        >>> comparison
        Comparison(2 algorithms, sizes 1KiB, 1MiB)
        >>> [row["algorithm"] for row in comparison.rows()]
        ['ring', 'multitree', 'ring', 'multitree']

    """

    def sizes(self) -> list[int]:
        """Return the sizes that were compared, in bytes.

        Example:
            >>> treefold.compare("ring:4", "ring", sizes_bytes=["1KiB", "1MiB"]).sizes()
            [1024, 1048576]

        """
        return list(dict.fromkeys(each.size_bytes for each in self))

    def at(self, size_bytes: int | str) -> list[Prediction]:
        """Return the predictions for one size, the fastest first.

        Args:
            size_bytes: The size, in bytes or as a text with a unit such as `1MiB`.

        Returns:
            The predictions; the list is empty if this size was not compared.

        Raises:
            TreefoldError: If it is not a size.

        Example:
            >>> comparison = treefold.compare("torus:4x4", "ring,multitree", sizes_bytes=["1KiB"])
            >>> [each.algorithm for each in comparison.at("1KiB")], comparison.at("2KiB")
            (['multitree', 'ring'], [])

        """
        size = checks.size(size_bytes)
        return sorted((each for each in self if each.size_bytes == size), key=lambda each: each.time_s)

    def fastest(self) -> list[Prediction]:
        """Return the fastest prediction for each size.

        Example:
            >>> treefold.compare("torus:4x4", "ring,multitree", sizes_bytes=["1MiB"]).fastest()[0].algorithm
            'multitree'

        """
        return [self.at(size)[0] for size in self.sizes()]

    def __repr__(self) -> str:
        algorithms = dict.fromkeys(each.algorithm for each in self)
        sizes = [format_size(size) for size in self.sizes()]
        return f"Comparison({len(algorithms)} algorithms, sizes {', '.join(sizes)})"


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

    Example:
        >>> ring = treefold.topology("ring:4")
        >>> replanned = treefold.replan(treefold.plan(ring, "ring"), ring.without_links([("GPU0", "GPU1")]))
        >>> replanned.serves, replanned.gave_way
        (True, '')

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
