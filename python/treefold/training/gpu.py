"""Compute time on a GPU: a roofline model with tiles, waves and kernel launches.

Idea: a kernel takes the longest of three times: its arithmetic at an attainable fraction of the peak, its traffic at an
attainable fraction of the memory's bandwidth, and a launch (6 us, in-network paper, VI-E). The launch of a kernel goes
on while the kernel before it runs; a collective waits for the numbers that it adds up, so its launch always shows.

A product is one kernel in the forward pass. The gradients of its input and of its filters are one kernel each: the
input's gradient is needed if anything before the layer is trained, the filters' gradient if the filters are trained.
Only a large product reaches the attainable fraction; `tiles.py` says what a small one loses.
Elementwise work is traffic only; its backward pass reads the gradient, too, and takes one and a half times as long.

The in-network paper's own model of a Volta is not public. The paper gives 120 TFLOP/s and 150 GB/s of NVLink, and
projects GPUs with two and four times the arithmetic at the same NVLink bandwidth; we assume that memory, launches and
the number of multiprocessors stay the same, too. `data_sheets.py` has the figures of all accelerators.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from treefold import checks
from treefold.errors import TreefoldError
from treefold.training.layers import DATA, Layer, LayerTime, check_launch, check_positive, gradients
from treefold.training.tiles import Product, Work, ways

NUMBERS = {"fp32": 4, "tf32": 4, "bf16": 2, "fp8": 2}
"""The types of numbers with which products are computed, and the bytes of a weight or an activation in memory.

