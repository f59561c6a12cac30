"""Decides how many TCP streams a line is measured with, and how many it needs.

The first transfer has one stream. More are tried where that one may be held back: by the bytes that the kernels let it
have under way, or, on a line that is not short, by packets that were lost. Then the number doubles, or is at once what
the other direction needs, until streams are not held back any more or another doubling brings little; where packets
are lost, until two have done so, as one transfer may be unlucky.
"""

from collections.abc import Collection

from treefold.probe.results import Measurements, Pair, sent_bytes
from treefold.runtime.streams import MOST

_GAIN = 1.05
"""Twice as many streams are worth while if they are so many times as fast."""
_HELD = 0.5
"""A stream may be held back by its window if it has this part of what the kernels grant under way."""
_LONG_S = 0.005
"""A lost packet holds a stream back where round trips are this long: the window grows by a segment in each of them."""
_LOST = 1e-4
_LEAST_S = 0.1


def may_want_more(measured: Measurements, pair: Pair) -> bool:
    """Return whether one stream may not have filled a line, after the transfer over one."""
    return (_is_held(measured, pair) or _is_lossy(measured, pair)) and _has_bytes(measured, pair)


def _is_held(measured: Measurements, pair: Pair) -> bool:
    """Return whether the window may hold each of the most streams back that were tried."""
    count, tried = max(measured.tries[pair].items())
    granted = min(measured.workers[rank]["granted_bytes"] for rank in pair)
    return bool(tried.rate_Bps * measured.trips[min(pair), max(pair)].least_s / count > _HELD * granted)


def _is_lossy(measured: Measurements, pair: Pair) -> bool:
    """Return whether lost packets hold streams back."""
    is_long = measured.trips[min(pair), max(pair)].least_s > _LONG_S
    return is_long and any(each.retransmitted > _LOST for each in measured.tries[pair].values())


def wants_more(measured: Measurements, pair: Pair) -> bool:
    """Return whether streams are held back, and whether the last doubling brought enough: two, if packets are lost."""
    tries, is_lossy = measured.tries[pair], _is_lossy(measured, pair)
    last = max(tries)
    before = last // (4 if is_lossy else 2)
    rate_before = max((each.rate_Bps for count, each in tries.items() if count <= before), default=0.0)
    is_faster = measured.rates[pair] > _GAIN * rate_before and (is_lossy or _is_held(measured, pair))
    return is_faster and last < MOST and _has_bytes(measured, pair)


def next_count(measured: Measurements, pairs: Collection[Pair]) -> int:
    """Return with how many streams to take pairs again: twice as many, or what the other directions of all need."""
    tried = max(max(measured.tries[pair]) for pair in pairs)
    return max(2 * tried, min(measured.streams.get(pair[::-1], 1) for pair in pairs))


def _has_bytes(measured: Measurements, pair: Pair) -> bool:
    """Return whether a pair may send enough bytes for another transfer at twice the rate."""
    left = measured.most_transfer_bytes - sent_bytes(measured, pair)
    return left > 2 * measured.rates[pair] * _LEAST_S


def settle(measured: Measurements, pair: Pair) -> None:
    """Note the best rate of a pair, and the fewest streams that come near it."""
    tries = measured.tries[pair]
    best = max(each.rate_Bps for each in tries.values())
    measured.rates[pair] = best
    measured.streams[pair] = min(count for count, each in tries.items() if each.rate_Bps * _GAIN >= best)
