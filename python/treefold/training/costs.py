"""What collectives cost: any plan, network and simulator; a size is simulated once.

The analytic and the flow model simulate every size. The packet model simulates what is small, and of larger sizes only
knots, twice as large ones where the seconds that a byte adds still change from knot to knot; between and beyond them
time is a line. What that is worth is estimated where it is used: by a size between knots that is simulated, too, and
by one and a half times the last change of the slope, which is about what a line misses far beyond its knots if
changes halve from knot to knot. Never more bytes are simulated than are asked for.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

SMALL_BYTES = 8 << 10
"""Of each rank: up to here every size is simulated, since in packets rounding shows."""
_KNOTS = (1, 3, 7, 14)
"""Multiples of what is small: buffers are full with the last two. No powers of two, which suit some chunks better."""
_LARGEST_BYTES = 8 << 20
"""Up to where knots are added while slopes differ by more than the tolerance: beyond, it takes minutes."""
_TOLERANCE = 0.01
_DRIFT = 1.5
"""What slopes may still change by, over their last change."""


class Prices(NamedTuple):
    """Seconds by size, and the relative error that is to be expected of those that are interpolated."""

    seconds: Mapping[int, float]
    error: float | None


def price(
    sizes: Iterable[int], simulate: Callable[[Sequence[int]], Mapping[int, float]], small_bytes: int | None
) -> Prices:
    """Return what each size costs.

    Args:
        sizes: In bytes.
        simulate: Returns the seconds of sizes.
        small_bytes: Up to where every size is simulated; None: all are.

    """
    wanted = sorted(set(sizes))
    small = len(wanted) if small_bytes is None else sum(size <= small_bytes for size in wanted)
    knots = [multiple * (small_bytes or 0) for multiple in _KNOTS]
    # Between the first knots, and no whole number of packets.
    probe = knots[1] * 5 // 7
    budget = sum(wanted[small:])
    if budget <= sum(knots) + probe or wanted[-1] <= knots[-1]:
        return Prices(simulate(wanted), None)
    known = dict(simulate([*wanted[:small], *(knot for knot in knots if knot not in wanted[:small]), probe]))
    most = min(_LARGEST_BYTES, wanted[-1], budget - sum(knots) - probe)
    while _bend(known, knots) > _TOLERANCE and 2 * knots[-1] <= most:
        knots.append(2 * knots[-1])
        known |= simulate(knots[-1:])
        most = min(most, budget - sum(knots) - probe)
    seconds = {size: known[size] if size in known else _line(known, knots, size) for size in wanted}
    missed = abs(_line(known, knots, probe) / known[probe] - 1)
    return Prices(seconds, max(missed, _DRIFT * _bend(known, knots)))


def _slope(known: Mapping[int, float], low: int, high: int) -> float:
    return (known[high] - known[low]) / (high - low)


def _bend(known: Mapping[int, float], knots: Sequence[int]) -> float:
    """Return by how much the last two slopes differ."""
    last = _slope(known, *knots[-2:])
    return abs(_slope(known, *knots[-3:-1]) / last - 1) if last else 0.0


def _line(known: Mapping[int, float], knots: Sequence[int], size: int) -> float:
    """Return the time between the two knots around a size, or in line with the last two."""
    above = next((place for place, knot in enumerate(knots) if place and size <= knot), len(knots) - 1)
    low, high = knots[above - 1], knots[above]
    return known[low] + _slope(known, low, high) * (size - low)
