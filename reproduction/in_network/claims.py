"""Tests what the in-network paper's text says of its figures 7 to 10, of tables and of latency on our rows."""

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from reproduction.figures import Claim, Row, beside, near, ours
from reproduction.in_network.machines import ONE_SWITCH
from reproduction.tolerances import ABOUT, ALMOST, NONE, POINTS
from treefold._core import format_size
from treefold.sizing import internal_speedup

LARGE = 8 << 20
"""The text's large sizes have at least so many bytes."""
_POSSIBLE = 120
"""The most that a DGX-2 can carry, in GB/s."""
_PEAK = 0.95
"""The part of the peak that counts as the peak."""
_MUCH = 1.5
"""What costs much makes it at least so many times as slow."""
_ORDERS = 100
"""Orders of magnitude are at least two."""


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


def _at_most(most: float, unit: str = "") -> _Limits:
    return _Limits(f"at most {most:g}{unit}", 0, most)


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


def _ratios(over: Sequence[Row], under: Sequence[Row]) -> list[float]:
    """Return the bandwidths of some rows over those of others with as many accelerators and bytes."""
    below = {(row["ranks"], row["size_bytes"]): row["algbw_Bps"] for row in under}
    return [row["algbw_Bps"] / below[row["ranks"], row["size_bytes"]] for row in over]


def _of(rows: Sequence[Row], algorithm: str) -> list[Row]:
    return [row for row in rows if row["algorithm"] == algorithm]


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
        _optimal(rows, "pull", LARGE, "almost optimal, 120 GB/s", ALMOST),
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
    """Judge whether the barrier costs the smallest size much, and is amortised at the largest."""
    sizes = sorted({size for _, size in cost})
    small, large = ([value for key, value in cost.items() if key[1] == size] for size in (sizes[0], sizes[-1]))
    text = f"{name}: pull's time with the barrier over that without, {format_size(sizes[0])}; {format_size(sizes[-1])}"
    limits = f"{_MUCH:g} or more; {NONE:.0%}"
    is_right = min(small) >= _MUCH and max(large) <= 1 + NONE
    return Claim(text, "much more; amortised", limits, f"{_span(small)}; {_span(large, digits=2)}", is_right)


def fig7b(rows: list[Row]) -> list[Claim]:
    """Judge the speed-ups of push and pull over the ring, and the memory accesses that they save."""
    name, push = rows[0]["network"], _of(rows, "push")
    most = [max(row["speedup"] for row in push)]
    possible = [row["speedup"] / internal_speedup(row["ranks"]) for row in _rows_from(push, LARGE)]
    counts = f"{min(row['ranks'] for row in rows)} to {max(row['ranks'] for row in rows)} accelerators"
    saved = [row["accesses_saved"] for row in rows if row["algorithm"] in ("push", "pull")]
    accesses = f"{name}: part of the memory accesses that push and pull save, {counts}"
    return [
        *(_twice(rows, method) for method in ("push", "pull")),
        _claim(accesses, "at least 0.5", _or_more(0.5), saved),
        ours(near(f"{name}: the largest speed-up of push (synchronisation is calibrated to it)", 18, most, ABOUT)),
        ours(near(f"{name}: push over ring, {counts} (p), over 2 (p - 1) / p", 1, possible, ALMOST)),
    ]


def _twice(rows: Sequence[Row], method: str) -> Claim:
    """Judge whether a method is twice as fast as the ring with 16 accelerators, which a ring allows fewer not to be."""
    large = [row for row in _rows_from(_of(rows, method), LARGE) if row["ranks"] == 16]
    text = f"{rows[0]['network']}: {method} over ring, {format_size(large[0]['size_bytes'])} and more, 16 accelerators"
    return near(text, 2, [row["speedup"] for row in large], ALMOST)


def fig8(rows: list[Row]) -> list[Claim]:
    """Judge the fat tree: the paper's bandwidths, the ring, and other mappings of homes and routes."""
    name, large = rows[0]["network"], _rows_from(rows, LARGE)
    size, push = format_size(large[0]["size_bytes"]), _of(large, "push")
    claims = []
    for ranks, expected in ((64, 100), (128, 70)):
        text = f"{name}: push, {ranks} accelerators, {size}: peak in GB/s"
        claims.append(near(text, expected, [max(_rates(push, ranks=ranks))], ABOUT, "{:.1f}"))
    behind = _ratios(push, _of(large, "pull"))
    claims.append(_claim(f"{name}: push over pull, 64 and 128 accelerators, {size}", "above 1", _or_more(1), behind))
    claims += [_orders_over_ring(rows), _inherent(rows)]
    for algorithm in ("push, homes in turn", "push, ways by address"):
        text = f"{name}: {algorithm}, over push as judged, 64 and 128 accelerators, {size}"
        claims.append(ours(near(text, 1, _ratios(_of(large, algorithm), push), ALMOST)))
    return claims


def _orders_over_ring(rows: Sequence[Row]) -> Claim:
    """Judge how far the ring is behind at the smallest size."""
    least = min(row["size_bytes"] for row in rows)
    ring, push = ([row for row in _of(rows, method) if row["size_bytes"] == least] for method in ("ring", "push"))
    text = f"{rows[0]['network']}: push over ring, 64 and 128 accelerators, {format_size(least)}"
    return _claim(text, "orders of magnitude", _or_more(_ORDERS), _ratios(push, ring))


