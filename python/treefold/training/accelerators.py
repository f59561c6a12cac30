"""The accelerators that train: their table, and what an iteration asks of an accelerator of either kind.

An accelerator is a `Systolic` or a `Gpu`, which may be a TPU, too. Both have a name, a peak, the sizes of their numbers
and gradients, the time of a launch, and the part of the compute that a software all-reduce takes. Where only one kind
needs time for something, or has a limit, the functions below say what the other kind does.
"""

from collections.abc import Mapping, Sequence

from treefold import checks
from treefold.errors import TreefoldError
from treefold.training.data_sheets import GPUS
from treefold.training.gpu import Gpu
from treefold.training.layers import Layer, LayerTime
from treefold.training.systolic import Systolic

Accelerator = Systolic | Gpu
"""An accelerator of either kind; a TPU is a `Gpu`, too."""

ACCELERATORS: Mapping[str, Accelerator] = {"systolic": Systolic(), **GPUS}
"""The accelerators that treefold knows, by name."""

OPTIMIZERS: Mapping[str, int | None] = {"none": None, "sgd": 0, "momentum": 1, "adam": 2}
"""How many 32-bit values each optimizer keeps for a parameter; None if nothing is updated."""


def accelerator_of(given: str | Accelerator | None, assumed: str, numbers: str | None) -> Accelerator:
    """Return the accelerator that a name stands for, or the given accelerator.

    Args:
        given: A name of `ACCELERATORS`, an accelerator, or None for the `assumed` one.
        assumed: The name of the accelerator that trains where none is given.
        numbers: The type of numbers in products, one of `NUMBERS`; None for those that the accelerator has anyway.

    Raises:
        TreefoldError: If the assumed accelerator is unknown, or the accelerator cannot compute with such numbers.

    """
    if isinstance(given, Systolic | Gpu):
        accelerator = given
    else:
        accelerator = ACCELERATORS[checks.name("accelerator", assumed, ACCELERATORS) if given is None else given]
    if numbers is None:
        return accelerator
    if isinstance(accelerator, Systolic):
        raise TreefoldError(
            f"numbers {numbers}: {accelerator.name} computes with numbers of {8 * accelerator.number_bytes} bits only; "
            "leave them out, or take accelerator='h100'"
        )
    return accelerator.computing_with(numbers)


def check_batch(accelerator: Accelerator, batch: int) -> None:
    """Refuse a batch that does not fit the arrays of a `Systolic`."""
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


def accumulation_s(accelerator: Accelerator, gradient_bytes: int) -> float:
    """Return how long it takes to add gradients to those of earlier micro-batches; a `Systolic` takes no time."""
    return accelerator.accumulation_s(gradient_bytes) if isinstance(accelerator, Gpu) else 0.0


def optimizer_of(accelerator: Accelerator, optimizer: str | None) -> str:
    """Return the optimizer: adam if none is named, or none for a `Systolic`, whose updates take no time.

    Raises:
        TreefoldError: If an optimizer is named although updates take no time.

    """
    if not isinstance(accelerator, Systolic):
        return "adam" if optimizer is None else optimizer
    if optimizer not in (None, "none"):
        raise TreefoldError(f"optimizer '{optimizer}': updates take no time on {accelerator.name}; drop it")
    return "none"


def state_bytes(accelerator: Accelerator, optimizer: str) -> int:
    """Return the bytes that an optimizer keeps for each parameter, with the weight of 32 bits if numbers have fewer."""
    kept = OPTIMIZERS[optimizer]
    return 0 if kept is None else 4 * kept + (4 if accelerator.number_bytes < 4 else 0)


def optimizer_s(accelerator: Accelerator, parameters: int, optimizer: str, gradient_bytes: int) -> float:
    """Return how long an update takes; a `Systolic` takes no time.

    It reads the gradient, reads and writes the state, and writes the weight, which it reads, too, if the state has no
    copy of it.
    """
    if isinstance(accelerator, Systolic) or OPTIMIZERS[optimizer] is None:
        return 0.0
    weight = accelerator.number_bytes * (1 if accelerator.number_bytes < 4 else 2)
    return accelerator.optimizer_s(parameters, gradient_bytes + weight + 2 * state_bytes(accelerator, optimizer))


def memory_bytes(accelerator: Accelerator) -> int | None:
    """Return the size of the memory; None if it is not known, as for a `Systolic`."""
    return accelerator.memory_bytes if isinstance(accelerator, Gpu) else None
