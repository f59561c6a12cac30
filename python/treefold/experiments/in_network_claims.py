"""What the in-network paper's text says of its figures 7 to 10, of tables and of latency, tested on our rows."""

import math
from collections.abc import Callable, Sequence

from treefold._core import format_size
from treefold.experiments.figures import Claim, Row
from treefold.sizing import internal_speedup, pull_table_bytes, push_table_bytes

CEILING_Bps = 120e9
"""150 GB/s x 128 / (144 + 16): a packet of 144 bytes and an acknowledgement of 16 for each 128 bytes."""
LARGE, LARGE_PULL, SMALL = 8 << 20, 32 << 20, 4 << 10
"""What the text calls large and small sizes: at least, at most."""
_CLOCK_Hz = 25e9 / 16
_HOP_s, _MEMORY_CYCLES, _SPREAD_CYCLES = 150e-9, 180, 180


def _span(values: Sequence[float], unit: str = "", digits: int = 1) -> str:
    if not values:
        return "not measured"
    least, most = min(values), max(values)
    text = f"{least:.{digits}f}" if least == most else f"{least:.{digits}f} to {most:.{digits}f}"
    return f"{text}{unit}"


def _between(least: float, most: float) -> Callable[[float], bool]:
    return lambda value: least <= value <= most


def _claim(
    text: str, paper: str, tolerance: str, values: Sequence[float], holds: Callable[[float], bool], unit: str = ""
) -> Claim:
    digits = 2 if unit == "" else 1
    return Claim(text, paper, tolerance, _span(values, unit, digits), bool(values) and all(map(holds, values)))


def _rates(rows: Sequence[Row], **wanted: object) -> list[float]:
    """Return GB/s of the rows with these values."""
    return [row["algbw_Bps"] / 1e9 for row in rows if all(row[key] == value for key, value in wanted.items())]


def _at_least(rows: Sequence[Row], size: int) -> list[Row]:
    """Return the rows of large sizes; where none is, of the largest."""
    largest = max(row["size_bytes"] for row in rows)
    return [row for row in rows if row["size_bytes"] >= min(size, largest)]


def _at_most(rows: Sequence[Row], size: int) -> list[Row]:
    least = min(row["size_bytes"] for row in rows)
    return [row for row in rows if row["size_bytes"] <= max(size, least)]


def fig7a(rows: list[Row]) -> list[Claim]:
    """Bandwidth."""
    name, found = rows[0]["network"], []
    for method, large, least, most in (("push", LARGE, 114, 120), ("pull", LARGE_PULL, 112, 119)):
        values = _rates(_at_least(rows, large), algorithm=method)
        text = f"{name}: {method}, {format_size(large)} and more, 2 to 16 accelerators"
        paper = "about 120 GB/s" if method == "push" else "slightly below"
        held = f"{least} to {most} GB/s"
        found.append(_claim(text, paper, held, values, _between(least, most), " GB/s"))
    times: dict[str, dict[tuple[int, int], float]] = {}
    for row in rows:
        times.setdefault(row["algorithm"], {})[row["ranks"], row["size_bytes"]] = row["time_s"]
    push, pull, barred = times["push"], times["pull"], times["pull, with barrier"]
    largest = max(size for _, size in push)
    behind = [pull[key] / push[key] for key in push if key[1] >= min(LARGE, largest)]
    found.append(
        _claim(f"{name}: pull's time over push's, large sizes", "above 1", "1 or more", behind, _between(1, math.inf))
    )
    cost = {key: barred[key] / pull[key] for key in pull}
    sizes = sorted({size for _, size in cost})
    for size in (sizes[0], sizes[-1]):
        values = [value for key, value in cost.items() if key[1] == size]
        text = f"{name}: what the barrier costs pull at {format_size(size)}, times"
        small = size == sizes[0]
        paper, tolerance = ("most", "1.5 or more") if small else ("amortised", "1.02 or less")
        found.append(_claim(text, paper, tolerance, values, _between(1.5, math.inf) if small else _between(0, 1.02)))
    return found


