"""Tests what the MultiTree paper's text says of its figures 2, 5, 9 and 10 on our rows, and compares cycles.

The cycles to compare with come from runs of the simulator that the paper's authors published beside it. Our machine was
calibrated to them, so that they do not count as claims.
"""

from collections.abc import Mapping, Sequence
from functools import partial

import treefold
from reproduction.figures import Claim, Row, networks_of, ours
from reproduction.multitree.machines import judged
from reproduction.multitree.trials import FlowControl
from reproduction.tolerances import ABOUT, ALMOST, GAIN, is_gain
from treefold._core import format_size
from treefold.schedule_tables import TableEntry

AUTHORS: dict[tuple[str, int, str, FlowControl], int] = {
    ("torus:4x4", 32, "ring", "packet"): 9344,
    ("torus:4x4", 32, "dbtree", "packet"): 10175,
    ("torus:4x4", 32, "ring2d", "packet"): 5860,
    ("torus:4x4", 32, "multitree", "packet"): 3508,
    ("torus:4x4", 32, "multitree", "message"): 3272,
    ("torus:4x4", 128, "ring", "packet"): 22304,
    ("torus:4x4", 128, "dbtree", "packet"): 29464,
    ("torus:4x4", 128, "ring2d", "packet"): 16916,
    ("torus:4x4", 128, "multitree", "packet"): 11102,
    ("torus:4x4", 128, "multitree", "message"): 9501,
    ("mesh:4x4", 32, "ring", "packet"): 9345,
    ("mesh:4x4", 32, "ring2d", "packet"): 7986,
    ("mesh:4x4", 32, "multitree", "packet"): 5368,
    ("mesh:4x4", 32, "multitree", "message"): 5313,
    ("torus:4x4", 512, "dbtree", "packet"): 116167,
    ("torus:8x8", 32, "dbtree", "packet"): 21612,
    ("dgx2", 32, "ring", "packet"): 18347,
    ("dgx2", 32, "dbtree", "packet"): 11679,
    ("dgx2", 32, "multitree", "packet"): 5386,
    ("dgx2", 32, "multitree", "message"): 5095,
    ("fattree:8,2", 32, "ring", "packet"): 83123,
    ("fattree:8,2", 32, "dbtree", "packet"): 25725,
    ("bigraph:4x8", 32, "ring", "packet"): 33539,
    ("bigraph:4x16", 32, "dbtree", "packet"): 27844,
}
"""The authors' simulator took so many cycles, by network, KiB, algorithm and flow control."""


def _bigraph_ring(per_switch: int, half: int) -> list[int]:
    """Return the authors' ring on a BiGraph, which takes every link between its switches once in each direction.

    In round r the r-th ranks of all switches are visited: from an upper switch to the lower one r further on, and from
    there to the upper one r + 1 further on.
    """
    order, upper = [], 0
    for turn in range(per_switch):
        for _ in range(half):
            lower = (upper + turn) % half
            order += [upper * per_switch + turn, (half + lower) * per_switch + turn]
            upper = (lower + turn + 1) % half
    return order


RING_ORDERS: dict[str, str] = {
    network: ",".join(map(str, order))
    for network, order in {
        "dgx2": [rank for pair in zip(range(8), range(8, 16), strict=True) for rank in pair],
        "fattree:8,2": [leaf * 8 + rank for rank in range(8) for leaf in range(8)],
        "bigraph:4x8": _bigraph_ring(4, 4),
    }.items()
}
"""The order in which the authors' ring visits the ranks of networks with switches: it crosses them at every hop."""

_RING_TOLERANCE, _TOLERANCE = 0.005, 0.05
"""A ring has neither contention nor ties, which in both simulators are up to chance: its cycles are to be the same."""
_RIVALS = ("ring", "dbtree", "ring2d", "hdrm")
OTHERS = ("swing", "bine", "hierarchical", "bucket", "packing", "forest", "recursive-doubling", "nccl")
"""Algorithms that are not in the paper, in the order of their looks; one that is added here is shown and compared."""
_MESSAGE = "multitree, message-based"
_FREE = "multitree, no lockstep"
STRONG_BYTES = 96_000 << 10
"""This is Fig. 10's largest size, for strong scaling."""
SMALL_BYTES, LARGE_BYTES = 256 << 10, 16 << 20
"""The text's small sizes have at most so many bytes, its large ones at least."""
_FACTORS = {"ring": 3.0, "ring2d": 1.4, "multiring (ours)": None}
"""The paper's MultiTree is so many times as fast as its rivals in Fig. 10."""


