"""The results of explaining a network: `treefold.explain` returns an `Explanation`."""

from dataclasses import dataclass

from treefold import html
from treefold._core import format_bandwidth, format_size, format_time
from treefold.records import Record, optional
from treefold.text import some


@dataclass(frozen=True, kw_only=True, repr=False)
class Outcome(Record):
    """What a collective reaches on a network: the bound, and the time of a plan.

    Attributes:
        ranks: How many ranks take part.
        rate_Bps: The bound on the rate of large vectors, in bytes of the vector per second; None if nothing can be
            sent.
        is_exact: Whether no smaller rate would be a bound.
        limited_by: What limits that rate, as the end of a sentence.
        links: The links that limit the rate, as `source -> target`.
        shared: The names of the shared capacities that limit the rate.
        parts: The groups of ranks that are joined by the limiting links only; none where those links separate nothing.
        bound_s: The seconds that no plan can beat at the size asked; None if nothing can be sent.
        algorithm: The algorithm of the plan; None if there is no plan.
        time_s: The seconds that the plan takes at that size; None if there is no plan.
        problem: The reason why there is no bound or no plan; empty if there are both.

    Example:
        >>> now = treefold.explain("b4").now
        >>> now.rate_Bps, now.is_exact, now.algorithm
        (37500000.0, True, 'mtree')

    """

    ranks: int
    rate_Bps: float | None
    is_exact: bool
    limited_by: str
    links: tuple[str, ...]
    shared: tuple[str, ...]
    parts: tuple[tuple[str, ...], ...]
    bound_s: float | None
    algorithm: str | None
    time_s: float | None
    problem: str

    def __repr__(self) -> str:
        if self.rate_Bps is None:
            return f"Outcome({self.problem})"
        time = "no plan" if self.time_s is None else f"{self.algorithm} takes {format_time(self.time_s)}"
        return f"Outcome(at most {format_bandwidth(self.rate_Bps)}, {time})"


@dataclass(frozen=True, kw_only=True, repr=False)
class LinkWorth(Record):
    """What more bandwidth of one cable is worth; a cable is all links between two nodes, in both directions.

    Attributes:
        link: The name: `A - B`, or `A -> B` if there are no links back.
        source: The node at one end, from which the links go if there are none back.
        target: The node at the other end.
        bandwidth_Bps: The bandwidth from the source to the target, of all parallel links together.
        is_limiting: Whether the cable is among those that limit the rate now.
        rate_Bps: The bound on the rate if the cable has 10 % more bandwidth.
        gain_fraction: The part by which that is above the bound now.
        is_spare: Whether the cable does not matter: 10 % more bandwidth gains nothing, and its loss costs the bound
            nothing. Of two spare cables, the loss of both may cost something.

    Example:
        >>> thin = treefold.topology("line:3").with_bandwidths({("GPU0", "GPU1"): "1GB/s"})
        >>> [(each.link, round(each.gain_fraction, 3)) for each in treefold.explain(thin).links]
        [('GPU0 - GPU1', 0.1), ('GPU1 - GPU2', 0.0)]

    """

    link: str
    source: str
    target: str
    bandwidth_Bps: float
    is_limiting: bool
    rate_Bps: float
    gain_fraction: float
    is_spare: bool

    def __repr__(self) -> str:
        return f"LinkWorth({self.link}: {self.gain_fraction:+.1%} for 10 % more)"


@dataclass(frozen=True, kw_only=True, repr=False)
class SharedWorth(Record):
    """What more bandwidth of one shared capacity is worth, such as the cap of a node.

    Attributes:
        name: The name of the shared capacity.
        bandwidth_Bps: Its bandwidth.
        links: How many links share it.
        is_limiting: Whether it is among what limits the rate now.
        rate_Bps: The bound on the rate if it has 10 % more bandwidth.
        gain_fraction: The part by which that is above the bound now.

    Example:
        >>> capped = treefold.topology("line:3", node_cap="20GB/s")
        >>> [(each.name, round(each.gain_fraction, 3)) for each in treefold.explain(capped).shared]
        [('GPU1 egress', 0.0), ('GPU1 ingress', 0.0)]

    """

    name: str
    bandwidth_Bps: float
    links: int
    is_limiting: bool
    rate_Bps: float
    gain_fraction: float

    def __repr__(self) -> str:
        return f"SharedWorth({self.name}: {self.gain_fraction:+.1%} for 10 % more)"


@dataclass(frozen=True, kw_only=True, repr=False)
class Together(Record):
    """The cables that must all get 10 % more bandwidth for the bound to rise, where more of a single one gains nothing.

    Attributes:
        links: The names of the cables.
        gain_fraction: The part by which the bound rises then.

    Example:
        >>> treefold.explain("line:3").together
        Together(GPU0 - GPU1, GPU1 - GPU2: +10.0% for 10 % more of each)

    """

    links: tuple[str, ...]
    gain_fraction: float

    def __repr__(self) -> str:
        return f"Together({some(self.links)}: {self.gain_fraction:+.1%} for 10 % more of each)"


