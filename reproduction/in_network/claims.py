"""Tests what the in-network paper's text says of its figures 7 to 10, of tables and of latency on our rows."""

import math
from collections.abc import Sequence
from typing import NamedTuple

from reproduction.figures import Claim, Row, beside, near, ours
from reproduction.tolerances import ABOUT, ALMOST, NONE
from treefold._core import format_size
from treefold.sizing import internal_speedup

LARGE, LARGE_PULL = 8 << 20, 32 << 20
"""The text's large sizes (for push and for pull) have at least so many bytes."""
_POSSIBLE = 120
"""The most that a DGX-2 can carry, in GB/s."""
_PEAK = 0.95
"""The part of the peak that counts as the peak."""


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
        _optimal(rows, "push", LARGE, "optimal, 120 GB/s", 0.05),
        _optimal(rows, "pull", LARGE_PULL, "almost optimal, 120 GB/s", ALMOST),
        _claim(f"{name}: pull's time over push's, large sizes", "above 1", _or_more(1), behind),
        _barrier(name, {key: barred[key] / pull[key] for key in pull}),
    ]


def _optimal(rows: list[Row], method: str, size: int, paper: str, tolerance: float) -> Claim:
    """Judge whether a method comes to what is possible, for every number of accelerators."""
    values = _rates(_rows_from(rows, size), algorithm=method)
    text = f"{rows[0]['network']}: {method}, {format_size(size)} and more, 2 to 16 accelerators"
    is_optimal = min(values) >= _POSSIBLE * (1 - tolerance)
    return Claim(text, paper, f"{tolerance:.0%}", _span(values, " GB/s"), is_optimal)


def _barrier(name: str, cost: dict[tuple[int, int], float]) -> Claim:
    """Judge whether the barrier costs the smallest size most, and is amortised at the largest."""
    sizes = sorted({size for _, size in cost})
    small, large = ([value for key, value in cost.items() if key[1] == size] for size in (sizes[0], sizes[-1]))
    text = f"{name}: pull's time with the barrier over that without, {format_size(sizes[0])}; {format_size(sizes[-1])}"
    is_right = min(small) > max(large) and max(large) <= 1 + NONE
    return Claim(text, "much more; amortised", f"{NONE:.0%}", f"{_span(small)}; {_span(large, digits=2)}", is_right)


def fig7b(rows: list[Row]) -> list[Claim]:
    """Judge push's speed-up over the ring, and the memory accesses that it saves."""
    name, push = rows[0]["network"], [row for row in rows if row["algorithm"] == "push"]
    large = [row["speedup"] for row in _rows_from(push, 16 << 20) if row["ranks"] == 16]
    possible = [row["speedup"] / internal_speedup(row["ranks"]) for row in _rows_from(push, 16 << 20)]
    saved = [row["accesses_saved"] for row in _rows_from(push, LARGE) if row["ranks"] == 16]
    most = [max(row["speedup"] for row in push)]
    accesses = f"{name}: part of the memory accesses that push saves, 16 accelerators"
    return [
        near(f"{name}: push over ring, 16MiB and more, 16 accelerators", 2, large, ALMOST),
        _claim(accesses, "at least 0.5", _or_more(0.5), saved),
        ours(near(f"{name}: the largest speed-up of push (synchronisation is calibrated to it)", 18, most, ABOUT)),
        ours(near(f"{name}: push over ring, 2 to 16 accelerators (p), over 2 (p - 1) / p", 1, possible, ALMOST)),
    ]


def fig8(rows: list[Row]) -> list[Claim]:
    """Judge the fat tree: the paper's bandwidths, other mappings of homes and routes, and pull beside push."""
    name, large = rows[0]["network"], _rows_from(rows, LARGE)
    size = format_size(large[0]["size_bytes"])
    claims = []
    for ranks, expected in ((64, 100), (128, 70)):
        text = f"{name}: push, {ranks} accelerators, {size}: peak in GB/s"
        claims.append(near(text, expected, [max(_rates(large, ranks=ranks, algorithm="push"))], ABOUT, "{:.1f}"))
        behind = _ratios(large, "pull", "push", ranks=ranks)
        claims.append(_claim(f"{name}: pull over push, {ranks} accelerators, {size}", "below 1", _BELOW_1, behind))
    for ranks in (64, 128):
        for algorithm in ("push, homes in turn", "push, ways by address"):
            values = _rates(large, ranks=ranks, algorithm=algorithm)
            text = f"{name}: {algorithm}, {ranks} accelerators, {size}"
            claims.append(ours(_claim(text, "another mapping", _or_more(0), values, " GB/s")))
    return claims


def fig9(rows: list[Row]) -> list[Claim]:
    """Judge tables of several sizes without waves, with 1,024 requests in flight; what all in flight give is told."""
    large = _rows_from(rows, 4 << 20)
    flights = {flight: _without_waves(large, flight) for flight in dict.fromkeys(_flight(row) for row in large)}
    judged, *others = (flights[name] for name in sorted(flights, key=lambda name: int(name.split()[0])))
    return [beside(*pair, "all in flight") for pair in zip(judged, others[0], strict=True)] if others else judged


