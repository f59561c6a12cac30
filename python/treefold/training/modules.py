"""A PyTorch module of one's own as a model: its forward pass on the meta device, without weights, data or a GPU.

Hooks tell which submodule is at work; what it asks of PyTorch, down to each product and each elementwise operation, is
seen below them with its shapes, whatever Python it was written in. Parameters belong to the submodule that holds them,
or to the one around it where that is never called itself; a shared one to the first that uses it, whose gradient is
complete last.
"""

import importlib
import inspect
import math
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from treefold._core import TreefoldError
from treefold.training.layers import Layer, Model

_FORM = "write --input NAME=SHAPE for one sample, for example --input x=3x224x224 or --input tokens=128:int64"


def trace(source: str, inputs: Sequence[str] = ()) -> Model:
    """Return the model that `my_module:build` makes.

    Args:
        source: A module that can be imported from here, and a function in it without arguments. It returns a
            `torch.nn.Module`, or a pair of one and its inputs, a tuple or a dictionary of tensors for one sample.
        inputs: `NAME=SHAPE` or `NAME=SHAPE:TYPE` of one sample, without the dimension of the batch.

    Raises:
        TreefoldError: If it cannot be imported, is no module, or needs inputs that nobody gave.

    """
    try:
        import torch
    except ImportError:
        raise TreefoldError(
            f"model {source}: PyTorch is not installed; install treefold[torch], or describe layers in a file"
        ) from None
    build = _function(source)
    try:
        with torch.device("meta"):
            built = build()
    except Exception as error:
        raise TreefoldError(f"model {source}: cannot be built on the meta device: {_line(error)}") from None
    module, given = built if isinstance(built, tuple) and len(built) == 2 else (built, ())
    if not isinstance(module, torch.nn.Module):
        raise TreefoldError(f"model {source}: returned a {type(module).__name__}; it must return a torch.nn.Module")
    arguments, named = _arguments(source, module, given, [_tensor(text, torch) for text in inputs])
    return Model(source, tuple(_layers(source, module.to("meta"), arguments, named)))


def _function(source: str) -> Any:
    """Import what `my_module:build` names; the current folder counts as it does for `python -m`."""
    place, _, name = source.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(place), name)
    except ImportError as error:
        raise TreefoldError(f"model {source}: {error}; name an importable module, or a built-in model") from None
    except AttributeError:
        raise TreefoldError(f"model {source}: {place} has no '{name}'; name a function in it") from None
    except Exception as error:
        raise TreefoldError(f"model {source}: {place} fails to import: {_line(error)}") from None
    if not callable(found):
        raise TreefoldError(f"model {source}: '{name}' is a {type(found).__name__}; name a function")
    return found


def _line(error: Exception) -> str:
    text = " ".join(str(error).split())
    return f"{type(error).__name__}: {text}"[:300]


def _tensor(text: str, torch: Any) -> tuple[str, Any]:
    """Return the name, and a tensor with a batch of one, of `x=3x224x224:float32`."""
    name, _, rest = text.partition("=")
    shape, _, kind = rest.partition(":")
    sizes = shape.split("x")
    number = getattr(torch, kind or "float32", None)
    if not name or not all(size.isdigit() and int(size) for size in sizes) or not isinstance(number, torch.dtype):
        raise TreefoldError(f"input '{text}' is none; {_FORM}")
    return name, torch.empty((1, *map(int, sizes)), dtype=number, device="meta")


def _arguments(
    source: str, module: Any, given: Any, inputs: Sequence[tuple[str, Any]]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """Return what to call the module with; refuse inputs that are missing or unknown, by their names."""
    arguments = () if isinstance(given, Mapping) else tuple(given) if isinstance(given, (tuple, list)) else (given,)
    named = dict(given) if isinstance(given, Mapping) else {}
    named |= dict(inputs)
    signature = inspect.signature(module.forward)
    try:
        bound = signature.bind_partial(*arguments, **named).arguments
    except TypeError as error:
        raise TreefoldError(f"model {source}: {error}; its forward takes {signature}") from None
    must = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    missing = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.kind in must and parameter.default is parameter.empty and name not in bound
    ]
    first = next((each for each in bound.values() if hasattr(each, "dim") and each.dim()), None)
    if first is not None and first.shape[0] != 1:
        raise TreefoldError(f"model {source}: its first input has a batch of {first.shape[0]}; give a batch of 1")
    if missing:
        raise TreefoldError(
            f"model {source}: nobody gave its input{'s' * (len(missing) > 1)} {', '.join(missing)}; {_FORM}"
        )
    return arguments, named


