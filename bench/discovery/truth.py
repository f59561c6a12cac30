"""A simulated network whose cables nobody is told: what pairs of workers get when they send at once.

Rates are max-min fair over directed cables with given routes: all flows grow alike (or by their weights) until a cable
is full or they have what is offered to them (progressive filling; O(flows x cables) a step, one step a bottleneck).
What a test reports is this with noise on every pair, as a measurement over real lines has it.
"""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Pair = tuple[int, int]


@dataclass(frozen=True)
class Truth:
    """A network between workers: its cables, one entry for each direction, and who uses which.

    Attributes:
        name: What kind of network it is.
        ranks: How many workers there are.
        capacity_Bps: The bandwidth of each directed cable, in bytes per second.
        uses: Whether a pair's route takes a cable; one row for each cable, one column for each pair.
        latency_s: The latency from each worker to each other.
        noise: The standard deviation of the relative error of a measured rate.
        cross: The part of a cable's capacity that cross traffic takes in about every second test.
        unfair: The exponent by which shares at a bottleneck shrink with the latency of a pair; 0 is fair.

    """

    name: str
    ranks: int
    capacity_Bps: NDArray[np.float64]
    uses: NDArray[np.bool_]
    latency_s: NDArray[np.float64]
    noise: float = 0.02
    cross: float = 0.0
    unfair: float = 0.0

    @property
    def pairs(self) -> list[Pair]:
        """The pairs (source, target) of workers, in the order of the columns of `uses`."""
        return pairs_of(self.ranks)

    @property
    def alone_Bps(self) -> NDArray[np.float64]:
        """The rate of each pair alone, without noise."""
        return np.where(self.uses, self.capacity_Bps[:, None], np.inf).min(axis=0)


def pairs_of(ranks: int) -> list[Pair]:
    """Return all pairs (source, target) of so many workers."""
    return [(source, target) for source in range(ranks) for target in range(ranks) if source != target]


def measured(truth: Truth, offered: Mapping[Pair, float], random: np.random.Generator) -> dict[Pair, float]:
    """Return what each pair gets when so much is offered to all of them at once, as a test measures it."""
    columns = [index for index, pair in enumerate(truth.pairs) if offered.get(pair, 0.0) > 0]
    pairs = [truth.pairs[column] for column in columns]
    limits = np.array([offered[pair] for pair in pairs])
    taken = truth.cross * (random.random(len(truth.capacity_Bps)) < 0.5)
    weights = np.array([truth.latency_s[pair] for pair in pairs]) ** -truth.unfair
    rates = shares(truth.uses[:, columns], truth.capacity_Bps * (1 - taken), limits, weights)
    noisy = rates * (1 + truth.noise * random.standard_normal(len(pairs)))
    return dict(zip(pairs, np.minimum(noisy, limits).tolist(), strict=True))


def shares(
    uses: NDArray[np.bool_],
    capacity_Bps: NDArray[np.float64],
    offered_Bps: NDArray[np.float64],
    weights: NDArray[np.float64],
) -> NDArray[np.float64]:
    """Return max-min fair rates of flows that are offered so much, whose shares grow by their weights."""
    rates = np.zeros(len(offered_Bps))
    left = capacity_Bps.astype(float)
    grows = np.ones(len(rates), bool)
    while grows.any():
        speed = uses @ (weights * grows)
        until_full = np.divide(left, speed, out=np.full(len(left), np.inf), where=speed > 0)
        until_served = np.where(grows, (offered_Bps - rates) / weights, np.inf)
        step = max(min(until_full.min(), until_served.min()), 0.0)
        rates += step * weights * grows
        left -= step * speed
        full = (until_full <= step * (1 + 1e-9)) & (speed > 0)
        grows &= ~(uses[full].any(axis=0) | (until_served <= step * (1 + 1e-9)))
    return rates


def reached_Bps(truth: Truth, rate_Bps: float, loads_Bps: NDArray[np.float64]) -> float:
    """Return the rate that a plan really has whose pairs carry such loads when its rate is `rate_Bps`."""
    used = (truth.uses @ loads_Bps) / truth.capacity_Bps
    return rate_Bps / used.max() if rate_Bps > 0 else 0.0
