"""The time of a collective at many sizes, from simulations of a few.

The analytic and the flow simulator simulate every size. The packet simulator simulates every small size, and of the
larger ones only knots; between the knots, and beyond them, the time is taken for a straight line. Where the slope still
changes from knot to knot, a knot of twice the size is added. The error of the line is estimated in two ways, and the
larger estimate counts: a probe between two knots is simulated, too; and one and a half times the last change of the
slope is about what a line misses far beyond its knots if changes halve from knot to knot. The simulations never have
more bytes in total than the sizes that were asked for.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

SMALL_BYTES = 8 << 10
"""Up to this size per rank, every size is simulated: there the rounding to whole packets shows."""
_KNOTS = (1, 3, 7, 14)
"""The first knots are these multiples of the largest small size; buffers are full at the last two.

They are not powers of two, which would suit some chunks better than others.
"""
_LARGEST_KNOT_BYTES = 8 << 20
"""No knot is added beyond this size: its simulation would take minutes."""
_TOLERANCE = 0.01
"""Knots are added while the last two slopes differ by more than this part."""
_DRIFT = 1.5
"""The slope may change by this multiple of its last change."""


class SizeTimes(NamedTuple):
    """The time of a collective at each size."""

    seconds: Mapping[int, float]
    """The seconds by size in bytes."""
    error: float | None
    """The relative error that is to be expected of interpolated times; None if every size was simulated."""


def times_of_sizes(
    sizes: Iterable[int], simulate: Callable[[Sequence[int]], Mapping[int, float]], small_bytes: int | None
) -> SizeTimes:
    """Return how long a collective takes at each size.

    Args:
        sizes: The sizes in bytes.
        simulate: Returns the seconds of the sizes that it is given.
        small_bytes: Sizes up to this one are simulated; None simulates all sizes.

    """
    wanted = sorted(set(sizes))
    small = len(wanted) if small_bytes is None else sum(size <= small_bytes for size in wanted)
    knots = [multiple * (small_bytes or 0) for multiple in _KNOTS]
    # The probe lies between the first knots, and is not a whole number of packets.
    probe = knots[1] * 5 // 7
    budget = sum(wanted[small:])
    if budget <= sum(knots) + probe or wanted[-1] <= knots[-1]:
        return SizeTimes(simulate(wanted), None)
    known = dict(simulate([*wanted[:small], *(knot for knot in knots if knot not in wanted[:small]), probe]))
    most = min(_LARGEST_KNOT_BYTES, wanted[-1], budget - sum(knots) - probe)
    while _bend(known, knots) > _TOLERANCE and 2 * knots[-1] <= most:
        knots.append(2 * knots[-1])
        known |= simulate(knots[-1:])
        most = min(most, budget - sum(knots) - probe)
    seconds = {size: known[size] if size in known else _line(known, knots, size) for size in wanted}
    missed = abs(_line(known, knots, probe) / known[probe] - 1)
    return SizeTimes(seconds, max(missed, _DRIFT * _bend(known, knots)))


def _slope(known: Mapping[int, float], low: int, high: int) -> float:
    return (known[high] - known[low]) / (high - low)


def _bend(known: Mapping[int, float], knots: Sequence[int]) -> float:
    """Return by which part the last two slopes differ."""
    last = _slope(known, *knots[-2:])
    return abs(_slope(known, *knots[-3:-1]) / last - 1) if last else 0.0


def _line(known: Mapping[int, float], knots: Sequence[int], size: int) -> float:
    """Return the time on the line through the two knots around a size, or through the last two."""
    above = next((place for place, knot in enumerate(knots) if place and size <= knot), len(knots) - 1)
    low, high = knots[above - 1], knots[above]
    return known[low] + _slope(known, low, high) * (size - low)
