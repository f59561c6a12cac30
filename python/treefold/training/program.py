"""The steps of an iteration: what every rank computes, and when it hands which gradients to the network.

Data parallelism: gradients are added once behind the backward pass (`none`), layer by layer as they appear (`layer`:
Das et al., 2016; MultiTree, V-B), or in buckets of layers (`bucket`, as PyTorch's DDP). A sharded optimizer
(Rajbhandari et al., ZeRO, 2020) needs reduce-scatters on the way, and an all-gather of what it updated. Tensor
parallelism: sums inside both passes, which nothing can overlap; gradients stay where they are.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from treefold import checks
from treefold.errors import TreefoldError
from treefold.training.gpu import Gpu
from treefold.training.layers import Layer, Model
from treefold.training.systolic import Systolic
from treefold.training.timeline import Compute, Send, Step, Wait

OVERLAPS = ("none", "layer", "bucket")
BUCKET_BYTES = 25 << 20
"""DDP's default, which it calls MB."""
_FIRST_BUCKET_BYTES = 1 << 20
"""DDP's, so that something is under way early."""

_MOST_SAMPLES = 10**9

Accelerator = Systolic | Gpu


class Recipe(NamedTuple):
    """How a model is trained."""

    accelerator: Accelerator
    batch: int
    """Samples of each accelerator; of all together with model parallelism."""
    ranks: int
    gradient_bytes: int
    """Of each parameter."""
    overlap: str
    bucket_bytes: int
    optimizer_bytes: int
    """Moved by an update for each parameter."""
    is_sharded: bool
    """Whether each rank updates its share of the parameters only."""
    is_model_parallel: bool


def steps(model: Model, recipe: Recipe) -> list[Step]:
    """Return the steps of an iteration of `model`, or of a rank's part of it."""
    chip, batch = recipe.accelerator, recipe.batch
    found: list[Step] = []
    backward: list[tuple[Layer, list[Step]]] = []
    is_reached = False
    for layer in model.layers:
        forward_s, backward_s = chip.seconds(layer, batch, is_reached)
        found += [Compute(layer.name, "forward", forward_s), *_sum(layer.name, layer.forward_sum, recipe)]
        pulled = [Compute(layer.name, "backward", backward_s), *_sum(layer.name, layer.backward_sum, recipe)]
        backward.insert(0, (layer, pulled))
        is_reached = is_reached or layer.parameters > 0
    for group in _groups(backward, recipe):
        found += [step for _, pulled in group for step in pulled]
        found += _reduction([layer for layer, _ in group], recipe)
    return [*found, *_update(model.parameters, recipe)]


def _sum(name: str, numbers: int, recipe: Recipe) -> list[Step]:
    size = numbers * recipe.batch * recipe.accelerator.number_bytes
    return [Send(name, "all-reduce", size, waits=True)] if size and recipe.ranks > 1 else []


def _groups(backward: Sequence[tuple[Layer, list[Step]]], recipe: Recipe) -> list[list[tuple[Layer, list[Step]]]]:
    """Return layers whose gradients travel together, in the order of the backward pass."""
    following = {"none": float("inf"), "layer": 0, "bucket": recipe.bucket_bytes}[recipe.overlap]
    most = min(following, _FIRST_BUCKET_BYTES) if recipe.overlap == "bucket" else following
    groups: list[list[tuple[Layer, list[Step]]]] = [[]]
    filled = 0
    for layer, pulled in backward:
        groups[-1].append((layer, pulled))
        filled += layer.parameters * recipe.gradient_bytes
        if filled and filled >= most:
            groups.append([])
            filled, most = 0, following
    return [group for group in groups if group]


def _reduction(group: Iterable[Layer], recipe: Recipe) -> list[Step]:
    """Return what becomes of the gradients of a group."""
    ready = [layer for layer in group if layer.parameters]
    if not ready or recipe.is_model_parallel:
        return []
    parameters = sum(layer.parameters for layer in ready)
    name = ready[0].name if len(ready) == 1 else f"{ready[0].name} to {ready[-1].name}"
    aggregation = recipe.accelerator.aggregation_s(parameters)
    summed: list[Step] = [Compute(name, "aggregation", aggregation)] if aggregation else []
    if recipe.ranks == 1:
        return summed
    collective = "reduce-scatter" if recipe.is_sharded else "all-reduce"
    return [*summed, Send(name, collective, parameters * recipe.gradient_bytes)]


def _update(parameters: int, recipe: Recipe) -> list[Step]:
    shares = recipe.ranks if recipe.is_sharded else 1
    seconds = recipe.accelerator.optimizer_s(-(-parameters // shares), recipe.optimizer_bytes)
    update: list[Step] = [Wait(), *([Compute("optimizer", "optimizer", seconds)] if seconds else [])]
    if shares == 1:
        return update
    return [*update, Send("parameters", "all-gather", parameters * recipe.accelerator.number_bytes, waits=True)]


def check(recipe: Recipe) -> None:
    """Refuse what makes no sense."""
    checks.whole("batch", recipe.batch, 1, _MOST_SAMPLES)
    recipe.accelerator.check(recipe.batch)
    checks.whole("bytes of a bucket", recipe.bucket_bytes, 1, 10**18)
    checks.whole("bytes of a gradient", recipe.gradient_bytes, 1, 1024)
    if recipe.is_model_parallel and (recipe.is_sharded or recipe.overlap != "none"):
        option = "--sharded" if recipe.is_sharded else f"--overlap {recipe.overlap}"
        raise TreefoldError(f"{option} is for gradients of data parallelism; drop it, or use --parallelism data")
