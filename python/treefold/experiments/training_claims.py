"""What both papers' texts say of training time, tested on our rows."""

import statistics
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

from treefold.experiments.figures import Claim, Row, networks_of
from treefold.experiments.training_trials import NVLINK

SHARED = ", any interface"
_CONVOLUTIONAL = ("alexnet", "fasterrcnn", "googlenet", "resnet50")
_BOUND = ("ncf", "transformer")
_POINTS = 0.05
_RATIO = 0.15
_OF_GAIN = 0.25
_GAIN = f"{_OF_GAIN:.0%} of the gain"


def _is_gain(measured: float, published: float) -> bool:
    """Whether gains, a ratio less one, agree."""
    return abs(measured / published - 1) <= _OF_GAIN


def _by_name(rows: Sequence[Row], key: str, **where: str) -> dict[str, dict[str, float]]:
    """Return a value by algorithm and model."""
    found: dict[str, dict[str, float]] = {}
    for row in rows:
        if all(row[name] == value for name, value in where.items()):
            found.setdefault(row["algorithm"], {})[row["model"]] = row[key]
    return found


def _ratios(found: Mapping[str, Mapping[str, float]], slow: str, fast: str, models: Sequence[str]) -> list[float]:
    return [found[slow][model] / found[fast][model] for model in models]


def fig11a(rows: list[Row]) -> list[Claim]:
    """Without overlap."""
    return _everywhere(rows, _oneshot)


def fig11b(rows: list[Row]) -> list[Claim]:
    """Layer by layer."""
    return _everywhere(rows, _layered)


def _everywhere(rows: list[Row], claims: Callable[[list[Row]], list[Claim]]) -> list[Claim]:
    """Return claims network by network."""
    return [
        claim._replace(claim=f"{network}: {claim.claim}")
        for network in networks_of(rows)
        for claim in claims([row for row in rows if row["network"] == network])
    ]


def _oneshot(rows: list[Row]) -> list[Claim]:
    seconds = _by_name(rows, "communication_s", overlap="none")
    whole = _by_name(rows, "iteration_s", overlap="none")
    models = list(whole["ring"])
    shares = {model: seconds["ring"][model] / whole["ring"][model] for model in models if model != "alexnet"}
    least, most = min(shares.values()), max(shares.values())
    close = abs(least - 0.30) <= _POINTS and abs(most - 0.88) <= _POINTS
    claims = [
        Claim(
            "ring: communication's part of an iteration, all but AlexNet",
            "30 to 88 %",
            "5 points",
            f"{least:.0%} to {most:.0%}",
            close,
        )
    ]
    slowest = {max(found, key=lambda name: found[name]) for found in _of_models(seconds, models)}
    claims.append(Claim("the slowest all-reduce", "dbtree", "none", ", ".join(sorted(slowest)), slowest == {"dbtree"}))
    for message, factors in (("", {"ring": 2.2, "ring2d": 1.51}), (", message-based", {"ring": 2.3, "ring2d": 1.56})):
        for ni in ("", SHARED):
            name = f"multitree{message}{ni}"
            for rival, factor in factors.items():
                mean = statistics.fmean(_ratios(seconds, rival, name, models))
                text = f"{name} over {rival}: all-reduce time, mean over models"
                right = _is_gain(mean - 1, factor - 1)
                claims.append(Claim(text, f"{factor:g} times", _GAIN, f"{mean:.2f}", right))
    for ni in ("", SHARED):
        claims += _gains(whole, f"multitree{ni}", _CONVOLUTIONAL, {"ring": 0.34, "ring2d": 0.15})
        claims += _gains(whole, f"multitree{ni}", _BOUND, {"ring": 0.81, "ring2d": 0.30})
    return claims


def _of_models(found: Mapping[str, Mapping[str, float]], models: Sequence[str]) -> list[dict[str, float]]:
    return [{name: values[model] for name, values in found.items()} for model in models]