def fig7b(rows: list[Row]) -> list[Claim]:
    """Speed-up over ring; memory accesses."""
    name, push = rows[0]["network"], [row for row in rows if row["algorithm"] == "push"]
    large = [row["speedup"] for row in _at_least(push, 16 << 20) if row["ranks"] == 16]
    possible = [row["speedup"] / internal_speedup(row["ranks"]) for row in _at_least(push, 16 << 20)]
    small = [row["speedup"] for row in _at_most(push, SMALL) if row["ranks"] == 16]
    saved = [row["accesses_saved"] for row in _at_least(push, LARGE) if row["ranks"] == 16]
    most = max(row["speedup"] for row in push)
    return [
        _claim(
            f"{name}: push over ring, 16MiB and more, 16 accelerators",
            "about 2",
            "1.85 to 2.1",
            large,
            _between(1.85, 2.1),
        ),
        _claim(
            f"{name}: the same with 2 to 16 (p), over 2 (p - 1) / p",
            "1",
            "0.95 to 1.1",
            possible,
            _between(0.95, 1.1),
        ),
        _claim(
            f"{name}: push over ring, 4KiB, 16 accelerators (synchronisation calibrated to it)",
            "about 18",
            "15 to 21",
            small,
            _between(15, 21),
        ),
        _claim(f"{name}: the largest speed-up of push", "18", "at most 21", [most], _between(0, 21)),
        _claim(
            f"{name}: part of the memory accesses that push saves, 16 accelerators",
            "at least 0.5",
            "0.5 or more",
            saved,
            _between(0.5, math.inf),
        ),
    ]


def fig8(rows: list[Row]) -> list[Claim]:
    """Return how the fat tree compares."""
    name, large = rows[0]["network"], _at_least(rows, LARGE)
    by_address, by_source = "push, homes shuffled, ways by address", "push, homes shuffled"
    found = []
    for ranks, algorithm, paper, least, most in (
        (64, by_address, "about 100 GB/s", 95, 112),
        (128, by_address, "about 70 GB/s", 65, 90),
        (64, by_source, "the cure (ours)", 95, 120),
        (128, by_source, "the cure (ours)", 95, 120),
        (128, "push", "even homes (ours)", 95, 120),
    ):
        values = _rates(large, ranks=ranks, algorithm=algorithm)
        text = f"{name}: {algorithm}, {ranks} accelerators, {format_size(large[0]['size_bytes'])}"
        tolerance = f"{least} to {most} GB/s"
        found.append(_claim(text, paper, tolerance, values, _between(least, most), " GB/s"))
    for ranks in (64, 128):
        pull, push = (_rates(large, ranks=ranks, algorithm=algorithm) for algorithm in ("pull", "push"))
        behind = [below / above for below, above in zip(pull, push, strict=True)]
        text = f"{name}: pull over push, {ranks} accelerators"
        found.append(_claim(text, "below 1", "below 1", behind, lambda v: v < 1))
    return found


def fig9(rows: list[Row]) -> list[Claim]:
    """Tables without waves."""
    name, large = rows[0]["network"], _at_least(rows, 4 << 20)
    found = []
    for table in sorted({row["table_bytes"] for row in large}):
        push, pull = (_rates(large, table_bytes=table, algorithm=algorithm) for algorithm in ("push", "pull"))
        behind = [below / above for below, above in zip(push, pull, strict=True)]
        text = f"{name}: push over pull without waves, tables of {table} B"
        found.append(_claim(text, "below 1", "below 1", behind, lambda v: v < 1))
    push = _rates(large, algorithm="push")
    text = f"{name}: push without waves, whatever the table"
    found.append(_claim(text, "low", "at most 80 GB/s", push, _between(0, 80), " GB/s"))
    return found


