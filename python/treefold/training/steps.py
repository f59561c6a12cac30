"""The steps of an iteration: the work that every rank computes, and the collectives that it hands to the network.

Under data parallelism the ranks add their gradients: once after the backward pass (`none`), layer by layer as they
appear (`layer`: Das et al., 2016; MultiTree, V-B), or in buckets of layers (`bucket`, as in PyTorch's DDP). A sharded
optimizer (Rajbhandari et al., ZeRO, 2020) scatters the sums instead, and gathers the parameters that it updated; if the
parameters are sharded, too, `fully_sharded.py` makes the passes. Under tensor parallelism the ranks of a group add
partial sums inside both passes, which nothing can overlap.

An iteration may have several micro-batches. Only the last one sends gradients; a rank that has room for a shard of the
gradients only (zero-2) sends them in each.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from treefold.training import accelerators, fully_sharded
from treefold.training.layers import Layer, Model
from treefold.training.options import FIRST_BUCKET_BYTES
from treefold.training.recipe import Recipe
from treefold.training.timeline import MODEL, Compute, Send, Step, Wait


class Passes(NamedTuple):
    """The steps of a layer in both passes."""

    layer: Layer
    forward: list[Step]
    backward: list[Step]


def steps_of(model: Model, recipe: Recipe) -> list[Step]:
    """Return the steps of an iteration of a model, or of a rank's part of it."""
    passes = list(_passes(model, recipe))
    steps: list[Step] = []
    for place in range(recipe.accumulate):
        steps += _micro_batch(passes, recipe, is_first=place == 0, is_last=place == recipe.accumulate - 1)
    return [*steps, *_update(model.parameters, recipe)]


def _passes(model: Model, recipe: Recipe) -> Iterator[Passes]:
    needs_input_gradient = False
    for layer in model.layers:
        forward_s, backward_s = accelerators.layer_time(
            recipe.accelerator, layer, recipe.batch, needs_input_gradient=needs_input_gradient
        )
        yield Passes(
            layer,
            [Compute(layer.name, "forward", forward_s), *_sum(layer.name, layer.forward_sum, recipe)],
            [Compute(layer.name, "backward", backward_s), *_sum(layer.name, layer.backward_sum, recipe)],
        )
        needs_input_gradient = needs_input_gradient or layer.parameters > 0


def _sum(name: str, numbers: int, recipe: Recipe) -> list[Step]:
    """Return the all-reduce that adds partial sums of a layer, if there are any."""
    size = numbers * recipe.batch * recipe.accelerator.number_bytes
    return [Send(name, "all-reduce", size, waits=True, among=MODEL)] if size and recipe.model_parallel > 1 else []


def _micro_batch(passes: Sequence[Passes], recipe: Recipe, *, is_first: bool, is_last: bool) -> list[Step]:
    if recipe.sharding == "fsdp" and recipe.replicas > 1:
        units = fully_sharded.units_of(passes, recipe)
        forward, backward = fully_sharded.forward(units, recipe), fully_sharded.backward(units, recipe)
        groups = [([each.layer for each in unit], steps) for unit, steps in backward]
    else:
        forward = [step for each in passes for step in each.forward]
        groups = [
            ([each.layer for each in group], [step for each in group for step in each.backward])
            for group in layer_groups(passes, recipe)
        ]
    steps = list(forward)
    for layers, pulled in groups:
        steps += [*pulled, *_gradients(layers, recipe, is_first=is_first, is_last=is_last)]
    return steps


def layer_groups(passes: Sequence[Passes], recipe: Recipe) -> list[list[Passes]]:
    """Return the layers in groups whose gradients travel together, in the order of the backward pass."""
    following = {"none": float("inf"), "layer": 0, "bucket": recipe.bucket_bytes}[recipe.overlap]
    most = min(following, FIRST_BUCKET_BYTES) if recipe.overlap == "bucket" else following
    groups: list[list[Passes]] = [[]]
    filled = 0
    for each in reversed(passes):
        groups[-1].append(each)
        filled += each.layer.parameters * recipe.gradient_bytes
        if filled and filled >= most:
            groups.append([])
            filled, most = 0, following
    return [group for group in groups if group]


def _gradients(layers: Iterable[Layer], recipe: Recipe, *, is_first: bool, is_last: bool) -> list[Step]:
    """Return the steps that add the gradients of layers to those of earlier micro-batches and of other ranks."""
    ready = [layer for layer in layers if layer.parameters]
    if not ready:
        return []
    parameters = sum(layer.parameters for layer in ready)
    name = ready[0].name if len(ready) == 1 else f"{ready[0].name} to {ready[-1].name}"
    shares = recipe.shards if recipe.sharding == "zero-2" else 1
    size = parameters * recipe.gradient_bytes
    seconds = 0.0 if is_first else accelerators.accumulation_s(recipe.accelerator, -(-size // shares))
    seconds += accelerators.aggregation_s(recipe.accelerator, parameters) if is_last else 0.0
    added: list[Step] = [Compute(name, "aggregation", seconds)] if seconds else []
    if recipe.replicas == 1 or not (is_last or recipe.sharding == "zero-2"):
        return added
    collective = "all-reduce" if recipe.sharding == "none" else "reduce-scatter"
    waits = recipe.sharding == "fsdp" and recipe.overlap == "none"
    return [*added, Send(name, collective, size, waits=waits)]


def _update(parameters: int, recipe: Recipe) -> list[Step]:
    """Return the steps that update the parameters, and that gather them if each rank updates a share."""
    share = -(-parameters // recipe.shards)
    seconds = accelerators.optimizer_s(recipe.accelerator, share, recipe.optimizer, recipe.gradient_bytes)
    update: list[Step] = [Wait(), *([Compute("optimizer", "optimizer", seconds)] if seconds else [])]
    if recipe.shards == 1 or recipe.sharding == "fsdp":
        return update
    return [*update, Send("parameters", "all-gather", parameters * recipe.accelerator.number_bytes, waits=True)]
