"""Changes plans (the JSON of their files) into forgeries that are hard to distinguish from correct plans."""

import json
from collections.abc import Sequence
from contextlib import suppress
from copy import deepcopy
from random import Random
from typing import Any

from fuzz.mutations import NUMBERS, WORDS, change_json

_Object = dict[str, Any]

_COLLECTIVES = ("all-reduce", "reduce-scatter", "all-gather", "broadcast", "reduce", "all-to-all")


def change_plan(plan: _Object, others: Sequence[bytes], random: Random) -> None:
    """Change a plan in one way, perhaps with parts of `others`, which are plans of the same network."""
    with suppress(LookupError, TypeError, ValueError, AttributeError):  # an earlier change removed what this one needs
        random.choice(_CHANGES)(plan, others, random)


def _phases(plan: _Object, _: Sequence[bytes], random: Random) -> None:
    """Repeat, swap or drop a phase; a sum that doubles 64 times is 0 modulo 2^64."""
    phases = plan["phases"]
    at = random.randrange(len(phases))
    match random.randrange(4):
        case _ if random.random() < 0.003:
            empty = {"pace": "stream", "trees": []}
            phases[at:at] = [empty] * random.choice((1000, 65_000))
        case 0 | 1:
            copies = random.choice((1, 1, 1, 1, 2, 2, 3, 3, 64, 248))
            phases[at:at] = [deepcopy(phases[at])] * copies  # the copies share memory and change together
        case 2:
            other = random.randrange(len(phases))
            phases[at], phases[other] = phases[other], phases[at]
        case _:
            del phases[at]


def _graft(plan: _Object, others: Sequence[bytes], random: Random) -> None:
    """Insert a phase of another plan with its lanes, in units that suit both plans."""
    other = json.loads(random.choice(others))
    first = len(plan["lanes"])
    plan["lanes"] += other["lanes"]
    phase = random.choice(other["phases"])
    for half in (half for tree in phase["trees"] for half in _edges(tree)):
        half["lanes"] = [lane + first for lane in half["lanes"]]
    if plan["units"] != other["units"]:
        _scale([phase], plan["units"])
        _scale(plan["phases"], other["units"])
        plan["units"] = _times(plan["units"], other["units"])
    phases = plan["phases"]
    at = random.randrange(len(phases) + 1)
    phases[at : at + random.randrange(2)] = [phase]
    plan["collective"] = random.choice((plan["collective"], other["collective"], *_COLLECTIVES))


def _scale(phases: list[_Object], factor: int) -> None:
    trees = {id(tree): tree for phase in phases for tree in phase["trees"]}
    for tree in trees.values():
        tree["span"] = [_times(end, factor) for end in tree["span"]]


def _times(number: int, factor: int) -> int:
    """Multiply two numbers, if earlier changes have left them numbers."""
    if not (isinstance(number, int) and isinstance(factor, int)):
        raise TypeError
    return number * factor


def _units(plan: _Object, _: Sequence[bytes], random: Random) -> None:
    factor = random.choice((2, 3, 1000, 2**20, 2**38))
    if random.random() < 0.7:
        _scale(plan["phases"], factor)
    plan["units"] = _times(plan["units"], factor)


def _trees(plan: _Object, _: Sequence[bytes], random: Random) -> None:
    """Copy, move, drop, swap or cut a tree."""
    trees, at = _some_tree(plan, random)
    match random.randrange(5):
        case 0:
            random.choice(plan["phases"])["trees"].append(deepcopy(trees[at]))
        case 1:
            random.choice(plan["phases"])["trees"].append(trees.pop(at))
        case 2:
            del trees[at]
        case 3:
            other, there = _some_tree(plan, random)
            trees[at], other[there] = other[there], trees[at]
        case _:
            start, end = trees[at]["span"]
            cut = random.randint(start, end)
            trees[at : at + 1] = [trees[at] | {"span": [start, cut]}, deepcopy(trees[at]) | {"span": [cut, end]}]


def _some_tree(plan: _Object, random: Random) -> tuple[list[_Object], int]:
    trees = random.choice(plan["phases"])["trees"]
    return trees, random.randrange(len(trees))


def _span(plan: _Object, _: Sequence[bytes], random: Random) -> None:
    trees, at = _some_tree(plan, random)
    start, end = trees[at]["span"]
    units = plan["units"]
    near = ([start, end + 1], [start + 1, end], [start, start], [end, end])
    trees[at]["span"] = random.choice((*near, [0, units], [units, units], [units, units + 1]))


