"""The layers of products, from the shapes of PyTorch's operands: matrix products and convolutions of one sample."""

import math
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from treefold.training.layers import DATA, Layer

if TYPE_CHECKING:
    from torch import Tensor


class Product(NamedTuple):
    """A product that an operation of PyTorch computes."""

    left: "Tensor"
    """The numbers that come in."""
    right: "Tensor"
    """The factors that they are multiplied with."""
    result: "Tensor"
    is_transposed: bool = False
    """Whether the product is a transposed convolution."""
    groups: int = 1
    """A convolution has this many groups."""


def layer_of_product(layer: Layer, product: Product) -> Layer:
    """Return `layer` with a product; samples that a matrix holds as rows become positions."""
    left, right = product.left, product.right
    if right.dim() == 1:
        return layer._replace(inputs=1, outputs=1, channels=left.shape[1], filters=left.shape[0])
    if left.dim() == 2:
        rows, inner = left.shape
        return layer._replace(inputs=rows, outputs=rows, channels=inner, filters=right.shape[1])
    if left.dim() == right.dim() == 3 and left.shape[0] == right.shape[0] and left.shape[2] == right.shape[1]:
        count, rows, inner = left.shape
        return layer._replace(inputs=rows, outputs=rows, channels=inner, filters=right.shape[2], copies=count)
    return _layer_of_convolution(layer, product)


def _layer_of_convolution(layer: Layer, product: Product) -> Layer:
    """Return `layer` with a convolution; a transposed one multiplies at the positions of its input."""
    inputs, outputs = (each.shape[0] * math.prod(each.shape[2:]) for each in (product.left, product.result))
    weights = product.right.shape
    channels, filters = weights[1], weights[0] // product.groups
    if product.is_transposed:
        channels, filters = filters, channels
    return layer._replace(
        inputs=inputs,
        outputs=inputs if product.is_transposed else outputs,
        window=math.prod(weights[2:]),
        channels=channels,
        filters=filters,
        copies=product.groups,
    )


def merge_products(products: Iterable[Layer]) -> list[Layer]:
    """Return the products with those of one shape as a single one over all positions.

    A recurrent network has such products, one for each step.
    """
    times: dict[Layer, int] = {}
    for product in products:
        times[product] = times.get(product, 0) + 1
    return [
        product._replace(copies=count * product.copies)
        if product.operand == DATA
        else product._replace(inputs=count * product.inputs, outputs=count * product.outputs)
        for product, count in times.items()
    ]


def layers_of_module(name: str, work: Sequence[Layer], parameters: int) -> list[Layer]:
    """Return a layer for each product of a submodule, or one layer if it has none.

    The parameters belong to the first product, and the elementwise work follows the last one.
    """
    products = [part for part in work if part.macs] or [Layer(name)]
    elements = sum(part.elements for part in work)
    kernels = sum(part.kernels for part in work)
    products[0] = products[0]._replace(parameters=parameters)
    products[-1] = products[-1]._replace(elements=elements, kernels=kernels)
    if len(products) == 1:
        return products
    return [product._replace(name=f"{name}#{place}") for place, product in enumerate(products)]
