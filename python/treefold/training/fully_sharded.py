"""The passes of a model whose parameters are sharded, as in PyTorch's FSDP (Zhao et al., VLDB 2023) and ZeRO-3.

A rank keeps a shard of each unit of layers. It gathers a unit before its forward pass, frees it, gathers it again
before its backward pass, and then the ranks scatter the sums of its gradients: three times the bytes of the parameters
in all, where an all-reduce sends twice these.

Idea of the overlap: the next unit is gathered while this one computes. As FSDP limits its gathers, at most two units
are whole at any time: the next gather begins when the unit before this one has been freed. In the backward pass it
begins before the gradients of this unit are computed (`BACKWARD_PRE`), so that it stands before their scatter in the
queue. Without overlap, compute waits for each gather and each scatter.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from treefold.training.recipe import Recipe
from treefold.training.timeline import Send, Step, Wait

if TYPE_CHECKING:
    from treefold.training.steps import Passes


def units_of(passes: "Sequence[Passes]", recipe: Recipe) -> "list[list[Passes]]":
    """Return the layers in units that are gathered together, in the order of the forward pass.

    A unit is a layer, or with the overlap `bucket` so many layers that they fill a bucket. Layers without parameters
    belong to the unit before them.
    """
    most = recipe.bucket_bytes if recipe.overlap == "bucket" else 0
    units: list[list[Passes]] = [[]]
    filled = 0
    for each in passes:
        size = each.layer.parameters * recipe.accelerator.number_bytes
        if size and filled and filled >= most:
            units.append([])
            filled = 0
        units[-1].append(each)
        filled += size
    return units


def forward(units: "Sequence[Sequence[Passes]]", recipe: Recipe) -> list[Step]:
    """Return the steps of the forward pass, with the gathers."""
    gathers = [_gather(unit, recipe) for unit in units]
    steps: list[Step] = []
    for place, unit in enumerate(units):
        steps += [*_gathered(gathers, place, recipe), *(step for each in unit for step in each.forward)]
    return steps


def backward(units: "Sequence[Sequence[Passes]]", recipe: Recipe) -> "list[tuple[list[Passes], list[Step]]]":
    """Return each unit, in the order of the backward pass, with its steps and the gathers; scatters are to follow."""
    turned = [list(reversed(unit)) for unit in reversed(units)]
    gathers = [_gather(unit, recipe) for unit in reversed(units)]
    return [
        (unit, [*_gathered(gathers, place, recipe), *(step for each in unit for step in each.backward)])
        for place, unit in enumerate(turned)
    ]


def _gather(unit: "Sequence[Passes]", recipe: Recipe) -> Send:
    parameters = sum(each.layer.parameters for each in unit)
    size = parameters * recipe.accelerator.number_bytes
    return Send(unit[0].layer.name, "all-gather", size, waits=recipe.overlap == "none")


def _gathered(gathers: Sequence[Send], place: int, recipe: Recipe) -> list[Step]:
    """Return the steps before a unit's compute: they fetch the next unit, and wait for this one."""
    if recipe.overlap == "none":
        return [gathers[place]]
    first = [gathers[0]] if place == 0 else []
    return [*first, *gathers[place + 1 : place + 2], Wait(gathers[place])]
