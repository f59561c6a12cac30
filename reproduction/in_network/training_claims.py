"""Tests what the in-network paper's text says of training time, figures 1 and 11, on our rows."""

from collections.abc import Sequence
from itertools import pairwise

from reproduction.figures import Claim, Row, networks_of
from reproduction.in_network.training_trials import NVLINK, SENTENCE
from reproduction.tolerances import ABOUT, GAIN, POINTS, is_gain


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
        Claim("transformer: messages below 6 MB", "half", "5 points", f"{below:.0%}", abs(below - 0.5) <= POINTS),
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
    widest = [row for row in rows if row["algorithm"] == "ring" and row["ranks"] == 16]
    push = {row["model"]: row for row in rows if row["algorithm"] != "ring" and row["ranks"] == 16}
    shares, largest = [_share(row) for row in widest], widest[-1]
    gain = 1 - push[largest["model"]]["iteration_s"] / largest["iteration_s"]
    listed = ", ".join(f"{row['model'].partition('-')[2]} {_share(row):.0%}" for row in widest)
    where = f"{largest['model']} on 16 GPUs"
    return [
        _points(f"{where}: all-reduce's part", "about 30 %", 0.30, shares[-1]),
        Claim("16 GPUs: the part grows with the model", "grows", "none", listed, shares == sorted(shares)),
        _points(f"{where}: time down by push", "15 %", 0.15, gain),
    ]


def fig11_transformer(rows: list[Row]) -> list[Claim]:
    """Judge Transformer's speed-ups, and where overlap pays."""
    return [
        claim for network in networks_of(rows) for claim in _transformer_claims(network, _of_network(rows, network))
    ]


def _transformer_claims(network: str, rows: Sequence[Row]) -> list[Claim]:
    factor, about = (1.4, "up to 1.4") if network == NVLINK else (1.8, "about 1.8")
    best = max(row["speedup"] for row in rows)
    is_reached = is_gain(best - 1, factor - 1)
    always = all(row["push_overlap_s"] < row["push_oneshot_s"] for row in rows)
    overlap_text = f"{network}: push: overlap is faster than one-shot"
    return [
        Claim(f"{network}: push over ring, at most", f"{about} times", GAIN, f"{best:.2f}", is_reached),
        Claim(overlap_text, "always", "none", "always" if always else "not always", always),
        *(_overlaps(rows) if network == NVLINK else []),
        _falls(rows),
    ]


def _overlaps(rows: Sequence[Row]) -> list[Claim]:
    """Judge for which batches the ring's overlap is worth it."""
    claims = []
    for gpu, least in (("volta", 640), ("volta-4:1", 5120)):
        own = [row for row in rows if row["gpu"] == gpu]
        tokens = [row["batch"] * SENTENCE for row in own]
        pays = [row["batch"] * SENTENCE for row in own if row["ring_overlap_s"] < row["ring_oneshot_s"]]
        is_right = pays == [count for count in tokens if count > least]
        measured = f"from {min(pays)} tokens on" if pays else "never"
        text = f"{NVLINK}: {gpu}: ring's overlap pays"
        claims.append(Claim(text, f"above {least} tokens", "none", measured, is_right))
    return claims


def _falls(rows: Sequence[Row]) -> Claim:
    """Judge whether larger batches, and slower GPUs, gain less."""
    table = {(row["gpu"], row["batch"]): row["speedup"] for row in rows}
    batches = sorted({batch for _, batch in table})
    gpus = list(dict.fromkeys(gpu for gpu, _ in table))
    by_batch = all(table[gpu, few] >= table[gpu, many] for gpu in gpus for few, many in pairwise(batches))
    by_gpu = all(table[slow, batch] <= table[fast, batch] for slow, fast in pairwise(gpus) for batch in batches)
    measured = f"{'yes' if by_batch else 'no'}; {'yes' if by_gpu else 'no'}"
    text = f"{rows[0]['network']}: {rows[0]['model']}: speed-ups grow with smaller batches; with faster GPUs"
    return Claim(text, "yes; yes", "none", measured, by_batch and by_gpu)


def fig11_other(rows: list[Row]) -> list[Claim]:
    """Judge the speed-ups of the other models."""
    claims = []
    for network in networks_of(rows):
        own = _of_network(rows, network)
        claims.append(_falls(own))
        if own[0]["model"] == "resnet50":
            claims.append(_below_transformer(network, own))
    return claims


def _below_transformer(network: str, rows: Sequence[Row]) -> Claim:
    best = {gpu: max(row["speedup"] for row in rows if row["gpu"] == gpu) for gpu in {row["gpu"] for row in rows}}
    is_lower = all(best[row["gpu"]] < row["transformers_best"] for row in rows)
    measured = f"{max(best.values()):.2f} and {max(row['transformers_best'] for row in rows):.2f}"
    text = f"{network}: resnet50's best speed-ups and Transformer's, GPU by GPU"
    return Claim(text, "lower", "none", measured, is_lower)
