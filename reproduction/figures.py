"""Says what a figure is made of: trials, rows of means and spreads, claims, a picture."""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple, Protocol

from reproduction.drawing.panels import Line, Panel

Row = dict[str, Any]


class Trial(Protocol):
    """A trial is a named tuple, whose fields are the key under which its result is kept."""

    @property
    def network(self) -> str:
        """The network that it is tried on."""

    def measure(self) -> dict[str, Any]:
        """Run it."""

    def _asdict(self) -> dict[str, Any]: ...


Results = Sequence[tuple[Any, Mapping[str, Any]]]

SYNTHETIC = ("equinix-like", "idn-like")
"""These networks stand in for ones that are not public."""


class Settings(NamedTuple):
    """The settings say how much of a figure is reproduced."""

    trials: int = 20
    """How many seeds each setting is tried with."""
    networks: tuple[str, ...] = ()
    """The networks to try; when empty, the figure's own."""
    skews: tuple[float, ...] = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9)
    """The values of skewness, for the figures that vary it."""
    sizes: tuple[int, ...] = ()
    """The sizes of vectors in bytes; when empty, the figure's own."""


class Claim(NamedTuple):
    """A sentence of the paper, or one of ours, against what was measured."""

    claim: str
    paper: str
    """What the paper says; for one of ours, what we expect."""
    tolerance: str
    measured: str
    reproduced: bool
    counts: bool = True
    """Whether the paper makes the claim. What we add to it, and what a simulator was calibrated to, does not count."""


def ours(claim: Claim) -> Claim:
    """Return a claim as one that the paper does not make."""
    return claim._replace(counts=False)


def beside(judged: Claim, other: Claim, words: str) -> Claim:
    """Return a claim that also tells what is measured otherwise, where that differs."""
    if judged.measured == other.measured:
        return judged
    return judged._replace(measured=f"{judged.measured} ({words}: {other.measured})")


def near(text: str, paper: float, measured: Sequence[float], tolerance: float, shown: str = "{:.2f}") -> Claim:
    """Claim that every measured value is within a part of the paper's value."""
    values = [shown.format(value) for value in (min(measured), max(measured))]
    is_near = all(abs(value / paper - 1) <= tolerance for value in measured)
    return Claim(text, f"about {shown.format(paper)}", f"{tolerance:.0%}", " to ".join(dict.fromkeys(values)), is_near)


class Figure(NamedTuple):
    """A figure of a paper."""

    title: str
    paper: str
    """What the paper shows."""
    networks: tuple[str, ...]
    trials: Callable[[Settings], Sequence[Trial]]
    rows: Callable[[Results], list[Row]]
    claims: Callable[[list[Row]], list[Claim]]
    draw: Callable[[list[Row], str], bytes]
    """Makes an SVG from rows and a subtitle."""
    setting: str = "links in Hockney's model"
    """What holds for all trials."""
    others: tuple[str, ...] = ()
    """Networks that may be asked for besides the figure's own."""
    takes: tuple[str, ...] = ()
    """The settings that may be asked for besides networks: trials, skews, sizes."""


class Axis(NamedTuple):
    """An axis of a picture: the key of a row, the unit in which its value is shown, and the label."""

    key: str
    unit: float
    label: str


def display(network: str) -> str:
    """Return a network's name, marked where it is synthetic."""
    return f"{network} (synthetic)" if network in SYNTHETIC else network


def grouped(results: Results, keys: Mapping[str, Callable[[Any], Any]], measures: Iterable[str]) -> list[Row]:
    """Return a row for each combination of keys, with mean and standard deviation of each measure.

    Trials without a measure (no plan at this height) do not count for it.
    """
    groups: dict[tuple[Any, ...], list[Mapping[str, Any]]] = {}
    for trial, result in results:
        groups.setdefault(tuple(key(trial) for key in keys.values()), []).append(result)
    rows = []
    for values, group in groups.items():
        row = dict(zip(keys, values, strict=True)) | {"trials": len(group)}
        for measure in measures:
            row |= _mean_and_spread(measure, [result[measure] for result in group if measure in result])
        rows.append(row | {"synthetic": row["network"] in SYNTHETIC})
    return rows


def _mean_and_spread(measure: str, values: list[float]) -> Row:
    if not values:
        return {f"{measure}_mean": None, f"{measure}_std": None}
    spread = statistics.stdev(values) if len(values) > 1 else 0.0
    return {f"{measure}_mean": statistics.fmean(values), f"{measure}_std": spread}


def series(rows: Iterable[Row], x: str, measure: str, **where: Any) -> dict[Any, float]:
    """Return the means of `measure` by `x`, of rows that have all values of `where`."""
    chosen = [row for row in rows if all(row[key] == value for key, value in where.items())]
    return {row[x]: row[f"{measure}_mean"] for row in chosen if row[f"{measure}_mean"] is not None}


def networks_of(rows: Iterable[Row]) -> list[str]:
    """Return the networks that rows are about, in their order."""
    return list(dict.fromkeys(row["network"] for row in rows))


def panel_of(title: str, rows: Iterable[Row], name: Callable[[Row], str], x: Axis, y: Axis) -> Panel:
    """Return a panel with a line for each name."""
    lines: dict[str, list[tuple[float, float, float]]] = {}
    for row in rows:
        lines.setdefault(name(row), []).append((row[x.key] / x.unit, row[y.key] / y.unit, 0.0))
    return Panel(title, [Line(line, sorted(points)) for line, points in lines.items()])
