"""The memory that a rank needs for parameters, gradients, the optimizer's state and activations.

Parameters and gradients have the sizes of the accelerator's numbers and gradients. The optimizer keeps numbers of 32
bits, with a copy of the weights if those have fewer bits: with Adam and 16 bits, 2 + 2 + 12 = 16 bytes a parameter
(Rajbhandari et al., ZeRO, 2020, section 3.1). What is sharded is divided by the number of shards; whatever travels at
once is there as a whole, too.

Activations are what the backward pass reads again, of one micro-batch: the input of each product with weights that are
trained, both operands of a product of data, and a quarter of the numbers that elementwise work reads and writes. For a
transformer's block, that is 32 s b h + 5 a s^2 b bytes with 16 bits, where Korthikanti et al. ("Reducing activation
recomputation in large transformer models", 2022) count 34 s b h + 5 a s^2 b. A fused attention keeps no scores.
Nothing is computed again. Workspaces, fragments and buffers of libraries are not counted.
"""

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from treefold.training import accelerators, fully_sharded
from treefold.training.layers import DATA, WEIGHTS, Layer, Model
from treefold.training.recipe import Recipe
from treefold.training.steps import Passes, layer_groups

_KEPT_ACCESSES = 0.25


class Memory(NamedTuple):
    """The bytes that a rank needs."""

    parameters_bytes: int
    gradients_bytes: int
    optimizer_bytes: int
    activations_bytes: int


def memory_of(model: Model, recipe: Recipe) -> Memory:
    """Return the memory that a rank needs for a model, or for its part of it."""
    of_number, shards = recipe.accelerator.number_bytes, recipe.shards
    layers = [Passes(layer, [], []) for layer in model.layers]
    whole, share = model.parameters, -(-model.parameters // shards)
    gathered = _gathered(layers, recipe) if recipe.sharding == "fsdp" else 0
    kept = sum(activations(layer) for layer in model.layers) * recipe.batch
    return Memory(
        parameters_bytes=(share if recipe.sharding == "fsdp" else whole) * of_number + gathered * of_number,
        gradients_bytes=_gradients(layers, whole, share, recipe) * recipe.gradient_bytes,
        optimizer_bytes=share * accelerators.state_bytes(recipe.accelerator, recipe.optimizer),
        activations_bytes=round(kept * of_number),
    )


def activations(layer: Layer) -> float:
    """Return how many numbers of one sample a layer keeps for its backward pass."""
    filters = layer.window * layer.channels * layer.filters
    read, written = layer.inputs * layer.channels, layer.outputs * layer.filters
    kept = 0
    if layer.macs and layer.operand == DATA:
        kept = filters + (min(read, written) if layer.is_fused else read)
    elif layer.macs and layer.operand == WEIGHTS:
        kept = read
    return kept * layer.copies + _KEPT_ACCESSES * layer.elements


def _gathered(layers: Sequence[Passes], recipe: Recipe) -> int:
    """Return how many parameters are gathered at most: those of a unit, and of the next one if it is fetched."""
    sizes = [_parameters(unit) for unit in fully_sharded.units_of(layers, recipe)]
    if recipe.shards == 1:
        return 0
    return max(sizes) if recipe.overlap == "none" else max(map(sum, pairwise(sizes)), default=sizes[0])


def _gradients(layers: Sequence[Passes], whole: int, share: int, recipe: Recipe) -> int:
    """Return how many gradients there are at most: all of them while they are added up in a rank, or else a share.

    With shards, the gradients that travel together are there as a whole, too.
    """
    is_kept_whole = recipe.sharding != "zero-2" and recipe.accumulate > 1
    if recipe.sharding in ("none", "zero-1") or is_kept_whole or recipe.shards == 1:
        return whole
    groups = fully_sharded.units_of(layers, recipe) if recipe.sharding == "fsdp" else layer_groups(layers, recipe)
    return min(whole, share + max(map(_parameters, groups)))


def _parameters(group: Iterable[Passes]) -> int:
    return sum(each.layer.parameters for each in group)
