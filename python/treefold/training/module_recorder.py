"""The recorder of a forward pass: which submodule is active, and which operations it asks of PyTorch.

Hooks tell which submodule is active (as `torch.utils.module_tracker` does). Below them, a mode of PyTorch sees each
product and each elementwise operation with its shapes, whatever Python it was written in. This file imports PyTorch;
only `module_tracing.py` imports it.
"""

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

from treefold.training.layers import DATA, FROZEN, WEIGHTS, Layer
from treefold.training.module_products import Product, layer_of_product, layers_of_module, merge_products

_PRODUCTS = {
    "aten.mm": (0, 1),
    "aten.addmm": (1, 2),
    "aten.mv": (0, 1),
    "aten.bmm": (0, 1),
    "aten.baddbmm": (1, 2),
    "aten.convolution": (0, 1),
}
"""The operations that are products, with the places of their two operands."""
_LOOKUPS = ("aten.embedding", "aten.index", "aten.index_select", "aten.gather")
"""The operations that read only as much as they write."""
_FREE = ("detach", "empty", "empty_like", "new_empty", "t", "lift_fresh", "_unsafe_view")
"""The operations that move nothing through memory, although their schemas do not say so."""
_FUSED = ("scaled_dot_product_attention", "dropout", "lstm", "gru", "rnn_tanh", "rnn_relu")
"""The functions that are one kernel on a GPU, and several operations on the meta device."""


class Recording:
    """The work and the parameters of each submodule, in the order of first use.

    Parameters belong to the submodule that holds them, or to the nearest one around it that is called. A shared
    parameter belongs to the first submodule that uses it, where its gradient is complete last.
    """

    def __init__(self, module: nn.Module) -> None:
        self._module = module
        self._names = {part: name or type(module).__name__ for name, part in module.named_modules()}
        self._active: list[nn.Module] = []
        self._work: dict[str, list[Layer]] = {}
        self._parameters: dict[str, int] = {}
        self._owned: set[int] = set()

    @contextmanager
    def hooked(self) -> Iterator[None]:
        """Follow the calls of all submodules."""
        with ExitStack() as hooks:
            for part in self._names:
                hooks.callback(part.register_forward_pre_hook(self._enter).remove)
                hooks.callback(part.register_forward_hook(self._leave, always_call=True).remove)
            yield

    def _enter(self, part: nn.Module, _: Any) -> None:
        self._active.append(part)
        held = [each for each in part.parameters(recurse=False) if each.requires_grad and id(each) not in self._owned]
        self._owned.update(map(id, held))
        name = self._names[part]
        self._parameters[name] = self._parameters.get(name, 0) + sum(each.numel() for each in held)
        if held:
            self._work.setdefault(name, [])

    def _leave(self, *_: Any) -> None:
        self._active.pop()

    @property
    def active(self) -> str:
        """The name of the submodule that is active."""
        return self._names[self._active[-1]] if self._active else "outside"

    def add(self, layer: Layer) -> None:
        """Record a product or elementwise work of the active submodule."""
        self._work.setdefault(self.active, []).append(layer)

    def add_elementwise(self, elements: int) -> None:
        """Record a kernel of the active submodule that moves so many numbers through memory."""
        self.add(Layer(self.active, elements=elements, kernels=1))

    @contextmanager
    def apart(self) -> Iterator[list[Layer]]:
        """Yield a list that gets the work that is recorded meanwhile; the recording does not get it."""
        outer, self._work = self._work, {}
        collected: list[Layer] = []
        try:
            yield collected
        finally:
            collected += [layer for work in self._work.values() for layer in work]
            self._work = outer

    def layers(self) -> list[Layer]:
        """Return the layers of all submodules that did anything or hold parameters."""
        self._adopt_parameters()
        return [
            layer
            for name, work in self._work.items()
            for layer in layers_of_module(name, work, self._parameters.get(name, 0))
        ]

    def _adopt_parameters(self) -> None:
        """Give the parameters of submodules that were not called to the nearest one around them that was."""
        for name, parameter in self._module.named_parameters():
            if parameter.requires_grad and id(parameter) not in self._owned:
                around = name
                while around and around not in self._parameters:
                    around = around.rpartition(".")[0]
                around = around or self._names[self._module]
                self._parameters[around] += parameter.numel()
                self._work.setdefault(around, [])


class FusedFunctions(TorchFunctionMode):  # type: ignore[misc]
    """A mode that records a fused function as one kernel, before PyTorch takes it apart into operations."""

    def __init__(self, recording: Recording) -> None:
        super().__init__()
        self._recording = recording

    def __torch_function__(self, function: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        named = named or {}
        if getattr(function, "__name__", "") not in _FUSED:
            return function(*arguments, **named)
        with self._recording.apart() as work:
            result = function(*arguments, **named)
        if work:  # a dropout that drops nothing has no work
            for product in merge_products(layer for layer in work if layer.macs):
                self._recording.add(product._replace(is_fused=product.operand == DATA))
            self._recording.add_elementwise(_numbers((arguments, named)) + _numbers(result))
        return result


class Operations(TorchDispatchMode):  # type: ignore[misc]
    """A mode that records each operation of PyTorch."""

    def __init__(self, recording: Recording, module: nn.Module) -> None:
        super().__init__()
        self._recording = recording
        # Views of a parameter share its storage.
        self._trained = {each.untyped_storage()._cdata: each.requires_grad for each in module.parameters()}

    def __torch_dispatch__(self, operation: Any, types: Any, arguments: Any = (), named: Any = None) -> Any:
        result = operation(*arguments, **(named or {}))
        kind = str(operation.overloadpacket)
        if kind in _PRODUCTS:
            self._record_product(kind, arguments, result)
        elif _moves(operation):
            written = _numbers(result)
            self._recording.add_elementwise(written + (written if kind in _LOOKUPS else _numbers(arguments)))
        return result

    def _record_product(self, kind: str, arguments: Sequence[Any], result: Tensor) -> None:
        left, right = (arguments[place] for place in _PRODUCTS[kind])
        is_transposed, groups = arguments[6:9:2] if kind == "aten.convolution" else (False, 1)
        layer = Layer(self._recording.active, operand=self._operand((left, right)))
        self._recording.add(layer_of_product(layer, Product(left, right, result, is_transposed, groups)))

    def _operand(self, factors: Sequence[Tensor]) -> str:
        """Return whether a product has trained weights, frozen weights, or only data of the sample."""
        storages = [each.untyped_storage()._cdata for each in factors]
        trained = [self._trained[each] for each in storages if each in self._trained]
        return WEIGHTS if any(trained) else FROZEN if trained else DATA


def _moves(operation: Any) -> bool:
    """Return whether an operation moves numbers through memory; views do not, nor do tensors that nobody reads."""
    if str(operation.overloadpacket).removeprefix("aten.") in _FREE:
        return False
    return not any(each.alias_info is not None and not each.alias_info.is_write for each in operation._schema.returns)


def _numbers(values: Any) -> int:
    """Return how many numbers the tensors in nested values have."""
    leaves = torch.utils._pytree.tree_leaves(values)
    return sum(each.numel() for each in leaves if isinstance(each, Tensor))