def _inherent(rows: Sequence[Row]) -> Claim:
    """Judge push over a ring whose synchronisation costs nothing: by the time of what the largest size has more."""
    times: dict[tuple[str, int, int], float] = {
        (row["algorithm"], row["ranks"], row["size_bytes"]): row["time_s"] for row in rows
    }
    sizes = sorted({size for method, _, size in times if method == "ring"})
    counts = sorted({ranks for method, ranks, _ in times if method == "ring"})

    def ratio(ranks: int, without: float) -> float:
        ring, push = (
            times[method, ranks, sizes[-1]] - without * times[method, ranks, sizes[0]] for method in ("ring", "push")
        )
        return ring / push

    text = f"{rows[0]['network']}: push over ring, 64 and 128 accelerators, from {format_size(sizes[0])} to "
    text += format_size(sizes[-1])
    whole = near(text, 2, [ratio(ranks, 0) for ranks in counts], ABOUT)
    if len(sizes) == 1:
        return whole
    return beside(near(text, 2, [ratio(ranks, 1) for ranks in counts], ABOUT), whole, "with the time of the smallest")


def fig9(rows: list[Row]) -> list[Claim]:
    """Judge tables of several sizes without waves."""
    return _of_orders(_rows_from(rows, 4 << 20), _without_waves)


def picked(among: int) -> str:
    """Word among how many requests the next one is picked, as algorithms' names say where there are no waves."""
    return f"picked among {among}"


def _of_orders(rows: Sequence[Row], claims: Callable[[Sequence[Row], str], list[Claim]]) -> list[Claim]:
    """Judge what is without waves with the order of requests that comes first, and tell what others give."""
    names = [str(row["algorithm"]).partition(", ")[2] for row in rows]
    first, *others = dict.fromkeys(name for name in names if name)
    judged = claims(rows, first)
    for other in others:
        judged = [beside(*pair, other) for pair in zip(judged, claims(rows, other), strict=True)]
    return judged


def _without_waves(rows: Sequence[Row], order: str) -> list[Claim]:
    name = rows[0]["network"]
    push, pull = f"push, {order}", f"pull, {order}"
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
        ours(
            _claim(f"{name}: pull", "low", _at_most(2 / 3 * _POSSIBLE, " GB/s"), _rates(rows, algorithm=pull), " GB/s")
        ),
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
    """Judge how many waves push and pull need, each at its largest size."""
    name = rows[0]["network"]
    pull, push = (_largest(_of(rows, method)) for method in ("pull", "push"))
    sizes = [format_size(own[0]["size_bytes"]) for own in (pull, push)]
    usual, small = ([row for row in pull if row["table_bytes"] == table] for table in (1024, 256))
    part = _parts_of_peak([*usual, *push], "waves")
    fewest = {method: _fewest(part, method) for method in ("pull", "push")}
    text = f"{name}: the fewest waves with which pull is at its peak ({_PEAK:.0%}), {sizes[0]}"
    high = f"{name}: push with 64 waves, of its peak (which begins with {fewest['push']}), {sizes[1]}"
    lower = f"{name}: pull with 4 waves, 256 B a port over 1 kB, {sizes[0]}"
    return [
        Claim(text, "4", "none", str(fewest["pull"]), fewest["pull"] == 4),
        _claim(high, "high bandwidth", _or_more(_PEAK), [part["push", 64]]),
        _claim(lower, "significantly lower", _or_less(0.8), [_rates(small)[0] / _rates(usual, waves=4)[0]]),
    ]


def _largest(rows: Sequence[Row]) -> list[Row]:
    size = max(row["size_bytes"] for row in rows)
    return [row for row in rows if row["size_bytes"] == size]


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
    """Judge how many flits must cross the one switch for which the paper counts; a DGX-2 is told beside it."""
    one, two = ([row for row in rows if (row["network"] == ONE_SWITCH) is is_one] for is_one in (True, False))
    return [*(_of_one_switch(one) if one else []), *([ours(_two_suffice(two))] if two else [])]


def _of_one_switch(rows: Sequence[Row]) -> list[Claim]:
    part = _parts_of_peak(rows, "speedup_inside")
    text = f"{ONE_SWITCH}: push and pull with 1, of their peaks; p / (2 (p - 1)) is 0.53"
    least = [part[method, 1] for method in ("push", "pull")]
    return [_two_suffice(rows), ours(near(text, 1 / internal_speedup(16), least, ABOUT))]


def _two_suffice(rows: Sequence[Row]) -> Claim:
    part = _parts_of_peak(rows, "speedup_inside")
    text = f"{rows[0]['network']}: push and pull with a speed-up of 2, of their peaks"
    return _claim(text, "suffices", _or_more(_PEAK), [part[method, 2] for method in ("push", "pull")])


def latency(rows: list[Row]) -> list[Claim]:
    """Judge which part of packets' latency waves save, by either method, as the paper names none."""
    return _of_orders(_rows_from(rows, LARGE), _saved)


def _saved(rows: Sequence[Row], order: str) -> list[Claim]:
    latencies = {row["algorithm"]: row["packet_latency_s"] for row in rows}
    saved = [1 - latencies[method] / latencies[f"{method}, {order}"] for method in ("push", "pull")]
    size = format_size(rows[0]["size_bytes"])
    text = f"{rows[0]['network']}: part of the latency that waves save at {size}, push and pull"
    is_near = all(abs(part - 0.9) <= POINTS for part in saved)
    return [Claim(text, "about 0.90", "5 points", " and ".join(f"{part:.2f}" for part in saved), is_near)]
