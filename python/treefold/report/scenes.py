"""Puts the layout of a network on paper: the places of nodes in points, and the ways of links between them."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treefold._core import Node, Topology
from treefold.layouts import Layout, centre_longitude, layout

Points = NDArray[np.float64]

_COLUMN, _PAGE, _TALLEST = 232.0, 490.0, 620.0
"""The width of a column and of a page of a paper, and the height of a page, in points, without margins."""
_WIDEST_STEP, _LEAST_STEP = 34.0, 5.5
"""Points between neighbours: so many at most, and so many at least, for which a picture may be as wide as a page."""
_LARGEST_RADIUS, _LEAST_RADIUS = 9.0, 1.1
_LEAST_ON_MAPS = 4.0
"""Sites that are near each other may overlap, as no distance on a map is for its nodes to choose."""
_MOST_MERCATOR = 70.0
"""Maps with sites farther from the equator, in degrees, are Miller's, which can show the poles."""
_CURVE = np.linspace(0, 1, 15)[:, None]


class Way(NamedTuple):
    """A line of a link on paper: one of a stub that leaves the picture ends there."""

    line: Points
    reaches_target: bool


class Cable(NamedTuple):
    """The links between two nodes in one direction."""

    link: int
    """The first of them."""
    bandwidth_Bps: float


@dataclass(frozen=True)
class Scene:
    """A network on paper, in points from the lower left corner."""

    network: Topology
    nodes: list[Node]
    laid: Layout
    at: Points
    radius: float
    step: float
    """The usual distance of a node to the next one."""
    size: tuple[float, float]
    stubs: Points
    """The stub of each link, in points."""
    scale: float
    origin: Points

    @cached_property
    def place_of(self) -> dict[str, int]:
        """The number of each node in `at`, by its name."""
        return {node.name: place for place, node in enumerate(self.nodes)}

    @cached_property
    def cables(self) -> dict[tuple[int, int], Cable]:
        """The links of each ordered pair of nodes that have any."""
        found: dict[tuple[int, int], Cable] = {}
        for number, link in enumerate(self.network.links()):
            pair = (self.place_of[link.source], self.place_of[link.target])
            before = found.get(pair)
            bandwidth_Bps = link.bandwidth_Bps + (before.bandwidth_Bps if before else 0.0)
            found[pair] = Cable(before.link if before else number, bandwidth_Bps)
        return found

    @cached_property
    def pair_of_link(self) -> NDArray[np.int64]:
        """The numbers in `at` of the ends of each link, in a row for each."""
        sources, targets, _ = self.network.link_columns()
        place_of = np.zeros(len(self.nodes), np.int64)
        place_of[[node.number for node in self.nodes]] = np.arange(len(self.nodes))
        return np.stack([place_of[sources], place_of[targets]], axis=1)

    def pairs_of(self, links: Sequence[int]) -> dict[tuple[int, int], None]:
        """Return the ordered pairs of nodes that these links join, each once."""
        return dict.fromkeys((source, target) for source, target in self.pair_of_link[list(links)].tolist())

    @cached_property
    def pairs(self) -> list[tuple[int, int]]:
        """The pairs of nodes with a link in either direction, each once."""
        return list(dict.fromkeys((min(pair), max(pair)) for pair in self.cables))

    def ways(self, source: int, target: int, aside: float = 0.0, gap: float = 0.6) -> list[Way]:
        """Return the lines from a node to a neighbour, `aside` points to the right, from edge to edge of the nodes.

        The neighbour may have a link to the node only in the other direction, whose way this is then, too.
        """
        cable = self.cables.get((source, target))
        link, forwards = (cable.link, 1.0) if cable else (self.cables[target, source].link, -1.0)
        start, end, room = self.at[source], self.at[target], self.radius + gap
        if self.laid.wraps[link]:
            stub = self._stub(source, target)
            out, inwards = _moved(np.stack([start, start + stub]), aside), _moved(np.stack([end - stub, end]), aside)
            return [Way(_cut(out, start, room, end, 0), False), Way(_cut(inwards, start, 0, end, room), True)]
        line = _moved(_curve(start, end, forwards * float(self.laid.bends[link])), aside)
        room = min(room, 0.4 * float(np.hypot(*(end - start))))
        return [Way(_cut(line, start, room, end, room), True)]

    def _stub(self, source: int, target: int) -> Points:
        """Return the stub of a link that leaves the picture, at its source."""
        cable = self.cables.get((source, target))
        return np.asarray(self.stubs[cable.link] if cable else -self.stubs[self.cables[target, source].link], float)


def scene(network: Topology) -> Scene:
    """Lay a network out, and fit it to a column or, if it is large, to a page."""
    laid = layout(network)
    flat, stubs = _flat(laid)
    extent = np.ptp(flat, axis=0) if len(flat) else np.zeros(2)
    usual, least = _steps(flat)
    scale = _scale(extent, usual)
    radius = float(np.clip(0.27 * usual * scale, _LEAST_RADIUS, _LARGEST_RADIUS))
    smallest, share = (_LEAST_ON_MAPS, 0.48) if laid.kind == "map" else (0.5, 0.42)
    radius = min(radius, max(share * least * scale, smallest))
    stubs = _long_enough(stubs * scale, 2.2 * radius)
    stub = float(np.abs(stubs).max(initial=0.0))
    margin = max(radius, stub) + 4
    origin = flat.min(axis=0) - margin / scale
    size = extent * scale + 2 * margin
    at = (flat - origin) * scale
    return Scene(network, network.nodes(), laid, at, radius, usual * scale, (size[0], size[1]), stubs, scale, origin)


