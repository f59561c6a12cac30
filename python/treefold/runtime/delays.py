"""How far the round trips between the workers of a group are from what they were in the beginning."""

from collections.abc import Iterable

from treefold.runtime.networks import Pair

THRESHOLD = 0.25
"""A latency has changed if it differs by more than this part of what it was in the beginning."""
_NOISE_S = 1e-3
"""A smaller change of a latency may come from a busy processor."""


class DelayMonitor:
    """The seconds that have been added to latencies since the group began, as far as this worker knows."""

    def __init__(self) -> None:
        self.added: dict[Pair, float] = {}
        """The seconds that a link takes longer, one way, by its ends, the lower rank first; they may be negative."""
        self._first: dict[int, float] = {}
        """The first round trip to each peer that was measured, in seconds."""

    def measure(self, rank: int, round_trips: Iterable[tuple[int, float]]) -> dict[int, float]:
        """Record how long round trips from this rank take; return what differs from what was known, by peer.

        Both ends of a link measure the same round trip, so only the lower rank counts it.

        Args:
            rank: This rank.
            round_trips: For each peer how many seconds a round trip takes.

        """
        new = {}
        for peer, round_trip_s in round_trips:
            if peer > rank:
                first_s = self._first.setdefault(peer, round_trip_s) / 2
                added_s = round_trip_s / 2 - first_s
                if abs(added_s - self.added.get((rank, peer), 0.0)) > max(THRESHOLD * first_s, _NOISE_S):
                    new[peer] = added_s
        self.added |= {(rank, peer): added_s for peer, added_s in new.items()}
        return new