`bf16` stands for `fp16`, too, which is as fast. With `fp8`, numbers are cast just before a product.
"""
_MOST_MULTIPROCESSORS = 10**6
_MOST_NUMBER_BYTES = 1024


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """A GPU, whose weights, activations and gradients have 16 bits by default; the optimizer's state is larger.

    Attributes:
        name: Tables and errors call the GPU by this name.
        peak_flops: The GPU computes at most this many floating-point operations per second, in products of numbers of
            16 bits.
        memory_Bps: The memory transfers at most this many bytes per second.
        memory_bytes: The memory holds this many bytes; None if that is not known, and then anything fits.
        multiprocessors: The GPU computes this many tiles of a product at once (see `treefold.training.tiles`). With 0,
            products of every size reach the attainable fraction.
        other_peaks: The peak for other types of numbers, in operations per second, by the names of
            `treefold.training.NUMBERS`.
        attainable: Large matrix products reach this fraction of the peak arithmetic, above 0 and at most 1.
        attainable_memory: Kernels reach this part of the memory's bandwidth, above 0 and at most 1.
        launch_s: The launch of a kernel, or of a collective, takes this many seconds, at least 0.
        number_bytes: The size of each weight and of each activation, in bytes.
        gradient_bytes: The gradient of each parameter has this many bytes.
        compute_overhead: A software all-reduce takes this part of the compute while it runs, from 0 to below 1; the
            default, 0.2, stands for 16 of a Volta's 80 multiprocessors.

    Raises:
        TreefoldError: If a number is not in its range, or `other_peaks` has an unknown type of numbers.

    Example:
        >>> import treefold
        >>> from treefold.training import Gpu
        >>> mine = Gpu(name="mine", peak_flops=500e12, memory_Bps=2e12)
        >>> report = treefold.train("bert-base", "ring:4", "ring", accelerator=mine)
        >>> report[0].accelerator
        'mine'

    """

    name: str
    peak_flops: float
    memory_Bps: float
    memory_bytes: int | None = None
    multiprocessors: int = 0
    other_peaks: Mapping[str, float] = field(default_factory=dict, hash=False)
    attainable: float = 0.7
    attainable_memory: float = 0.9
    launch_s: float = 6e-6
    number_bytes: int = 2
    gradient_bytes: int = 2
    compute_overhead: float = 0.2

    def __post_init__(self) -> None:
        for name in ("peak_flops", "memory_Bps"):
            check_positive(f"{self.name}'s {name}", getattr(self, name))
        for name in ("number_bytes", "gradient_bytes"):
            checks.whole(f"{self.name}'s {name}", getattr(self, name), 1, _MOST_NUMBER_BYTES)
        for name in ("attainable", "attainable_memory"):
            check_positive(f"{self.name}'s {name}", getattr(self, name), most=1)
        if self.memory_bytes is not None:
            check_positive(f"{self.name}'s memory_bytes", self.memory_bytes)
        checks.whole(f"{self.name}'s multiprocessors", self.multiprocessors, 0, _MOST_MULTIPROCESSORS)
        for name, peak in self.other_peaks.items():
            check_positive(f"{self.name}'s peak for {checks.name('type of numbers', name, NUMBERS)}", peak)
        check_launch(self.name, self.launch_s, self.compute_overhead)

    def computing_with(self, numbers: str) -> "Gpu":
        """Return this GPU as it computes with another type of numbers, one of `NUMBERS`.

        Raises:
            TreefoldError: If the GPU does not have this type.

        Example:
            >>> from treefold.training import GPUS
            >>> f"{GPUS['h100'].computing_with('fp8').peak_flops / GPUS['h100'].peak_flops:.1f} times as fast"
            '2.0 times as fast'

        """
        if numbers == "bf16":
            return self
        if numbers not in self.other_peaks:
            known = ", ".join(name for name in NUMBERS if name == "bf16" or name in self.other_peaks)
            raise TreefoldError(f"{self.name} has no peak for {numbers}; take one of {known}")
        size = NUMBERS[numbers]
        return replace(self, peak_flops=self.other_peaks[numbers], number_bytes=size, gradient_bytes=size)

    def layer_time(self, layer: Layer, batch: int, *, needs_input_gradient: bool) -> LayerTime:
        """Return the seconds that the passes of a layer take, as `(forward_s, backward_s)`.

        Args:
            layer: The layer to compute.
            batch: The number of samples of this GPU.
            needs_input_gradient: Whether anything before the layer is trained, so that its input has a gradient.

        Example:
            >>> from treefold.training import GPUS, linear
            >>> layer = linear("fc", 4096, 4096, positions=512)
            >>> forward_s, backward_s = GPUS["h100"].layer_time(layer, 8, needs_input_gradient=True)
            >>> backward_s / forward_s
            2.0

        """
        moved = layer.elements * batch
        of_input, of_filters = gradients(layer, needs_input_gradient=needs_input_gradient)
        backward = self._elementwise_s(1.5 * moved, layer.kernels) if of_input or of_filters else 0.0
        if not layer.macs:
            return LayerTime(self._elementwise_s(moved, layer.kernels), backward)
        forward, input_gradient, filter_gradient = _products(layer, batch)
        traffic = self._traffic_s(_moved_numbers(layer, batch) * self.number_bytes)
        backward += self._product_s(input_gradient, traffic) if of_input else 0.0
        backward += self._product_s(filter_gradient, traffic) if of_filters else 0.0
        return LayerTime(self._product_s(forward, traffic) + self._elementwise_s(moved, layer.kernels), backward)

    def optimizer_s(self, parameters: int, optimizer_bytes: int) -> float:
        """Return the seconds of an update that moves `optimizer_bytes` for each parameter, in one fused kernel.

        Example:
            >>> from treefold.training import Gpu
            >>> Gpu(name="mine", peak_flops=500e12, memory_Bps=2e12).optimizer_s(10**9, 18)
            0.01

        """
        return max(self.launch_s, self._traffic_s(parameters * optimizer_bytes)) if optimizer_bytes else 0.0

    def accumulation_s(self, gradient_bytes: int) -> float:
        """Return the seconds that it takes to add gradients of so many bytes to others.

        Both are read, and the sum is written.

        Example:
            >>> from treefold.training import Gpu
            >>> Gpu(name="mine", peak_flops=500e12, memory_Bps=2e12, attainable_memory=1.0).accumulation_s(2 * 10**9)
            0.003

        """
        return max(self.launch_s, self._traffic_s(3 * gradient_bytes)) if gradient_bytes else 0.0

    def _product_s(self, product: Product, traffic_s: float) -> float:
        """Return how long a product takes that moves its operands and its result in `traffic_s` seconds."""
        plain = [Work(2.0 * product.rows * product.columns * product.depth * product.copies, 0)]
        works = ways(product, self.multiprocessors) if self.multiprocessors else plain
        rate = self.peak_flops * self.attainable
        quickest = min(max(work.flops / rate, traffic_s + self._traffic_s(work.partial_bytes)) for work in works)
        return max(self.launch_s, quickest)

    def _elementwise_s(self, numbers: float, kernels: int) -> float:
        return max(kernels * self.launch_s, self._traffic_s(numbers * self.number_bytes))

    def _traffic_s(self, moved_bytes: float) -> float:
        return moved_bytes / (self.memory_Bps * self.attainable_memory)


def _products(layer: Layer, batch: int) -> tuple[Product, Product, Product]:
    """Return the products of the forward pass, of the input's gradient, and of the filters' gradient.

    Samples are rows of one product, unless each has its own operands. All three have the same number of operations: the
    gradient of a strided convolution's input skips the zeros between the outputs.
    """
    copies, samples = (layer.copies * batch, 1) if layer.operand == DATA else (layer.copies, batch)
    inputs, outputs, covered = layer.inputs * samples, layer.outputs * samples, layer.window * layer.channels
    depth = -(-outputs * layer.window * layer.filters // inputs)
    return (
        Product(outputs, layer.filters, covered, copies),
        Product(inputs, layer.channels, depth, copies),
        Product(covered, layer.filters, outputs, copies),
    )


def _moved_numbers(layer: Layer, batch: int) -> int:
    """Return how many numbers a product reads and writes: its operands and its result."""
    samples = batch if layer.operand == DATA else 1
    filters = layer.window * layer.channels * layer.filters * samples
    read, written = layer.inputs * layer.channels * batch, layer.outputs * layer.filters * batch
    # The scores of a fused attention stay within the kernel: only the smaller side goes through memory.
    return ((min(read, written) if layer.is_fused else read + written) + filters) * layer.copies
