"""Tests what the in-network paper's text says of training time, figures 1 and 11, on our rows."""

from collections.abc import Sequence
from itertools import pairwise

from reproduction.figures import Claim, Row, networks_of, ours
from reproduction.in_network.training_trials import NVLINK, SENTENCE
from reproduction.tolerances import ABOUT, GAIN, NONE, POINTS, is_gain


def _of_network(rows: Sequence[Row], network: str) -> list[Row]:
    return [row for row in rows if row["network"] == network]


def _share(row: Row) -> float:
    """Return which part of an iteration its all-reduces take."""
    return float(row["communication_s"]) / float(row["iteration_s"])


def fig1a(rows: list[Row]) -> list[Claim]:
    """Judge the sizes of layer-wise all-reduces."""
    by_model = {row["model"]: row for row in rows}
    resnet, transformer = by_model["resnet50"], by_model["transformer"]
    below = transformer["below_6MB"]
    return [
        _size("resnet50: all gradients", "50 MB", 50e6, resnet["total_bytes"], 0.05),
        _size("resnet50: mean message", "about 1 MB", 1e6, resnet["mean_bytes"], ABOUT),
        _size("transformer: all gradients", "420 MB", 420e6, transformer["total_bytes"], 0.05),
        _size("transformer: mean message", "about 5 MB", 5e6, transformer["mean_bytes"], ABOUT),
        Claim("transformer: messages below 6 MB", "half", "5 points", f"{below:.1%}", abs(below - 0.5) <= POINTS),
    ]


def _size(text: str, paper: str, expected: float, measured: float, tolerance: float) -> Claim:
    is_close = abs(measured / expected - 1) <= tolerance
    return Claim(text, paper, f"{tolerance:.0%}", f"{measured / 1e6:.2f} MB", is_close)


def _points(text: str, paper: str, expected: float, measured: float) -> Claim:
    """Compare two parts of a whole."""
    return Claim(text, paper, "5 points", f"{measured:.0%}", abs(measured - expected) <= POINTS)


def fig1b(rows: list[Row]) -> list[Claim]:
    """Judge which part of an iteration the ring's all-reduces take."""
    return [claim for network in networks_of(rows) for claim in _parts(network, _of_network(rows, network))]


def _parts(network: str, rows: Sequence[Row]) -> list[Claim]:
    if network != NVLINK:
        least = min(_share(row) for row in rows)
        text = f"{network}: all-reduce's part, at least"
        return [Claim(text, "dominates", "above 50 %", f"{least:.0%}", least > 0.5)]
    today = max(_share(row) for row in rows if row["gpu"] == "volta")
    projected = max(_share(row) for row in rows if row["gpu"] != "volta")
    return [
        _points(f"{network}: all-reduce's part, Volta, at most", "30%", 0.30, today),
        _points(f"{network}: all-reduce's part, projected GPUs, at most", "42%", 0.42, projected),
    ]


def fig1c(rows: list[Row]) -> list[Claim]:
    """Judge model parallelism."""
    widest = [row for row in rows if row["ranks"] == 16]
    times = {(row["model"], row["gpu"], row["algorithm"]): row["iteration_s"] for row in widest}
    ring = [row for row in widest if row["algorithm"] == "ring" and row["gpu"] == "volta"]
    shares, largest = [_share(row) for row in ring], ring[-1]["model"]
    gpus = list(dict.fromkeys(row["gpu"] for row in widest))
    gains = [1 - times[largest, gpu, "innet-push"] / times[largest, gpu, "ring"] for gpu in gpus]
    listed = ", ".join(f"{row['model'].partition('-')[2]} {_share(row):.0%}" for row in ring)
    shown = ", ".join(f"{gpu} {gain:.0%}" for gpu, gain in zip(gpus, gains, strict=True))
    where = f"{largest} on 16 GPUs"
    return [
        _points(f"{where}: all-reduce's part", "about 30 %", 0.30, shares[-1]),
        Claim("16 GPUs: the part grows with the model", "grows", "none", listed, shares == sorted(shares)),
        Claim(f"{where}: time down by push", "15 %", GAIN, f"{gains[0]:.0%}", is_gain(gains[0], 0.15)),
        Claim(f"{where}: time down by push, by GPU", "larger on future GPUs", "none", shown, _grow(gains)),
    ]


def _grow(values: Sequence[float]) -> bool:
    return all(less < more for less, more in pairwise(values))


def fig11_transformer(rows: list[Row]) -> list[Claim]:
    """Judge Transformer's speed-ups and where overlap pays, and what the text says of all models."""
    own = [row for row in rows if row["model"] == "transformer"]
    on_nvlink = _of_network(own, NVLINK)
    ethernet = [row for row in own if row["network"] != NVLINK]
    return [
        *(_nvlink_best(on_nvlink) if on_nvlink else []),
        *(_ethernet(ethernet) if ethernet else []),
        _overlap_is_faster(own),
        *(_overlaps(on_nvlink) if on_nvlink else []),
        *_orders(rows),
        _push_over_pull(rows),
    ]


def _nvlink_best(rows: Sequence[Row]) -> list[Claim]:
    best = max(row["speedup"] for row in rows)
    text = f"{NVLINK}: push over ring, at most"
    return [Claim(text, "up to 1.4 times", GAIN, f"{best:.2f}", is_gain(best - 1, 0.4))]


def _ethernet(rows: Sequence[Row]) -> list[Claim]:
    """Judge all batches and GPUs, as the text says `about` and not `up to`."""
    spans = {name: [row["speedup"] for row in _of_network(rows, name)] for name in networks_of(rows)}
    shown = "; ".join(f"{min(each):.2f} to {max(each):.2f}" for each in spans.values())
    is_reached = all(is_gain(speedup - 1, 0.8) for each in spans.values() for speedup in each)
    text = f"{', '.join(spans)}: push over ring, every batch and GPU"
    return [Claim(text, "about 1.8 times", GAIN, shown, is_reached)]


