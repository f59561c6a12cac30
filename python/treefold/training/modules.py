"""PyTorch modules as models: a module that is there, or the one that `my_module:build` makes.

PyTorch is imported only when a module is traced: `module_tracing.py` and `module_recorder.py` import it.
"""

import importlib
import sys
from collections.abc import Mapping, Sequence
from contextlib import redirect_stdout
from types import ModuleType
from typing import Any

from treefold.errors import TreefoldError
from treefold.extras import missing
from treefold.training.layers import Model


def from_torch(module: Any, *inputs: Any, name: str = "", **named: Any) -> Model:
    """Return the model of a PyTorch module.

    The forward pass runs on PyTorch's meta device, without weights, data or a GPU; the module stays as it is.

    Args:
        module: A `torch.nn.Module` on any device.
        inputs: The arguments of its `forward` for one sample, with a batch of one in front.
        name: The name of the model; by default the name of the module's class.
        named: The arguments of `forward` that have a name.

    Raises:
        TreefoldError: If `module` is not a PyTorch module, an input is missing, or PyTorch is not installed.

    Example:
        >>> import torch
        >>> from treefold.training import from_torch
        >>> from_torch(torch.nn.Linear(64, 10), torch.zeros(1, 64))
        Model('Linear', layers=1, parameters=650)

    """
    label = name or type(module).__name__
    return _tracing(label).trace_module(label, module, inputs, named)  # type: ignore[no-any-return]


def model_of_source(source: str, inputs: Sequence[str] = ()) -> Model:
    """Return the model that `my_module:build` makes.

    Args:
        source: A module that can be imported from here, and a function in it that takes no arguments. The function
            returns a `torch.nn.Module`, or a pair of a module and its inputs for one sample: a tensor, a tuple or a
            dictionary of tensors.
        inputs: The inputs for one sample, without the batch, each as `NAME=SHAPE` or `NAME=SHAPE:TYPE`.

    Raises:
        TreefoldError: If the source cannot be imported, makes no module, or an input is missing.

    """
    tracing = _tracing(source)
    module, arguments, named = _built(source, tracing)
    for key, tensor in map(tracing.input_tensor, inputs):
        if key in named:
            raise TreefoldError(f"model {source}: input {key} is given twice; drop one")
        named[key] = tensor
    return tracing.trace_module(source, module, arguments, named)  # type: ignore[no-any-return]


def _tracing(label: str) -> ModuleType:
    """Import what needs PyTorch."""
    try:
        return importlib.import_module("treefold.training.module_tracing")
    except ImportError:
        raise missing(f"model {label}", "torch") from None


def _built(source: str, tracing: ModuleType) -> tuple[Any, tuple[Any, ...], dict[str, Any]]:
    """Return the module that a source makes, and the inputs that come with it, by position and by name."""
    build = _function(source, tracing)
    try:
        # Standard output is for results: what the function prints goes to standard error.
        with tracing.torch.device("meta"), redirect_stdout(sys.stderr):
            built = build()
    except Exception as error:
        problem = tracing.one_line(error)
        raise TreefoldError(f"model {source}: {source.partition(':')[2]}() fails: {problem}") from None
    module, given = built if isinstance(built, tuple) and len(built) == 2 else (built, ())
    if isinstance(given, Mapping):
        return module, (), dict(given)
    return module, tuple(given) if isinstance(given, (tuple, list)) else (given,), {}


def _function(source: str, tracing: ModuleType) -> Any:
    """Import the function that `my_module:build` names; as for `python -m`, modules of the current folder count."""
    place, _, name = source.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        function = getattr(importlib.import_module(place), name)
    except ImportError as error:
        advice = (
            f"drop .py: {place[:-3]}:{name}" if place.endswith(".py") else "name a module that Python finds from here"
        )
        raise TreefoldError(f"model {source}: {error}; {advice}") from None
    except AttributeError:
        raise TreefoldError(f"model {source}: {place} has no '{name}'; name a function in it") from None
    except Exception as error:
        raise TreefoldError(f"model {source}: {place} fails to import: {tracing.one_line(error)}") from None
    if not callable(function):
        raise TreefoldError(f"model {source}: '{name}' is of type {type(function).__name__}; name a function")
    return function
