"""Puts several lines beside each other along a cable: lanes, each to the right of its direction."""

from collections.abc import Sequence

from treefold.report.scenes import Scene, spaced
from treefold.report.traffic import Pair


def cable_of(pair: Pair) -> Pair:
    """Return the two nodes of a cable, the lower number first."""
    return min(pair), max(pair)


def lane_width(place: Scene, lanes: int) -> float:
    """Return the width of each of several lanes of a cable, which together are as wide as a node."""
    least = 1.2 if place.laid.kind == "map" else 0.3
    return max(min(1.7, 0.2 * place.radius, 1.5 * place.radius / lanes), least)


def aside_of(place: Scene, pairs: Sequence[Pair], width: float) -> Sequence[float]:
    """Return how far the lanes of a cable run from its middle, to the right as seen from the lower number.

    Lanes from the higher number come first, so that each lane is to the right of its own direction.
    """
    order = sorted(range(len(pairs)), key=lambda place: pairs[place][0] < pairs[place][1])
    offsets = spaced(len(pairs), max(2.2 * width, 1.2), 1.6 * place.radius)
    found = [0.0] * len(pairs)
    for offset, lane in zip(offsets, order, strict=True):
        found[lane] = offset
    return found


def right_of(pair: Pair, aside: float) -> float:
    """Return an offset as seen in the direction of a pair; it is given as seen from the lower number."""
    return aside if pair[0] < pair[1] else -aside
