"""The steps of an iteration: the work that every rank computes, and the collectives that it hands to the network.

Under data parallelism the ranks add their gradients: once after the backward pass (`none`), layer by layer as they
appear (`layer`: Das et al., 2016; MultiTree, V-B), or in buckets of layers (`bucket`, as in PyTorch's DDP). A sharded
optimizer (Rajbhandari et al., ZeRO, 2020) scatters the sums instead, and gathers the parameters that it updated. Under
tensor parallelism the ranks add partial sums inside both passes, which nothing can overlap, and keep their gradients.
"""

from collections.abc import Iterable, Sequence

from treefold.training import accelerators
from treefold.training.layers import Layer, Model
from treefold.training.options import FIRST_BUCKET_BYTES
from treefold.training.recipe import Recipe
from treefold.training.timeline import Compute, Send, Step, Wait


def steps_of(model: Model, recipe: Recipe) -> list[Step]:
    """Return the steps of an iteration of a model, or of a rank's part of it."""
    steps: list[Step] = []
    backward: list[tuple[Layer, list[Step]]] = []
    needs_input_gradient = False
    for layer in model.layers:
        forward_s, backward_s = accelerators.layer_time(
            recipe.accelerator, layer, recipe.batch, needs_input_gradient=needs_input_gradient
        )
        steps += [Compute(layer.name, "forward", forward_s), *_sum(layer.name, layer.forward_sum, recipe)]
        pulled = [Compute(layer.name, "backward", backward_s), *_sum(layer.name, layer.backward_sum, recipe)]
        backward.insert(0, (layer, pulled))
        needs_input_gradient = needs_input_gradient or layer.parameters > 0
    for group in _groups(backward, recipe):
        steps += [step for _, pulled in group for step in pulled]
        steps += _reduction([layer for layer, _ in group], recipe)
    return [*steps, *_update(model.parameters, recipe)]


def _sum(name: str, numbers: int, recipe: Recipe) -> list[Step]:
    """Return the all-reduce that adds partial sums of a layer, if there are any."""
    size = numbers * recipe.batch * recipe.accelerator.number_bytes
    return [Send(name, "all-reduce", size, waits=True)] if size and recipe.ranks > 1 else []


def _groups(backward: Sequence[tuple[Layer, list[Step]]], recipe: Recipe) -> list[list[tuple[Layer, list[Step]]]]:
    """Return the layers in groups whose gradients travel together, in the order of the backward pass."""
    following = {"none": float("inf"), "layer": 0, "bucket": recipe.bucket_bytes}[recipe.overlap]
    most = min(following, FIRST_BUCKET_BYTES) if recipe.overlap == "bucket" else following
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
    """Return the steps that add up the gradients of a group."""
    ready = [layer for layer in group if layer.parameters]
    if not ready or recipe.is_model_parallel:
        return []
    parameters = sum(layer.parameters for layer in ready)
    name = ready[0].name if len(ready) == 1 else f"{ready[0].name} to {ready[-1].name}"
    aggregation = accelerators.aggregation_s(recipe.accelerator, parameters)
    summed: list[Step] = [Compute(name, "aggregation", aggregation)] if aggregation else []
    if recipe.ranks == 1:
        return summed
    collective = "reduce-scatter" if recipe.is_sharded else "all-reduce"
    return [*summed, Send(name, collective, parameters * recipe.gradient_bytes)]


def _update(parameters: int, recipe: Recipe) -> list[Step]:
    """Return the steps that update the parameters, and that gather them if each rank updates a share."""
    shares = recipe.ranks if recipe.is_sharded else 1
    seconds = accelerators.optimizer_s(recipe.accelerator, -(-parameters // shares), recipe.optimizer_bytes)
    update: list[Step] = [Wait(), *([Compute("optimizer", "optimizer", seconds)] if seconds else [])]
    if shares == 1:
        return update
    return [*update, Send("parameters", "all-gather", parameters * recipe.accelerator.number_bytes, waits=True)]