def _gains(
    whole: Mapping[str, Mapping[str, float]], name: str, models: Sequence[str], published: Mapping[str, float]
) -> list[Claim]:
    """Compare the largest gain; the abstract calls it a reduction of time, VI-C an improvement of performance."""
    claims = []
    for rival, gain in published.items():
        best = max(_ratios(whole, rival, name, models))
        readings: dict[str, Callable[[float], float]] = {
            "time down by": lambda ratio: 1 - 1 / ratio,
            "performance up by": lambda ratio: ratio - 1,
        }
        for words, reading in readings.items():
            text = f"{name} against {rival}, {', '.join(models)}: {words} up to"
            measured = reading(best)
            claims.append(Claim(text, f"{gain:.0%}", _GAIN, f"{measured:.0%}", _is_gain(measured, gain)))
    return claims


def _layered(rows: list[Row]) -> list[Claim]:
    whole = _by_name(rows, "iteration_s", overlap="layer")
    claims = []
    for ni in ("", SHARED):
        name = f"multitree{ni}"
        gain = max(_ratios(whole, "ring", name, _CONVOLUTIONAL)) - 1
        text = f"{name} against ring, {', '.join(_CONVOLUTIONAL)}: performance up by up to"
        claims.append(Claim(text, "10 %", _GAIN, f"{gain:.0%}", _is_gain(gain, 0.10)))
        for rival, factor in (("ring", 2.0), ("ring2d", 1.37)):
            ratios = _ratios(whole, rival, name, _BOUND)
            text = f"{name} over {rival}, {' and '.join(_BOUND)}: training performance, mean"
            mean = statistics.fmean(ratios)
            claims.append(Claim(text, f"{factor:g} times", _GAIN, f"{mean:.2f}", _is_gain(mean - 1, factor - 1)))
    slowest = {max(found, key=lambda each: found[each]) for found in _of_models(whole, _BOUND)}
    claims.append(
        Claim(f"the slowest of {' and '.join(_BOUND)}", "dbtree", "none", ", ".join(slowest), slowest == {"dbtree"})
    )
    return claims


def fig1a(rows: list[Row]) -> list[Claim]:
    """Sizes of layer-wise all-reduces."""
    by_model = {row["model"]: row for row in rows}
    resnet, transformer = by_model["resnet50"], by_model["transformer"]
    values = [
        ("resnet50: all gradients", "50 MB", 50e6, resnet["total_bytes"], 0.05),
        ("resnet50: mean message", "about 1 MB", 1e6, resnet["mean_bytes"], _RATIO),
        ("transformer: all gradients", "420 MB", 420e6, transformer["total_bytes"], 0.05),
        ("transformer: mean message", "about 5 MB", 5e6, transformer["mean_bytes"], _RATIO),
    ]
    claims = [
        Claim(text, paper, f"{tolerance:.0%}", f"{found / 1e6:.2f} MB", abs(found / expected - 1) <= tolerance)
        for text, paper, expected, found, tolerance in values
    ]
    below = transformer["below_6MB"]
    return [
        *claims,
        Claim("transformer: messages below 6 MB", "half", "5 points", f"{below:.0%}", abs(below - 0.5) <= _POINTS),
    ]


def _share(row: Row) -> float:
    return float(row["communication_s"]) / float(row["iteration_s"])


def fig1b(rows: list[Row]) -> list[Claim]:
    """Part of an iteration that ring takes."""
    return [
        claim
        for network in networks_of(rows)
        for claim in _parts(network, [row for row in rows if row["network"] == network])
    ]


def _parts(network: str, rows: Sequence[Row]) -> list[Claim]:
    if network != NVLINK:
        least = min(_share(row) for row in rows)
        return [
            Claim(f"{network}: all-reduce's part, at least", "dominates", "above 50 %", f"{least:.0%}", least > 0.5)
        ]
    today = max(_share(row) for row in rows if row["gpu"] == "volta")
    projected = max(_share(row) for row in rows if row["gpu"] != "volta")
    return [
        Claim(
            f"{network}: all-reduce's part, {gpus}, at most",
            f"{paper:.0%}",
            "5 points",
            f"{part:.0%}",
            abs(part - paper) <= _POINTS,
        )
        for gpus, paper, part in (("Volta", 0.30, today), ("projected GPUs", 0.42, projected))
    ]


