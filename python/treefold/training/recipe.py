"""The recipe of an iteration: the options of a training with every default filled in, and all of them checked."""

from dataclasses import dataclass

from treefold import checks
from treefold.errors import TreefoldError
from treefold.training import accelerators
from treefold.training.accelerators import Accelerator
from treefold.training.options import BUCKET_BYTES, TrainingOptions


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How each of the ranks trains."""

    accelerator: Accelerator
    ranks: int
    batch: int
    """Each rank, or each group of ranks that holds the model together, trains on this many samples at a time."""
    accumulate: int
    """An iteration has this many micro-batches."""
    model_parallel: int
    """This many ranks hold the model together."""
    sharding: str
    overlap: str
    bucket_bytes: int
    optimizer: str
    gradient_bytes: int
    """The gradient of each parameter has this many bytes."""
    compute_overhead: float
    """A software all-reduce takes this part of the compute while it runs."""

    @property
    def replicas(self) -> int:
        """The number of ranks that hold the same part of the model, and add their gradients."""
        return self.ranks // self.model_parallel

    @property
    def shards(self) -> int:
        """The optimizer's state is in this many shards."""
        return 1 if self.sharding == "none" else self.replicas

    @property
    def samples(self) -> int:
        """All ranks together train on this many samples in an iteration."""
        return self.batch * self.accumulate * self.replicas


def recipe_of(options: TrainingOptions, ranks: int, assumed: str = "systolic") -> Recipe:
    """Return the recipe that the options stand for; `assumed` trains if they name no accelerator.

    Raises:
        TreefoldError: If the value of an option is not possible, or two options contradict each other.

    """
    accelerator = accelerators.accelerator_of(options.accelerator, assumed, options.numbers)
    usual = "layer" if options.sharding == "fsdp" else "none"
    overlap = usual if options.overlap is None else options.overlap
    recipe = Recipe(
        accelerator=accelerator,
        ranks=ranks,
        batch=options.batch,
        accumulate=options.accumulate,
        model_parallel=_model_parallel(options.model_parallel, ranks),
        sharding=options.sharding,
        overlap=overlap,
        bucket_bytes=_bucket_bytes(options.bucket_bytes, overlap),
        optimizer=accelerators.optimizer_of(accelerator, options.optimizer),
        gradient_bytes=accelerator.gradient_bytes if options.gradient_bytes is None else options.gradient_bytes,
        compute_overhead=_compute_overhead(options.compute_overhead, accelerator.compute_overhead, overlap),
    )
    _check(recipe, is_overlap_given=options.overlap is not None)
    return recipe


def _model_parallel(given: int, ranks: int) -> int:
    size = checks.whole("model_parallel", given, 1, ranks)
    if ranks % size:
        near = next(each for each in range(size, 0, -1) if ranks % each == 0)
        raise TreefoldError(f"{ranks} ranks do not fall into groups of {size}; take for example model_parallel={near}")
    return size


def _bucket_bytes(given: int | None, overlap: str) -> int:
    if given is not None and overlap != "bucket":
        raise TreefoldError(
            f"a bucket of {checks.shown(given)} bytes has no effect with the overlap {overlap}; take overlap='bucket', "
            "or drop bucket_bytes"
        )
    return BUCKET_BYTES if given is None else given


def _compute_overhead(given: float | None, usual: float, overlap: str) -> float:
    if given is not None and overlap == "none":
        raise TreefoldError(
            f"a compute_overhead of {given:g} has no effect with the overlap none, as nothing computes while an "
            "all-reduce runs; take overlap='layer', or drop compute_overhead"
        )
    return usual if given is None else given


def _check(recipe: Recipe, *, is_overlap_given: bool) -> None:
    accelerators.check_batch(recipe.accelerator, recipe.batch)
    is_idle = recipe.replicas == 1 and recipe.model_parallel > 1
    if is_idle and (recipe.sharding != "none" or (is_overlap_given and recipe.overlap != "none")):
        option = f"overlap={recipe.overlap!r}" if recipe.sharding == "none" else f"sharding={recipe.sharding!r}"
        raise TreefoldError(
            f"{option} is for gradients of data parallelism, but all {recipe.ranks} ranks are one group; drop it, or "
            "take a smaller model_parallel"
        )
