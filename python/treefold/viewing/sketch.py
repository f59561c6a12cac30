"""Sketches networks, plans and traces for notebooks: a small SVG above a table, which shows wherever HTML does.

`treefold.view` makes the page that moves; a sketch is still, needs no script, and is small enough for every cell.
"""

import math
from collections.abc import Mapping
from html import escape

import numpy as np
from numpy.typing import NDArray

from treefold import html, plans
from treefold._core import Plan, Topology, Trace
from treefold.layouts import layout
from treefold.networks import describe
from treefold.viewing.networks import TURN

_SIDE, _MARGIN = 340.0, 14.0
_MOST_LINKS = 3_000
"""A sketch of more links would be large, and a blot."""
_IDLE, _BUSIEST, _NODE, _SWITCH = "#b8c0ca", "#b3261e", "#34404c", "#848e9c"


def of_topology(network: Topology) -> str:
    """Return the sketch of a network, and its counts."""
    return _beside(_svg(network, {}), describe(network)._repr_html_())


def of_plan(plan: Plan) -> str:
    """Return the sketch of a plan's network, links redder the longer they are busy, and the plan in a few numbers."""
    loads = _loads(plan)
    most = loads.max(initial=0.0) or 1.0
    shares = dict(enumerate((loads / most).tolist()))
    return _beside(_svg(plan.topology, shares), plans.summarize(plan)._repr_html_())


def _loads(plan: Plan) -> NDArray[np.float64]:
    """Return the part of the vector that each link carries, for its bandwidth."""
    columns, (_, _, bandwidth) = plan.columns(), plan.topology.link_columns()
    edges, routes = (_lengths(columns[name]) for name in ("half_start", "lane_start"))
    share = np.repeat(np.repeat(columns["tree_share"], 2), edges)
    lanes = np.bincount(columns["edge_lane"], weights=share, minlength=len(columns["lane_source"]))
    hops = np.repeat(lanes, routes)
    return np.bincount(columns["lane_links"], weights=hops, minlength=len(bandwidth)) / bandwidth


def _lengths(starts: NDArray[np.uint32]) -> NDArray[np.int64]:
    ends = starts.astype(np.int64)
    return ends[1:] - ends[:-1]


def of_trace(trace: Trace) -> str:
    """Return the sketch of a trace's network, links redder the busier they are, and the links in a table."""
    time_s = trace.time_s or 1.0
    shares = {number: link.busy_s / time_s for number, link in enumerate(trace.links())}
    return _beside(_svg(trace.plan.topology, shares), html.of_trace(trace))


def _beside(picture: str, table: str) -> str:
    return f'<div style="display:flex;flex-wrap:wrap;gap:16px;align-items:flex-start">{picture}<div>{table}</div></div>'


def _svg(network: Topology, shares: Mapping[int, float]) -> str:
    """Return the SVG of a network; `shares` says of links how red they are, from 0 to 1."""
    if network.num_links > _MOST_LINKS:
        return ""
    nodes = network.nodes()
    points, stubs, wraps = _points(network)
    size = points.max(axis=0) + _MARGIN if len(points) else np.array([_SIDE, _SIDE])
    places = {node.name: place for place, node in enumerate(nodes)}
    lines = []
    for number, link in enumerate(network.links()):
        source, target = points[places[link.source]], points[places[link.target]]
        look = f'stroke="{_colour(shares.get(number, 0.0))}"'
        ends = (
            [(source, source + stubs[number]), (target - stubs[number], target)]
            if wraps[number]
            else [(source, target)]
        )
        lines += [_line(start, end, look) for start, end in ends]
    marks = [_mark(point, node.is_switch, node.name) for point, node in zip(points, nodes, strict=True)]
    box = f'viewBox="0 0 {size[0]:.0f} {size[1]:.0f}" width="{size[0]:.0f}" height="{size[1]:.0f}"'
    return f'<svg xmlns="http://www.w3.org/2000/svg" {box}>{"".join(lines)}{"".join(marks)}</svg>'


def _points(network: Topology) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.bool_]]:
    """Return where nodes are in pixels, which way the stubs of links go, and which links have them."""
    placed = layout(network)
    flat, stubs = _flat(placed.positions), _flat(placed.stubs)
    least, span = flat.min(axis=0), float(max(np.ptp(flat, axis=0).max(), 1e-9))
    scale = (_SIDE - 2 * _MARGIN) / span if span > 1e-6 else 0.0
    room = _MARGIN + (np.abs(stubs).max() * scale if placed.wraps.any() else 0.0)
    return (flat - least) * scale + room, stubs * scale, placed.wraps


def _flat(positions: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return positions of three dimensions as they are seen from the side and above; y goes downwards."""
    x, y, z = positions.T
    if not np.any(z):
        return np.column_stack([x, -y])
    yaw, pitch = TURN
    depth = z * math.cos(yaw) - x * math.sin(yaw)
    across = x * math.cos(yaw) + z * math.sin(yaw)
    return np.column_stack([across, -(y * math.cos(pitch) - depth * math.sin(pitch))])


def _line(start: NDArray[np.float64], end: NDArray[np.float64], look: str) -> str:
    """Return a line on the right-hand side of its direction, so that the two of a cable do not cover each other."""
    way = end - start
    side = np.array([-way[1], way[0]]) / (np.linalg.norm(way) or 1.0) * 1.6
    (x0, y0), (x1, y1) = start + side, end + side
    return f'<path d="M{x0:.1f} {y0:.1f}L{x1:.1f} {y1:.1f}" stroke-width="1.6" {look}/>'


def _mark(point: NDArray[np.float64], is_switch: bool, name: str) -> str:
    x, y = point
    title = f"<title>{escape(name)}</title>"
    if is_switch:
        return f'<rect x="{x - 4:.1f}" y="{y - 4:.1f}" width="8" height="8" fill="{_SWITCH}">{title}</rect>'
    return f'<circle cx="{x:.1f}" cy="{y:.1f}" r="4.5" fill="{_NODE}">{title}</circle>'


def _colour(share: float) -> str:
    """Return a colour between that of an idle link and that of the busiest."""
    part = min(max(share, 0.0), 1.0)
    mixed = (
        round(int(_IDLE[at : at + 2], 16) * (1 - part) + int(_BUSIEST[at : at + 2], 16) * part) for at in (1, 3, 5)
    )
    return f"#{''.join(f'{channel:02x}' for channel in mixed)}"
