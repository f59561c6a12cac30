"""Tests what the MultiTree paper's text says of its figures 2, 5, 9 and 10 on our rows, and compares cycles.

The cycles to compare with come from runs of the simulator that the paper's authors published beside it.
"""

from collections.abc import Mapping, Sequence

import treefold
from reproduction.figures import Claim, Row, networks_of
from reproduction.multitree.trials import FlowControl
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

_TOLERANCE = {"ring": 0.005, "ring2d": 0.10, "dbtree": 0.05, "multitree": 0.05}
_RIVALS = ("ring", "dbtree", "ring2d", "hdrm")
_MESSAGE = "multitree, message-based"
_FREE = "multitree, no lockstep"
STRONG_BYTES = 96_000 << 10
"""This is Fig. 10's largest size, for strong scaling."""
SMALL_BYTES, LARGE_BYTES = 256 << 10, 16 << 20
"""The text's small sizes have at most so many bytes, its large ones at least."""
_CLOSE = 0.15
"""A value that is "about" another, or "linear", may be off by this part."""
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
    return f"{min(values):.2f} to {max(values):.2f}"


def fig2(rows: list[Row]) -> list[Claim]:
    """Judge how much of the bandwidth head flits take."""
    packets = {row["payload_bytes"]: row["head_overhead"] for row in rows if row["algorithm"] == "multitree"}
    message = max(row["head_overhead"] for row in rows if row["algorithm"] == _MESSAGE)
    network = networks_of(rows)[0]
    most, least = packets[min(packets)], packets[max(packets)]
    text = f"{network}: head flits for each flit of payload, {max(packets)} to {min(packets)} bytes"
    measured = f"{least:.2%} to {most:.2%}"
    return [
        Claim(text, "6 to 25 %", "half a point", measured, abs(least - 0.06) < 0.005 and abs(most - 0.25) < 0.005),
        Claim(f"{network}: the same, message-based", "nearly none", "1 %", f"{message:.2%}", message < 0.01),
    ]


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
            claims.append(_table_size(row))
    return claims


def _same_tables() -> Claim:
    tables = treefold.tables(treefold.plan(treefold.topology("mesh:2x2"), "multitree")).tables
    same = sum(_written(table) == _FIG5[rank] for rank, table in enumerate(tables))
    return Claim("mesh:2x2: tables that are the paper's, corrected", "4", "none", str(same), same == 4)


def _table_size(row: Row) -> Claim:
    bits, entries = row["entry_bits"], row["entries"]
    measured = f"{entries} x {bits}, {row['bytes']} bytes"
    text = f"{row['network']}: entries x bits of the longest table"
    return Claim(text, "128 x 200, 3200 bytes", "at most", measured, entries <= 128 and bits == 200)


def fig9(rows: list[Row]) -> list[Claim]:
    """Judge who is ahead where."""
    claims = []
    for network in networks_of(rows):
        names = {row["algorithm"] for row in rows if row["network"] == network}
        if network.startswith(("torus", "mesh")):
            claims += [_ahead(rows, network, name, names) for name in ("multitree", _MESSAGE)]
            claims += _large(rows, network, names)
        else:
            claims += _switched(rows, network, names)
        claims += _head_flits(rows, network)
        claims.append(_strong(rows, network))
    return claims


def _ahead(rows: list[Row], network: str, name: str, names: set[str]) -> Claim:
    """Judge whether an algorithm is ahead of all rivals that a grid has."""
    rivals = [rival for rival in _RIVALS if rival in names]
    ratios = [ratio for rival in rivals for ratio in _ratios(rows, network, name, rival).values()]
    text = f"{network}: {name} over the paper's others at every size"
    return Claim(text, "above 1", "none", _span(ratios), min(ratios) > 1)


def _large(rows: list[Row], network: str, names: set[str]) -> list[Claim]:
    """Judge the order of the rivals on a grid at the largest size, if that is large."""
    against_ring = _ratios(rows, network, "ring2d", "ring")
    largest = max(against_ring)
    if largest < LARGE_BYTES:
        return []
    is_behind, ratio = network == "mesh:8x8", against_ring[largest]
    paper = "below 1" if is_behind else "above 1"
    slowest = min(names.intersection(_RIVALS), key=lambda name: _values(rows, network, name)[largest])
    size = format_size(largest)
    return [
        Claim(f"{network}: ring2d over ring at {size}", paper, "none", f"{ratio:.2f}", (ratio < 1) == is_behind),
        Claim(f"{network}: the slowest at {size}", "dbtree", "none", slowest, slowest == "dbtree"),
    ]


def _switched(rows: list[Row], network: str, names: set[str]) -> list[Claim]:
    claims = _then_equal(rows, network, "multitree", "ring", ahead=True)
    return claims + (_then_equal(rows, network, "hdrm", "multitree", ahead=False) if "hdrm" in names else [])