def _long_enough(stubs: Points, least: float) -> Points:
    """Lengthen stubs that would hardly be seen beside their nodes, as an oblique view makes some short."""
    lengths = np.hypot(stubs[:, 0], stubs[:, 1])[:, None]
    return np.asarray(stubs * np.maximum(1.0, np.divide(least, lengths, out=np.ones_like(lengths), where=lengths > 0)))


def _flat(laid: Layout) -> tuple[Points, Points]:
    """Return the places and the stubs in the plane of the picture."""
    if laid.kind == "map":
        return projected(laid.positions[:, :2], laid.positions[:, :2]), laid.stubs[:, :2]
    if laid.kind != "space":
        return laid.positions[:, :2], laid.stubs[:, :2]
    # An oblique view: all layers together move aside by about one step, so that no node hides another one.
    depth = float(np.ptp(laid.positions[:, 2])) + 1
    slant = np.array([1.08, 0.62]) / depth
    flat = [each[:, :2] + each[:, 2:] * slant for each in (laid.positions, 0.7 * laid.stubs)]
    return flat[0], flat[1]


def projected(degrees: Points, sites: Points) -> Points:
    """Project longitudes and latitudes to a plane in which these sites are seen: Mercator's, or Miller's near poles."""
    centre = centre_longitude(sites[:, 0])
    across = (degrees[:, 0] - centre + 180) % 360 - 180
    is_far = np.abs(sites[:, 1]).max() > _MOST_MERCATOR
    factor = 0.8 if is_far else 1.0
    latitudes = np.radians(np.clip(degrees[:, 1], -90 if is_far else -80, 90 if is_far else 80)) * factor
    return np.stack([across, np.degrees(np.arcsinh(np.tan(latitudes))) / factor], axis=1)


def _steps(at: Points) -> tuple[float, float]:
    """Return the median and the least distance from a node to the next one."""
    if len(at) < 2:
        return 1.0, 1.0
    picked = at[:: max(1, len(at) // 1000)]
    nearest = np.full(len(picked), np.inf)
    for start in range(0, len(at), 1000):
        some = at[start : start + 1000]
        distances = np.hypot(picked[:, 0, None] - some[:, 0], picked[:, 1, None] - some[:, 1])
        distances[distances == 0] = np.inf
        nearest = np.minimum(nearest, distances.min(axis=1))
    return float(np.median(nearest)), float(nearest.min())


def _scale(extent: Points, step: float) -> float:
    """Return the points of one unit of the layout."""
    width, height = max(float(extent[0]), 1e-9), max(float(extent[1]), 1e-9)
    scale = min(_COLUMN / width, _WIDEST_STEP / step)
    if scale * step < _LEAST_STEP:
        scale = min(_LEAST_STEP / step, _PAGE / width)
    return min(scale, _TALLEST / height)


def _curve(start: Points, end: Points, bend: float) -> Points:
    if bend == 0:
        return np.stack([start, end])
    along = end - start
    control = (start + end) / 2 + 2 * bend * np.array([-along[1], along[0]])
    return np.asarray((1 - _CURVE) ** 2 * start + 2 * _CURVE * (1 - _CURVE) * control + _CURVE**2 * end)


def _moved(line: Points, aside: float) -> Points:
    """Move a line to the right of its direction."""
    if aside == 0:
        return line
    along = np.gradient(line, axis=0)
    lengths = np.maximum(np.hypot(along[:, 0], along[:, 1]), 1e-9)[:, None]
    return line + aside * np.stack([along[:, 1], -along[:, 0]], axis=1) / lengths


def _cut(line: Points, start: Points, from_start: float, end: Points, from_end: float) -> Points:
    """Return the part of a line that is so far away from its ends' nodes."""
    line = _cut_start(line, start, from_start)
    return _cut_start(line[::-1], end, from_end)[::-1]


def _cut_start(line: Points, centre: Points, radius: float) -> Points:
    far = np.hypot(*(line - centre).T) >= radius
    if radius <= 0 or far[0] or not far.any():
        return line
    first = int(np.argmax(far))
    inside, step = line[first - 1] - centre, line[first] - line[first - 1]
    a, b, c = float(step @ step), float(inside @ step), float(inside @ inside) - radius**2
    share = (-b + math.sqrt(max(b * b - a * c, 0.0))) / a if a else 0.0
    return np.concatenate([[line[first - 1] + share * step], line[first:]])


def spaced(count: int, gap: float, room: float) -> Sequence[float]:
    """Return how far aside each of several lanes of a cable runs, `gap` apart unless the room is too small."""
    step = min(gap, room / max(count - 1, 1))
    return [step * (lane - (count - 1) / 2) for lane in range(count)]