def _values(rows: Sequence[Row], network: str, algorithm: str, key: str = "algbw_Bps") -> dict[int, float]:
    """Return a value by size."""
    own = [row for row in rows if (row["network"], row["algorithm"]) == (network, algorithm)]
    return {row["size_bytes"]: row[key] for row in own}


def _ratios(rows: Sequence[Row], network: str, above: str, below: str) -> dict[int, float]:
    over, under = _values(rows, network, above), _values(rows, network, below)
    return {size: over[size] / under[size] for size in over if size in under}


def _span(values: Sequence[float]) -> str:
    return f"{_ratio(min(values))} to {_ratio(max(values))}"


def _ratio(value: float) -> str:
    """Write a ratio with two digits, or with more if it would look like 1 without being 1."""
    short = f"{value:.2f}"
    return f"{value:.4f}" if short == "1.00" and value != 1 else short


def fig2(rows: list[Row]) -> list[Claim]:
    """Tell how much of the bandwidth head flits take if a message has only one; it is a formula, as that of packets."""
    message = max(row["head_overhead"] for row in rows if row["algorithm"] == _MESSAGE)
    text = f"{networks_of(rows)[0]}: head flits for each flit of payload, message-based"
    return [ours(Claim(text, "nearly none", "1 %", f"{message:.2%}", message < 0.01))]


_FIG5 = {
    0: "Reduce 3 1 - 1, Reduce 1 1 - 2, Reduce 2 2 1 2, Gather 0 - 1+2 3, Gather 2 2 1 4",
    1: "Reduce 2 0 - 1, Reduce 0 0 - 2, Reduce 3 3 0 2, Gather 1 - 0+3 3, Gather 3 3 0 4",
    2: "Reduce 1 3 - 1, Reduce 3 3 - 2, Reduce 0 0 3 2, Gather 2 - 0+3 3, Gather 0 0 3 4",
    3: "Reduce 0 2 - 1, Reduce 2 2 - 2, Reduce 1 1 2 2, Gather 3 - 1+2 3, Gather 1 1 2 4",
}
"""The paper's tables by rank; an entry has its operation, flow, parent, children and step."""


def _written(table: Sequence[TableEntry]) -> str:
    """Return a table as `_FIG5` writes it."""
    entries = []
    for entry in table:
        parent = "-" if entry.parent is None else entry.parent
        children = "+".join(map(str, entry.children)) or "-"
        entries.append(f"{entry.op} {entry.flow} {parent} {children} {entry.step}")
    return ", ".join(entries)


def fig5(rows: list[Row]) -> list[Claim]:
    """Judge the tables of the 2x2 mesh, and what tables of 64 ranks cost."""
    claims = []
    for row in rows:
        if row["network"] == "mesh:2x2":
            claims.append(_same_tables())
        elif row["ranks"] == 64:
            claims += _table_size(row)
    return claims


def _same_tables() -> Claim:
    tables = treefold.tables(treefold.plan(treefold.topology("mesh:2x2"), "multitree")).tables
    same = sum(_written(table) == _FIG5[rank] for rank, table in enumerate(tables))
    return Claim("mesh:2x2: tables that are the paper's, corrected", "4", "none", str(same), same == 4)


def _table_size(row: Row) -> list[Claim]:
    """Compare the entries of the longest table; their bits are ours, which were rounded to the paper's."""
    entries, bits = row["entries"], row["entry_bits"]
    return [
        Claim(f"{row['network']}: entries of the longest table", "128", "none", str(entries), entries == 128),
        ours(Claim(f"{row['network']}: bits of an entry", "200", "none", str(bits), bits == 200)),
    ]


def fig9(rows: list[Row]) -> list[Claim]:
    """Judge who is ahead where, on the machine on which any free interface is taken, as the authors measured."""
    claims = [claim for network in networks_of(rows) for claim in _on_network(rows, network)]
    return [*claims, *_break_even(rows), *_head_flits(rows)]


