"""Compute time on a GPU: a roofline with launches.

Idea: a kernel takes as long as its arithmetic at an attainable fraction of the peak, as its traffic at an attainable
fraction of the memory's bandwidth, or as a launch (6 us, in-network paper, VI-E), whichever is longest: the launch of a
kernel goes on while the one before it works. A collective waits for what it adds, so its launch shows.
A product is a kernel forward, and one each for the gradients of its input and its filters, where they are needed: the
input's if anything before it is trained, the filters' if they are. Elementwise work is traffic only; its backward pass
reads the gradient, too: one and a half times as much.

The in-network paper's own Volta model is not public. Its figures: 120 TFLOP/s, 150 GB/s of NVLink, and projected GPUs
with two and four times the arithmetic at the same bandwidth, of which we take memory and launches to stay, too.
Current GPUs: dense 16-bit tensor arithmetic and memory bandwidth of their vendors' data sheets.
"""

from dataclasses import dataclass, replace

from treefold.training.layers import DATA, WEIGHTS, Layer, positive


@dataclass(frozen=True, kw_only=True)
class Gpu:
    """A GPU; everything in it has 16 bits but the optimizer's state."""

    name: str
    peak_flops: float
    memory_Bps: float
    attainable: float = 0.7
    """Part of the peak that products reach."""
    attainable_memory: float = 0.9
    """Part of the memory's bandwidth that kernels reach."""
    launch_s: float = 6e-6
    """Of a kernel, a collective among them."""
    number_bytes: int = 2
    """Of weights and activations."""
    gradient_bytes: int = 2
    """Of each parameter."""
    stolen: float = 0.2
    """Part of the compute that a software all-reduce takes while it runs: 16 of a Volta's 80 multiprocessors."""

    def __post_init__(self) -> None:
        for name in ("peak_flops", "memory_Bps", "attainable", "attainable_memory", "number_bytes", "gradient_bytes"):
            positive(f"{self.name}'s {name}", getattr(self, name))

    def check(self, batch: int) -> None:
        """Accept any batch."""

    def seconds(self, layer: Layer, batch: int, is_reached: bool) -> tuple[float, float]:
        """Return the time of a layer's forward pass, and of its backward pass.

        Args:
            layer: The layer.
            batch: Samples.
            is_reached: Whether anything before the layer is trained, so that its input has a gradient.

        """
        product = self._product_s(layer, batch) if layer.macs else 0.0
        moved = layer.elements * batch
        is_trained = layer.operand == WEIGHTS and bool(layer.macs or layer.parameters)
        gradients = is_trained + is_reached * (2 if layer.operand == DATA else 1)
        backward = self._elementwise_s(1.5 * moved, layer.kernels) if is_trained or is_reached else 0.0
        return product + self._elementwise_s(moved, layer.kernels), gradients * product + backward

    def _product_s(self, layer: Layer, batch: int) -> float:
        arithmetic = 2 * layer.macs * batch / (self.peak_flops * self.attainable)
        filters = layer.window * layer.channels * layer.filters * (batch if layer.operand == DATA else 1)
        numbers = (layer.inputs * layer.channels + layer.outputs * layer.filters) * batch + filters
        return max(self.launch_s, arithmetic, self._traffic_s(numbers * layer.copies * self.number_bytes))

    def _elementwise_s(self, numbers: float, kernels: int) -> float:
        return max(kernels * self.launch_s, self._traffic_s(numbers * self.number_bytes))

    def _traffic_s(self, moved_bytes: float) -> float:
        return moved_bytes / (self.memory_Bps * self.attainable_memory)

    def aggregation_s(self, parameters: int) -> float:
        """Return 0: a batch's gradients are one product."""
        return 0.0

    def optimizer_s(self, parameters: int, optimizer_bytes: int) -> float:
        """Return the time of an update that moves `optimizer_bytes` for each parameter, in one fused kernel."""
        return max(self.launch_s, self._traffic_s(parameters * optimizer_bytes)) if optimizer_bytes else 0.0


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

OPTIMIZERS = {"none": 0, "sgd": 12, "momentum": 20, "adam": 28}
"""Bytes that an update moves for each parameter: a 16-bit gradient and weight, 32-bit weight and state both ways."""
