"""Tests what the MultiTree paper's text says of training time, figure 11, on our rows.

Claims are judged where a message takes any free interface, as the authors measured; what comes out where interfaces are
bound to ports stands in brackets. "Improves performance by 34 %" is read as in section VI-C: so many more iterations in
the same time. The abstract calls the same numbers a reduction of time, which cannot follow from its all-reduces.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence

from reproduction.figures import Claim, Row, networks_of
from reproduction.multitree.machines import judged
from reproduction.tolerances import GAIN, POINTS, is_gain

_CONVOLUTIONAL = ("alexnet", "fasterrcnn", "googlenet", "resnet50")
_BOUND = ("ncf", "transformer")
"""The models whose iterations communication dominates."""
_MESSAGE = "multitree, message-based"

_Table = Mapping[str, Mapping[str, float]]
"""A table has seconds by algorithm and model."""


def _table(rows: Sequence[Row], key: str) -> dict[str, dict[str, float]]:
    table: dict[str, dict[str, float]] = {}
    for row in rows:
        table.setdefault(row["algorithm"], {})[row["model"]] = row[key]
    return table


def _ratios(table: _Table, slow: str, fast: str, models: Sequence[str]) -> list[float]:
    return [table[slow][model] / table[fast][model] for model in models]


def fig11a(rows: list[Row]) -> list[Claim]:
    """Judge iterations without overlap."""
    return _everywhere(rows, _oneshot)


def fig11b(rows: list[Row]) -> list[Claim]:
    """Judge iterations with layer-wise all-reduces."""
    return _everywhere(rows, _layered)


def _everywhere(rows: list[Row], claims: Callable[[list[Row]], list[Claim]]) -> list[Claim]:
    """Return claims network by network, each judged on one machine and told on the other."""
    return [
        claim._replace(claim=f"{network}: {claim.claim}")
        for network in networks_of(rows)
        for claim in judged([row for row in rows if row["network"] == network], claims)
    ]


def _oneshot(rows: list[Row]) -> list[Claim]:
    seconds, whole = (_table(rows, key) for key in ("communication_s", "iteration_s"))
    models = list(whole["ring"])
    return [
        _ring_share(seconds, whole),
        _slowest(seconds, models, "all-reduce"),
        *_factors(seconds, models, "multitree", {"ring": 2.2, "ring2d": 1.51}),
        *_factors(seconds, models, _MESSAGE, {"ring": 2.3, "ring2d": 1.56}),
        *_gains(whole, _CONVOLUTIONAL, {"ring": 0.34, "ring2d": 0.15}),
        *_means(whole, {"ring": 1.81, "ring2d": 1.30}),
    ]


def _ring_share(seconds: _Table, whole: _Table) -> Claim:
    shares = [seconds["ring"][model] / whole["ring"][model] for model in whole["ring"] if model != "alexnet"]
    least, most = min(shares), max(shares)
    is_close = abs(least - 0.30) <= POINTS and abs(most - 0.88) <= POINTS
    text = "ring: communication's part of an iteration, all but AlexNet"
    return Claim(text, "30 to 88 %", "5 points", f"{least:.0%} to {most:.0%}", is_close)


def _slowest(table: _Table, models: Sequence[str], what: str) -> Claim:
    """Judge whether DBTree is the slowest for every model."""
    slowest = {max(table, key=lambda name: table[name][model]) for model in models}
    text = f"the slowest {what}, model by model"
    return Claim(text, "dbtree", "none", ", ".join(sorted(slowest)), slowest == {"dbtree"})


def _factors(seconds: _Table, models: Sequence[str], name: str, published: Mapping[str, float]) -> list[Claim]:
    """Compare how many times as fast MultiTree's all-reduces are as each rival's."""
    claims = []
    for rival, factor in published.items():
        mean = statistics.fmean(_ratios(seconds, rival, name, models))
        text = f"{name} over {rival}: all-reduce time, mean over models"
        claims.append(Claim(text, f"{factor:g} times", GAIN, f"{mean:.2f}", is_gain(mean - 1, factor - 1)))
    return claims


def _gains(whole: _Table, models: Sequence[str], published: Mapping[str, float]) -> list[Claim]:
    """Compare the largest gain in performance."""
    claims = []
    for rival, gain in published.items():
        best = max(_ratios(whole, rival, "multitree", models)) - 1
        text = f"multitree against {rival}, {', '.join(models)}: performance up by up to"
        claims.append(Claim(text, f"{gain:.0%}", GAIN, f"{best:.0%}", is_gain(best, gain)))
    return claims


def _layered(rows: list[Row]) -> list[Claim]:
    whole = _table(rows, "iteration_s")
    models = list(whole["ring"])
    fastest = {min(whole, key=lambda name: whole[name][model]).partition(",")[0] for model in models}
    text = "the fastest iteration, model by model"
    return [
        Claim(text, "multitree", "none", ", ".join(sorted(fastest)), fastest == {"multitree"}),
        _slowest(whole, models, "iteration"),
        *_gains(whole, _CONVOLUTIONAL, {"ring": 0.10}),
        *_means(whole, {"ring": 2.0, "ring2d": 1.37}),
    ]


def _means(whole: _Table, published: Mapping[str, float]) -> list[Claim]:
    """Compare the mean speed-up of those models whose iterations communication dominates."""
    claims = []
    for rival, factor in published.items():
        mean = statistics.fmean(_ratios(whole, rival, "multitree", _BOUND))
        text = f"multitree over {rival}, {' and '.join(_BOUND)}: training performance, mean"
        claims.append(Claim(text, f"{factor:g} times", GAIN, f"{mean:.2f}", is_gain(mean - 1, factor - 1)))
    return claims
