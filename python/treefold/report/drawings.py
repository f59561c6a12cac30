"""Draws networks for papers: alone, or with the trees, the transfers of a step, the loads, or the limit of a plan.

Both directions of a cable are one line where they carry the same, and lanes side by side, each to the right of its
direction, where they do not. One unit of the axes is one point on paper, so that lines, nodes and names know how
much room they have; a picture is as wide as a column of a paper, or up to a page if the network is large.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median

from treefold._core import Plan, Topology, Tree, format_bandwidth
from treefold.report.coasts import draw_coasts
from treefold.report.labels import draw_names
from treefold.report.lanes import aside_of, cable_of, lane_width, right_of
from treefold.report.looks import COLOURS, INK, MOST_COLOURED, check_format, picture, style
from treefold.report.paper import Caption, Key, Ramp, finish, hue, node_keys, ramp, sheet, to_hex
from treefold.report.scenes import Scene, scene
from treefold.report.sharing import cap_keys, draw_caps, shared_lanes
from treefold.report.strokes import PALE, Stroke, draw_nodes, draw_strokes, strokes
from treefold.report.traffic import Hop, Pair, check_step, hops, loads
from treefold.results import SizeBound

_LIMIT = COLOURS[1]
_FILLED = "; their roots are filled"


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
    over, names = shared_lanes(place)
    single = "" if keys or not place.cables else f", {format_bandwidth(_bandwidths(place)[0])} a cable"
    counts = f"{_count(network.accelerators, 'accelerator')}"
    counts += f", {_count(network.switches, 'switch', 'switches')}" if network.switches else ""
    return _rendered(
        _Drawing(place, Caption(network.name, [counts + single], [*node_keys(place), *keys, *names]), cables, over),
        format,
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
    found: defaultdict[int, list[Hop]] = defaultdict(list)
    for hop in hops(place, plan, trees):
        found[hop.tree].append(hop)
    lanes: defaultdict[Pair, dict[tuple[Pair, int, bool, bool], None]] = defaultdict(dict)
    for number, own in found.items():
        is_mirrored = {hop.pair for hop in own if hop.to_root} == {hop.pair[::-1] for hop in own if not hop.to_root}
        for hop in own:
            if not (is_mirrored and hop.to_root):
                lanes[cable_of(hop.pair)][(hop.pair, number, not is_mirrored, hop.to_root)] = None
    halves = {way[3] for ways in lanes.values() for way in ways if way[2]}
    over = []
    for ways in lanes.values():
        width = lane_width(place, len(ways))
        for aside, (pair, number, has_head, to_root) in zip(
            aside_of(place, [way[0] for way in ways], width), ways, strict=True
        ):
            is_dashed = has_head and to_root and len(halves) > 1
            over += strokes(place.ways(*pair, right_of(pair, aside)), colours[number], width, is_dashed, has_head)
    keys = [_tree_key(number, tree, colours[number]) for number, tree in trees.items()][:MOST_COLOURED]
    keys += _half_keys(halves)
    fills, said = _roots(place, trees, colours)
    which = f"{len(trees)} of {plan.num_trees} trees" if len(trees) > 1 else "".join(f"tree {each}" for each in trees)
    which = which or "nothing is sent"
    which = "all its trees" if len(trees) == plan.num_trees > 1 else which
    caption = Caption(
        plan.topology.name, [f"{_made_by(plan)}: {which}{_way(halves)}"], [*keys, *said, *node_keys(place)]
    )
    return _rendered(_Drawing(place, caption, (), over, fills), format)


def draw_step(plan: Plan, trees: Mapping[int, Tree], step: int, format: str = "svg") -> bytes:
    """Draw the transfers of one step as arrows in the colours of their trees.

    Up to `MOST_COLOURED` trees have colours of their own. Of more, colours follow the numbers of the trees, so that the
    same tree has the same colour in each step. Where a step has both halves, arrows towards the root are dashed.

    Args:
        plan: Their plan.
        trees: The trees by number, all of one phase.
        step: The step.
        format: `svg`, `png` or `pdf`.

    Raises:
        TreefoldError: If the trees have no steps, or not this one.

    """
    check_format(format)
    last = check_step(plan, trees, step)
    place = scene(plan.topology)
    found = hops(place, plan, trees, step)
    active = {number: trees[number] for number in sorted({hop.tree for hop in found})}
    has_few = len(active) <= MOST_COLOURED
    colours = _colours(active) if has_few else _ordered_colours(trees)
    halves = {hop.to_root for hop in found}
    over, are_joined = _arrows(place, found, colours, is_dashed=len(halves) > 1)
    keys = [_tree_key(number, tree, colours[number]) for number, tree in active.items()] if has_few else []
    keys += [Key(f"more than {MOST_COLOURED} trees", INK)] if are_joined else []
    fills, said = _roots(place, active, colours)
    if said and not has_few:
        fills, said = {}, []  # hardly a node would have the colour of one tree
    lines = [
        f"{_made_by(plan)}: {_phase(plan, trees)}step {step} of {last}, {_count(len(found), 'transfer')} over links"
        + _way(halves)
    ]
    order = None if has_few else Ramp(hue, f"tree {min(trees)} to tree {max(trees)}" + _FILLED * bool(fills))
    caption = Caption(plan.topology.name, lines, [*keys, *_half_keys(halves), *said, *node_keys(place)], order)
    return _rendered(_Drawing(place, caption, (), over, fills), format)


def _arrows(
    place: Scene, found: Sequence[Hop], colours: Mapping[int, str], *, is_dashed: bool
) -> tuple[list[Stroke], bool]:
    """Return an arrow for each hop, dashed towards the root, and whether arrows were joined.

    Where more trees share a cable than colours tell apart, there is one arrow for each direction and half.
    """
    lanes: defaultdict[Pair, dict[Hop, None]] = defaultdict(dict)
    for hop in found:
        lanes[cable_of(hop.pair)][hop] = None
    over: list[Stroke] = []
    are_joined = False
    for ways in lanes.values():
        if len(ways) > MOST_COLOURED:
            ways, are_joined = {hop._replace(tree=-1): None for hop in ways}, True
        width = lane_width(place, len(ways))
        for aside, hop in zip(aside_of(place, [hop.pair for hop in ways], width), ways, strict=True):
            lines = place.ways(*hop.pair, right_of(hop.pair, aside))
            over += strokes(lines, colours.get(hop.tree, INK), width, is_dashed and hop.to_root, True)
    return over, are_joined


def draw_loads(plan: Plan, trees: Mapping[int, Tree], format: str = "svg") -> bytes:
    """Draw how long each link is busy with trees, as a share of the busiest link, in colour and width.

    Args:
        plan: Their plan.
        trees: The trees by number.
        format: `svg`, `png` or `pdf`.

    """
    check_format(format)
    place = scene(plan.topology)
    shares = loads(place, plan, trees)
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
    unused = [Key("carries nothing", PALE, 0.8)] if len({cable_of(pair) for pair in shares}) < len(place.pairs) else []
    caption = Caption(
        plan.topology.name,
        lines,
        [*unused, *node_keys(place)],
        Ramp(ramp, "0 to 100 % of the busiest link") if shares else None,
    )
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
    shared = [each.links for each in network.shared() if each.name in bound.shared]
    marked |= {pair for links in shared for pair in place.pairs_of(links)}
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
        draw_caps(axes, place)
        said = draw_names(axes, place, dict(drawing.fills), [each.line for each in [*cables, *drawing.over]])
        keys = [*drawing.caption.keys, *cap_keys(place)]
        caption = drawing.caption._replace(lines=[*drawing.caption.lines, said], keys=keys)
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


def _load_width(place: Scene, share: float) -> float:
    least = 1.5 if place.laid.kind == "map" else 0.5
    return min(2.8, max(least, 0.32 * place.radius)) * (0.3 + 0.7 * share)


def _colours(trees: Mapping[int, Tree]) -> dict[int, str]:
    return {number: COLOURS[place % MOST_COLOURED] for place, number in enumerate(trees)}


def _ordered_colours(trees: Mapping[int, Tree]) -> dict[int, str]:
    return {number: to_hex(hue(place / max(len(trees) - 1, 1))) for place, number in enumerate(sorted(trees))}


def _roots(place: Scene, trees: Mapping[int, Tree], colours: Mapping[int, str]) -> tuple[dict[int, str], list[Key]]:
    """Return the fills of roots, and what the legend says of those that are roots of several trees, which are dark."""
    fills: dict[int, str] = {}
    for number, tree in trees.items():
        root = place.place_of[tree.root]
        fills[root] = INK if root in fills else colours[number]
    return fills, [Key("root of several of these trees", marker="o", fill=INK)] if INK in fills.values() else []


def _tree_key(number: int, tree: Tree, colour: str) -> Key:
    return Key(f"tree {number}: root {tree.root}, {100 * tree.share:.3g} %", colour)


def _half_keys(halves: set[bool]) -> list[Key]:
    """Return what the legend says of arrows of both halves, True for the one that reduces."""
    return [Key("towards the root", is_dashed=True), Key("from the root")] if len(halves) > 1 else []


def _way(halves: set[bool]) -> str:
    """Say where all arrows go if they are of one half."""
    return "" if len(halves) != 1 else ", towards the roots" if True in halves else ", from the roots"


def _made_by(plan: Plan) -> str:
    return f"{plan.collective} by {plan.algorithm}"


def _phase(plan: Plan, trees: Mapping[int, Tree]) -> str:
    """Return the phase of trees, as words before a step, if their plan has several."""
    has_several = any(tree.phase for tree in plan.trees())
    return f"phase {next(iter(trees.values())).phase}, " if has_several and trees else ""


def _count(count: int, one: str, many: str = "") -> str:
    return f"{count:,} {one if count == 1 else many or one + 's'}"
