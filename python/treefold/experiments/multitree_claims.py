"""What the MultiTree paper's text says of its figures 2, 5, 9 and 10, tested on our rows; the authors' own cycles."""

from collections.abc import Sequence
from typing import Any

import treefold
from treefold._core import format_size
from treefold.experiments.figures import Claim, Row, networks_of

AUTHORS: dict[tuple[str, int, str, str], int] = {
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
    ("dgx2", 32, "ring", "packet"): 18347,
    ("dgx2", 32, "dbtree", "packet"): 11679,
    ("dgx2", 32, "multitree", "packet"): 5386,
    ("dgx2", 32, "multitree", "message"): 5095,
}
"""Network, KiB, algorithm, flow control: cycles in the authors' simulator (shared/reference/multitree-authors.md)."""

_TOLERANCE = {"ring": 0.005, "ring2d": 0.10, "dbtree": 0.05, "multitree": 0.05}
_RIVALS = ("ring", "dbtree", "ring2d", "hdrm")
_MESSAGE = "multitree, message-based"
_FREE = "multitree, no lockstep"
STRONG_BYTES = 96_000 << 10
"""Fig. 10's largest size, for strong scaling."""
SMALL_BYTES, LARGE_BYTES = 256 << 10, 16 << 20
"""What the text calls small and large sizes: at most, at least."""
_CLOSE = 0.15
"""What "about" and "linear" may mean."""
_FACTORS = {"ring": 3.0, "ring2d": 1.4, "multiring (ours)": None}


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
    """Head flits."""
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


# Op, FlowID, Parent, Children, Step.
_FIG5 = {
    0: "Reduce 3 1 - 1, Reduce 1 1 - 2, Reduce 2 2 1 2, Gather 0 - 1+2 3, Gather 2 2 1 4",
    1: "Reduce 2 0 - 1, Reduce 0 0 - 2, Reduce 3 3 0 2, Gather 1 - 0+3 3, Gather 3 3 0 4",
    2: "Reduce 1 3 - 1, Reduce 3 3 - 2, Reduce 0 0 3 2, Gather 2 - 0+3 3, Gather 0 0 3 4",
    3: "Reduce 0 2 - 1, Reduce 2 2 - 2, Reduce 1 1 2 2, Gather 3 - 1+2 3, Gather 1 1 2 4",
}


def _written(table: Sequence[dict[str, Any]]) -> str:
    """Return a table as `_FIG5` writes it."""
    entries = []
    for entry in table:
        parent = "-" if entry["parent"] is None else entry["parent"]
        children = "+".join(map(str, entry["children"])) or "-"
        entries.append(f"{entry['op']} {entry['flow']} {parent} {children} {entry['step']}")
    return ", ".join(entries)


def fig5(rows: list[Row]) -> list[Claim]:
    """Return how the tables of the 2x2 mesh compare, and what tables cost."""
    found = []
    for row in rows:
        network = row["network"]
        if network == "mesh:2x2":
            tables = treefold.tables(treefold.plan(treefold.topology(network), "multitree"))["tables"]
            same = sum(_written(table) == _FIG5[rank] for rank, table in enumerate(tables))
            found.append(Claim("mesh:2x2: tables that are the paper's, corrected", "4", "none", str(same), same == 4))
        elif row["ranks"] == 64:
            bits, entries = row["entry_bits"], row["entries"]
            measured = f"{entries} x {bits}, {row['bytes']} bytes"
            close = entries <= 128 and bits == 200
            found.append(
                Claim(
                    f"{network}: entries x bits of the longest table",
                    "128 x 200, 3200 bytes",
                    "at most",
                    measured,
                    close,
                )
            )
    return found


def fig9(rows: list[Row]) -> list[Claim]:
    """Who is ahead where."""
    found = []
    for network in networks_of(rows):
        names = {row["algorithm"] for row in rows if row["network"] == network}
        grid = network.startswith(("torus", "mesh"))
        found += _ahead(rows, network, names) if grid else _switched(rows, network, names)
        found += _head_flits(rows, network)
        found.append(_strong(rows, network))
    return found


def _ahead(rows: list[Row], network: str, names: set[str]) -> list[Claim]:
    found = []
    for name in ("multitree", _MESSAGE):
        least = [_ratios(rows, network, name, rival) for rival in _RIVALS if rival in names]
        ratios = [ratio for each in least for ratio in each.values()]
        text = f"{network}: {name} over the paper's others at every size"
        found.append(Claim(text, "above 1", "none", _span(ratios), min(ratios) > 1))
    against_ring = _ratios(rows, network, "ring2d", "ring")
    largest = max(against_ring)
    if largest < LARGE_BYTES:
        return found
    behind = network == "mesh:8x8"
    text = f"{network}: ring2d over ring at {format_size(largest)}"
    ratio = against_ring[largest]
    found.append(Claim(text, "below 1" if behind else "above 1", "none", f"{ratio:.2f}", (ratio < 1) == behind))
    slowest = min((name for name in names if name in _RIVALS), key=lambda name: _values(rows, network, name)[largest])
    found.append(
        Claim(f"{network}: the slowest at {format_size(largest)}", "dbtree", "none", slowest, slowest == "dbtree")
    )
    return found