def fig1c(rows: list[Row]) -> list[Claim]:
    """Model parallelism."""
    ring = [row for row in rows if row["algorithm"] == "ring"]
    widest = [row for row in ring if row["ranks"] == 16]
    shares = [_share(row) for row in widest]
    push = {row["model"]: row for row in rows if row["algorithm"] != "ring" and row["ranks"] == 16}
    largest = widest[-1]
    gain = 1 - push[largest["model"]]["iteration_s"] / largest["iteration_s"]
    listed = ", ".join(f"{row['model'].partition('-')[2]} {_share(row):.0%}" for row in widest)
    return [
        Claim(
            f"{largest['model']} on 16 GPUs: all-reduce's part",
            "about 30 %",
            "5 points",
            f"{shares[-1]:.0%}",
            abs(shares[-1] - 0.30) <= _POINTS,
        ),
        Claim("16 GPUs: the part grows with the model", "grows", "none", listed, shares == sorted(shares)),
        Claim(
            f"{largest['model']} on 16 GPUs: time down by push",
            "15 %",
            "5 points",
            f"{gain:.0%}",
            abs(gain - 0.15) <= _POINTS,
        ),
    ]


def fig11_transformer(rows: list[Row]) -> list[Claim]:
    """Return how Transformer fares."""
    claims = []
    for network in networks_of(rows):
        own = [row for row in rows if row["network"] == network]
        factor, about = (1.4, "up to 1.4") if network == NVLINK else (1.8, "about 1.8")
        best = max(row["speedup"] for row in own)
        right = _is_gain(best - 1, factor - 1)
        claims.append(Claim(f"{network}: push over ring, at most", f"{about} times", _GAIN, f"{best:.2f}", right))
        always = all(row["push_overlap_s"] < row["push_oneshot_s"] for row in own)
        text = f"{network}: push: overlap is faster than one-shot"
        claims.append(Claim(text, "always", "none", "always" if always else "not always", always))
        claims += _overlaps(own) if network == NVLINK else []
        claims.append(_falls(own))
    return claims


def _overlaps(rows: Sequence[Row]) -> list[Claim]:
    """Return where ring's overlap is worth it."""
    claims = []
    for gpu, tokens in (("volta", 640), ("volta-4:1", 5120)):
        own = [row for row in rows if row["gpu"] == gpu]
        pays = [row["batch"] * 80 for row in own if row["ring_overlap_s"] < row["ring_oneshot_s"]]
        right = pays == [row["batch"] * 80 for row in own if row["batch"] * 80 > tokens]
        seen = f"from {min(pays)} tokens on" if pays else "never"
        claims.append(Claim(f"{NVLINK}: {gpu}: ring's overlap pays", f"above {tokens} tokens", "none", seen, right))
    return claims


def _falls(rows: Sequence[Row]) -> Claim:
    """Return whether larger batches, and slower GPUs, gain less."""
    table = {(row["gpu"], row["batch"]): row["speedup"] for row in rows}
    batches = sorted({batch for _, batch in table})
    gpus = list(dict.fromkeys(gpu for gpu, _ in table))
    by_batch = all(table[gpu, few] >= table[gpu, many] for gpu in gpus for few, many in pairwise(batches))
    by_gpu = all(table[slow, batch] <= table[fast, batch] for slow, fast in pairwise(gpus) for batch in batches)
    seen = f"{'yes' if by_batch else 'no'}; {'yes' if by_gpu else 'no'}"
    text = f"{rows[0]['network']}: {rows[0]['model']}: speed-ups grow with smaller batches; with faster GPUs"
    return Claim(text, "yes; yes", "none", seen, by_batch and by_gpu)


def fig11_other(rows: list[Row]) -> list[Claim]:
    """Return how the other models fare."""
    claims = []
    for network in networks_of(rows):
        own = [row for row in rows if row["network"] == network]
        claims.append(_falls(own))
        if own[0]["model"] == "resnet50":
            best = {gpu: max(row["speedup"] for row in own if row["gpu"] == gpu) for gpu in {row["gpu"] for row in own}}
            is_lower = all(best[row["gpu"]] < row["transformers_best"] for row in own)
            seen = f"{max(best.values()):.2f} and {max(row['transformers_best'] for row in own):.2f}"
            text = f"{network}: resnet50's best speed-ups and Transformer's, GPU by GPU"
            claims.append(Claim(text, "lower", "none", seen, is_lower))
    return claims
