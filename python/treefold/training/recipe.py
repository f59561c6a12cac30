"""The recipe of an iteration: the options of a training with every default filled in, and all of them checked."""

from dataclasses import dataclass

from treefold import checks
from treefold.errors import TreefoldError
from treefold.training import accelerators
from treefold.training.accelerators import Accelerator
from treefold.training.layers import check_overhead
from treefold.training.options import BUCKET_BYTES, OVERLAPS, PARALLELISMS, TrainingOptions

_MOST_BUCKET_BYTES = 10**18
_MOST_GRADIENT_BYTES = 1024


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """How each of the ranks trains."""

    accelerator: Accelerator
    ranks: int
    batch: int
    """Each rank trains on this many samples; with model parallelism, all ranks together do."""
    overlap: str
    bucket_bytes: int
    optimizer_bytes: int
    """An update moves this many bytes through memory for each parameter."""
    gradient_bytes: int
    """The gradient of each parameter has this many bytes."""
    compute_overhead: float
    """A software all-reduce takes this part of the compute while it runs."""
    is_sharded: bool
    """Each rank updates only its share of the parameters."""
    is_model_parallel: bool


def recipe_of(options: TrainingOptions, ranks: int) -> Recipe:
    """Return the recipe that the options stand for.

    Raises:
        TreefoldError: If the value of an option is not possible, or two options contradict each other.

    """
    accelerator = accelerators.accelerator_of(options.accelerator)
    overhead = accelerator.compute_overhead if options.compute_overhead is None else options.compute_overhead
    overlap = checks.name("overlap", options.overlap, OVERLAPS)
    recipe = Recipe(
        accelerator=accelerator,
        ranks=ranks,
        batch=options.batch,
        overlap=overlap,
        bucket_bytes=_bucket_bytes(options.bucket_bytes, overlap),
        optimizer_bytes=accelerators.optimizer_bytes(accelerator, options.optimizer),
        gradient_bytes=accelerator.gradient_bytes if options.gradient_bytes is None else options.gradient_bytes,
        compute_overhead=check_overhead("compute_overhead", overhead),
        is_sharded=options.sharded,
        is_model_parallel=checks.name("parallelism", options.parallelism, PARALLELISMS) == "model",
    )
    _check(recipe)
    return recipe


def _bucket_bytes(given: int | None, overlap: str) -> int:
    if given is not None and overlap != "bucket":
        raise TreefoldError(
            f"a bucket of {checks.shown(given)} bytes needs the overlap bucket, but it is {overlap}; "
            "take --overlap bucket, or drop the bucket"
        )
    return BUCKET_BYTES if given is None else given


def _check(recipe: Recipe) -> None:
    accelerators.check_batch(recipe.accelerator, recipe.batch)
    checks.whole("bytes of a bucket", recipe.bucket_bytes, 1, _MOST_BUCKET_BYTES)
    checks.whole("bytes of a gradient", recipe.gradient_bytes, 1, _MOST_GRADIENT_BYTES)
    if recipe.is_model_parallel and (recipe.is_sharded or recipe.overlap != "none"):
        option = "--sharded" if recipe.is_sharded else f"--overlap {recipe.overlap}"
        raise TreefoldError(f"{option} is for gradients of data parallelism; drop it, or use --parallelism data")
