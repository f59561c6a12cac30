"""Tensor parallelism as in Megatron (Shoeybi et al., 2019), where every rank holds a part of every layer.

Idea: of two products in a row, the first is cut by filters and the second by channels, so that the numbers between them
need no exchange. An all-reduce adds partial sums after the second product in the forward pass, and after the first one
in the backward pass; nothing can be computed meanwhile. The heads of attention are dealt out to the ranks.
"""

from treefold.errors import TreefoldError
from treefold.training.layers import Layer, Model


def cut(model: Model, ranks: int) -> Model:
    """Return the part of a model that each of `ranks` ranks holds, with the sums that they must add up.

    Raises:
        TreefoldError: If the model has no layer that can be cut, or the ranks do not divide its heads.

    """
    if not any(layer.split for layer in model.layers):
        raise TreefoldError(
            f"no layer of model {model.name} says how tensor parallelism cuts it; drop model_parallel={ranks}, take a "
            'transformer such as llama-3-8b, or give layers of your own "split": "columns", "rows" or "heads"'
        )
    return model._replace(layers=tuple(_part(layer, ranks) for layer in model.layers))


def _part(layer: Layer, ranks: int) -> Layer:
    part = layer._replace(parameters=-(-layer.parameters // ranks))
    if layer.split == "columns":
        elements, filters = -(-layer.elements // ranks), -(-layer.filters // ranks)
        return part._replace(filters=filters, elements=elements, backward_sum=layer.inputs * layer.channels)
    if layer.split == "rows":
        channels = -(-layer.channels // ranks)
        return part._replace(channels=channels, forward_sum=layer.inputs * layer.filters)
    if layer.split == "heads":
        if layer.copies % ranks:
            raise TreefoldError(
                f"layer {layer.name}: {ranks} ranks do not divide {layer.copies} heads; take another model_parallel"
            )
        return part._replace(copies=layer.copies // ranks, elements=layer.elements // ranks)
    return layer
