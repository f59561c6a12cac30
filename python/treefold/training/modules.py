"""A PyTorch module of one's own as a model: its forward pass on the meta device, without weights, data or a GPU.

Hooks tell which submodule is at work; what it asks of PyTorch, down to each product and each elementwise operation, is
seen below them with its shapes, whatever Python it was written in. Parameters belong to the submodule that holds them,
or to the one around it where that is never called itself; a shared one to the first that uses it, whose gradient is
complete last.
"""

import copy
import importlib
import inspect
import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from contextlib import redirect_stdout
from typing import Any

from treefold.errors import TreefoldError
from treefold.training.layers import DATA, FROZEN, WEIGHTS, Layer, Model

_FORM = "write --input NAME=SHAPE for one sample, for example --input x=3x224x224 or --input tokens=128:int64"


def trace(module: Any, *inputs: Any, name: str = "", **named: Any) -> Model:
    """Return a PyTorch module as a model.

    Args:
        module: A `torch.nn.Module`, on whatever device.
        inputs: What its forward takes, for one sample, as a batch of one.
        name: What to call it; by default its class.
        named: The same by name.

    Raises:
        TreefoldError: If it is no module, or needs inputs that nobody gave.

    """
    import torch

    label = name or type(module).__name__
    if not isinstance(module, torch.nn.Module):
        raise TreefoldError(f"model {label}: got {type(module).__name__}; it must be a torch.nn.Module")
    _check_parts(label, module, torch)
    _check_inputs(label, module, inputs, named, torch)
    return Model(label, tuple(_layers(label, _bare(label, module, torch), inputs, named)))


def _check_parts(label: str, module: Any, torch: Any) -> None:
    """Refuse parts that cannot be watched or have no shapes yet, by their names."""
    for place, each in module.named_modules():
        if isinstance(each, torch.jit.ScriptModule):
            raise TreefoldError(f"model {label}: {place or 'it'} is scripted and cannot be watched; give it unscripted")
    for place, each in module.named_parameters():
        if torch.nn.parameter.is_lazy(each):
            raise TreefoldError(f"model {label}: parameter {place} has no shape yet; call the module once before")


def _bare(label: str, module: Any, torch: Any) -> Any:
    """Return a copy of a module on the meta device: the module stays as it is, and its weights are not copied."""
    bare = {id(each): torch.nn.Parameter(each.detach().to("meta"), each.requires_grad) for each in module.parameters()}
    held = [each for part in module.modules() for each in (*vars(part).values(), *part.buffers(recurse=False))]
    tensors = [each for each in held if isinstance(each, torch.Tensor) and id(each) not in bare]
    try:
        return copy.deepcopy(module, bare | {id(each): each.detach().to("meta") for each in tensors})
    except Exception as error:
        raise TreefoldError(f"model {label}: cannot be copied without its weights: {_line(error)}") from None


def trace_named(source: str, inputs: Sequence[str] = ()) -> Model:
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
        # What it prints is not ours to print.
        with torch.device("meta"), redirect_stdout(sys.stderr):
            built = build()
    except Exception as error:
        raise TreefoldError(f"model {source}: {source.partition(':')[2]}() fails: {_line(error)}") from None
    module, given = built if isinstance(built, tuple) and len(built) == 2 else (built, ())
    arguments = () if isinstance(given, Mapping) else tuple(given) if isinstance(given, (tuple, list)) else (given,)
    named = dict(given) if isinstance(given, Mapping) else {}
    for key, tensor in (_tensor(text, torch) for text in inputs):
        if key in named:
            raise TreefoldError(f"model {source}: input {key} is given twice; drop one")
        named[key] = tensor
    return trace(module, *arguments, name=source, **named)


def _function(source: str) -> Any:
    """Import what `my_module:build` names; the current folder counts as it does for `python -m`."""
    place, _, name = source.partition(":")
    if "" not in sys.path:
        sys.path.insert(0, "")
    try:
        found = getattr(importlib.import_module(place), name)
    except ImportError as error:
        advice = (
            f"drop .py: {place[:-3]}:{name}" if place.endswith(".py") else "name a module that Python finds from here"
        )
        raise TreefoldError(f"model {source}: {error}; {advice}") from None
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
        raise TreefoldError(f"input '{text}' cannot be read; {_FORM}")
    return name, torch.empty((1, *map(int, sizes)), dtype=number, device="meta")