def _on_network(rows: list[Row], network: str) -> list[Claim]:
    own = [row for row in rows if row["network"] == network]
    makers = (_ahead, _rivals, _height, _lockstep) if network.startswith(("torus", "mesh")) else (_switched, _height)
    return [claim for make in (*makers, _strong, _others) for claim in judged(own, partial(make, network=network))]


def _ahead(rows: list[Row], network: str) -> list[Claim]:
    """Judge whether MultiTree, packet- or message-based, is ahead of all rivals that a grid has."""
    rivals = [rival for rival in _RIVALS if _values(rows, network, rival)]
    ratios = [
        ratio
        for name in ("multitree", _MESSAGE)
        for rival in rivals
        for ratio in _ratios(rows, network, name, rival).values()
    ]
    text = f"{network}: multitree, packet- and message-based, over {', '.join(rivals)}, at every size"
    return [Claim(text, "above 1", "none", _span(ratios), min(ratios) > 1)]


def _rivals(rows: list[Row], network: str) -> list[Claim]:
    """Judge the order of the rivals on a grid."""
    ratios = list(_ratios(rows, network, "ring2d", "ring").values())
    is_behind = network == "mesh:8x8"
    is_right = max(ratios) < 1 if is_behind else min(ratios) > 1
    by_name = {name: _values(rows, network, name) for name in ("multitree", *_RIVALS)}
    sizes = list(by_name["multitree"])
    slowest = sum(
        by_name["dbtree"][size] == min(values[size] for values in by_name.values() if values) for size in sizes
    )
    behind = "below 1" if is_behind else "above 1"
    return [
        Claim(f"{network}: ring2d over ring at every size", behind, "none", _span(ratios), is_right),
        Claim(
            f"{network}: dbtree is the slowest at every size",
            "always",
            "none",
            f"at {slowest} of {len(sizes)} sizes",
            slowest == len(sizes),
        ),
    ]


_TOP_TICKS = {
    "torus:4x4": (30, 5),
    "torus:8x8": (20, 5),
    "mesh:4x4": (14, 2),
    "mesh:8x8": (12, 2),
}
"""The highest tick of a panel's axis, and the distance of ticks, in GB/s; axes of switched networks have 10 and 2."""


def _height(rows: list[Row], network: str) -> list[Claim]:
    """Compare message-based MultiTree's highest bandwidth with the end of the panel's axis, which is no sentence."""
    top, step = _TOP_TICKS.get(network, (10, 2))
    rates = _values(rows, network, _MESSAGE)
    if max(rates) < LARGE_BYTES:
        return []
    highest = max(rates.values()) / 1e9
    text = f"{network}: highest bandwidth, where the panel's axis ends"
    measured = f"{highest:.1f} GB/s"
    return [ours(Claim(text, f"{top} GB/s", f"a tick, {step} GB/s", measured, abs(highest - top) <= step))]


def _lockstep(rows: list[Row], network: str) -> list[Claim]:
    """Judge whether lockstep gains at all sizes tried; the paper needs it for the best performance (section IV-A)."""
    ratios = _ratios(rows, network, "multitree", _FREE)
    text = f"{network}: multitree with lockstep over multitree without, {', '.join(map(format_size, ratios))}"
    return [Claim(text, "above 1", "none", _span(list(ratios.values())), min(ratios.values()) > 1)]


def _switched(rows: list[Row], network: str) -> list[Claim]:
    claims = [*_against(rows, network, "ring"), *_double_tree(rows, network)]
    return claims + (_against(rows, network, "hdrm") if "bigraph" in network else [])


def _against(rows: list[Row], network: str, rival: str) -> list[Claim]:
    """Judge whether MultiTree is ahead of a rival at all small sizes, and almost equal at all large ones."""
    ratios = [_ratios(rows, network, name, rival) for name in ("multitree", _MESSAGE)]
    small, large = _apart(ratios, SMALL_BYTES)
    where = f"{network}: multitree, packet- and message-based, over {rival}"
    claims = [Claim(f"{where}, up to {format_size(SMALL_BYTES)}", "above 1", "none", _span(small), min(small) > 1)]
    if large:
        text, is_right = (
            f"{where}, {format_size(LARGE_BYTES)} and more",
            all(abs(ratio - 1) <= ALMOST for ratio in large),
        )
        claims.append(Claim(text, "almost equal", f"{ALMOST:.0%}", _span(large), is_right))
    return claims


