"""The measurements of a probe, and what they say of nodes whose links are used at the same time."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from treefold.discovery import Model, Round
from treefold.probe.transfers import RoundTrips

Pair = tuple[int, int]
"""Two workers; where the direction matters, the source and the target."""

SOURCE, TARGET = 0, 1
"""The ends of a pair."""


class Try(NamedTuple):
    """A transfer of a pair alone, over some number of TCP streams side by side.

    Attributes:
        rate_Bps: The rate of all streams together, in bytes per second.
        sent_bytes: How many bytes were sent.
        loaded_s: The median round trip of small messages while the line was full, in seconds.
        retransmitted: The share of segments that were sent again.

    """

    rate_Bps: float
    sent_bytes: int
    loaded_s: float
    retransmitted: float


@dataclass(frozen=True)
class Outcome:
    """How the tests of many pairs at once ended.

    Attributes:
        rate_Bps: The rate of the best all-reduce that the network carries as far as is known, in bytes per second; 0 if
            nothing was tested, or the network has changed and what it carried before joins no longer all workers.
        carried: Whether a test has offered this traffic as it is, and the network carried it. Otherwise it is mixed of
            what was carried in several tests.
        proven: Whether the tests ended because nothing faster is in sight.
        ended_by: Otherwise, what had run out: `seconds`, `bytes`, or the number of `tests`; or `workers` if there are
            too many of them to test.

    """

    rate_Bps: float
    carried: bool
    proven: bool
    ended_by: str | None


@dataclass
class Measurements:
    """The measurements of all workers; pairs are (source, target) of workers, rates are in bytes per second.

    Attributes:
        workers: Each worker, by its number: a dictionary with `name`, `address` and `port`, and other keys that the
            probe uses.
        transfer_s: How many seconds a transfer takes at most.
        most_transfer_bytes: How many bytes a transfer sends at most.
        rates: The rate of each pair alone, in bytes per second.
        trips: The round-trip times of each pair, in seconds, as `RoundTrips(least_s, median_s)`; the key has the lower
            worker first.
        overheads_s: The cost of sending a message from source to target besides its bytes, in seconds.
        egress: The total rate of each worker, by its number, when it sends to all its targets at once; only workers
            with several targets are listed.
        ingress: For each worker that receives from several others, by its number: its rate from all of them at once.
        together: The rate of each pair when all pairs send at once; empty if a single pair was measured in a single
            direction.
        tries: The transfers of each pair alone, as `Try(rate_Bps, sent_bytes, loaded_s, retransmitted)`, by the number
            of streams.
        streams: The fewest TCP streams of each pair that carry its rate.
        at_once: The rate of each pair in each transfer of several pairs at once.
        tests: How many tests of many pairs at once there were.
        sent_bytes: How many bytes all workers have sent so far, in all transfers of all steps.
        rounds: What each round of tests has learnt.
        model: What all of them have learnt of the network; None if there were none.
        outcome: How the tests ended; None if there was nothing to test, or they have not ended.

    Example:
        >>> from treefold import probe
        >>> measured = probe.Measurements(workers=[], transfer_s=1.0, most_transfer_bytes=1 << 30)
        >>> measured.rates[0, 1] = 1.25e9  # as `probe.measure` does

    """

    workers: list[dict[str, Any]]
    transfer_s: float
    most_transfer_bytes: int
    rates: dict[Pair, float] = field(default_factory=dict)
    trips: dict[Pair, RoundTrips] = field(default_factory=dict)
    overheads_s: dict[Pair, float] = field(default_factory=dict)
    egress: dict[int, float] = field(default_factory=dict)
    ingress: dict[int, float] = field(default_factory=dict)
    together: dict[Pair, float] = field(default_factory=dict)
    tries: dict[Pair, dict[int, Try]] = field(default_factory=dict)
    streams: dict[Pair, int] = field(default_factory=dict)
    at_once: list[dict[Pair, float]] = field(default_factory=list)
    tests: int = 0
    sent_bytes: int = 0
    rounds: list[Round] = field(default_factory=list)
    model: Model | None = None
    outcome: Outcome | None = None


def sent_bytes(measured: Measurements, pair: Pair) -> int:
    """Return how many bytes the transfers of a pair alone have sent so far."""
    return sum(each.sent_bytes for each in measured.tries.get(pair, {}).values())


def rates_alone(measured: Measurements, rank: int, end: int) -> list[float]:
    """Return the rates, each alone, of the pairs whose `end` (SOURCE or TARGET) is the worker `rank`."""
    return [rate for pair, rate in measured.rates.items() if pair[end] == rank]


def rate_at_once(measured: Measurements, rank: int, end: int) -> float:
    """Return the rate at which `rank` sends (SOURCE) or receives (TARGET) at once; with one partner, that pair's rate.

    It counts as its rate, too, what a rank carried when all pairs sent at once, so that a brief disturbance does not
    become a cap.
    """
    by_rank = (measured.egress, measured.ingress)[end]
    own = by_rank.get(rank, sum(rates_alone(measured, rank, end)))
    return max(own, sum(rate for pair, rate in measured.together.items() if pair[end] == rank))


def expected_together(measured: Measurements, wants_Bps: Mapping[Pair, float] | None = None) -> float:
    """Return the rate of pairs at once if nothing but the pairs and the nodes limits them.

    Args:
        measured: The measurements.
        wants_Bps: The rate that each pair would have alone; by default it is that of all pairs.

    """
    wants_Bps = measured.rates if wants_Bps is None else wants_Bps
    return min(_through(measured, wants_Bps, end) for end in (SOURCE, TARGET))


def _through(measured: Measurements, wants_Bps: Mapping[Pair, float], end: int) -> float:
    """Return what pairs have alone together, but of each node no more than it carries."""
    sums: dict[int, float] = {}
    for pair, want_Bps in wants_Bps.items():
        sums[pair[end]] = sums.get(pair[end], 0.0) + want_Bps
    return sum(min(want_Bps, rate_at_once(measured, rank, end)) for rank, want_Bps in sums.items())


def outcome_of(measured: Measurements) -> dict[str, Any] | None:
    """Return how tests of many pairs at once ended, as JSON; None if there was nothing to test."""
    return None if measured.outcome is None else {"count": measured.tests, **measured.outcome.__dict__}
