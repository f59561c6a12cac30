"""Draws networks for papers: alone, or with the trees, the transfers of a step, the loads, or the limit of a plan.

Both directions of a cable are one line where they carry the same, and lanes side by side, each to the right of its
direction, where they do not. One unit of the axes is one point on paper, so that lines, nodes and names know how
much room they have; a picture is as wide as a column of a paper, or up to a page if the network is large.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from treefold._core import Plan, Topology, Tree, format_bandwidth
from treefold.report.coasts import draw_coasts
from treefold.report.labels import draw_names
from treefold.report.looks import COLOURS, INK, MOST_COLOURED, check_format, picture, style
from treefold.report.paper import Caption, Key, finish, node_keys, ramp, sheet
from treefold.report.scenes import Scene, scene, spaced
from treefold.report.strokes import PALE, Stroke, draw_nodes, draw_strokes, strokes
from treefold.report.traffic import Hop, Pair, check_step, hops, loads
from treefold.results import SizeBound

_LIMIT, _REDUCE, _BROADCAST = COLOURS[1], COLOURS[0], COLOURS[1]


@dataclass(frozen=True)
class _Drawing:
    """What is drawn over the pale cables of a network."""

    scene: Scene
    caption: Caption
    cables: Sequence[Stroke] = ()
    over: Sequence[Stroke] = ()
    fills: Mapping[int, str] = field(default_factory=dict)


def draw_network(network: Topology, format: str = "svg") -> bytes:
    """Draw a network: accelerators, switches, and the bandwidths of cables as widths.

    Args:
        network: The network.
        format: `svg`, `png` or `pdf`.

    Returns:
        The content of the file; the same network gives the same bytes.

    """
    check_format(format)
    place = scene(network)
    cables, keys = _widths(place)
    single = "" if keys or not place.cables else f", {format_bandwidth(_bandwidths(place)[0])} a cable"
    counts = f"{_count(network.accelerators, 'accelerator')}"
    counts += f", {_count(network.switches, 'switch', 'switches')}" if network.switches else ""
    return _rendered(
        _Drawing(place, Caption(network.name, [counts + single], [*node_keys(place), *keys]), cables), format
    )


def draw_trees(plan: Plan, trees: Mapping[int, Tree], format: str = "svg") -> bytes:
    """Draw trees, each in its colour, side by side where they share a cable; their roots are filled.

    Args:
        plan: Their plan.
        trees: The trees by number; at most `MOST_COLOURED` have colours of their own.
        format: `svg`, `png` or `pdf`.

    """
    check_format(format)
    place = scene(plan.topology)
    colours = _colours(trees)
    lanes: defaultdict[Pair, dict[Any, None]] = defaultdict(dict)
    has_arrows = False
    for number, tree in trees.items():
        found = hops(place, {number: tree})
        is_mirrored = {hop.pair for hop in found if hop.to_root} == {hop.pair[::-1] for hop in found if not hop.to_root}
        has_arrows |= not is_mirrored
        for hop in found:
            if not (is_mirrored and hop.to_root):
                lanes[_cable(hop.pair)][(hop.pair, number, not is_mirrored, hop.to_root)] = None
    over = []
    for ways in lanes.values():
        width = _lane_width(place, len(ways))
        for aside, (pair, number, has_head, to_root) in zip(_aside(place, ways, width), ways, strict=True):
            found_ways = place.ways(pair[0], pair[1], _right(pair, aside))
            over += strokes(found_ways, colours[number], width, to_root and has_head, has_head)
    keys = [_tree_key(number, tree, colours[number]) for number, tree in trees.items()][:MOST_COLOURED]
    keys += [Key("towards the root", is_dashed=True), Key("from the root")] if has_arrows else []
    which = f"{len(trees)} of {plan.num_trees} trees" if len(trees) > 1 else "".join(f"tree {each}" for each in trees)
    which = which or "nothing is sent"
    which = "all its trees" if len(trees) == plan.num_trees > 1 else which
    caption = Caption(plan.topology.name, [f"{_made_by(plan)}: {which}"], [*keys, *node_keys(place)])
    return _rendered(_Drawing(place, caption, (), over, _roots(place, trees, colours)), format)


def draw_step(plan: Plan, trees: Mapping[int, Tree], step: int, format: str = "svg") -> bytes:
    """Draw the transfers of one step as arrows: dashed towards the root of the tree, solid from the root.

    Args:
        plan: Their plan.
        trees: The trees by number, all of one phase.
        step: The step.
        format: `svg`, `png` or `pdf`.

    Raises:
        TreefoldError: If the trees have no steps, or not this one.

    """
    check_format(format)
    last = check_step(plan, dict(trees), step)
    place = scene(plan.topology)
    found = hops(place, dict(trees), step)
    active = {number: trees[number] for number in dict.fromkeys(hop.tree for hop in found)}
    by_tree = len(active) <= MOST_COLOURED
    colours = _colours(active)
    lanes: defaultdict[Pair, dict[Hop, None]] = defaultdict(dict)
    for hop in found:
        lanes[_cable(hop.pair)][hop if by_tree else hop._replace(tree=-1)] = None
    over = []
    for ways in lanes.values():
        width = _lane_width(place, len(ways))
        for aside, hop in zip(_aside(place, ways, width), ways, strict=True):
            colour = colours[hop.tree] if by_tree else (_REDUCE if hop.to_root else _BROADCAST)
            over += strokes(place.ways(*hop.pair, _right(hop.pair, aside)), colour, width, hop.to_root, True)
    halves = dict.fromkeys(hop.to_root for hop in found)
    keys = [_tree_key(number, tree, colours[number]) for number, tree in active.items()] if by_tree else []
    keys += [_half_key(to_root, by_tree) for to_root in halves]
    lines = [
        f"{_made_by(plan)}: {_phase(plan, trees)}step {step} of {last}, {_count(len(found), 'transfer')} over links"
    ]
    caption = Caption(plan.topology.name, lines, [*keys, *node_keys(place)])
    fills = _roots(place, active, colours) if by_tree else {}
    return _rendered(_Drawing(place, caption, (), over, fills), format)


def draw_loads(plan: Plan, trees: Mapping[int, Tree], format: str = "svg") -> bytes:
    """Draw how long each link is busy with trees, as a share of the busiest link, in colour and width.

    Args:
        plan: Their plan.
        trees: The trees by number.
        format: `svg`, `png` or `pdf`.

    """
    check_format(format)
    place = scene(plan.topology)
    shares = loads(place, dict(trees))
    over: list[tuple[float, Stroke]] = []
    for low, high in place.pairs:
        there, back = shares.get((low, high), 0.0), shares.get((high, low), 0.0)
        if abs(there - back) < 0.01:
            directed = [((low, high), there, 0.0, False)] if there else []
        else:
            aside = 0.5 * min(_load_width(place, 1) + 0.6, 1.2 * place.radius)
            directed = [((low, high), there, aside, True), ((high, low), back, aside, True)]
        for pair, share, aside, has_head in directed:
            if share:
                width = _load_width(place, share)
                over += [
                    (share, each) for each in strokes(place.ways(*pair, aside), ramp(share), width, False, has_head)
                ]
    over.sort(key=lambda each: each[0])
    which = "" if len(trees) == plan.num_trees else f", {_count(len(trees), 'tree')} of {plan.num_trees}"
    lines = [f"{_made_by(plan)}{which}: how long each link is busy"]
    unused = [Key("carries nothing", PALE, 0.8)] if len({_cable(pair) for pair in shares}) < len(place.pairs) else []
    caption = Caption(plan.topology.name, lines, [*unused, *node_keys(place)], has_ramp=bool(shares))
    return _rendered(_Drawing(place, caption, (), [each for _, each in over]), format)


def draw_limit(network: Topology, bound: SizeBound, format: str = "svg") -> bytes:
    """Draw a network with the links that limit a collective.

    Args:
        network: The network.
        bound: What `treefold.bound_at` says of it.
        format: `svg`, `png` or `pdf`.

    """
    check_format(format)
    place = scene(network)
    limiting = set(bound.links)
    marked = {pair for pair in place.cables if " -> ".join(place.nodes[each].name for each in pair) in limiting}
    over = []
    for low, high in place.pairs:
        ways = [pair for pair in ((low, high), (high, low)) if pair in marked]
        width = _load_width(place, 1)
        if len(ways) == 2 or (ways and len({(low, high), (high, low)} & set(place.cables)) == 1):
            over += strokes(place.ways(low, high), _LIMIT, width, has_head=len(ways) == 1)
        elif ways:
            over += strokes(place.ways(*ways[0], 0.5 * width), _LIMIT, width, has_head=True)
    rate = f"at most {format_bandwidth(bound.rate.rate_Bps)}" if bound.rate.rate_Bps else "no limit"
    lines = [f"{bound.collective}: {rate}, limited by {bound.limited_by}"]
    keys = [Key("limits the rate", _LIMIT, _load_width(place, 1))] if over else []
    return _rendered(_Drawing(place, Caption(network.name, lines, [*keys, *node_keys(place)]), (), over), format)


def _rendered(drawing: _Drawing, format: str) -> bytes:
    import matplotlib

    place = drawing.scene
    with style(), matplotlib.rc_context({"text.parse_math": False, "pdf.fonttype": 42}):
        figure, axes = sheet(place)
        draw_coasts(axes, place)
        cables = drawing.cables or _pale(place)
        draw_strokes(axes, cables, 2)
        draw_strokes(axes, drawing.over, 3)
        draw_nodes(axes, place, dict(drawing.fills))
        said = draw_names(axes, place, dict(drawing.fills), [each.line for each in [*cables, *drawing.over]])
        caption = drawing.caption._replace(lines=[*drawing.caption.lines, said])
        finish(axes, place, caption)
        return picture(figure, format)


def _pale(place: Scene) -> list[Stroke]:
    width = min(0.8, max(0.2, 0.12 * place.radius))
    return [each for pair in place.pairs for each in strokes(place.ways(*pair), PALE, width)]


def _bandwidths(place: Scene) -> list[float]:
    """Return the bandwidths of cables, largest first, without those that differ by rounding only."""
    distinct: list[float] = []
    for bandwidth_Bps in sorted({cable.bandwidth_Bps for cable in place.cables.values()}, reverse=True):
        if not distinct or bandwidth_Bps < 0.999 * distinct[-1]:
            distinct.append(bandwidth_Bps)
    return distinct


def _widths(place: Scene) -> tuple[list[Stroke], list[Key]]:
    """Return the cables with widths for their bandwidths, and the entries of the legend if these differ."""
    distinct = _bandwidths(place)
    widest = min(3.2, max(1.3 if place.laid.kind == "map" else 0.5, 0.34 * place.radius))

    def width(bandwidth_Bps: float) -> float:
        if len(distinct) == 1:
            return min(1.0, max(0.25, 0.14 * place.radius))
        return float(max(widest * (bandwidth_Bps / distinct[0]) ** 0.5, 0.16 * widest))

    drawn = []
    for low, high in place.pairs:
        there, back = (place.cables.get(pair) for pair in ((low, high), (high, low)))
        if there and back and abs(there.bandwidth_Bps - back.bandwidth_Bps) <= 0.001 * there.bandwidth_Bps:
            drawn += strokes(place.ways(low, high), "#888888", width(there.bandwidth_Bps))
            continue
        aside = min(0.5 * widest + 0.4, 0.6 * place.radius) if there and back else 0.0
        for pair, cable in (((low, high), there), ((high, low), back)):
            if cable:
                drawn += strokes(place.ways(*pair, aside), "#888888", width(cable.bandwidth_Bps), has_head=True)
    if len(distinct) < 2:
        return drawn, []
    shown = distinct if len(distinct) <= 3 else [distinct[0], median(distinct), distinct[-1]]
    return drawn, [Key(format_bandwidth(each), "#888888", width(each)) for each in shown]


def _cable(pair: Pair) -> Pair:
    return min(pair), max(pair)


def _lane_width(place: Scene, lanes: int) -> float:
    """Return the width of each of several lanes of a cable, which together are as wide as a node."""
    least = 1.2 if place.laid.kind == "map" else 0.3
    return max(min(1.7, 0.2 * place.radius, 1.5 * place.radius / lanes), least)


def _load_width(place: Scene, share: float) -> float:
    least = 1.5 if place.laid.kind == "map" else 0.5
    return min(2.8, max(least, 0.32 * place.radius)) * (0.3 + 0.7 * share)


def _aside(place: Scene, ways: Mapping[Any, None], width: float) -> Sequence[float]:
    """Return how far the lanes of a cable run from its middle, to the right as seen from the lower number.

    Lanes from the higher number come first, so that each lane is to the right of its own direction.
    """
    pairs = [way.pair if isinstance(way, Hop) else way[0] for way in ways]
    order = sorted(range(len(pairs)), key=lambda place: pairs[place][0] < pairs[place][1])
    offsets = spaced(len(pairs), max(2.2 * width, 1.2), 1.6 * place.radius)
    found = [0.0] * len(pairs)
    for offset, lane in zip(offsets, order, strict=True):
        found[lane] = offset
    return found


def _right(pair: Pair, aside: float) -> float:
    """Return an offset as seen in the direction of a pair; it is given as seen from the lower number."""
    return aside if pair[0] < pair[1] else -aside


def _colours(trees: Mapping[int, Tree]) -> dict[int, str]:
    return {number: COLOURS[place % MOST_COLOURED] for place, number in enumerate(trees)}


def _roots(place: Scene, trees: Mapping[int, Tree], colours: Mapping[int, str]) -> dict[int, str]:
    """Return the fills of roots: the tree's colour, or dark if a node is the root of several trees."""
    fills: dict[int, str] = {}
    for number, tree in trees.items():
        root = place.place_of[tree.root]
        fills[root] = INK if root in fills else colours[number]
    return fills


def _tree_key(number: int, tree: Tree, colour: str) -> Key:
    return Key(f"tree {number}: root {tree.root}, {100 * tree.share:.3g} %", colour)


def _half_key(to_root: bool, by_tree: bool) -> Key:
    colour = INK if by_tree else (_REDUCE if to_root else _BROADCAST)
    return Key("towards the root" if to_root else "from the root", colour, is_dashed=to_root)


def _made_by(plan: Plan) -> str:
    return f"{plan.collective} by {plan.algorithm}"


def _phase(plan: Plan, trees: Mapping[int, Tree]) -> str:
    """Return the phase of trees, as words before a step, if their plan has several."""
    has_several = any(tree.phase for tree in plan.trees())
    return f"phase {next(iter(trees.values())).phase}, " if has_several and trees else ""


def _count(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
