"""Tests what the MultiTree paper's text says of training time, figure 11, on our rows."""

import statistics
from collections.abc import Callable, Mapping, Sequence

from reproduction.figures import Claim, Row, networks_of
from reproduction.training import GAIN, POINTS, is_gain

_INTERFACES = ("", ", any interface")
"""Names of MultiTree end so where interfaces are bound to ports, and where any free one is taken."""
_CONVOLUTIONAL = ("alexnet", "fasterrcnn", "googlenet", "resnet50")
_BOUND = ("ncf", "transformer")
"""The models whose iterations communication dominates."""

_Table = Mapping[str, Mapping[str, float]]
"""A table has seconds by algorithm and model."""


def _table(rows: Sequence[Row], key: str, overlap: str) -> dict[str, dict[str, float]]:
    table: dict[str, dict[str, float]] = {}
    for row in rows:
        if row["overlap"] == overlap:
            table.setdefault(row["algorithm"], {})[row["model"]] = row[key]
    return table


def _ratios(table: _Table, slow: str, fast: str, models: Sequence[str]) -> list[float]:
    return [table[slow][model] / table[fast][model] for model in models]


def _slowest(table: _Table, models: Sequence[str]) -> set[str]:
    """Return the algorithms that are the slowest for one of the models."""
    return {max(table, key=lambda name: table[name][model]) for model in models}


def fig11a(rows: list[Row]) -> list[Claim]:
    """Judge iterations without overlap."""
    return _everywhere(rows, _oneshot)


def fig11b(rows: list[Row]) -> list[Claim]:
    """Judge iterations with layer-wise all-reduces."""
    return _everywhere(rows, _layered)


def _everywhere(rows: list[Row], claims: Callable[[list[Row]], list[Claim]]) -> list[Claim]:
    """Return claims network by network."""
    return [
        claim._replace(claim=f"{network}: {claim.claim}")
        for network in networks_of(rows)
        for claim in claims([row for row in rows if row["network"] == network])
    ]


def _oneshot(rows: list[Row]) -> list[Claim]:
    seconds, whole = (_table(rows, key, "none") for key in ("communication_s", "iteration_s"))
    models = list(whole["ring"])
    slowest = _slowest(seconds, models)
    claims = [
        _ring_share(seconds, whole),
        Claim("the slowest all-reduce", "dbtree", "none", ", ".join(sorted(slowest)), slowest == {"dbtree"}),
        *_factors(seconds, models, "", {"ring": 2.2, "ring2d": 1.51}),
        *_factors(seconds, models, ", message-based", {"ring": 2.3, "ring2d": 1.56}),
    ]
    for interface in _INTERFACES:
        claims += _gains(whole, f"multitree{interface}", _CONVOLUTIONAL, {"ring": 0.34, "ring2d": 0.15})
        claims += _gains(whole, f"multitree{interface}", _BOUND, {"ring": 0.81, "ring2d": 0.30})
    return claims


def _ring_share(seconds: _Table, whole: _Table) -> Claim:
    shares = [seconds["ring"][model] / whole["ring"][model] for model in whole["ring"] if model != "alexnet"]
    least, most = min(shares), max(shares)
    is_close = abs(least - 0.30) <= POINTS and abs(most - 0.88) <= POINTS
    text = "ring: communication's part of an iteration, all but AlexNet"
    return Claim(text, "30 to 88 %", "5 points", f"{least:.0%} to {most:.0%}", is_close)


def _factors(seconds: _Table, models: Sequence[str], flow: str, published: Mapping[str, float]) -> list[Claim]:
    """Compare how many times as fast MultiTree's all-reduces are, for each rule of interfaces and each rival."""
    claims = []
    for name in (f"multitree{flow}{interface}" for interface in _INTERFACES):
        for rival, factor in published.items():
            mean = statistics.fmean(_ratios(seconds, rival, name, models))
            text = f"{name} over {rival}: all-reduce time, mean over models"
            claims.append(Claim(text, f"{factor:g} times", GAIN, f"{mean:.2f}", is_gain(mean - 1, factor - 1)))
    return claims


def _gains(whole: _Table, name: str, models: Sequence[str], published: Mapping[str, float]) -> list[Claim]:
    """Compare the largest gain; the abstract calls it a reduction of time, VI-C an improvement of performance."""
    claims = []
    for rival, gain in published.items():
        best = max(_ratios(whole, rival, name, models))
        for words, measured in (("time down by", 1 - 1 / best), ("performance up by", best - 1)):
            text = f"{name} against {rival}, {', '.join(models)}: {words} up to"
            claims.append(Claim(text, f"{gain:.0%}", GAIN, f"{measured:.0%}", is_gain(measured, gain)))
    return claims


def _layered(rows: list[Row]) -> list[Claim]:
    whole = _table(rows, "iteration_s", "layer")
    claims = [claim for interface in _INTERFACES for claim in _layered_gains(whole, f"multitree{interface}")]
    slowest = _slowest(whole, _BOUND)
    text = f"the slowest of {' and '.join(_BOUND)}"
    return [*claims, Claim(text, "dbtree", "none", ", ".join(slowest), slowest == {"dbtree"})]


def _layered_gains(whole: _Table, name: str) -> list[Claim]:
    gain = max(_ratios(whole, "ring", name, _CONVOLUTIONAL)) - 1
    text = f"{name} against ring, {', '.join(_CONVOLUTIONAL)}: performance up by up to"
    claims = [Claim(text, "10 %", GAIN, f"{gain:.0%}", is_gain(gain, 0.10))]
    for rival, factor in (("ring", 2.0), ("ring2d", 1.37)):
        mean = statistics.fmean(_ratios(whole, rival, name, _BOUND))
        text = f"{name} over {rival}, {' and '.join(_BOUND)}: training performance, mean"
        claims.append(Claim(text, f"{factor:g} times", GAIN, f"{mean:.2f}", is_gain(mean - 1, factor - 1)))
    return claims
