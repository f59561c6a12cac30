"""The layers of a PyTorch module, from its forward pass on the meta device: without weights, data or a GPU.

This file imports PyTorch; `modules.py` imports it only when a module is traced.
"""

import copy
import inspect
import sys
from collections.abc import Iterable, Mapping
from contextlib import redirect_stdout
from typing import Any

import torch
from torch import Tensor, nn

from treefold.errors import TreefoldError
from treefold.training.layers import Layer, Model
from treefold.training.module_recorder import FusedFunctions, Operations, Recording

_ACCELERATOR = "h100"
"""A module trains on it where no accelerator is named."""
_FORM = "write an input as NAME=SHAPE for one sample, for example x=3x224x224 or tokens=128:int64"


def trace_module(label: str, module: Any, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> Model:
    """Return a module as a model that is called `label`."""
    if not isinstance(module, nn.Module):
        raise TreefoldError(f"model {label}: got {type(module).__name__}; it must be a torch.nn.Module")
    _check_parts(label, module)
    _check_inputs(label, module, inputs, named)
    layers = tuple(_layers(label, _without_weights(label, module), inputs, named))
    return Model(label, layers, tokens=_tokens([*inputs, *named.values()]), accelerator=_ACCELERATOR)


def _tokens(inputs: Iterable[Any]) -> int:
    """Return how many tokens a sample has: a row of whole numbers is taken for tokens."""
    leaves = [each for each in torch.utils._pytree.tree_leaves(list(inputs)) if isinstance(each, Tensor)]
    rows = (each.shape[1] for each in leaves if each.dim() == 2 and each.dtype in (torch.int32, torch.int64))
    return int(next(rows, 0))


def input_tensor(text: str) -> tuple[str, Tensor]:
    """Return the name of `x=3x224x224:float32`, and a tensor of that shape with a batch of one in front."""
    name, _, rest = text.partition("=")
    shape, _, kind = rest.partition(":")
    sizes = shape.split("x")
    number = getattr(torch, kind or "float32", None)
    if not name or not all(size.isdigit() and int(size) for size in sizes) or not isinstance(number, torch.dtype):
        raise TreefoldError(f"input '{text}' cannot be read; {_FORM}")
    return name, torch.empty((1, *map(int, sizes)), dtype=number, device="meta")


def one_line(error: Exception) -> str:
    """Return an error of other code as its type and message, on one line and cut when it is long."""
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300]


def _check_parts(label: str, module: nn.Module) -> None:
    """Refuse scripted parts, which cannot be traced, and lazy parameters, which have no shape yet."""
    for place, part in module.named_modules():
        if isinstance(part, torch.jit.ScriptModule):
            what = f"its part {place}" if place else "it"
            raise TreefoldError(f"model {label}: {what} is scripted and cannot be traced; give it unscripted")
    for place, parameter in module.named_parameters():
        if torch.nn.parameter.is_lazy(parameter):
            raise TreefoldError(f"model {label}: parameter {place} has no shape yet; call the module once before")


def _check_inputs(label: str, module: nn.Module, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> None:
    """Refuse inputs that are missing, unknown, or more than one sample."""
    signature = inspect.signature(module.forward)
    try:
        bound = signature.bind_partial(*inputs, **named).arguments
    except TypeError as error:
        raise TreefoldError(f"model {label}: {error}; its forward takes {signature}") from None
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    missing = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.kind in kinds and parameter.default is parameter.empty and name not in bound
    ]
    if missing:
        what = f"input{'s' * (len(missing) > 1)} {', '.join(missing)}"
        raise TreefoldError(f"model {label}: nobody gave its {what}; {_FORM}")
    leaves = torch.utils._pytree.tree_leaves(list(bound.values()))
    batches = [each.shape[0] for each in leaves if isinstance(each, Tensor) and each.dim()]
    if batches and 1 not in batches:
        raise TreefoldError(
            f"model {label}: its first input has a batch of {batches[0]}; give a batch of 1, batch first"
        )


def _without_weights(label: str, module: nn.Module) -> nn.Module:
    """Return a copy of a module on the meta device; the module stays as it is, and its weights are not copied."""
    bare = {id(each): nn.Parameter(each.detach().to("meta"), each.requires_grad) for each in module.parameters()}
    held = [each for part in module.modules() for each in (*vars(part).values(), *part.buffers(recurse=False))]
    tensors = [each for each in held if isinstance(each, Tensor) and id(each) not in bare]
    try:
        return copy.deepcopy(module, bare | {id(each): each.detach().to("meta") for each in tensors})
    except Exception as error:
        raise TreefoldError(f"model {label}: cannot be copied without its weights: {one_line(error)}") from None


def _layers(label: str, module: nn.Module, inputs: tuple[Any, ...], named: Mapping[str, Any]) -> list[Layer]:
    """Call a module on the meta device, and return a layer for each submodule that did anything."""
    for part in module.modules():
        if isinstance(part, nn.modules.batchnorm._BatchNorm):
            part.eval()  # in training mode, a batch norm refuses a batch of one
    given, keyed = torch.utils._pytree.tree_map(
        lambda value: value.to("meta") if isinstance(value, Tensor) else value, (inputs, dict(named))
    )
    recording = Recording(module)
    functions, operations = FusedFunctions(recording), Operations(recording, module)
    quiet = redirect_stdout(sys.stderr)
    try:
        with recording.hooked(), torch.no_grad(), torch.device("meta"), functions, operations, quiet:
            module(*given, **keyed)
    except Exception as error:
        advice = "check its inputs (NAME=SHAPE:TYPE), or describe its layers in a file"
        raise TreefoldError(
            f"model {label}: its forward fails on the meta device: {one_line(error)}; {advice}"
        ) from None
    layers = recording.layers()
    if not any(layer.parameters for layer in layers):
        raise TreefoldError(f"model {label}: no parameter has a gradient, so there is nothing to add up")
    return layers
