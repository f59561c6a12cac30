"""What a model is made of, as far as the time of an iteration goes: layers with a product, parameters and traffic.

A layer's product is a convolution of one sample; a linear layer is one whose window is a single position. Everything
else that a layer does (norms, activations, sums) is counted as elements that go through memory.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from treefold import checks
from treefold.errors import TreefoldError

WEIGHTS, FROZEN, DATA = "weights", "frozen", "data"

_MOST = 10**18
"""Larger sizes are typing errors."""


class Layer(NamedTuple):
    """A layer, for one sample."""

    name: str
    inputs: int = 0
    """Positions (pixels, tokens) that come in."""
    outputs: int = 0
    """Positions that go out; 0 for a layer without a product."""
    window: int = 1
    """Positions that a filter covers."""
    channels: int = 0
    """Of each position that comes in."""
    filters: int = 0
    """Channels of each position that goes out."""
    copies: int = 1
    """Equal products side by side: groups, heads."""
    parameters: int = 0
    """Numbers with a gradient."""
    elements: int = 0
    """Numbers that elementwise work of the forward pass reads and writes."""
    kernels: int = 0
    """Launches of that work."""
    split: str = ""
    """How tensor parallelism cuts it: `columns` (filters), `rows` (channels), `heads` (copies), or not at all."""
    operand: str = WEIGHTS
    """What filters are: weights that are trained, `frozen` ones, or `data` of the sample, as in attention."""
    forward_sum: int = 0
    """Numbers that ranks which hold parts of the layer add up after its forward pass."""
    backward_sum: int = 0
    """The same after its backward pass."""

    @property
    def macs(self) -> int:
        """Multiply-accumulates of a sample's forward pass."""
        return self.outputs * self.window * self.channels * self.filters * self.copies


class Model(NamedTuple):
    """A model to train."""

    name: str
    layers: tuple[Layer, ...]
    """In the order of the forward pass."""
    sample: str = "sample"
    """What one is."""

    @property
    def parameters(self) -> int:
        """Numbers with a gradient."""
        return sum(layer.parameters for layer in self.layers)


def convolution(
    name: str,
    size: tuple[int, int],
    window: tuple[int, int],
    channels: int,
    filters: int,
    *,
    stride: int = 1,
    padding: int = 0,
    groups: int = 1,
    extra: int = 0,
    touched: int = 0,
    kernels: int = 0,
) -> Layer:
    """Return a convolution of an image of `size`.

    Args:
        name: What to call it.
        size: Height and width of what comes in, without padding.
        window: Height and width of a filter.
        channels: Of what comes in, over all groups.
        filters: Of all groups.
        stride: Both ways.
        padding: On each side.
        groups: Equal parts with channels and filters of their own.
        extra: Parameters besides the filters: biases, norms.
        touched: How often elementwise work reads or writes each number that comes out.
        kernels: Launches of that work.

    """
    size, window = _sides(f"layer {name}: size", size), _sides(f"layer {name}: window", window)
    counts = {"channels": channels, "filters": filters, "stride": stride, "groups": groups}
    for what, count in counts.items():
        checks.whole(f"layer {name}: {what}", count, 1, _MOST)
    checks.whole(f"layer {name}: padding", padding, 0, _MOST)
    height, width = ((side + 2 * padding - over) // stride + 1 for side, over in zip(size, window, strict=True))
    if height < 1 or width < 1:
        raise TreefoldError(
            f"layer {name}: a filter of {window[0]}x{window[1]} does not fit into {size[0]}x{size[1]}; check its sizes"
        )
    if channels % groups or filters % groups:
        raise TreefoldError(f"layer {name}: {groups} groups do not divide {channels} channels and {filters} filters")
    each = (channels // groups, filters // groups)
    over = window[0] * window[1]
    return Layer(
        name,
        inputs=size[0] * size[1],
        outputs=height * width,
        window=over,
        channels=each[0],
        filters=each[1],
        copies=groups,
        parameters=over * each[0] * filters + extra,
        elements=touched * height * width * filters,
        kernels=kernels,
    )


def _sides(what: str, given: Any) -> tuple[int, int]:
    """Return a height and a width."""
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != 2:
        raise TreefoldError(f"{what} must be a height and a width, for example (224, 224), got {checks.shown(given)}")
    return checks.whole(what, given[0], 1, _MOST), checks.whole(what, given[1], 1, _MOST)


def linear(
    name: str,
    channels: int,
    filters: int,
    *,
    positions: int = 1,
    extra: int = 0,
    touched: int = 0,
    kernels: int = 0,
    split: str = "",
    is_tied: bool = False,
) -> Layer:
    """Return a linear layer over `positions`; if tied, its weights are another layer's."""
    for what, count in {"channels": channels, "filters": filters, "positions": positions}.items():
        checks.whole(f"layer {name}: {what}", count, 1, _MOST)
    return Layer(
        name,
        inputs=positions,
        outputs=positions,
        channels=channels,
        filters=filters,
        parameters=extra + (0 if is_tied else channels * filters),
        elements=touched * positions * filters,
        kernels=kernels,
        split=split,
    )


def renamed(layers: Iterable[Layer], prefix: str) -> list[Layer]:
    """Return layers under a prefix."""
    return [layer._replace(name=f"{prefix}{layer.name}") for layer in layers]


def check_model(model: Model) -> None:
    """Refuse a model whose layers are none, or whose sizes are no sizes."""
    if not isinstance(model.layers, Sequence):
        raise TreefoldError(
            f"model {checks.shown(model.name)}: layers are {checks.shown(model.layers)}, no list of them"
        )
    for place, layer in enumerate(model.layers, 1):
        what = f"model {checks.shown(model.name)}: layer {place}"
        if not isinstance(layer, Layer):
            raise TreefoldError(f"{what} is {checks.shown(layer)}; make it with treefold.training.Layer")
        for field, default in Layer._field_defaults.items():
            if isinstance(default, int):
                checks.whole(f"{what}: {field}", getattr(layer, field), 0, _MOST)
        checks.name(f"{what}: operand", layer.operand, (WEIGHTS, FROZEN, DATA))


def positive(what: str, value: float, most: float = 1e18) -> None:
    """Refuse what is no size."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= most:
        raise TreefoldError(f"{what} is {checks.shown(value)}; it must be a number above 0, and at most {most:g}")
