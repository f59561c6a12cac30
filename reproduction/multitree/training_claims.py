"""Tests what the MultiTree paper's text says of training time, figure 11, on our rows.

Claims are judged where a message takes any free interface, as the authors measured; what comes out where interfaces are
bound to ports stands in brackets. "Improves performance by 34 %" is read as in section VI-C: so many more iterations in
the same time. The abstract calls the same numbers a reduction of time, which cannot follow from its all-reduces.
"""

import statistics
from collections.abc import Callable, Mapping, Sequence

from reproduction.figures import Claim, Row, networks_of
from reproduction.multitree.claims import is_head_flits
from reproduction.multitree.machines import judged
from reproduction.tolerances import ALMOST, GAIN, POINTS, is_gain

_CONVOLUTIONAL = ("alexnet", "fasterrcnn", "googlenet", "resnet50")
_BOUND = ("ncf", "transformer")
"""The models whose iterations communication dominates."""
_MESSAGE = "multitree, message-based"
SHOWN = ("ring", "dbtree", "ring2d", "multitree", _MESSAGE)
"""The algorithms of the paper's figures. Rows also have message-based rivals, of which one sentence speaks."""

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
        *_flow_control(seconds, models),
        *_gains(whole, _CONVOLUTIONAL, {"ring": 0.34, "ring2d": 0.15}),
        *_means(whole, {"ring": 1.81, "ring2d": 1.30}, tells_reduction=True),
    ]


def _ring_share(seconds: _Table, whole: _Table) -> Claim:
    shares = [seconds["ring"][model] / whole["ring"][model] for model in whole["ring"] if model != "alexnet"]
    least, most = min(shares), max(shares)
    is_close = abs(least - 0.30) <= POINTS and abs(most - 0.88) <= POINTS
    text = "ring: communication's part of an iteration, all but AlexNet"
    return Claim(text, "30 to 88 %", "5 points", f"{least:.0%} to {most:.0%}", is_close)


def _slowest(table: _Table, models: Sequence[str], what: str) -> Claim:
    """Judge whether DBTree is the slowest for every model."""
    slowest = {max(SHOWN, key=lambda name: table[name][model]) for model in models}
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


def _flow_control(seconds: _Table, models: Sequence[str]) -> list[Claim]:
    """Judge what message-based flow control gains MultiTree for every model, and what the rivals, where they ran."""
    rivals = [name for name in SHOWN[:3] if f"{name}, message-based" in seconds]
    claims = []
    for names in filter(None, (["multitree"], rivals)):
        gains = [ratio - 1 for name in names for ratio in _ratios(seconds, name, f"{name}, message-based", models)]
        text = f"{', '.join(names)}: what message-based flow control gains all-reduces, model by model"
        claims.append(Claim(text, "6 %", "1 point", f"{min(gains):.1%} to {max(gains):.1%}", is_head_flits(gains)))
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
    fastest = {min(SHOWN, key=lambda name: whole[name][model]).partition(",")[0] for model in models}
    text = "the fastest iteration, model by model"
    return [
        Claim(text, "multitree", "none", ", ".join(sorted(fastest)), fastest == {"multitree"}),
        _slowest(whole, models, "iteration"),
        *_gains(whole, _CONVOLUTIONAL, {"ring": 0.10}),
        *_means(whole, {"ring": 2.0, "ring2d": 1.37}),
        *_hidden(_table(rows, "communication_s"), _table(rows, "exposed_communication_s")),
        *_similar(whole, _table(rows, "communication_s"), _table(rows, "exposed_communication_s")),
    ]


def _hidden(seconds: _Table, exposed: _Table) -> list[Claim]:
    """Judge how much of the communication computation hides: most is over a half, a small amount at most a quarter."""

    def parts(models: Sequence[str]) -> list[float]:
        return [1 - exposed[name][model] / seconds[name][model] for name in SHOWN for model in models]

    text = "the part of communication that computation hides, every algorithm"
    most, little = parts(_CONVOLUTIONAL), parts(_BOUND)
    spans = [f"{min(values):.0%} to {max(values):.0%}" for values in (most, little)]
    return [
        Claim(f"{', '.join(_CONVOLUTIONAL)}: {text}", "most", "above half", spans[0], min(most) > 0.5),
        Claim(f"{', '.join(_BOUND)}: {text}", "a small amount", "at most 25 %", spans[1], max(little) <= 0.25),
    ]


def _similar(whole: _Table, seconds: _Table, exposed: _Table) -> list[Claim]:
    """Judge what 2D-ring is on convolutional models: as fast as MultiTree, with more overlap in its iteration."""
    overlapped = {
        name: {model: (seconds[name][model] - exposed[name][model]) / whole[name][model] for model in _CONVOLUTIONAL}
        for name in ("ring2d", "multitree")
    }
    times = _ratios(whole, "ring2d", "multitree", _CONVOLUTIONAL)
    portions = _ratios(overlapped, "ring2d", "multitree", _CONVOLUTIONAL)
    text = f"ring2d over multitree, {', '.join(_CONVOLUTIONAL)}"
    is_near = all(abs(ratio - 1) <= ALMOST for ratio in times)
    spans = [f"{min(values):.2f} to {max(values):.2f}" for values in (times, portions)]
    return [
        Claim(f"{text}: time of an iteration", "similar", f"{ALMOST:.0%}", spans[0], is_near),
        Claim(f"{text}: the overlapped part of an iteration", "above 1", "none", spans[1], min(portions) > 1),
    ]


def _means(whole: _Table, published: Mapping[str, float], *, tells_reduction: bool = False) -> list[Claim]:
    """Compare the mean speed-up of those models whose iterations communication dominates.

    The abstract's reading, how much less time the best of them takes, may stand beside.
    """
    claims = []
    for rival, factor in published.items():
        ratios = _ratios(whole, rival, "multitree", _BOUND)
        mean = statistics.fmean(ratios)
        measured = f"{mean:.2f}, time down by {1 - 1 / max(ratios):.0%}" if tells_reduction else f"{mean:.2f}"
        text = f"multitree over {rival}, {' and '.join(_BOUND)}: training performance, mean"
        claims.append(Claim(text, f"{factor:g} times", GAIN, measured, is_gain(mean - 1, factor - 1)))
    return claims