def _flight(row: Row) -> str:
    """Return how many requests are in flight, as the algorithm's name says."""
    return str(row["algorithm"]).rpartition(", ")[2]


def _without_waves(rows: list[Row], flight: str) -> list[Claim]:
    name = rows[0]["network"]
    push, pull = f"push, {flight}", f"pull, {flight}"
    moves = {method: _moves(rows, method) for method in (push, pull)}
    sizes = sorted({row["table_bytes"] for row in rows})
    ahead = sum(_rates(rows, algorithm=pull)) / sum(_rates(rows, algorithm=push))
    is_more = all(more > less for more, less in zip(moves[push], moves[pull], strict=True))
    return [
        Claim(
            f"{name}: what tables of {sizes[-1]} B gain over {sizes[0]} B, push and pull",
            "push much more",
            "none",
            f"{_span(moves[push])} and {_span(moves[pull])}",
            is_more,
        ),
        _claim(f"{name}: pull over push, mean over tables and sizes", "above 1", _or_more(1), [ahead]),
        _claim(f"{name}: pull", "low", _at_most(2 / 3 * _POSSIBLE, " GB/s"), _rates(rows, algorithm=pull), " GB/s"),
    ]


def _moves(rows: Sequence[Row], method: str) -> list[float]:
    """Return how many times as fast the largest tables are as the smallest, size by size."""
    own = {(row["size_bytes"], row["table_bytes"]): row["algbw_Bps"] for row in rows if row["algorithm"] == method}
    tables = sorted({table for _, table in own})
    return [own[size, tables[-1]] / own[size, tables[0]] for size in sorted({size for size, _ in own})]


def _parts_of_peak(rows: Sequence[Row], key: str) -> dict[tuple[str, int], float]:
    """Return each method's bandwidth by a parameter, over the method's highest."""
    rate = {(row["algorithm"], row[key]): row["algbw_Bps"] for row in rows}
    best = {method: max(value for place, value in rate.items() if place[0] == method) for method, _ in rate}
    return {place: value / best[place[0]] for place, value in rate.items()}


def _fewest(part: dict[tuple[str, int], float], method: str) -> int:
    """Return the least value of the parameter with which a method is at its peak."""
    return min(value for (name, value), each in part.items() if name == method and each >= _PEAK)


def fig10(rows: list[Row]) -> list[Claim]:
    """Judge how many waves push and pull need."""
    name, large = rows[0]["network"], _rows_from(rows, 4 << 20)
    size = large[0]["size_bytes"]
    own = [row for row in large if row["size_bytes"] == size]
    part = _parts_of_peak([row for row in own if row["table_bytes"] in (1024, _TABLE[row["algorithm"]])], "waves")
    small = (
        _rates(own, algorithm="pull", table_bytes=256)[0] / _rates(own, algorithm="pull", table_bytes=1024, waves=4)[0]
    )
    claims = []
    for method, expected in (("pull", 4), ("push", 64)):
        fewest = _fewest(part, method)
        text = f"{name}: the fewest waves with which {method} is at its peak ({_PEAK:.0%}), {format_size(size)}"
        claims.append(Claim(text, str(expected), "none", str(fewest), fewest == expected))
    text = f"{name}: pull with 4 waves, 256 B a port over 1 kB"
    return [*claims, _claim(text, "significantly lower", _or_less(0.8), [small])]


_TABLE = {"push": 256, "pull": 1024}
"""The bytes of a port's table in figure 10."""


def tables(rows: list[Row]) -> list[Claim]:
    """Judge how large tables must be for the peak."""
    name = rows[0]["network"]
    claims = []
    for method, waves, expected in (("pull", 4, 1400), ("push", 16, 270)):
        own = [row for row in rows if row["algorithm"] == method and row["waves"] == waves]
        fewest = _fewest(_parts_of_peak(own, "table_bytes"), method)
        text = f"{name}: bytes of a port's table with which {method} is at its peak ({_PEAK:.0%}), of those tried"
        claims.append(near(text, expected, [fewest], ABOUT, "{:.0f}"))
    return claims


def speedup(rows: list[Row]) -> list[Claim]:
    """Judge how many flits must cross a switch for each that leaves it."""
    name, part = rows[0]["network"], _parts_of_peak(rows, "speedup_inside")
    claims = []
    for method in ("push", "pull"):
        text = f"{name}: {method} with an internal speed-up of 2, of its peak"
        claims.append(_claim(text, "suffices", _or_more(_PEAK), [part[method, 2]]))
    text = f"{name}: push with 1, of its peak; p / (2 (p - 1)) is 0.53"
    return [*claims, ours(_claim(text, "0.53", _within(0.45, 0.61), [part["push", 1]]))]


def latency(rows: list[Row]) -> list[Claim]:
    """Judge which part of packets' latency waves save, by either method, as the paper names none."""
    name, large = rows[0]["network"], _rows_from(rows, LARGE)
    saved = []
    for method in ("push", "pull"):
        latencies = {bool(row["waves"]): row["packet_latency_s"] for row in large if row["algorithm"] == method}
        saved.append(1 - latencies[True] / latencies[False])
    text = f"{name}: part of the latency that waves save at {format_size(large[0]['size_bytes'])}, push and pull"
    return [near(text, 0.9, saved, ALMOST)]