def _root(plan: _Object, _: Sequence[bytes], random: Random) -> None:
    trees, at = _some_tree(plan, random)
    trees[at]["root"] = random.randrange(len(plan["topology"]["nodes"]))


def _edges(tree: _Object) -> list[_Object]:
    return [half["edges"] for half in (tree["up"], tree["down"]) if isinstance(half, dict)]


def _half(plan: _Object, _: Sequence[bytes], random: Random) -> None:
    trees, at = _some_tree(plan, random)
    tree = trees[at]
    side = random.choice(("up", "down"))
    if random.random() < 0.4:
        tree["up"], tree["down"] = tree["down"], tree["up"]
    else:
        tree[side] = random.choice(("mirror", "none", {"edges": {"lanes": [], "steps": []}}))


def _edge(plan: _Object, _: Sequence[bytes], random: Random) -> None:
    """Change, copy, drop or swap an edge."""
    trees, at = _some_tree(plan, random)
    half = random.choice(_edges(trees[at]))
    lanes, steps = half["lanes"], half["steps"]
    edge, other = random.randrange(len(lanes)), random.randrange(len(lanes))
    match random.randrange(6):
        case 0:
            lanes[edge] = random.randrange(len(plan["lanes"]))
        case 1:
            steps[edge] += random.choice((1, -1, 2))
        case 2:
            steps[edge] = random.choice((0, 1, steps[other], 65534, 65535))
        case 3:
            lanes[edge], lanes[other] = lanes[other], lanes[edge]
        case 4:
            lanes.insert(other, lanes[edge])
            steps.insert(other, steps[edge])
        case _:
            del lanes[edge], steps[edge]


def _pace(plan: _Object, _: Sequence[bytes], random: Random) -> None:
    unit = random.choice((1e9, 16e9, 1e-3, 1e18, *NUMBERS))
    steps = ({}, {"transfer_unit_Bps": unit}, {"message_unit_Bps": unit})
    pace = random.choice(("stream", "paced", *({"step": step} for step in steps)))
    random.choice(plan["phases"])["pace"] = pace


def _chunk(plan: _Object, _: Sequence[bytes], random: Random) -> None:
    trees, at = _some_tree(plan, random)
    count = random.choice((0, 1, 2, 3, 1000, 2**20, 2**32, 2**63))
    trees[at]["chunk"] = random.choice(("one", "best", {"count": count}, {"bytes": count}))


def _names(plan: _Object, _: Sequence[bytes], random: Random) -> None:
    match random.randrange(3):
        case 0:
            plan["collective"] = random.choice(_COLLECTIVES)
        case 1:
            plan["algorithm"] = random.choice(("innet-push", "innet-pull", "p2p", "ring2d", *WORDS))
        case _:
            random.choice(plan["topology"]["nodes"])["name"] = random.choice(WORDS)


def _network(plan: _Object, _: Sequence[bytes], random: Random) -> None:
    """Change a link or a node."""
    topology = plan["topology"]
    if random.random() < 0.6:
        key = random.choice(("bandwidth_Bps", "latency_s", "overhead_s"))
        random.choice(topology["links"])[key] = random.choice((0, 1e-3, 1e-12, 1.0, 1e5, 1e9, 1e18, *NUMBERS))
    else:
        node = {"kind": random.choice(("accelerator", "switch")), "reduces": random.random() < 0.5}
        random.choice(topology["nodes"]).update(node, multicasts=random.random() < 0.5)


def _lane(plan: _Object, _: Sequence[bytes], random: Random) -> None:
    """Change the ends or the links of a lane."""
    lane = random.choice(plan["lanes"])
    match random.randrange(4):
        case 0:
            lane["source"], lane["target"] = lane["target"], lane["source"]
        case 1:
            lane[random.choice(("source", "target"))] = random.randrange(len(plan["topology"]["nodes"]))
        case 2:
            links = len(plan["topology"]["links"])
            lane["links"] = [random.randrange(links) for _ in range(random.choice((1, 1, 2, 3)))]
        case _:
            lane.pop("links", None)


def _anything(plan: _Object, _: Sequence[bytes], random: Random) -> None:
    change_json(plan, random)


_CHANGES = (
    *(_phases, _phases, _graft, _graft, _units, _trees, _trees, _trees, _span, _root, _half, _edge, _edge, _edge),
    *(_pace, _chunk, _names, _network, _lane, _anything),
)
