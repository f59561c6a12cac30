"""How fast the links of a network are while a group runs, next to what its plan assumes.

A link that shares a capacity with others is slower while they send, too. That is no change if all that share it fill
the capacity together, and the link gets a fair part of it.
"""

import math
import statistics
from collections.abc import Hashable, Iterable, Mapping

from treefold._core import LinkUsage, Plan, Topology
from treefold.results import Prediction
from treefold.runtime.networks import Pair, bandwidths, shared_pairs

THRESHOLD = 0.25
"""A link has changed if its rate differs by more than this part from what the plan assumes."""
REPORTED = 0.1
"""A rate is reported, and an operation is slower, if it differs by more than this part from what was known."""
_LEAST_S, _LEAST_BYTES = 0.1, 1 << 20
"""A rate is only measured over this much time and data."""


class RateMonitor:
    """The rates of links in bytes per second, and the fastest and the last operation of each kind so far."""

    def __init__(self, plan: Plan) -> None:
        self._use(plan)
        self.rates: dict[Pair, float] = {}
        """The measured rates that differ from the assumed ones."""
        self._fastest: dict[Hashable, float] = {}
        self._last: tuple[Hashable | None, float] = None, math.inf
        self.usual: dict[Pair, float] = {}
        """The factors by which rates of links differ from what the network says while nothing has changed."""
        self.assume(plan.topology)

    def _use(self, plan: Plan) -> None:
        """Take the links that a plan uses for those that carry data at the same time."""
        self._used = {ends for pair in plan.pairs for ends in (pair, pair[::-1])}

    def assume(self, network: Topology) -> None:
        """Take this network's bandwidths for the current ones."""
        self.network, self._shared = network, shared_pairs(network)
        self._assumed = {pair: rate * self.usual.get(pair, 1.0) for pair, rate in bandwidths(network).items()}

    def reset(self, plan: Plan) -> None:
        """Begin anew with another plan and its network."""
        self._use(plan)
        self.assume(plan.topology)
        self.rates.clear()
        self._fastest.clear()
        self._last = None, math.inf

    def measure(self, rank: int, usage: Iterable[LinkUsage], paces: Mapping[int, float]) -> dict[int, float]:
        """Record how fast this rank's links were; return the rates that differ from what was known, by peer.

        Args:
            rank: This rank.
            usage: How much was sent to each peer, and in which time.
            paces: How fast it was to send to peers at most; one that it kept says nothing else about its link.

        """
        new = {}
        for each in usage:
            link = (rank, each.rank)
            if each.busy_s >= _LEAST_S and each.sent_bytes >= _LEAST_BYTES and link in self._assumed:
                rate = each.sent_bytes / each.busy_s
                if rate >= (1 - THRESHOLD) * paces.get(each.rank, math.inf):
                    rate = max(rate, self._assumed[link])
                if abs(rate / self.rates.get(link, self._assumed[link]) - 1) > REPORTED:
                    new[each.rank] = rate
        self.rates |= {(rank, peer): rate for peer, rate in new.items()}
        return new

    def is_slower(self, operation: Hashable | None, seconds: float) -> bool:
        """Record how long an operation took; return whether it was slower than the fastest of its kind.

        Args:
            operation: The collective, the bytes and the wire type; None if it cannot be compared with others.
            seconds: How long it took.

        """
        self._last = operation, seconds
        if operation is None:
            return False
        fastest = self._fastest.setdefault(operation, seconds)
        self._fastest[operation] = min(seconds, fastest)
        return seconds > (1 + REPORTED) * fastest

    def took(self, predicted: Prediction) -> float:
        """Return how many seconds the last operation took if it was of the predicted kind; infinitely many if not."""
        operation, seconds = self._last
        return seconds if operation == (predicted.collective, predicted.size_bytes, None) else math.inf

    def changes(self) -> dict[Pair, float]:
        """Return the factors by which links have changed, after the factor that all of them share."""
        ratios = {
            link: rate / self._assumed[link]
            for link, rate in list(self.rates.items())  # other threads may measure
            if link in self._assumed and not self._is_share(link, rate)
        }
        ordinary = [ratio for ratio in ratios.values() if abs(ratio - 1) <= THRESHOLD]
        share = statistics.median(ordinary) if ordinary else 1.0
        return {link: ratio / share for link, ratio in ratios.items() if abs(ratio / share - 1) > THRESHOLD}

    def _is_share(self, link: Pair, rate: float) -> bool:
        """Tell whether a rate is what a link gets of a capacity that it shares with others, which is used up."""
        if rate > self._assumed[link]:
            return False
        for bandwidth_Bps, pairs in self._shared:
            if link in pairs:
                busy = (pairs & self._used) | {link}
                carried = sum(self.rates.get(each, self._assumed[each]) for each in busy)
                least = (1 - THRESHOLD) * bandwidth_Bps
                if carried >= least and rate >= least / len(busy):
                    return True
        return False