def _layers(source: str, module: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> list[Layer]:
    """Call the module and return a layer for each submodule that did anything, in the order of first use."""
    import torch

    names = {each: name or type(module).__name__ for name, each in module.named_modules()}
    seen = _seer(torch, names)
    hooks = []
    for each in names:
        hooks.append(each.register_forward_pre_hook(seen.enter))
        hooks.append(each.register_forward_hook(seen.leave, always_call=True))
    move = torch.utils._pytree.tree_map
    meta = [
        move(lambda value: value.to("meta") if isinstance(value, torch.Tensor) else value, each) for each in arguments
    ]
    keyed = move(lambda value: value.to("meta") if isinstance(value, torch.Tensor) else value, dict(named))
    try:
        with torch.no_grad(), seen:
            module(*meta, **keyed)
    except TreefoldError:
        raise
    except Exception as error:
        raise TreefoldError(f"model {source}: its forward fails on the meta device: {_line(error)}") from None
    finally:
        for hook in hooks:
            hook.remove()
    seen.adopt(module)
    layers: list[Layer] = seen.layers()
    if not any(layer.parameters for layer in layers):
        raise TreefoldError(f"model {source}: no parameter has a gradient, so there is nothing to add up")
    return layers


_PRODUCTS = {
    "aten.mm": (0, 1),
    "aten.addmm": (1, 2),
    "aten.bmm": (0, 1),
    "aten.baddbmm": (1, 2),
    "aten.convolution": (0, 1),
}
"""Operations that are products, and where their operands stand."""
_LOOKUPS = ("aten.embedding", "aten.index", "aten.index_select", "aten.gather")
"""Operations that read only as much as they write."""


def _seer(torch: Any, names: Mapping[Any, str]) -> Any:
    """Return what watches a forward pass; a class in here, since its base is PyTorch's."""
    from torch.utils._python_dispatch import TorchDispatchMode

    class Seer(TorchDispatchMode):  # type: ignore[misc]
        def __init__(self) -> None:
            super().__init__()
            self.stack: list[Any] = []
            self.found: dict[str, list[Layer]] = {}
            self.parameters: dict[str, int] = {}
            self.owned: set[int] = set()

        def enter(self, module: Any, _: Any) -> None:
            self.stack.append(module)
            held = [
                each for each in module.parameters(recurse=False) if each.requires_grad and id(each) not in self.owned
            ]
            self.owned.update(map(id, held))
            name = names[module]
            self.parameters[name] = self.parameters.get(name, 0) + sum(each.numel() for each in held)
            if held:
                self.found.setdefault(name, [])

        def leave(self, *_: Any) -> None:
            self.stack.pop()

        def __torch_dispatch__(self, operation: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
            result = operation(*arguments, **(named or {}))
            name = names[self.stack[-1]] if self.stack else "outside"
            kind = str(operation.overloadpacket)
            if kind in _PRODUCTS:
                left, right = (arguments[place] for place in _PRODUCTS[kind])
                groups = arguments[8] if kind == "aten.convolution" else 1
                self.found.setdefault(name, []).append(_product(name, left, right, result, groups))
            elif _moves(operation, result):
                written = _numbers(torch, result)
                moved = written + (written if kind in _LOOKUPS else _numbers(torch, arguments))
                self.found.setdefault(name, []).append(Layer(name, elements=moved, kernels=1))
            return result

        def adopt(self, module: Any) -> None:
            """Give parameters of submodules that were not called to the nearest one around them that was."""
            for name, each in module.named_parameters():
                if each.requires_grad and id(each) not in self.owned:
                    around = name
                    while around and around not in self.parameters:
                        around = around.rpartition(".")[0]
                    around = around or names[module]
                    self.parameters[around] += each.numel()
                    self.found.setdefault(around, [])

        def layers(self) -> list[Layer]:
            return [
                layer
                for name, parts in self.found.items()
                for layer in _joined(name, parts, self.parameters.get(name, 0))
            ]

    return Seer()


def _product(name: str, left: Any, right: Any, result: Any, groups: int) -> Layer:
    """Return a product of one sample: samples that a matrix holds as rows are positions."""
    if left.dim() == 2:
        return Layer(name, inputs=left.shape[0], outputs=left.shape[0], channels=left.shape[1], filters=right.shape[1])
    if right.dim() == 3 and left.dim() == 3 and result.shape[1:] == (left.shape[1], right.shape[2]):
        count, rows, inner = left.shape
        return Layer(name, inputs=rows, outputs=rows, channels=inner, filters=right.shape[2], copies=count)
    filters, channels, *window = right.shape
    return Layer(
        name,
        inputs=left.shape[0] * math.prod(left.shape[2:]),
        outputs=result.shape[0] * math.prod(result.shape[2:]),
        window=math.prod(window),
        channels=channels,
        filters=filters // groups,
        copies=groups,
    )


def _moves(operation: Any, result: Any) -> bool:
    """Whether an operation goes through memory: views, and tensors that nobody reads, do not."""
    name = str(operation.overloadpacket).removeprefix("aten.")
    if name in ("detach", "empty", "empty_like", "new_empty", "t", "lift_fresh"):
        return False
    return not any(each.alias_info is not None and not each.alias_info.is_write for each in operation._schema.returns)


def _numbers(torch: Any, values: Any) -> int:
    leaves = torch.utils._pytree.tree_leaves(values)
    return sum(each.numel() for each in leaves if isinstance(each, torch.Tensor))


def _joined(name: str, parts: Sequence[Layer], parameters: int) -> list[Layer]:
    """Return a layer for each product of a submodule; parameters go with the first, elementwise work with the last."""
    products = [part for part in parts if part.macs] or [Layer(name)]
    elements = sum(part.elements for part in parts)
    kernels = sum(part.kernels for part in parts)
    products[0] = products[0]._replace(parameters=parameters)
    products[-1] = products[-1]._replace(elements=elements, kernels=kernels)
    if len(products) == 1:
        return products
    return [each._replace(name=f"{name}#{place}") for place, each in enumerate(products)]
