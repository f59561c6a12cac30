"""What an algorithm is, what a plan is in a few numbers, and why `auto` chose it."""

from dataclasses import dataclass

from treefold._core import format_size
from treefold.records import Record, keyed


@dataclass(frozen=True, kw_only=True)
class Algorithm(Record):
    """An algorithm that makes plans: its entry in the core's table of planners.

    Attributes:
        name: The name that papers use, in lower case.
        summary: A description in a few words.
        source: The paper or library that it follows; treefold if it is our own.
        fits: The networks that it fits, and what it is good for.
        cost: What planning costs, in a few words.
        collectives: The collectives that it plans: `all-reduce` only, `all`, derived from the all-reduce, or `each` in
            a way of its own.
        in_network: Whether switches reduce in its plans.
        keeps_shared: Whether it plans around what links share. Others at most choose among trees or plans by what
            that allows.
        limits: Those of its options that are limits, which its plans keep.
        options: The planner options that are its own, limits and others.
        reads_simulator: Whether it reads `simulator`: for the packet simulator, it lets no rank relay.
        most_work: The most ranks times links for which it takes seconds only; `auto` leaves it out on larger networks.
            None if it always does.
        gap: What the gap means that it proves; `{}` stands for the gap in percent. It is empty if it proves nothing.

    Example:
        >>> forest = treefold.algorithms()["forest"]
        >>> forest.collectives, forest.limits, forest.source
        ('each', ('steps',), 'Edmonds, 1973; Zhao et al., ForestColl, 2024')

    """

    name: str
    summary: str
    source: str
    fits: str
    cost: str
    collectives: str
    in_network: bool
    keeps_shared: bool
    limits: tuple[str, ...]
    options: tuple[str, ...]
    reads_simulator: bool
    most_work: int | None
    gap: str


@dataclass(frozen=True)
class Candidate(Record):
    """An algorithm that `auto` considered, as `treefold plan --json` lists it under `choice`.

    Attributes:
        algorithm: The algorithm, with its number of trees or steps where `auto` tried several.
        time_s: The predicted time, in seconds; None if the algorithm was not tried, does not fit,
            or cannot be the fastest.
        latency_s: The seconds of that time that even a vector of one byte takes; None if `time_s` is None.
        reason: The reason why the algorithm was not tried, does not fit, or cannot be the fastest; None if it has a
            time.

    Example:
        >>> from treefold.results import Candidate
        >>> Candidate("ring2d", time_s=None, latency_s=None, reason="it fits only a torus").as_dict()
        {'algorithm': 'ring2d', 'time_s': None, 'latency_s': None, 'reason': 'it fits only a torus'}

    """

    algorithm: str
    time_s: float | None
    latency_s: float | None
    reason: str | None


@dataclass(frozen=True, kw_only=True, repr=False)
class Choice(Record):
    """The reason why `auto` chose an algorithm, as `treefold plan --json` prints it under `choice`.

    Only the command line makes one; `treefold.plan` returns the plan alone.

    Attributes:
        simulator: The simulator that compared the candidates (`model` in dictionaries and JSON).
        size_bytes: The size for which the candidates were compared, in bytes.
        candidates: All candidates, in the order of the list of algorithms.

    Example:
        >>> from treefold.results import Candidate, Choice
        >>> timed = (Candidate("ring", 2e-3, 1e-6, None), Candidate("multitree", 1e-3, 1e-6, None))
        >>> Choice(simulator="flow", size_bytes=1 << 20, candidates=timed)
        Choice(multitree of 2 candidates by flow at 1MiB)

    """

    simulator: str = keyed("model")
    size_bytes: int
    candidates: tuple[Candidate, ...]

    def fastest(self) -> Candidate:
        """Return the candidate that was chosen.

        Example:
            >>> from treefold.results import Candidate, Choice
            >>> timed = (Candidate("ring", 2e-3, 1e-6, None), Candidate("multitree", 1e-3, 1e-6, None))
            >>> Choice(simulator="flow", size_bytes=1 << 20, candidates=timed).fastest().algorithm
            'multitree'

        """
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

    Example:
        >>> treefold.summarize(treefold.plan("ring:4", "ring")).topology
        NetworkCounts(name='ring:4', accelerators=4, switches=0, links=8)

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
        pace: How transfers follow each other (docs/glossary.md): `steps`, `ordered`, `streamed` or `paced`; a word for
            each kind of phase.
        steps: How many steps the plan takes, from the first send to the last, or how long the order is at the pace
            `ordered`, where nobody waits for the end of a step; None if its trees stream chunks.
        max_height: The height of the highest tree, in edges.
        mean_height: The mean height of the trees.
        max_fanout: The largest number of children of a node in a tree.
        mean_max_fanout: The largest fanout of each tree, averaged over the trees.
        rate_Bps: The throughput for large vectors, in bytes of the vector per second, which the busiest links limit;
            None if nothing is sent.
        normalized_throughput: The rate as a fraction of the rate at which trees would use all cables fully (MTree
            paper); None if a link has no opposite one, if nothing is sent, and for collectives other than all-reduce.
        busiest_links: The links with the largest load for their bandwidth, all that are within 0.1 %, as `source ->
            target`. They limit the rate.

    Example:
        >>> summary = treefold.summarize(treefold.plan("torus:4x4", "multitree"))
        >>> summary
        PlanSummary(multitree, all-reduce on torus:4x4, trees=16)
        >>> summary.steps, summary.max_height
        (10, 4)

    """

    algorithm: str
    collective: str
    size_bytes: int | None
    topology: NetworkCounts
    trees: int
    pace: str
    steps: int | None
    max_height: int
    mean_height: float
    max_fanout: int
    mean_max_fanout: float
    rate_Bps: float | None
    normalized_throughput: float | None
    busiest_links: list[str]

    def __repr__(self) -> str:
        return f"PlanSummary({self.algorithm}, {self.collective} on {self.topology.name}, trees={self.trees})"
