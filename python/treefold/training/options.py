"""The options of a training iteration, each declared once: its name, default, unit and help.

`treefold.train` takes these fields as keywords; the command line makes an option from each of them. A field's metadata
holds its help text, its flag where that is not the field's name, its panel, and the `values` that a name can take. A
unit stands at the end of a field's name.
"""

import textwrap
from collections.abc import Iterable
from dataclasses import dataclass, field, fields
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
    """How a model is trained; `treefold.train` takes these fields as keywords, and the command line as options.

    Example:
        >>> import treefold
        >>> report = treefold.train("bert-base", "ring:4", "ring", accelerator="h100", batch=8, overlap="bucket")
        >>> report[0].samples
        32

    """

    accelerator: str | Accelerator | None = field(
        default=None,
        metadata=_help(
            f"Assume this accelerator at every rank: {', '.join(ACCELERATORS)}. The default is {ASSUMED}, that of the "
            "MultiTree paper: 16 systolic arrays at 1 GHz. A volta-2:1 has twice the peak arithmetic of a volta, and a "
            "volta-4:1 four times as much.",
            values=ACCELERATORS,
        ),
    )
    batch: int = field(
        default=16,
        metadata=_help(
            f"The batch size of each rank, or with model parallelism of all ranks together. On {ASSUMED} it must be a "
            "multiple of 16."
        ),
    )
    overlap: str = field(
        default="none",
        metadata=_help(
            "The time at which gradients are all-reduced: all after the backward pass (none), layer by layer as they "
            "become ready (layer), or bucket by bucket as DDP does (bucket).",
            values=OVERLAPS,
        ),
    )
    bucket_bytes: int | None = field(
        default=None,
        metadata=_help(
            "The size of a bucket of gradients, if the overlap is bucket. The default is 25MiB (26214400 bytes). The "
            "first bucket holds at most 1MiB, as in DDP.",
            flag="--bucket",
        ),
    )
    optimizer: str | None = field(
        default=None,
        metadata=_help(
            f"The optimizer: {', '.join(OPTIMIZERS)}. The default is adam on GPUs. On {ASSUMED}, updates take no time, "
            "and only none is accepted.",
            values=OPTIMIZERS,
        ),
    )
    sharded: bool = field(
        default=False,
        metadata=_help(
            "Whether each rank updates one shard of the parameters and gathers the others, as in ZeRO-2.",
            flag="--sharded",
        ),
    )
    parallelism: str = field(
        default="data",
        metadata=_help(
            "What is divided among the ranks: the samples (data), or every layer of a transformer (model: tensor "
            "parallelism as in Megatron).",
            values=PARALLELISMS,
        ),
    )
    gradient_bytes: int | None = field(
        default=None,
        metadata=_help(
            f"The size of an element of a gradient, in bytes. The default is 4 on {ASSUMED}, and 2 on GPUs."
        ),
    )
    compute_overhead: float | None = field(
        default=None,
        metadata=_help(
            "The fraction of the compute that an all-reduce takes while it runs, from 0 to below 1; an all-reduce in "
            f"switches takes nothing. The default is 0 on {ASSUMED}, and 0.2 on GPUs."
        ),
    )


def texts() -> dict[str, str]:
    """Return what each field means, by its name."""
    return {each.name: each.metadata["help"] for each in fields(TrainingOptions)}


def _attributes() -> str:
    """Return the section of the docstring that explains the fields."""
    lines = ["    Attributes:"]
    for name, text in texts().items():
        lines += textwrap.wrap(
            f"{name}: {text}", 112, initial_indent=" " * 8, subsequent_indent=" " * 12, break_on_hyphens=False
        )
    return "\n".join(lines)


# The texts stand in the fields' metadata, for the command line; `help()` shows docstrings only.
_SUMMARY, _, _EXAMPLE = (TrainingOptions.__doc__ or "").partition("\n\n")
TrainingOptions.__doc__ = f"{_SUMMARY}\n\n{_attributes()}\n\n{_EXAMPLE}"