def fig10(rows: list[Row]) -> list[Claim]:
    """Waves."""
    name, large = rows[0]["network"], _at_least(rows, 4 << 20)
    rate = {(row["algorithm"], row["waves"]): row["algbw_Bps"] for row in large}
    best = {method: max(value for key, value in rate.items() if key[0] == method) for method in ("push", "pull")}

    def part(method: str, waves: int) -> list[float]:
        return [rate[method, waves] / best[method]]

    return [
        _claim(
            f"{name}: pull with 4 waves, of its peak", "all", "0.95 or more", part("pull", 4), _between(0.95, math.inf)
        ),
        _claim(f"{name}: pull with 1 wave, of its peak", "less", "0.9 or less", part("pull", 1), _between(0, 0.9)),
        _claim(
            f"{name}: push with 64 waves, of its peak",
            "all",
            "0.95 or more",
            part("push", 64),
            _between(0.95, math.inf),
        ),
        _claim(f"{name}: push with 16 waves, of its peak", "less", "0.9 or less", part("push", 16), _between(0, 0.9)),
    ]


def tables(rows: list[Row]) -> list[Claim]:
    """Return how equations (1) and (2) compare with simulations."""
    name = rows[0]["network"]
    rate = {row["table_bytes"]: row["algbw_Bps"] for row in rows if row["waves"] == 4}
    best = max(rate.values())

    def equation1(memory_cycles: float) -> float:
        total = pull_table_bytes(150e9, 16, hops=2, hop_latency_s=_HOP_s, response_latency_s=memory_cycles / _CLOCK_Hz)
        return total / 6

    mean, most = equation1(_MEMORY_CYCLES + _SPREAD_CYCLES / 2), equation1(_MEMORY_CYCLES + _SPREAD_CYCLES)
    second = push_table_bytes(150e9, hops=2, hop_latency_s=_HOP_s) / 192
    one = {row["waves"]: row["algbw_Bps"] for row in rows if row["table_bytes"] == 1024}
    return [
        _claim(
            f"{name}: equation (1), mean and largest memory latency",
            "about 1400 B",
            "1250 to 1550 B",
            [mean, most],
            _between(1250, 1550),
            " B",
        ),
        _claim(
            f"{name}: equation (2), as printed",
            "about 270 B",
            "230 to 240 B",
            [second],
            _between(230, 240),
            " B",
        ),
        _claim(
            f"{name}: pull with 1408 B, of its peak",
            "all",
            "0.95 or more",
            [rate[1408] / best],
            _between(0.95, math.inf),
        ),
        _claim(f"{name}: pull with 512 B, of its peak", "less", "0.65 or less", [rate[512] / best], _between(0, 0.65)),
        _claim(
            f"{name}: pull with 1 kB and 1 wave, of that with 4",
            "less",
            "0.65 or less",
            [one[1] / one[4]],
            _between(0, 0.65),
        ),
        _claim(
            f"{name}: internal speed-up, 2 (p - 1) / p",
            "about 2",
            "1.8 to 2",
            [internal_speedup(16)],
            _between(1.8, math.inf),
        ),
    ]


def speedup(rows: list[Row]) -> list[Claim]:
    """Return what switches must move inside."""
    name = rows[0]["network"]
    rate = {(row["algorithm"], row["speedup_inside"]): row["algbw_Bps"] for row in rows}

    def part(method: str, inside: int) -> list[float]:
        return [rate[method, inside] / max(value for key, value in rate.items() if key[0] == method)]

    return [
        _claim(f"{name}: push with 1, of its peak", "about 0.53", "0.65 or less", part("push", 1), _between(0, 0.65)),
        _claim(f"{name}: push with 2, of its peak", "all", "0.97 or more", part("push", 2), _between(0.97, 1)),
        _claim(f"{name}: pull with 2, of its peak", "all", "0.97 or more", part("pull", 2), _between(0.97, 1)),
        _claim(f"{name}: pull with 3, of its peak", "all", "0.97 or more", part("pull", 3), _between(0.97, 1)),
    ]


def latency(rows: list[Row]) -> list[Claim]:
    """Latency saved by waves."""
    name, large = rows[0]["network"], _at_least(rows, LARGE)
    found = []
    for method in ("push", "pull"):
        own = {bool(row["waves"]): row["packet_latency_s"] for row in large if row["algorithm"] == method}
        saved = [1 - own[True] / own[False]]
        text = f"{name}: {method}, part of the latency that waves save at {format_size(large[0]['size_bytes'])}"
        paper = "about 0.9" if method == "push" else "not said"
        found.append(_claim(text, paper, "0.8 or more", saved, _between(0.8, math.inf)))
    return found