def _switched(rows: list[Row], network: str, names: set[str]) -> list[Claim]:
    found = _then_equal(rows, network, "multitree", "ring", ahead=True)
    return found + (_then_equal(rows, network, "hdrm", "multitree", ahead=False) if "hdrm" in names else [])


def _then_equal(rows: list[Row], network: str, own: str, rival: str, *, ahead: bool) -> list[Claim]:
    """Ahead of a rival, or behind it, for small sizes, and equal for large ones."""
    ratios = _ratios(rows, network, own, rival)
    found = []
    for size in (size for size in (min(ratios), max(ratios)) if not SMALL_BYTES < size < LARGE_BYTES):
        ratio, small = ratios[size], size <= SMALL_BYTES
        right = (ratio > 1) == ahead if small else abs(ratio - 1) < 0.05
        said = ("above 1" if ahead else "below 1", "none") if small else ("equal", "5%")
        found.append(Claim(f"{network}: {own} over {rival} at {format_size(size)}", *said, f"{ratio:.2f}", right))
    return list(dict.fromkeys(found))


def _head_flits(rows: list[Row], network: str) -> list[Claim]:
    """Return what message-based flow control is worth: head flits alone, and with the lockstep estimate."""
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
    """Weak and strong scaling."""
    weak = _times([row for row in rows if row["size_bytes"] == 375 * row["ranks"] << 10])
    strong = _times([row for row in rows if row["size_bytes"] == STRONG_BYTES])
    found = [_faster(weak, _MESSAGE, rival, factor) for rival, factor in _FACTORS.items()]
    for name in ("ring", "ring2d", _MESSAGE):
        ranks = sorted(weak[name])
        grown = [weak[name][each] / weak[name][ranks[0]] / (each / ranks[0]) for each in ranks]
        linear = all(abs(each - 1) <= _CLOSE for each in grown)
        text = f"{name}: time a rank, over that with {ranks[0]}"
        found.append(Claim(text, "linear", f"{_CLOSE:.0%}", _span(grown), linear))
        fixed = strong[name].values()
        spread = max(fixed) / min(fixed) - 1
        text = f"{name}: variation of the time of {format_size(STRONG_BYTES)}"
        found.append(Claim(text, "small", f"{_CLOSE:.0%}", f"{spread:.1%}", spread <= _CLOSE))
    return found


def _times(rows: Sequence[Row]) -> dict[str, dict[int, float]]:
    """Return times by algorithm and number of ranks."""
    times: dict[str, dict[int, float]] = {}
    for row in rows:
        times.setdefault(row["algorithm"], {})[row["ranks"]] = row["time_s"]
    return times


def _faster(times: dict[str, dict[int, float]], own: str, rival: str, factor: float | None) -> Claim:
    """Compare with what the paper says, or, of the strong baseline, with 1."""
    ratios = [times[rival][ranks] / times[own][ranks] for ranks in times[rival]]
    text = f"{own} over {rival}, {min(times[rival])} to {max(times[rival])} ranks"
    if factor is None:
        return Claim(text, "not in the paper", "above 1", _span(ratios), min(ratios) > 1)
    close = all(abs(ratio / factor - 1) <= _CLOSE for ratio in ratios)
    return Claim(text, f"about {factor:g}", f"{_CLOSE:.0%}", _span(ratios), close)


def theirs(row: Row) -> int:
    """Return the authors' cycles for a row."""
    name, *parts = row["algorithm"].split(", ")
    flow_control = "message" if "message-based" in parts else "packet"
    return AUTHORS[row["network"], row["size_bytes"] >> 10, name, flow_control]


def authors(rows: list[Row]) -> list[Claim]:
    """Cycle counts, point by point."""
    found = []
    for row in rows:
        name = row["algorithm"].partition(", ")[0]
        grid = row["network"].startswith("mesh") and name == "multitree"
        tolerance = 0.10 if grid else _TOLERANCE[name]
        error = row["cycles"] / theirs(row) - 1
        text = f"{row['network']}: {row['algorithm']}, {row['size_bytes'] >> 10} KiB"
        found.append(
            Claim(
                text, str(theirs(row)), f"{tolerance:.1%}", f"{row['cycles']} ({error:+.1%})", abs(error) <= tolerance
            )
        )
    return found
