"""Layers and models, described by what determines the time of a training iteration: products, parameters, traffic.

The product of a layer is a convolution of one sample; a linear layer is a convolution whose window is a single
position. Everything else that a layer does (norms, activations, sums) is counted as elements that go through memory.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from treefold import checks
from treefold.errors import TreefoldError

WEIGHTS, FROZEN, DATA = OPERANDS = ("weights", "frozen", "data")
"""A product multiplies its input with weights that are trained, with frozen weights, or with data of the sample."""

SPLITS = ("columns", "rows", "heads")
"""Tensor parallelism cuts a layer by columns (its filters), by rows (its channels) or by heads (its copies)."""

_MOST = 10**18
"""Every size above this is taken for a typing error."""


class Layer(NamedTuple):
    """A layer of a model; all sizes are those of one sample.

    For a layer with a product (a convolution or a matrix product), set `inputs`, `outputs`, `window`, `channels` and
    `filters`; `convolution` and `linear` make such layers. For a layer without one, set only `parameters`, `elements`
    and `kernels`.

    Attributes:
        name: Errors and timelines call the layer by this name.
        inputs: The layer reads this many positions (pixels, tokens).
        outputs: The layer writes this many positions; a layer without a product writes 0.
        window: A filter covers this many positions.
        channels: Each position that comes in has this many channels.
        filters: Each position that goes out has this many channels, one for each filter.
        copies: The number of independent products of equal shape, for example the groups of a convolution or the heads
            of attention.
        parameters: The layer has this many trained parameters; each gets a gradient.
        elements: The elementwise work of the forward pass reads and writes this many numbers, both counted together.
        kernels: The kernel launches of the elementwise work.
        split: Tensor parallelism cuts the layer by `columns` (its filters), `rows` (its channels) or `heads` (its
            copies); an empty text leaves the layer whole.
        operand: What multiplies the input: trained weights (`weights`), frozen weights (`frozen`), or activations
            (`data`), as in attention.
        forward_sum: With tensor parallelism, ranks all-reduce this many elements after the forward pass of the layer.
        backward_sum: With tensor parallelism, ranks all-reduce this many elements after the backward pass of the layer.
        is_fused: Whether the larger of input and output stays in the kernel and causes no memory traffic (fused
            attention's scores).

    Example:
        >>> from treefold.training import Layer
        >>> norm = Layer("norm", parameters=128, elements=196_608, kernels=1)
        >>> norm.macs
        0

    """

    name: str
    inputs: int = 0
    outputs: int = 0
    window: int = 1
    channels: int = 0
    filters: int = 0
    copies: int = 1
    parameters: int = 0
    elements: int = 0
    kernels: int = 0
    split: str = ""
    operand: str = WEIGHTS
    forward_sum: int = 0
    backward_sum: int = 0
    is_fused: bool = False

    @property
    def macs(self) -> int:
        """The multiply-accumulate operations of the forward pass of one sample.

        Their number is outputs x window x channels x filters x copies.
        """
        return self.outputs * self.window * self.channels * self.filters * self.copies


def gradients(layer: Layer, *, needs_input_gradient: bool) -> tuple[bool, bool]:
    """Return whether the backward pass needs the gradients of a layer's input, and of what multiplies the input.

    Attention has two inputs, so that both gradients are needed if anything before it is trained.
    """
    is_trained = layer.operand == WEIGHTS and bool(layer.macs or layer.parameters)
    return needs_input_gradient, is_trained or (layer.operand == DATA and needs_input_gradient and bool(layer.macs))


class LayerTime(NamedTuple):
    """How long an accelerator computes a layer, in seconds."""

    forward_s: float
    backward_s: float


class Model(NamedTuple):
    """A model to train.

    Attributes:
        name: Tables and errors call the model by this name.
        layers: The layers stand in the order of the forward pass.
        sample: A noun for one sample, for example `image` or `sentence of 80 tokens`.
        tokens: A sample has this many tokens; 0 if it does not consist of tokens.
        accelerator: The model trains on this accelerator where none is named.

    Example:
        >>> from treefold.training import Model, linear
        >>> Model("mine", (linear("fc1", 784, 512), linear("fc2", 512, 10)))
        Model('mine', layers=2, parameters=406_528)

    """

    name: str
    layers: tuple[Layer, ...]
    sample: str = "sample"
    tokens: int = 0
    accelerator: str = "systolic"

    @property
    def parameters(self) -> int:
        """The number of trained parameters; each gets a gradient."""
        return sum(layer.parameters for layer in self.layers)

    def __repr__(self) -> str:
        return f"Model({self.name!r}, layers={len(self.layers)}, parameters={self.parameters:_})"


@dataclass(frozen=True)
class Window:
    """The window that a convolution slides over its input; every size is a number of positions (pixels).

    Attributes:
        height: The height of the window, in positions.
        width: The width of the window, in positions.
        stride: The window moves this far at a time, down and across.
        padding: This many zeros surround the input on each side.

    Example:
        >>> from treefold.training import Window, convolution
        >>> convolution("conv2", (56, 56), Window(3, 3, padding=1), channels=64, filters=64).parameters
        36864

    """

    height: int
    width: int
    stride: int = 1
    padding: int = 0


@dataclass(frozen=True)
class Elementwise:
    """The elementwise work (norms, activations, sums) that follows a product in the forward pass.

    Attributes:
        accesses: For each element of the product's output, the work makes this many reads and writes together.
        kernels: The work takes this many kernel launches.

    Example:
        >>> from treefold.training import Elementwise, linear
        >>> relu = Elementwise(accesses=2, kernels=1)
        >>> linear("fc", 512, 1000, elementwise=relu).elements
        2000

    """

    accesses: int = 0
    kernels: int = 0

    def __add__(self, other: "Elementwise") -> "Elementwise":
        """Return the work of both, one after the other."""
        return Elementwise(self.accesses + other.accesses, self.kernels + other.kernels)


NO_WORK = Elementwise()
RELU = Elementwise(accesses=2, kernels=1)
"""An activation reads each number and writes it."""


def convolution(
    name: str,
    size: tuple[int, int],
    window: Window,
    channels: int,
    filters: int,
    *,
    groups: int = 1,
    extra_parameters: int = 0,
    elementwise: Elementwise = NO_WORK,
) -> Layer:
    """Return the layer of a convolution.

    Args:
        name: Errors and timelines call the layer by this name.
        size: The height and width of the input, without padding.
        window: The height, width, stride and padding of a filter.
        channels: The number of input channels of all groups together.
        filters: The number of output channels of all groups together.
        groups: The channels and filters fall into this many equal groups; a filter covers one group's channels.
        extra_parameters: The number of parameters besides the filters, such as biases and norms.
        elementwise: The elementwise work that follows the product.

    Raises:
        TreefoldError: If a size is not a whole number in its range, the groups do not divide the channels and filters,
            or a filter does not fit into the input.

    Example:
        >>> from treefold.training import Window, convolution
        >>> convolution("conv1", (224, 224), Window(7, 7, stride=2, padding=3), channels=3, filters=64).outputs
        12544

    """
    size = _sides(f"layer {name}: size", size)
    _check_window(name, window)
    for what, count in {"channels": channels, "filters": filters, "groups": groups}.items():
        checks.whole(f"layer {name}: {what}", count, 1, _MOST)
    checks.whole(f"layer {name}: extra_parameters", extra_parameters, 0, _MOST)
    if channels % groups or filters % groups:
        raise TreefoldError(f"layer {name}: {groups} groups do not divide {channels} channels and {filters} filters")
    covered = window.height * window.width
    outputs = _output_positions(name, size, window)
    return Layer(
        name,
        inputs=size[0] * size[1],
        outputs=outputs,
        window=covered,
        channels=channels // groups,
        filters=filters // groups,
        copies=groups,
        parameters=covered * (channels // groups) * filters + extra_parameters,
        elements=elementwise.accesses * outputs * filters,
        kernels=elementwise.kernels,
    )


def _sides(what: str, given: Any) -> tuple[int, int]:
    """Return a height and a width."""
    if not isinstance(given, Sequence) or isinstance(given, str) or len(given) != 2:
        raise TreefoldError(f"{what} must be a height and a width, for example (224, 224), got {checks.shown(given)}")
    return checks.whole(what, given[0], 1, _MOST), checks.whole(what, given[1], 1, _MOST)


def _check_window(name: str, window: Any) -> None:
    if not isinstance(window, Window):
        raise TreefoldError(
            f"layer {name}: window must be a Window, for example Window(3, 3, padding=1), got {checks.shown(window)}"
        )
    for what, least in {"height": 1, "width": 1, "stride": 1, "padding": 0}.items():
        checks.whole(f"layer {name}: {what} of the window", getattr(window, what), least, _MOST)


def _output_positions(name: str, size: tuple[int, int], window: Window) -> int:
    """Return the number of places at which a window fits into an input with its padding."""
    height, width = (
        (side + 2 * window.padding - over) // window.stride + 1
        for side, over in zip(size, (window.height, window.width), strict=True)
    )
    if height < 1 or width < 1:
        raise TreefoldError(
            f"layer {name}: a filter of {window.height}x{window.width} does not fit into {size[0]}x{size[1]}; "
            "check its sizes"
        )
    return height * width


def linear(
    name: str,
    channels: int,
    filters: int,
    *,
    positions: int = 1,
    extra_parameters: int = 0,
    elementwise: Elementwise = NO_WORK,
    split: str = "",
    is_tied: bool = False,
) -> Layer:
    """Return a linear layer.

    Args:
        name: Errors and timelines call the layer by this name.
        channels: The number of input features of each position.
        filters: The number of output features of each position.
        positions: The layer is applied to this many positions (tokens) of a sample.
        extra_parameters: The number of parameters besides the matrix, such as biases and norms.
        elementwise: The elementwise work that follows the product.
        split: Tensor parallelism cuts the layer this way (see `Layer.split`).
        is_tied: Whether the matrix belongs to another layer, which counts its parameters.

    Raises:
        TreefoldError: If a size is not a whole number above 0, `extra_parameters` is not one of at least 0, or the
            split is unknown.

    Example:
        >>> from treefold.training import linear
        >>> linear("fc", 512, 1000).parameters
        512000

    """
    for what, count in {"channels": channels, "filters": filters, "positions": positions}.items():
        checks.whole(f"layer {name}: {what}", count, 1, _MOST)
    checks.whole(f"layer {name}: extra_parameters", extra_parameters, 0, _MOST)
    return Layer(
        name,
        inputs=positions,
        outputs=positions,
        channels=channels,
        filters=filters,
        parameters=extra_parameters + (0 if is_tied else channels * filters),
        elements=elementwise.accesses * positions * filters,
        kernels=elementwise.kernels,
        split=_split(f"layer {name}", split),
    )


def _split(what: str, given: Any) -> str:
    """Return how tensor parallelism cuts a layer; an empty text leaves it whole."""
    return "" if given == "" else checks.name(f"{what}: split", given, SPLITS)


def renamed(layers: Iterable[Layer], prefix: str) -> list[Layer]:
    """Return the layers with `prefix` in front of their names."""
    return [layer._replace(name=f"{prefix}{layer.name}") for layer in layers]


def check_model(model: Model) -> None:
    """Refuse a model whose layers are not layers, or whose sizes are not whole numbers in their range."""
    if not isinstance(model.layers, Sequence):
        raise TreefoldError(
            f"model {checks.shown(model.name)}: layers are {checks.shown(model.layers)}, which is not a list of layers"
        )
    checks.whole(f"model {checks.shown(model.name)}: tokens", model.tokens, 0, _MOST)
    for place, layer in enumerate(model.layers, 1):
        what = f"model {checks.shown(model.name)}: layer {place}"
        if not isinstance(layer, Layer):
            raise TreefoldError(f"{what} is {checks.shown(layer)}; make it with treefold.training.Layer")
        for field, default in Layer._field_defaults.items():
            if isinstance(default, int) and not isinstance(default, bool):
                checks.whole(f"{what}: {field}", getattr(layer, field), 0, _MOST)
        checks.name(f"{what}: operand", layer.operand, OPERANDS)
        _split(what, layer.split)


def check_positive(what: str, value: float, most: float = 1e18) -> None:
    """Refuse a value that is not a number above 0, and at most `most`."""
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not 0 < value <= most:
        raise TreefoldError(f"{what} is {checks.shown(value)}; it must be a number above 0, and at most {most:g}")


def check_launch(accelerator: str, launch_s: float, compute_overhead: float) -> None:
    """Refuse a launch that takes less than no time, and an overhead that leaves no compute."""
    if checks.number(f"{accelerator}'s launch_s", launch_s, "seconds") < 0:
        raise TreefoldError(f"{accelerator}'s launch_s is {checks.shown(launch_s)}; it must be at least 0 seconds")
    check_overhead(f"{accelerator}'s compute_overhead", compute_overhead)


def check_overhead(what: str, compute_overhead: Any) -> float:
    """Return a part of the compute that all-reduces take; refuse a value that is not from 0 to below 1."""
    is_number = isinstance(compute_overhead, (int, float)) and not isinstance(compute_overhead, bool)
    if not is_number or not 0 <= compute_overhead < 1:
        raise TreefoldError(
            f"{what} is {checks.shown(compute_overhead)}; it must be a fraction of the compute, from 0 to below 1"
        )
    return float(compute_overhead)
