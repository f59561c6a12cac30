"""Tests what the in-network paper's text says of its figures 7 to 10, of tables and of latency on our rows."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from reproduction.figures import Claim, Row
from treefold._core import format_size
from treefold.sizing import internal_speedup, pull_table_bytes, push_table_bytes

LARGE, LARGE_PULL, SMALL = 8 << 20, 32 << 20, 4 << 10
"""The text's large sizes (for push and for pull) have at least so many bytes, its small ones at most."""
_CLOCK_Hz = 25e9 / 16
_HOP_s, _MEMORY_CYCLES, _SPREAD_CYCLES = 150e-9, 180, 180


class _Limits(NamedTuple):
    """Limits between which measured values must lie, and how a claim words them."""

    text: str
    least: float
    most: float

    def hold(self, values: Sequence[float]) -> bool:
        """Return whether there are values and all of them lie within the limits."""
        return bool(values) and all(self.least <= value <= self.most for value in values)


def _or_more(least: float) -> _Limits:
    return _Limits(f"{least:g} or more", least, math.inf)


def _or_less(most: float) -> _Limits:
    return _Limits(f"{most:g} or less", 0, most)


def _within(least: float, most: float, unit: str = "") -> _Limits:
    return _Limits(f"{least:g} to {most:g}{unit}", least, most)


def _at_most(most: float, unit: str = "") -> _Limits:
    return _Limits(f"at most {most:g}{unit}", 0, most)


_BELOW_1 = _Limits("below 1", -math.inf, math.nextafter(1, 0))


def _span(values: Sequence[float], unit: str = "", digits: int = 1) -> str:
    if not values:
        return "not measured"
    least, most = min(values), max(values)
    text = f"{least:.{digits}f}" if least == most else f"{least:.{digits}f} to {most:.{digits}f}"
    return f"{text}{unit}"


def _claim(text: str, paper: str, limits: _Limits, values: Sequence[float], unit: str = "") -> Claim:
    digits = 1 if unit else 2
    return Claim(text, paper, limits.text, _span(values, unit, digits), limits.hold(values))


def _rates(rows: Sequence[Row], **wanted: object) -> list[float]:
    """Return GB/s of the rows with these values."""
    return [row["algbw_Bps"] / 1e9 for row in rows if all(row[key] == value for key, value in wanted.items())]


def _ratios(rows: Sequence[Row], over: str, under: str, **wanted: object) -> list[float]:
    """Return one method's bandwidth over another's, row by row."""
    above, below = (_rates(rows, algorithm=method, **wanted) for method in (over, under))
    return [one / other for one, other in zip(above, below, strict=True)]


def _rows_from(rows: Sequence[Row], size: int) -> list[Row]:
    """Return the rows of a size and more; where there are none, the rows of the largest size."""
    largest = max(row["size_bytes"] for row in rows)
    return [row for row in rows if row["size_bytes"] >= min(size, largest)]


def _rows_up_to(rows: Sequence[Row], size: int) -> list[Row]:
    """Return the rows of a size and less; where there are none, the rows of the smallest size."""
    least = min(row["size_bytes"] for row in rows)
    return [row for row in rows if row["size_bytes"] <= max(size, least)]


def fig7a(rows: list[Row]) -> list[Claim]:
    """Judge the bandwidths of push and pull, and what pull's barrier costs."""
    name = rows[0]["network"]
    times: dict[str, dict[tuple[int, int], float]] = {}
    for row in rows:
        times.setdefault(row["algorithm"], {})[row["ranks"], row["size_bytes"]] = row["time_s"]
    push, pull, barred = times["push"], times["pull"], times["pull, with barrier"]
    largest = max(size for _, size in push)
    behind = [pull[key] / push[key] for key in push if key[1] >= min(LARGE, largest)]
    return [
        _rate_claim(rows, "push", LARGE, "about 120 GB/s", _within(114, 120, " GB/s")),
        _rate_claim(rows, "pull", LARGE_PULL, "slightly below", _within(112, 119, " GB/s")),
        _claim(f"{name}: pull's time over push's, large sizes", "above 1", _or_more(1), behind),
        *_barrier_claims(name, {key: barred[key] / pull[key] for key in pull}),
    ]


def _rate_claim(rows: list[Row], method: str, size: int, paper: str, limits: _Limits) -> Claim:
    values = _rates(_rows_from(rows, size), algorithm=method)
    text = f"{rows[0]['network']}: {method}, {format_size(size)} and more, 2 to 16 accelerators"
    return _claim(text, paper, limits, values, " GB/s")