def _then_equal(rows: list[Row], network: str, own: str, rival: str, *, ahead: bool) -> list[Claim]:
    """Judge whether an algorithm is ahead of a rival, or behind it, for small sizes, and equal for large ones."""
    ratios = _ratios(rows, network, own, rival)
    claims = []
    for size in (size for size in (min(ratios), max(ratios)) if not SMALL_BYTES < size < LARGE_BYTES):
        ratio, is_small = ratios[size], size <= SMALL_BYTES
        is_right = (ratio > 1) == ahead if is_small else abs(ratio - 1) < 0.05
        expected = ("above 1" if ahead else "below 1", "none") if is_small else ("equal", "5%")
        text = f"{network}: {own} over {rival} at {format_size(size)}"
        claims.append(Claim(text, *expected, f"{ratio:.2f}", is_right))
    return list(dict.fromkeys(claims))


def _head_flits(rows: list[Row], network: str) -> list[Claim]:
    """Judge what message-based flow control is worth: head flits alone, and with the lockstep estimate."""
    alone = _ratios(rows, network, f"{_MESSAGE}, no lockstep", _FREE)
    both = _ratios(rows, network, _MESSAGE, "multitree")
    size = max(alone)
    if size < LARGE_BYTES:
        return []
    text = f"{network}: message-based over packet-based at {format_size(size)}"
    measured = f"{alone[size] - 1:.1%} by head flits alone, {both[size] - 1:.1%} with lockstep"
    return [Claim(text, "6 %", "1 point", measured, abs(both[size] - 1.06) <= 0.01)]


def _strong(rows: list[Row], network: str) -> Claim:
    ratios = list(_ratios(rows, network, "multitree", "multiring (ours)").values())
    text = f"{network}: multitree over multiring, the strong baseline (ours), at every size"
    return Claim(text, "not in the paper", "above 1", _span(ratios), min(ratios) > 1)


def fig10(rows: list[Row]) -> list[Claim]:
    """Judge weak and strong scaling."""
    weak = _times([row for row in rows if row["size_bytes"] == 375 * row["ranks"] << 10])
    strong = _times([row for row in rows if row["size_bytes"] == STRONG_BYTES])
    claims = [_faster(weak, _MESSAGE, rival, factor) for rival, factor in _FACTORS.items()]
    for name in ("ring", "ring2d", _MESSAGE):
        claims += [_linear(name, weak[name]), _steady(name, strong[name])]
    return claims


def _linear(name: str, times: Mapping[int, float]) -> Claim:
    """Judge whether time grows with the number of ranks where each rank brings as much."""
    ranks = sorted(times)
    grown = [times[count] / times[ranks[0]] / (count / ranks[0]) for count in ranks]
    is_linear = all(abs(factor - 1) <= _CLOSE for factor in grown)
    text = f"{name}: time a rank, over that with {ranks[0]}"
    return Claim(text, "linear", f"{_CLOSE:.0%}", _span(grown), is_linear)


def _steady(name: str, times: Mapping[int, float]) -> Claim:
    """Judge whether time stays the same where all ranks together bring as much."""
    spread = max(times.values()) / min(times.values()) - 1
    text = f"{name}: variation of the time of {format_size(STRONG_BYTES)}"
    return Claim(text, "small", f"{_CLOSE:.0%}", f"{spread:.1%}", spread <= _CLOSE)


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
        return Claim(text, "not in the paper", "above 1", _span(ratios), min(ratios) > 1)
    close = all(abs(ratio / factor - 1) <= _CLOSE for ratio in ratios)
    return Claim(text, f"about {factor:g}", f"{_CLOSE:.0%}", _span(ratios), close)


def theirs(row: Row) -> int:
    """Return the authors' cycles for a row."""
    name, *parts = row["algorithm"].split(", ")
    flow_control: FlowControl = "message" if "message-based" in parts else "packet"
    return AUTHORS[row["network"], row["size_bytes"] >> 10, name, flow_control]


def authors(rows: list[Row]) -> list[Claim]:
    """Compare cycle counts, point by point."""
    return [_cycles(row) for row in rows]


def _cycles(row: Row) -> Claim:
    name = row["algorithm"].partition(", ")[0]
    is_loose = row["network"].startswith("mesh") and name == "multitree"
    tolerance = 0.10 if is_loose else _TOLERANCE[name]
    error = row["cycles"] / theirs(row) - 1
    text = f"{row['network']}: {row['algorithm']}, {row['size_bytes'] >> 10} KiB"
    measured = f"{row['cycles']} ({error:+.1%})"
    return Claim(text, str(theirs(row)), f"{tolerance:.1%}", measured, abs(error) <= tolerance)
