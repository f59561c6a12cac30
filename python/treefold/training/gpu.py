"""Compute time on a GPU: a roofline model with kernel launches.

Idea: a kernel takes the longest of three times: its arithmetic at an attainable fraction of the peak, its traffic at an
attainable fraction of the memory's bandwidth, and a launch (6 us, in-network paper, VI-E). The launch of a kernel goes
on while the kernel before it runs; a collective waits for the numbers that it adds up, so its launch always shows.

A product is one kernel in the forward pass. The gradients of its input and of its filters are one kernel each: the
input's gradient is needed if anything before the layer is trained, the filters' gradient if the filters are trained.
Elementwise work is traffic only; its backward pass reads the gradient, too, and takes one and a half times as long.

The in-network paper's own model of a Volta is not public. The paper gives 120 TFLOP/s and 150 GB/s of NVLink, and
projects GPUs with two and four times the arithmetic at the same NVLink bandwidth; we assume that memory and launches
stay the same, too. The figures of current GPUs are the dense 16-bit tensor arithmetic and the memory bandwidth of their
vendors' data sheets.
"""

from dataclasses import dataclass, replace

from treefold.training.layers import DATA, WEIGHTS, Layer, LayerTime, check_launch, check_positive


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """A GPU, whose weights, activations and gradients have 16 bits by default; the optimizer's state is larger.

    Attributes:
        name: Tables and errors call the GPU by this name.
        peak_flops: The GPU computes at most this many floating-point operations per second.
        memory_Bps: The memory transfers at most this many bytes per second.
        attainable: Matrix products reach this fraction of the peak arithmetic, above 0 and at most 1.
        attainable_memory: Kernels reach this part of the memory's bandwidth, above 0 and at most 1.
        launch_s: The launch of a kernel, or of a collective, takes this many seconds, at least 0.
        number_bytes: The size of each weight and of each activation, in bytes.
        gradient_bytes: The gradient of each parameter has this many bytes.
        compute_overhead: A software all-reduce takes this part of the compute while it runs, from 0 to below 1; the
            default, 0.2, stands for 16 of a Volta's 80 multiprocessors.

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
    attainable: float = 0.7
    attainable_memory: float = 0.9
    launch_s: float = 6e-6
    number_bytes: int = 2
    gradient_bytes: int = 2
    compute_overhead: float = 0.2

    def __post_init__(self) -> None:
        for name in ("peak_flops", "memory_Bps", "number_bytes", "gradient_bytes"):
            check_positive(f"{self.name}'s {name}", getattr(self, name))
        for name in ("attainable", "attainable_memory"):
            check_positive(f"{self.name}'s {name}", getattr(self, name), most=1)
        check_launch(self.name, self.launch_s, self.compute_overhead)

    def layer_time(self, layer: Layer, batch: int, *, needs_input_gradient: bool) -> LayerTime:
        """Return the seconds that the passes of a layer take, as `(forward_s, backward_s)`.

        Args:
            layer: The layer to compute.
            batch: The number of samples of this GPU.
            needs_input_gradient: Whether anything before the layer is trained, so that its input has a gradient.

        """
        product = self._product_s(layer, batch) if layer.macs else 0.0
        moved = layer.elements * batch
        is_trained = layer.operand == WEIGHTS and bool(layer.macs or layer.parameters)
        gradients = is_trained + needs_input_gradient * (2 if layer.operand == DATA else 1)
        is_pulled_back = is_trained or needs_input_gradient
        backward = self._elementwise_s(1.5 * moved, layer.kernels) if is_pulled_back else 0.0
        return LayerTime(product + self._elementwise_s(moved, layer.kernels), gradients * product + backward)

    def optimizer_s(self, parameters: int, optimizer_bytes: int) -> float:
        """Return how long an update takes that moves `optimizer_bytes` for each parameter, in one fused kernel."""
        return max(self.launch_s, self._traffic_s(parameters * optimizer_bytes)) if optimizer_bytes else 0.0

    def _product_s(self, layer: Layer, batch: int) -> float:
        arithmetic = 2 * layer.macs * batch / (self.peak_flops * self.attainable)
        filters = layer.window * layer.channels * layer.filters * (batch if layer.operand == DATA else 1)
        numbers = (layer.inputs * layer.channels + layer.outputs * layer.filters) * batch + filters
        return max(self.launch_s, arithmetic, self._traffic_s(numbers * layer.copies * self.number_bytes))

    def _elementwise_s(self, numbers: float, kernels: int) -> float:
        return max(kernels * self.launch_s, self._traffic_s(numbers * self.number_bytes))

    def _traffic_s(self, moved_bytes: float) -> float:
        return moved_bytes / (self.memory_Bps * self.attainable_memory)


_VOLTA = Gpu(name="volta", peak_flops=120e12, memory_Bps=900e9)

GPUS = {
    gpu.name: gpu
    for gpu in (
        _VOLTA,
        replace(_VOLTA, name="volta-2:1", peak_flops=2 * _VOLTA.peak_flops),
        replace(_VOLTA, name="volta-4:1", peak_flops=4 * _VOLTA.peak_flops),
        Gpu(name="a100", peak_flops=312e12, memory_Bps=2039e9),
        Gpu(name="h100", peak_flops=989e12, memory_Bps=3350e9),
        Gpu(name="h200", peak_flops=989e12, memory_Bps=4800e9),
        Gpu(name="b200", peak_flops=2250e12, memory_Bps=8000e9),
        Gpu(name="mi300x", peak_flops=1307e12, memory_Bps=5300e9),
    )
}
"""The GPUs that treefold knows, by name."""

OPTIMIZERS = {"none": 0, "sgd": 12, "momentum": 20, "adam": 28}
"""The bytes that an optimizer's update moves through memory for each parameter.

An update reads a 16-bit gradient, writes a 16-bit weight, and reads and writes the 32-bit weight and the 32-bit state.
"""