def _barrier_claims(name: str, cost: dict[tuple[int, int], float]) -> list[Claim]:
    """Judge what the barrier costs, by ranks and size, at the smallest and at the largest size."""
    sizes = sorted({size for _, size in cost})
    claims = []
    for size in (sizes[0], sizes[-1]):
        values = [value for key, value in cost.items() if key[1] == size]
        text = f"{name}: what the barrier costs pull at {format_size(size)}, times"
        expected = ("most", _or_more(1.5)) if size == sizes[0] else ("amortised", _or_less(1.02))
        claims.append(_claim(text, *expected, values))
    return claims


def fig7b(rows: list[Row]) -> list[Claim]:
    """Judge push's speed-up over the ring, and the memory accesses that it saves."""
    name, push = rows[0]["network"], [row for row in rows if row["algorithm"] == "push"]
    large = [row["speedup"] for row in _rows_from(push, 16 << 20) if row["ranks"] == 16]
    possible = [row["speedup"] / internal_speedup(row["ranks"]) for row in _rows_from(push, 16 << 20)]
    small = [row["speedup"] for row in _rows_up_to(push, SMALL) if row["ranks"] == 16]
    saved = [row["accesses_saved"] for row in _rows_from(push, LARGE) if row["ranks"] == 16]
    most = [max(row["speedup"] for row in push)]
    at_4kib = f"{name}: push over ring, 4KiB, 16 accelerators (synchronisation calibrated to it)"
    accesses = f"{name}: part of the memory accesses that push saves, 16 accelerators"
    return [
        _claim(f"{name}: push over ring, 16MiB and more, 16 accelerators", "about 2", _within(1.85, 2.1), large),
        _claim(f"{name}: the same with 2 to 16 (p), over 2 (p - 1) / p", "1", _within(0.95, 1.1), possible),
        _claim(at_4kib, "about 18", _within(15, 21), small),
        _claim(f"{name}: the largest speed-up of push", "18", _at_most(21), most),
        _claim(accesses, "at least 0.5", _or_more(0.5), saved),
    ]


def fig8(rows: list[Row]) -> list[Claim]:
    """Judge the fat tree: the paper's bandwidths, our cures of its congestion, and pull beside push."""
    name, large = rows[0]["network"], _rows_from(rows, LARGE)
    claims = []
    for ranks, algorithm, paper, least, most in (
        (64, "push, ways by address", "about 100 GB/s", 95, 112),
        (128, "push, ways by address", "about 70 GB/s", 65, 90),
        (64, "push", "ways by source (ours)", 95, 120),
        (128, "push", "ways by source (ours)", 95, 120),
        (128, "push, homes in turn", "homes in turn (ours)", 95, 120),
    ):
        values = _rates(large, ranks=ranks, algorithm=algorithm)
        text = f"{name}: {algorithm}, {ranks} accelerators, {format_size(large[0]['size_bytes'])}"
        claims.append(_claim(text, paper, _within(least, most, " GB/s"), values, " GB/s"))
    for ranks in (64, 128):
        behind = _ratios(large, "pull", "push", ranks=ranks)
        claims.append(_claim(f"{name}: pull over push, {ranks} accelerators", "below 1", _BELOW_1, behind))
    return claims


def fig9(rows: list[Row]) -> list[Claim]:
    """Judge tables of several sizes without waves, with all requests in flight and with 1,024 of them."""
    name, large = rows[0]["network"], _rows_from(rows, 4 << 20)
    claims = []
    for flight in dict.fromkeys(str(row["algorithm"]).partition(", ")[2] for row in large):
        push, pull = f"push, {flight}", f"pull, {flight}"
        for least in (256, 1024):
            tables = [row for row in large if row["table_bytes"] >= least]
            moved = [over / under for over, under in zip(_moved(tables, push), _moved(tables, pull), strict=True)]
            text = f"{name}: {flight}, push moves times as much as pull, tables of {least} B and more"
            claims.append(_claim(text, "much more", _or_more(1.2), moved))
        ahead = _ratios([row for row in large if row["table_bytes"] >= 1024], pull, push)
        text = f"{name}: {flight}, pull over push, tables of 1024 B and more"
        claims.append(_claim(text, "above 1", _or_more(1), ahead))
    low = [row["algbw_Bps"] / 1e9 for row in large if str(row["algorithm"]).startswith("pull")]
    return [*claims, _claim(f"{name}: pull, any table", "still low", _at_most(80, " GB/s"), low, " GB/s")]


def _moved(rows: Sequence[Row], method: str) -> list[float]:
    """Return by size the bandwidth of a method with its largest table over that with its smallest."""
    own = [row for row in rows if row["algorithm"] == method]
    least, most = (choose(row["table_bytes"] for row in own) for choose in (min, max))
    small, large = (_rates(own, table_bytes=table) for table in (least, most))
    return [over / under for over, under in zip(large, small, strict=True)]