def _double_tree(rows: list[Row], network: str) -> list[Claim]:
    """Judge whether DBTree, with fewer steps, is ahead of ring at the smallest size, and behind at all large ones.

    The paper says "can achieve better latency", which is the time of the smallest vector.
    """
    ratios = _ratios(rows, network, "dbtree", "ring")
    small, large = _apart([ratios], min(ratios))
    where = f"{network}: dbtree over ring"
    claims = [Claim(f"{where}, the smallest size", "above 1", "none", _span(small), min(small) > 1)]
    if large:
        text = f"{where}, {format_size(LARGE_BYTES)} and more"
        claims.append(Claim(text, "below 1", "none", _span(large), max(large) < 1))
    return claims


def _apart(ratios: Sequence[Mapping[int, float]], most: int) -> tuple[list[float], list[float]]:
    """Return the ratios of sizes up to `most`, and those of large sizes."""
    pairs = [pair for each in ratios for pair in each.items()]
    small = [ratio for size, ratio in pairs if size <= most]
    return small, [ratio for size, ratio in pairs if size >= LARGE_BYTES]


def _break_even(rows: list[Row]) -> list[Claim]:
    """Judge up to which size DBTree beats ring, which is a larger one on larger networks."""
    claims = []
    for small, large in (("dgx2", "fattree:8,2"), ("bigraph:4x8", "bigraph:4x16")):
        if {small, large} <= set(networks_of(rows)):
            last = {
                network: max(
                    (size for size, ratio in _ratios(rows, network, "dbtree", "ring").items() if ratio > 1), default=0
                )
                for network in (small, large)
            }
            measured = f"{format_size(last[large])} and {format_size(last[small])}"
            text = f"{large}: the largest size at which dbtree beats ring, and on {small}"
            claims.append(Claim(text, "larger", "none", measured, last[large] > last[small]))
    return claims


def _head_flits(rows: list[Row]) -> list[Claim]:
    """Judge what message-based flow control is worth for large vectors: with lockstep, and by head flits alone."""
    size = max(row["size_bytes"] for row in rows)
    if size < LARGE_BYTES:
        return []
    own = [row for row in rows if row["size_bytes"] == size and row["interfaces"] == "shared"]
    both, alone = (
        [ratio - 1 for network in networks_of(own) for ratio in _ratios(own, network, above, below).values()]
        for above, below in ((_MESSAGE, "multitree"), (f"{_MESSAGE}, no lockstep", _FREE))
    )
    where = f"{networks_of(rows)[0]}: " if len(networks_of(rows)) == 1 else ""
    text = f"{where}what message-based flow control gains at {format_size(size)}, network by network"
    measured = f"{min(both):.1%} to {max(both):.1%} (without lockstep: {min(alone):.1%} to {max(alone):.1%})"
    return [Claim(text, "6 %", "1 point", measured, is_head_flits(both))]


def is_head_flits(gains: Sequence[float]) -> bool:
    """Return whether all gains are the 6 % of the bandwidth that head flits take, to a point."""
    return all(abs(gain - 0.06) <= 0.01 for gain in gains)


def _strong(rows: list[Row], network: str) -> list[Claim]:
    ratios = list(_ratios(rows, network, "multitree", "multiring (ours)").values())
    text = f"{network}: multitree over multiring, the strong baseline, at every size"
    return [ours(Claim(text, "above 1", "none", _span(ratios), min(ratios) > 1))]


def _others(rows: list[Row], network: str) -> list[Claim]:
    """Compare MultiTree with the fastest algorithm that the paper lacks, at their smallest and their largest size."""
    own, others = _values(rows, network, "multitree"), {name: _values(rows, network, name) for name in OTHERS}
    sizes = {size for rates in others.values() for size in rates}
    claims = []
    for size in dict.fromkeys((min(sizes), max(sizes))):
        rates = {name: values[size] for name, values in others.items() if size in values}
        best = max(rates, key=rates.__getitem__)
        ratio = own[size] / rates[best]
        text = f"{network}: multitree over the fastest that is not in the paper, {format_size(size)}"
        claims.append(ours(Claim(text, "above 1", "none", f"{_ratio(ratio)}, {best}", ratio > 1)))
    return claims


