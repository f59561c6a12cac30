"""Decides how many TCP streams a line is measured with, and how many it needs.

The first transfer has one stream. More are tried where that one may be held back: by the bytes that the kernels let it
have under way, or, on a line that is not short, by packets that were lost. Then the number doubles, until another
doubling brings little; where packets are lost, until two have done so, as one transfer may be unlucky.
"""

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
    granted = min(measured.workers[rank]["granted_bytes"] for rank in pair)
    is_held = measured.rates[pair] * measured.trips[min(pair), max(pair)].least_s > _HELD * granted
    return (is_held or _is_lossy(measured, pair)) and _has_bytes(measured, pair)


def _is_lossy(measured: Measurements, pair: Pair) -> bool:
    """Return whether lost packets hold streams back."""
    is_long = measured.trips[min(pair), max(pair)].least_s > _LONG_S
    return is_long and any(each.retransmitted > _LOST for each in measured.tries[pair].values())


def wants_more(measured: Measurements, pair: Pair) -> bool:
    """Return whether the last doubling, or the last two where packets are lost, brought enough for another one."""
    tries = measured.tries[pair]
    last = max(tries)
    before = last // (4 if _is_lossy(measured, pair) else 2)
    rate_before = max((each.rate_Bps for count, each in tries.items() if count <= before), default=0.0)
    return measured.rates[pair] > _GAIN * rate_before and last < MOST and _has_bytes(measured, pair)


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
