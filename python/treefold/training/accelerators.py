"""The accelerators that train: their table, and what an iteration asks of an accelerator of either kind.

An accelerator is a `Systolic` or a `Gpu`. Both have a name, the sizes of their numbers and gradients, the time of a
launch, and the part of the compute that a software all-reduce takes. Where only one kind needs time for something, or
has a limit, the functions below say what the other kind does.
"""

from collections.abc import Mapping, Sequence
from typing import Any

from treefold import checks
from treefold.errors import TreefoldError
from treefold.training.gpu import GPUS, OPTIMIZERS, Gpu
from treefold.training.layers import Layer, LayerTime
from treefold.training.systolic import Systolic

Accelerator = Systolic | Gpu

ASSUMED = "systolic"
"""The MultiTree paper's accelerator trains where none is named."""

ACCELERATORS: Mapping[str, Accelerator] = {ASSUMED: Systolic(), **GPUS}
"""The accelerators that treefold knows, by name."""

_MOST_SAMPLES = 10**9


def accelerator_of(given: Any) -> Accelerator:
    """Return the accelerator that a name stands for, or the given accelerator.

    Raises:
        TreefoldError: If the name is unknown; the message says which name was meant.

    """
    if isinstance(given, Systolic | Gpu):
        return given
    return ACCELERATORS[checks.name("accelerator", ASSUMED if given is None else given, ACCELERATORS)]


def check_batch(accelerator: Accelerator, batch: int) -> None:
    """Refuse a batch that is not a whole number of samples, or that does not fit the arrays of a `Systolic`."""
    checks.whole("batch", batch, 1, _MOST_SAMPLES)
    if isinstance(accelerator, Systolic):
        accelerator.check_batch(batch)


def layer_time(accelerator: Accelerator, layer: Layer, batch: int, *, needs_input_gradient: bool) -> LayerTime:
    """Return how long a layer takes; a `Systolic` computes the input's gradient whether it is needed or not."""
    if isinstance(accelerator, Systolic):
        return accelerator.layer_time(layer, batch)
    return accelerator.layer_time(layer, batch, needs_input_gradient=needs_input_gradient)


def compute_cycles(accelerator: Accelerator, layers: Sequence[Layer], batch: int) -> int | None:
    """Return the cycles of all passes; None for a GPU, whose model counts no cycles."""
    return accelerator.cycles(layers, batch) if isinstance(accelerator, Systolic) else None


def aggregation_s(accelerator: Accelerator, parameters: int) -> float:
    """Return how long an accelerator adds up the gradients of its own samples; a GPU does so within the product."""
    return accelerator.aggregation_s(parameters) if isinstance(accelerator, Systolic) else 0.0


def optimizer_bytes(accelerator: Accelerator, optimizer: str | None) -> int:
    """Return the bytes that an update moves for each parameter: 0 for a `Systolic`, whose updates take no time.

    Raises:
        TreefoldError: If the optimizer is unknown, or is named although updates take no time.

    """
    name = "adam" if optimizer is None else checks.name("optimizer", optimizer, OPTIMIZERS)
    if not isinstance(accelerator, Systolic):
        return OPTIMIZERS[name]
    if optimizer is not None and name != "none":
        raise TreefoldError(f"optimizer '{optimizer}': updates take no time on {accelerator.name}; drop it")
    return 0


def optimizer_s(accelerator: Accelerator, parameters: int, update_bytes: int) -> float:
    """Return how long an update takes that moves `update_bytes` for each parameter; a `Systolic` takes no time."""
    return accelerator.optimizer_s(parameters, update_bytes) if isinstance(accelerator, Gpu) else 0.0
