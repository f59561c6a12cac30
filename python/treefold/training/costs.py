"""What collectives cost: any plan, network and simulator; a size is simulated once.

The analytic and the flow model simulate every size. The packet model simulates what is small, and of larger sizes only
knots, until the seconds that a byte adds agree from knot to knot: buffers are full then, and between and beyond knots
time is a line. What that is worth is checked where it is used: a size between knots is simulated, too, and the error
of the line there, or the last difference between slopes, is told.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import NamedTuple

SMALL_BYTES = 8 << 10
"""Of each rank: up to here every size is simulated, since in packets rounding shows."""
_KNOTS = (1, 4, 8, 16)
"""Multiples of what is small."""
_TOLERANCE = 0.02


class Prices(NamedTuple):
    """Seconds by size, and the largest relative error that was seen where times are interpolated."""

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
    if sum(wanted[small:]) <= sum(knots):
        return Prices(simulate(wanted), None)
    # Two thirds of a knot are no whole number of packets.
    probe = 2 * knots[1] // 3
    known = dict(simulate(list(dict.fromkeys([*wanted[:small], *knots, probe]))))
    while _bend(known, knots) > _TOLERANCE and knots[-1] < wanted[-1]:
        knots.append(2 * knots[-1])
        known |= simulate(knots[-1:])
    seconds = {size: known[size] if size in known else _line(known, knots, size) for size in wanted}
    return Prices(seconds, max(abs(_line(known, knots, probe) / known[probe] - 1), _bend(known, knots)))


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