def _check_inputs(label: str, module: Any, arguments: tuple[Any, ...], named: Mapping[str, Any], torch: Any) -> None:
    """Refuse inputs that are missing, unknown or more than a sample, by their names."""
    signature = inspect.signature(module.forward)
    try:
        bound = signature.bind_partial(*arguments, **named).arguments
    except TypeError as error:
        raise TreefoldError(f"model {label}: {error}; its forward takes {signature}") from None
    must = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    missing = [
        name
        for name, parameter in signature.parameters.items()
        if parameter.kind in must and parameter.default is parameter.empty and name not in bound
    ]
    if missing:
        what = f"input{'s' * (len(missing) > 1)} {', '.join(missing)}"
        raise TreefoldError(f"model {label}: nobody gave its {what}; {_FORM}")
    leaves = torch.utils._pytree.tree_leaves(list(bound.values()))
    batches = [each.shape[0] for each in leaves if isinstance(each, torch.Tensor) and each.dim()]
    if batches and 1 not in batches:
        raise TreefoldError(
            f"model {label}: its first input has a batch of {batches[0]}; give a batch of 1, batch first"
        )


def _layers(source: str, module: Any, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> list[Layer]:
    """Call the module and return a layer for each submodule that did anything, in the order of first use."""
    import torch

    names = {each: name or type(module).__name__ for name, each in module.named_modules()}
    seen = _seer(torch, names, module)
    hooks = []
    for each in names:
        hooks.append(each.register_forward_pre_hook(seen.enter))
        hooks.append(each.register_forward_hook(seen.leave, always_call=True))
    for each in module.modules():
        if isinstance(each, torch.nn.modules.batchnorm._BatchNorm):
            each.eval()  # training refuses a batch of one
    given, keyed = torch.utils._pytree.tree_map(
        lambda value: value.to("meta") if isinstance(value, torch.Tensor) else value, (arguments, dict(named))
    )
    try:
        with torch.no_grad(), torch.device("meta"), seen.functions, seen, redirect_stdout(sys.stderr):
            module(*given, **keyed)
    except Exception as error:
        advice = "check its inputs (--input NAME=SHAPE:TYPE), or describe its layers in a file"
        raise TreefoldError(f"model {source}: its forward fails on the meta device: {_line(error)}; {advice}") from None
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
    "aten.mv": (0, 1),
    "aten.bmm": (0, 1),
    "aten.baddbmm": (1, 2),
    "aten.convolution": (0, 1),
}
"""Operations that are products, and where their operands stand."""
_LOOKUPS = ("aten.embedding", "aten.index", "aten.index_select", "aten.gather")
"""Operations that read only as much as they write."""
_FUSED = ("scaled_dot_product_attention", "dropout", "lstm", "gru", "rnn_tanh", "rnn_relu")
"""Functions that GPUs have one kernel for, where PyTorch without a device takes several operations."""