@dataclass(frozen=True, kw_only=True, repr=False)
class Failure(Record):
    """What the failure of one cable or one site costs after a new plan was made.

    Attributes:
        kind: What fails: `link` or `site`.
        name: The name of the cable, such as `A - B`, or of the node.
        ranks: How many ranks are left.
        rate_Bps: The bound on the rate then; None if nothing can be sent.
        rate_fraction: The fraction of the bound now that it is.
        algorithm: The algorithm of the new plan; None if there is none.
        time_s: The seconds that the new plan takes; None if there is none.
        time_factor: How many times as long as the plan for the whole network that is.
        problem: The reason why there is no bound or no plan; empty if there are both.

    Example:
        >>> treefold.explain("line:3").failures[0]
        Failure(link GPU0 - GPU1: cuts the network: 2 components: {GPU0}, {GPU1, GPU2})

    """

    kind: str
    name: str
    ranks: int
    rate_Bps: float | None
    rate_fraction: float | None
    algorithm: str | None
    time_s: float | None
    time_factor: float | None
    problem: str

    def __repr__(self) -> str:
        cost = self.problem if self.time_factor is None else f"{self.time_factor:.2f} x the time"
        return f"Failure({self.kind} {self.name}: {cost})"


@dataclass(frozen=True, kw_only=True, repr=False)
class TreeLimit(Record):
    """What a limit on the trees of a plan costs.

    Attributes:
        limit: The option that limits: `trees` or `height`, in hops; `none` for a plan without a limit.
        value: The most trees, or the most height; None without a limit.
        algorithm: The algorithm that planned within the limit.
        rate_Bps: The rate of its plan.
        bound_fraction: The fraction of the bound on the rate that this is; 1 is the best.

    Example:
        >>> [str(each) for each in treefold.explain("b4").limits if each.limit == "trees"]
        ['TreeLimit(trees 1: 67%)', 'TreeLimit(trees 2: 67%)', 'TreeLimit(trees 3: 100%)']

    """

    limit: str
    value: int | None
    algorithm: str
    rate_Bps: float
    bound_fraction: float

    def __repr__(self) -> str:
        limit = "no limit" if self.value is None else f"{self.limit} {self.value}"
        return f"TreeLimit({limit}: {self.bound_fraction:.0%})"


@dataclass(frozen=True, kw_only=True, repr=False)
class Answer(Record):
    """What the network would be with the changes that were asked about, all at once.

    Attributes:
        changes: The differences between the networks, one line for each.
        then: What the collective reaches on the changed network.
        rate_fraction: The bound on the rate then, as a fraction of that now; None if nothing can be sent.
        time_factor: The time of the plan then, as a multiple of that now; None if there is no plan.

    Example:
        >>> answer = treefold.explain("ring:4", without="GPU0 - GPU1").answer
        >>> answer.changes, answer.rate_fraction
        (('link GPU0 - GPU1 is gone',), 0.75)

    """

    changes: tuple[str, ...]
    then: Outcome
    rate_fraction: float | None
    time_factor: float | None

    def __repr__(self) -> str:
        cost = self.then.problem if self.rate_fraction is None else f"{self.rate_fraction:.0%} of the rate now"
        return f"Answer(changes={len(self.changes)}: {cost})"


@dataclass(frozen=True, kw_only=True, repr=False)
class Explanation(Record):
    """Bottlenecks of a network, and what changes of it would be worth.

    Attributes:
        network: The name of the network.
        collective: The collective.
        simulator: The simulator that predicted all times.
        size_bytes: The size of the vector, in bytes.
        now: The bound on the network as it is, what limits it, and the time of a plan.
        links: The worth of each cable, the most valuable first.
        shared: The worth of each shared capacity, the most valuable first.
        together: The cables that must grow together, where more of a single one gains nothing; else None.
        failures: The cost of each failure of a cable or a site, the worst first.
        limits: What few or low trees cost: the rates for 1, 2, 4, ... trees, for heights from the least, and without a
            limit. There are none where the planners with such limits take long.
        answer: The answer to the question that was asked; None if none was.
        left_out: The reason why there are no `links`, `shared`, `failures` and `limits`; empty if there are.

    Example:
        >>> found = treefold.explain("b4", size_bytes="1GiB")
        >>> found
        Explanation(b4, all-reduce of 1GiB: at most 37.5MB/s, 19 links, 31 failures)
        >>> found.failures[0].name, round(found.failures[0].time_factor, 2)
        ('site7 - site9', 1.5)

    """

    network: str
    collective: str
    simulator: str
    size_bytes: int
    now: Outcome
    links: tuple[LinkWorth, ...]
    shared: tuple[SharedWorth, ...]
    together: Together | None
    failures: tuple[Failure, ...]
    limits: tuple[TreeLimit, ...]
    answer: Answer | None = optional()
    left_out: str

    @property
    def spare(self) -> tuple[str, ...]:
        """The names of the cables that do not matter; see `LinkWorth.is_spare`."""
        return tuple(each.link for each in self.links if each.is_spare)

    def _repr_html_(self) -> str:
        tables = {
            "Links": self.links,
            "Shared capacities": self.shared,
            "Failures": self.failures,
            "Limits on trees": self.limits,
        }
        shown = [html.of_rows(title, [each.as_dict() for each in rows]) for title, rows in tables.items() if rows]
        return html.of_record(html.title_of(self), self.as_dict()) + "".join(shown)

    def __repr__(self) -> str:
        where = f"{self.network}, {self.collective} of {format_size(self.size_bytes)}"
        rate = "nothing to send" if self.now.rate_Bps is None else f"at most {format_bandwidth(self.now.rate_Bps)}"
        counts = f"{len(self.links)} links, {len(self.failures)} failures"
        return f"Explanation({where}: {rate}, {self.answer or counts})"
