"""The options of a training iteration, each declared once: its name, default, unit and help.

`treefold.train` takes these fields as keywords; the command line makes an option from each of them. A field's metadata
holds its help text, its flag where that is not the field's name, its panel, and the `values` that a name can take. A
unit stands at the end of a field's name.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from treefold.training.accelerators import ACCELERATORS, ASSUMED, Accelerator
from treefold.training.gpu import OPTIMIZERS

OVERLAPS = ("none", "layer", "bucket")
PARALLELISMS = ("data", "model")

BUCKET_BYTES = 25 << 20
"""PyTorch's DDP closes a bucket at 25 MiB by default (and calls it 25 MB)."""
FIRST_BUCKET_BYTES = 1 << 20
"""DDP closes its first bucket at 1 MiB, so that the network starts early."""


def _help(text: str, *, flag: str | None = None, values: Iterable[str] = ()) -> dict[str, Any]:
    return {"help": text, "flag": flag, "panel": "Training", "values": tuple(values)}


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """How a model is trained; `treefold.train` takes these fields as keywords.

    Example:
        >>> import treefold
        >>> report = treefold.train("bert-base", "ring:4", "ring", accelerator="h100", batch=8, overlap="bucket")
        >>> report[0].samples
        32

    """

    accelerator: str | Accelerator | None = field(
        default=None,
        metadata=_help(
            f"This accelerator computes: {', '.join(ACCELERATORS)}; by default {ASSUMED}.", values=ACCELERATORS
        ),
    )
    batch: int = field(
        default=16,
        metadata=_help(
            "Each rank trains on this many samples; with model parallelism, all ranks together train on them."
        ),
    )
    overlap: str = field(
        default="none",
        metadata=_help(
            f"Gradients are added in this way: {', '.join(OVERLAPS)}. With none, they wait for the end of the backward "
            "pass; with layer and bucket, they travel beside it.",
            values=OVERLAPS,
        ),
    )
    bucket_bytes: int | None = field(
        default=None,
        metadata=_help(
            "With --overlap bucket, a bucket of gradients is closed at this size; by default 25MiB, the first 1MiB.",
            flag="--bucket",
        ),
    )
    optimizer: str | None = field(
        default=None,
        metadata=_help(
            f"This optimizer updates the parameters: {', '.join(OPTIMIZERS)}; by default adam. On {ASSUMED}, updates "
            "take no time.",
            values=OPTIMIZERS,
        ),
    )
    sharded: bool = field(
        default=False,
        metadata=_help("Each rank updates a share of the parameters and gathers the other shares.", flag="--sharded"),
    )
    parallelism: str = field(
        default="data",
        metadata=_help(
            f"The ranks divide this: {', '.join(PARALLELISMS)}. With data, they divide the samples; with model, the "
            "layers of a transformer.",
            values=PARALLELISMS,
        ),
    )
    gradient_bytes: int | None = field(
        default=None,
        metadata=_help(f"The gradient of a parameter has this many bytes; by default 4 on {ASSUMED} and 2 on GPUs."),
    )
    compute_overhead: float | None = field(
        default=None,
        metadata=_help(
            "A software all-reduce takes this part of the compute while it runs, from 0 to below 1; by default 0 on "
            f"{ASSUMED} and 0.2 on GPUs."
        ),
    )