def _seer(torch: Any, names: Mapping[Any, str], module: Any) -> Any:
    """Return what watches a forward pass; a class in here, since its bases are PyTorch's."""
    from torch.overrides import TorchFunctionMode
    from torch.utils._python_dispatch import TorchDispatchMode

    class Functions(TorchFunctionMode):  # type: ignore[misc]
        """Sees functions of PyTorch before they become operations."""

        def __init__(self, seer: Any) -> None:
            super().__init__()
            self.seer = seer

        def __torch_function__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
            named = named or {}
            if getattr(function, "__name__", "") not in _FUSED or self.seer.is_fused:
                return function(*arguments, **named)
            return self.seer.fuse(function, arguments, named)

    class Seer(TorchDispatchMode):  # type: ignore[misc]
        """Sees operations, and the submodules that ask for them."""

        def __init__(self) -> None:
            super().__init__()
            self.functions = Functions(self)
            self.stack: list[Any] = []
            self.found: dict[str, list[Layer]] = {}
            self.parameters: dict[str, int] = {}
            self.owned: set[int] = set()
            self.is_fused = False
            # Views of a parameter keep its storage.
            self.trained = {each.untyped_storage()._cdata: each.requires_grad for each in module.parameters()}

        def enter(self, module: Any, _: Any) -> None:
            self.stack.append(module)
            own = list(module.parameters(recurse=False))
            held = [each for each in own if each.requires_grad and id(each) not in self.owned]
            self.owned.update(map(id, held))
            name = names[module]
            self.parameters[name] = self.parameters.get(name, 0) + sum(each.numel() for each in held)
            if held:
                self.found.setdefault(name, [])

        def leave(self, *_: Any) -> None:
            self.stack.pop()

        @property
        def name(self) -> str:
            return names[self.stack[-1]] if self.stack else "outside"

        def operand(self, factors: Sequence[Any]) -> str:
            """Tell what a product's factors are: weights, frozen ones, or data of the sample both."""
            storages = [each.untyped_storage()._cdata for each in factors]
            trained = [self.trained[each] for each in storages if each in self.trained]
            return WEIGHTS if any(trained) else FROZEN if trained else DATA

        def add(self, layer: Layer) -> None:
            self.found.setdefault(self.name, []).append(layer)

        def fuse(self, function: Any, arguments: Any, named: Any) -> Any:
            """Call a function, and count one kernel for its elementwise work and one for products of one shape."""
            outer, self.found = self.found, {}
            self.is_fused = True
            try:
                result = function(*arguments, **named)
            finally:
                inner, self.found, self.is_fused = self.found, outer, False
            if not inner:
                return result  # it had nothing to do
            for product in _merged(layer for parts in inner.values() for layer in parts if layer.macs):
                self.add(product)
            moved = _numbers(torch, (arguments, named)) + _numbers(torch, result)
            self.add(Layer(self.name, elements=moved, kernels=1))
            return result

        def __torch_dispatch__(self, operation: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
            result = operation(*arguments, **(named or {}))
            kind = str(operation.overloadpacket)
            if kind in _PRODUCTS:
                left, right = (arguments[place] for place in _PRODUCTS[kind])
                how = arguments[6:9:2] if kind == "aten.convolution" else (False, 1)
                self.add(_product(Layer(self.name, operand=self.operand((left, right))), left, right, result, how))
            elif _moves(operation):
                written = _numbers(torch, result)
                moved = written + (written if kind in _LOOKUPS else _numbers(torch, arguments))
                self.add(Layer(self.name, elements=moved, kernels=1))
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


def _product(layer: Layer, left: Any, right: Any, result: Any, how: tuple[bool, int]) -> Layer:
    """Return a layer with a product of one sample: samples that a matrix holds as rows are positions.

    Args:
        layer: Its name and operand.
        left: What comes in.
        right: What it is multiplied with.
        result: What comes out.
        how: Of a convolution: whether it is transposed, and its groups.

    """
    if right.dim() == 1:
        return layer._replace(inputs=1, outputs=1, channels=left.shape[1], filters=left.shape[0])
    if left.dim() == 2:
        rows, inner = left.shape
        return layer._replace(inputs=rows, outputs=rows, channels=inner, filters=right.shape[1])
    if left.dim() == right.dim() == 3 and left.shape[0] == right.shape[0] and left.shape[2] == right.shape[1]:
        count, rows, inner = left.shape
        sizes = {"inputs": rows, "outputs": rows, "channels": inner, "filters": right.shape[2], "copies": count}
        return layer._replace(**sizes)
    return _convolution(layer, left, right, result, how)


def _convolution(layer: Layer, left: Any, right: Any, result: Any, how: tuple[bool, int]) -> Layer:
    """Return a layer with a convolution; a transposed one has its products where its input is."""
    is_transposed, groups = how
    where_in, where_out = (each.shape[0] * math.prod(each.shape[2:]) for each in (left, result))
    channels, filters = right.shape[1], right.shape[0] // groups
    if is_transposed:
        channels, filters = right.shape[0] // groups, right.shape[1]
    return layer._replace(
        inputs=where_in,
        outputs=where_in if is_transposed else where_out,
        window=math.prod(right.shape[2:]),
        channels=channels,
        filters=filters,
        copies=groups,
    )


def _merged(products: Iterable[Layer]) -> list[Layer]:
    """Return products with those of one shape, as a recurrent network has step by step, as one over all positions."""
    found: dict[Layer, int] = {}
    for each in products:
        found[each] = found.get(each, 0) + 1
    return [
        each._replace(copies=times * each.copies)
        if each.operand == DATA
        else each._replace(inputs=times * each.inputs, outputs=times * each.outputs)
        for each, times in found.items()
    ]


def _moves(operation: Any) -> bool:
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