def fig10(rows: list[Row]) -> list[Claim]:
    """Judge weak and strong scaling."""
    return judged(rows, _scaling)


_THREE = ("ring", "ring2d", _MESSAGE)
"""The algorithms of the paper's Fig. 10."""


def _scaling(rows: Sequence[Row]) -> list[Claim]:
    weak = _times([row for row in rows if row["size_bytes"] == 375 * row["ranks"] << 10])
    strong = _times([row for row in rows if row["size_bytes"] == STRONG_BYTES])
    claims = [_order(weak), *(_faster(weak, _MESSAGE, rival, factor) for rival, factor in _FACTORS.items())]
    return [*claims, _linear(weak), _steady(strong)]


def _order(times: Mapping[str, Mapping[int, float]]) -> Claim:
    """Judge which of the paper's three algorithms is the fastest, and which the slowest."""
    ends = [{pick(_THREE, key=lambda name: times[name][ranks]) for ranks in times["ring"]} for pick in (min, max)]
    measured = "; ".join(" or ".join(sorted(end)) for end in ends)
    text = "the fastest and the slowest, for every number of ranks"
    return Claim(text, f"{_MESSAGE}; ring", "none", measured, ends == [{_MESSAGE}, {"ring"}])


def _linear(times: Mapping[str, Mapping[int, float]]) -> Claim:
    """Judge whether times grow with the number of ranks where each rank brings as much."""
    first = min(times["ring"])
    grown = [times[name][ranks] / times[name][first] / (ranks / first) for name in _THREE for ranks in times[name]]
    is_linear = all(abs(factor - 1) <= ABOUT for factor in grown)
    text = f"{', '.join(_THREE)}: time a rank, over that with {first}"
    return Claim(text, "linear", f"{ABOUT:.0%}", _span(grown), is_linear)


def _steady(times: Mapping[str, Mapping[int, float]]) -> Claim:
    """Judge whether times stay the same where all ranks together bring as much."""
    spreads = [max(times[name].values()) / min(times[name].values()) - 1 for name in _THREE]
    text = f"{', '.join(_THREE)}: variation of the time of {format_size(STRONG_BYTES)}"
    measured = ", ".join(f"{spread:.1%}" for spread in spreads)
    return Claim(text, "small", f"{ABOUT:.0%}", measured, max(spreads) <= ABOUT)


def _times(rows: Sequence[Row]) -> dict[str, dict[int, float]]:
    """Return times by algorithm and number of ranks."""
    times: dict[str, dict[int, float]] = {}
    for row in rows:
        times.setdefault(row["algorithm"], {})[row["ranks"]] = row["time_s"]
    return times


def _faster(times: dict[str, dict[int, float]], own: str, rival: str, factor: float | None) -> Claim:
    """Compare times with the paper's factor; those of the strong baseline, which it has not, with 1."""
    ratios = [times[rival][ranks] / times[own][ranks] for ranks in times[rival]]
    text = f"{own} over {rival}, {min(times[rival])} to {max(times[rival])} ranks"
    if factor is None:
        return ours(Claim(text, "above 1", "none", _span(ratios), min(ratios) > 1))
    is_right = all(is_gain(ratio - 1, factor - 1) for ratio in ratios)
    return Claim(text, f"{factor:g} times", GAIN, _span(ratios), is_right)


def theirs(row: Row) -> int:
    """Return the authors' cycles for a row."""
    name, *parts = row["algorithm"].split(", ")
    flow_control: FlowControl = "message" if "message-based" in parts else "packet"
    return AUTHORS[row["network"], row["size_bytes"] >> 10, name, flow_control]


def authors(rows: list[Row]) -> list[Claim]:
    """Compare cycle counts, point by point; the machine was calibrated to them."""
    return [ours(_cycles(row)) for row in rows]


def _cycles(row: Row) -> Claim:
    name = row["algorithm"].partition(", ")[0]
    tolerance = _RING_TOLERANCE if name == "ring" else _TOLERANCE
    error = row["cycles"] / theirs(row) - 1
    text = f"{row['network']}: {row['algorithm']}, {row['size_bytes'] >> 10} KiB"
    measured = f"{row['cycles']} ({error:+.1%})"
    return Claim(text, str(theirs(row)), f"{tolerance:.1%}", measured, abs(error) <= tolerance)