def _overlap_is_faster(rows: Sequence[Row]) -> Claim:
    """Judge whether overlap pays for push on every network."""
    names = networks_of(rows)
    slower = [name for name in names if not all(_pays(row, "push") for row in _of_network(rows, name))]
    measured = f"not always on {', '.join(slower)}" if slower else "always"
    return Claim(f"{', '.join(names)}: push: overlap is faster than one-shot", "always", "none", measured, not slower)


def _pays(row: Row, method: str) -> bool:
    return float(row[f"{method}_overlap_s"]) < float(row[f"{method}_oneshot_s"])


def _overlaps(rows: Sequence[Row]) -> list[Claim]:
    """Judge for which batches the ring's overlap is worth it."""
    claims = []
    for gpu, least in (("volta", 640), ("volta-4:1", 5120)):
        own = [row for row in rows if row["gpu"] == gpu]
        tokens = [row["batch"] * SENTENCE for row in own]
        pays = [row["batch"] * SENTENCE for row in own if _pays(row, "ring")]
        is_right = pays == [count for count in tokens if count > least]
        measured = f"from {min(pays)} tokens on" if pays else "never"
        text = f"{NVLINK}: {gpu}: ring's overlap pays"
        claims.append(Claim(text, f"above {least} tokens", "none", measured, is_right))
    return claims


def _orders(rows: Sequence[Row]) -> list[Claim]:
    """Judge whether faster GPUs gain more, and smaller batches, in all models on all networks."""
    by_gpu, by_batch = [], []
    for network in networks_of(rows):
        for model in dict.fromkeys(row["model"] for row in rows):
            own = [row for row in _of_network(rows, network) if row["model"] == model]
            table = {(row["gpu"], row["batch"]): row["speedup"] for row in own}
            batches, gpus = sorted({row["batch"] for row in own}), list(dict.fromkeys(row["gpu"] for row in own))
            if any(table[slow, each] > table[fast, each] for slow, fast in pairwise(gpus) for each in batches):
                by_gpu.append(f"{model} on {network}")
            if any(table[each, few] < table[each, many] for few, many in pairwise(batches) for each in gpus):
                by_batch.append(f"{model} on {network}")
    where = f"{', '.join(networks_of(rows))}: all models"
    return [
        _everywhere(f"{where}: faster GPUs have higher speed-ups", by_gpu),
        _everywhere(f"{where}: smaller batches have higher speed-ups", by_batch),
    ]


def _everywhere(text: str, exceptions: Sequence[str]) -> Claim:
    measured = f"not {', '.join(exceptions)}" if exceptions else "yes"
    return Claim(text, "yes", "none", measured, not exceptions)


def _push_over_pull(rows: Sequence[Row]) -> Claim:
    """Judge whether push is better than pull on average of each network, and nowhere by much."""
    gains = {
        name: [_best(row, "pull") / _best(row, "push") - 1 for row in _of_network(rows, name)]
        for name in networks_of(rows)
    }
    means = [sum(each) / len(each) for each in gains.values()]
    most = [max(each) for each in gains.values()]
    text = f"{', '.join(gains)}: all models: pull's time over push's, less 1, on average (at most)"
    shown = "; ".join(f"{mean:.2%} ({top:.1%})" for mean, top in zip(means, most, strict=True))
    is_right = min(means) > 0 and max(most) <= NONE
    return Claim(text, "slightly more", f"above 0; at most {NONE:.0%}", shown, is_right)


def _best(row: Row, method: str) -> float:
    """Return the time of an iteration with overlap or without, whichever is shorter."""
    return min(float(row[f"{method}_oneshot_s"]), float(row[f"{method}_overlap_s"]))


def fig11_resnet(rows: list[Row]) -> list[Claim]:
    """Judge ResNet's speed-ups beside Transformer's."""
    best, others = _bests(rows), _bests(rows, "transformers_best")
    is_lower = all(best[place] <= others[place] * (1 - NONE) for place in best)
    text = f"{', '.join(networks_of(rows))}: resnet50's best speed-ups and Transformer's, GPU by GPU"
    return [Claim(text, "lower", f"by more than {NONE:.0%}", _paired(best, others), is_lower)]


def fig11_bert(rows: list[Row]) -> list[Claim]:
    """Tell whether BERT, a large model, gains more than ResNet; the text says it of Transformer alone."""
    best, others = _bests(rows), _bests(rows, "resnets_best")
    is_higher = all(best[place] >= others[place] for place in best)
    text = f"{', '.join(networks_of(rows))}: bert-large's best speed-ups and ResNet's, GPU by GPU"
    return [ours(Claim(text, "not lower", "none", _paired(best, others), is_higher))]


def _bests(rows: Sequence[Row], key: str = "speedup") -> dict[tuple[str, str], float]:
    """Return the highest value of each network and GPU."""
    best: dict[tuple[str, str], float] = {}
    for row in rows:
        place = (row["network"], row["gpu"])
        best[place] = max(best.get(place, 0.0), row[key])
    return best


def _paired(best: dict[tuple[str, str], float], others: dict[tuple[str, str], float]) -> str:
    """Write the highest values of each network, beside the others'."""
    networks = dict.fromkeys(network for network, _ in best)
    tops = [[max(of[place] for place in of if place[0] == network) for of in (best, others)] for network in networks]
    return "; ".join(f"{own:.2f} and {other:.2f}" for own, other in tops)