def _parts_of_peak(rows: Sequence[Row], key: str) -> dict[tuple[str, int], list[float]]:
    """Return each method's bandwidth by a parameter, over the method's highest; each as a list of one value."""
    rate = {(row["algorithm"], row[key]): row["algbw_Bps"] for row in rows}
    best = {method: max(value for place, value in rate.items() if place[0] == method) for method, _ in rate}
    return {place: [value / best[place[0]]] for place, value in rate.items()}


def fig10(rows: list[Row]) -> list[Claim]:
    """Judge how many waves push and pull need."""
    name, part = rows[0]["network"], _parts_of_peak(_rows_from(rows, 4 << 20), "waves")
    most, less = ("all", _or_more(0.95)), ("less", _or_less(0.9))
    return [
        _claim(f"{name}: pull with 4 waves, of its peak", *most, part["pull", 4]),
        _claim(f"{name}: pull with 1 wave, of its peak", *less, part["pull", 1]),
        _claim(f"{name}: push with 64 waves, of its peak", *most, part["push", 64]),
        _claim(f"{name}: push with 16 waves, of its peak", *less, part["push", 16]),
    ]


def tables(rows: list[Row]) -> list[Claim]:
    """Judge equations (1) and (2), which say how large tables must be, and what simulations say of it."""
    name = rows[0]["network"]
    speedup_text = f"{name}: internal speed-up, 2 (p - 1) / p"
    return [
        *_equation_claims(name),
        *_table_claims(name, rows),
        _claim(speedup_text, "about 2", _within(1.8, 2), [internal_speedup(16)]),
    ]


def _equation_claims(name: str) -> list[Claim]:
    responses = (_MEMORY_CYCLES + _SPREAD_CYCLES / 2, _MEMORY_CYCLES + _SPREAD_CYCLES)
    first = [_equation_1(cycles) for cycles in responses]
    second = [push_table_bytes(150e9, hops=2, hop_latency_s=_HOP_s) / 192]
    text = f"{name}: equation (1), mean and largest memory latency"
    return [
        _claim(text, "about 1400 B", _within(1250, 1550, " B"), first, " B"),
        _claim(f"{name}: equation (2), as printed", "about 270 B", _within(230, 240, " B"), second, " B"),
    ]


def _equation_1(memory_cycles: float) -> float:
    """Return the bytes of a port's table in one of six planes, where memory answers after so many cycles."""
    response_s = memory_cycles / _CLOCK_Hz
    return pull_table_bytes(150e9, 16, hops=2, hop_latency_s=_HOP_s, response_latency_s=response_s) / 6


def _table_claims(name: str, rows: list[Row]) -> list[Claim]:
    rate = {row["table_bytes"]: row["algbw_Bps"] for row in rows if row["waves"] == 4}
    by_waves = {row["waves"]: row["algbw_Bps"] for row in rows if row["table_bytes"] == 1024}
    best, less = max(rate.values()), ("less", _or_less(0.65))
    return [
        _claim(f"{name}: pull with 1408 B, of its peak", "all", _or_more(0.95), [rate[1408] / best]),
        _claim(f"{name}: pull with 512 B, of its peak", *less, [rate[512] / best]),
        _claim(f"{name}: pull with 1 kB and 1 wave, of that with 4", *less, [by_waves[1] / by_waves[4]]),
    ]


def speedup(rows: list[Row]) -> list[Claim]:
    """Judge how many flits must cross a switch for each that leaves it."""
    name, part = rows[0]["network"], _parts_of_peak(rows, "speedup_inside")
    peak = ("all", _or_more(0.97))
    return [
        _claim(f"{name}: push with 1, of its peak", "about 0.53", _or_less(0.65), part["push", 1]),
        _claim(f"{name}: push with 2, of its peak", *peak, part["push", 2]),
        _claim(f"{name}: pull with 2, of its peak", *peak, part["pull", 2]),
        _claim(f"{name}: pull with 3, of its peak", *peak, part["pull", 3]),
    ]


def latency(rows: list[Row]) -> list[Claim]:
    """Judge which part of packets' latency waves save."""
    name, large = rows[0]["network"], _rows_from(rows, LARGE)
    claims = []
    for method, paper in (("push", "about 0.9"), ("pull", "not said")):
        latencies = {bool(row["waves"]): row["packet_latency_s"] for row in large if row["algorithm"] == method}
        saved = [1 - latencies[True] / latencies[False]]
        text = f"{name}: {method}, part of the latency that waves save at {format_size(large[0]['size_bytes'])}"
        claims.append(_claim(text, paper, _or_more(0.8), saved))
    return claims
