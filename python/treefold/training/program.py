"""The steps of an iteration: what every rank computes, and when it hands which gradients to the network.

Data parallelism: gradients are added once behind the backward pass (`none`), layer by layer as they appear (`layer`:
Das et al., 2016; MultiTree, V-B), or in buckets of layers (`bucket`, as PyTorch's DDP). A sharded optimizer
(Rajbhandari et al., ZeRO, 2020) needs reduce-scatters on the way, and an all-gather of what it updated. Tensor
parallelism: sums inside both passes, which nothing can overlap; gradients stay where they are.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from treefold._core import TreefoldError
from treefold.training.gpu import Gpu
from treefold.training.layers import Layer, Model
from treefold.training.systolic import Systolic
from treefold.training.timeline import Compute, Send, Step, Wait

OVERLAPS = ("none", "layer", "bucket")
BUCKET_BYTES = 25_000_000
"""DDP's default is 25 MB."""

Accelerator = Systolic | Gpu


class Recipe(NamedTuple):
    """How a model is trained."""

    accelerator: Accelerator
    batch: int
    """Samples of each accelerator."""
    gradient_bytes: int
    """Of each parameter, and of each number that tensor parallelism adds up."""
    overlap: str
    bucket_bytes: int
    optimizer_bytes: int
    """Moved by an update for each parameter."""
    shards: int
    """Ranks over which the optimizer is spread; 1: every rank updates everything."""
    is_model_parallel: bool


def steps(model: Model, recipe: Recipe) -> list[Step]:
    """Return the steps of an iteration of `model`, or of a rank's part of it."""
    found: list[Step] = []
    for layer in model.layers:
        found.append(Compute(layer.name, "forward", recipe.accelerator.seconds(layer, recipe.batch, False)[0]))
        found += _sum(layer.name, layer.forward_sum, recipe)
    backward = list(reversed(model.layers))
    groups = [[layer] for layer in backward] if recipe.is_model_parallel else _groups(backward, recipe)
    first = next((layer.name for layer in model.layers if layer.macs), "")
    for group in groups:
        for layer in group:
            seconds = recipe.accelerator.seconds(layer, recipe.batch, layer.name == first)[1]
            found.append(Compute(layer.name, "backward", seconds))
            found += _sum(layer.name, layer.backward_sum, recipe)
        found += [] if recipe.is_model_parallel else _reduction(group, recipe)
    return found + _update(model.parameters, recipe)


def _sum(name: str, numbers: int, recipe: Recipe) -> list[Step]:
    size = numbers * recipe.batch * recipe.gradient_bytes
    return [Send(name, "all-reduce", size, waits=True)] if size else []


def _groups(backward: Sequence[Layer], recipe: Recipe) -> list[list[Layer]]:
    """Return layers whose gradients travel together, in the order of the backward pass."""
    most = {"none": float("inf"), "layer": 0, "bucket": recipe.bucket_bytes}[recipe.overlap]
    groups: list[list[Layer]] = [[]]
    filled = 0
    for layer in backward:
        groups[-1].append(layer)
        filled += layer.parameters * recipe.gradient_bytes
        if filled and filled >= most:
            groups.append([])
            filled = 0
    return [group for group in groups if group]


def _reduction(group: Iterable[Layer], recipe: Recipe) -> list[Step]:
    """Return what becomes of the gradients of a group."""
    ready = [layer for layer in group if layer.parameters]
    parameters = sum(layer.parameters for layer in ready)
    if not parameters:
        return []
    name = ready[0].name if len(ready) == 1 else f"{ready[0].name} to {ready[-1].name}"
    collective = "all-reduce" if recipe.shards == 1 else "reduce-scatter"
    aggregation = recipe.accelerator.aggregation_s(parameters)
    summed: list[Step] = [Compute(name, "aggregation", aggregation)] if aggregation else []
    return [*summed, Send(name, collective, parameters * recipe.gradient_bytes)]


def _update(parameters: int, recipe: Recipe) -> list[Step]:
    seconds = recipe.accelerator.optimizer_s(-(-parameters // recipe.shards), recipe.optimizer_bytes)
    update: list[Step] = [Wait(), *([Compute("optimizer", "optimizer", seconds)] if seconds else [])]
    if recipe.shards == 1 or not parameters:
        return update
    return [*update, Send("parameters", "all-gather", parameters * recipe.gradient_bytes, waits=True)]


def check(recipe: Recipe) -> None:
    """Refuse what makes no sense."""
    recipe.accelerator.check(recipe.batch)
    if recipe.overlap not in OVERLAPS:
        raise TreefoldError(f"overlap '{recipe.overlap}' is unknown; known are {', '.join(OVERLAPS)}")
    if recipe.bucket_bytes < 1:
        raise TreefoldError(f"bucket of {recipe.bucket_bytes} bytes: must be at least 1 byte; write for example 25MB")
    if recipe.gradient_bytes < 1:
        raise TreefoldError(f"gradients of {recipe.gradient_bytes} bytes: must be at least 1, for example 2 or 4")
    if recipe.is_model_parallel and recipe.shards > 1:
        raise TreefoldError("--sharded spreads data parallelism's optimizer; drop it, or use --parallelism data")
