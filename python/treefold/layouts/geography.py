"""Places networks whose sites have coordinates on a map; sites without stand near their neighbours.

Means and distances of places are those of points in space, so that neither the poles nor the antimeridian matter.
"""

import numpy as np

from treefold.layouts.graph import Graph, Reals
from treefold.layouts.placement import Placement, placed

_LEAST_KNOWN = 0.6
"""The share of the nodes that must have coordinates."""
_TURN = 2.399963229728653  # the golden angle, in radians: no two of a few points at these turns come near each other


def geography(graph: Graph) -> Placement | None:
    """Place a network by longitude and latitude, in degrees; none if too few sites have coordinates."""
    known = ~np.isnan(graph.degrees[:, 0])
    if graph.size == 0 or known.sum() < max(_LEAST_KNOWN * graph.size, 1):
        return None
    degrees = _complete(graph, known)
    spread = _apart(degrees, ~known, 0.3 * _usual_distance(degrees[known]))
    return placed(graph, "map", spread[:, ::-1])._replace(guessed=~known)


def centre_longitude(longitudes: Reals) -> float:
    """Return the longitude around which these span the least: the middle of what is left without the widest gap.

    Args:
        longitudes: Degrees.

    Example:
        >>> import numpy as np
        >>> from treefold.layouts import centre_longitude
        >>> centre_longitude(np.array([170.0, -170.0]))
        180.0

    """
    ordered = np.unique(np.mod(np.asarray(longitudes, float), 360.0))
    gaps = np.diff(ordered, append=ordered[0] + 360.0)
    widest = int(np.argmax(gaps))
    centre = ordered[widest] + gaps[widest] / 2 + 180.0
    return float((centre + 180.0) % 360.0 - 180.0) if centre % 360.0 != 180.0 else 180.0


def _complete(graph: Graph, known: np.ndarray) -> Reals:
    """Return the latitudes and longitudes, where those that are missing are the means of their neighbours'.

    Missing sites that are neighbours get theirs by turns, each from those before it.
    """
    points = np.zeros((graph.size, 3))
    points[known] = _points(graph.degrees[known])
    found = known.copy()
    while not found.all():
        near = {int(node): graph.neighbors[node][found[graph.neighbors[node]]] for node in np.flatnonzero(~found)}
        ready = {node: others for node, others in near.items() if len(others)}
        if not ready:  # these have no way to a site with coordinates
            points[~found] = points[found].mean(axis=0)
            break
        for node, others in ready.items():
            points[node] = points[others].mean(axis=0)
        found[list(ready)] = True
    return np.asarray(np.where(known[:, None], graph.degrees, _degrees(points)), float)


def _points(degrees: Reals) -> Reals:
    latitudes, longitudes = np.radians(degrees).T
    across = np.cos(latitudes)
    return np.stack([across * np.cos(longitudes), across * np.sin(longitudes), np.sin(latitudes)], axis=1)


def _degrees(points: Reals) -> Reals:
    across = np.hypot(points[:, 0], points[:, 1])
    latitudes, longitudes = np.arctan2(points[:, 2], across), np.arctan2(points[:, 1], points[:, 0])
    return np.asarray(np.degrees(np.stack([latitudes, longitudes], axis=1)), float)


def _usual_distance(degrees: Reals) -> float:
    """Return the median distance from a site to the next one, in degrees; 1 if there are no two places."""
    places = np.unique(degrees, axis=0)
    if len(places) < 2:
        return 1.0
    points = _points(places[:: max(1, len(places) // 2000)])
    chords = np.sqrt(np.maximum(2 - 2 * points @ points.T, 0))
    np.fill_diagonal(chords, 2)
    return float(np.degrees(np.median(chords.min(axis=1)))) or 1.0


def _apart(degrees: Reals, guessed: np.ndarray, distance: float) -> Reals:
    """Move guessed sites, and those of several at one place, a little aside, so that no two stand at one place."""
    moved = degrees.copy()
    taken: dict[tuple[float, float], int] = {}
    for node in [*np.flatnonzero(~guessed), *np.flatnonzero(guessed)]:
        at = (round(float(degrees[node, 0]), 2), round(float(degrees[node, 1]), 2))
        place = taken.setdefault(at, 0)
        taken[at] += 1
        if place or guessed[node]:
            turn, out = _TURN * (int(node) + 1), distance * np.sqrt(place + 1)
            moved[node] += out * np.array([np.sin(turn), np.cos(turn) / max(np.cos(np.radians(moved[node, 0])), 0.1)])
    moved[:, 0] = np.clip(moved[:, 0], -90, 90)
    moved[:, 1] = np.where(np.abs(moved[:, 1]) > 180, (moved[:, 1] + 180) % 360 - 180, moved[:, 1])
    return moved
