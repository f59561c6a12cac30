"""The options of a training iteration, each declared once: its name, default, unit and help.

`treefold.train` takes these fields as keywords; the command line makes an option from each of them. A field's metadata
holds its help text, its flag where that is not the field's name, its panel, and the `values` that a name can take, or
else the largest whole number (`most`). `instead` has the value to take for one that is no value, but is meant by it,
and `what` what errors call a value. A unit stands at the end of a field's name.
"""

import textwrap
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, fields
from typing import Any

from treefold import checks
from treefold.errors import TreefoldError
from treefold.training.accelerators import ACCELERATORS, OPTIMIZERS, Accelerator
from treefold.training.gpu import NUMBERS
from treefold.training.layers import check_overhead

OVERLAPS = ("none", "layer", "bucket")
"""When gradients are all-reduced: all at the end, layer by layer, or bucket by bucket."""
SHARDINGS = ("none", "zero-1", "zero-2", "fsdp")
"""What ranks keep shards of: nothing, the optimizer's state, the gradients, too, or also the parameters."""

BUCKET_BYTES = 25 << 20
"""PyTorch's DDP closes a bucket at 25 MiB by default (and calls it 25 MB)."""
FIRST_BUCKET_BYTES = 1 << 20
"""DDP closes its first bucket at 1 MiB, so that the network starts early."""


_MOST_SAMPLES = _MOST_RANKS = 10**9
_MOST_MICRO_BATCHES = 4096
_MOST_BUCKET_BYTES = 10**18
_MOST_GRADIENT_BYTES = 1024


def _help(text: str, *, values: Iterable[str] = (), **others: Any) -> dict[str, Any]:
    """Return a field's metadata, which the top of this file explains; what is not given is None."""
    return {
        "help": text,
        "flag": None,
        "panel": "Training",
        "values": tuple(values),
        "instead": {},
        "what": None,
        "most": None,
        **others,
    }


@dataclass(frozen=True, kw_only=True)
class TrainingOptions:
    """How a model is trained; `treefold.train` takes these fields as keywords, and the command line as options.

    Raises:
        TreefoldError: If a value is not possible. `treefold.train` also refuses values that do not fit each other, the
            accelerator or the network.

    Example:
        >>> import treefold
        >>> report = treefold.train("bert-base", "ring:4", "ring", accelerator="h100", batch=8, overlap="bucket")
        >>> report[0].samples
        32

    """

    accelerator: str | Accelerator | None = field(
        default=None,
        metadata=_help(
            f"Assume this accelerator at every rank: {', '.join(ACCELERATORS)}. The default is systolic, that of the "
            "MultiTree paper (16 systolic arrays at 1 GHz), and h100 for a PyTorch module. A volta-2:1 has twice the "
            "peak arithmetic of a volta, and a volta-4:1 four times as much.",
            values=ACCELERATORS,
        ),
    )
    numbers: str | None = field(
        default=None,
        metadata=_help(
            f"The data type of matrix multiplications: {', '.join(NUMBERS)}, of which bf16 stands for fp16, too. The "
            "default is bf16; systolic computes with numbers of 32 bits, and takes none of these.",
            values=NUMBERS,
            instead={"fp16": "bf16", "float16": "bf16"},
            what="type of numbers",
        ),
    )
    batch: int = field(
        default=16,
        metadata=_help(
            "The batch size of each rank, or with model parallelism of each group of ranks; if gradients are "
            "accumulated, the size of a micro-batch. On systolic it must be a multiple of 16.",
            most=_MOST_SAMPLES,
        ),
    )
    accumulate: int = field(
        default=1,
        metadata=_help(
            "The number of micro-batches of an iteration; a rank sums the gradients of its micro-batches, and one "
            "all-reduce follows the last micro-batch.",
            most=_MOST_MICRO_BATCHES,
        ),
    )
    model_parallel: int = field(
        default=1,
        metadata=_help(
            "Spread every layer of a transformer over groups of this many neighbouring ranks (tensor parallelism as in "
            "Megatron). Each group trains on samples of its own, and ranks at the same place of all groups add their "
            "gradients.",
            most=_MOST_RANKS,
        ),
    )
    sharding: str = field(
        default="none",
        metadata=_help(
            "What is sharded over the ranks: nothing (none); the state of the optimizer (zero-1); that and the "
            "gradients (zero-2); or these and the parameters, which each rank gathers layer by layer before each pass "
            "(fsdp: PyTorch's FSDP, ZeRO-3).",
            values=SHARDINGS,
        ),
    )
    overlap: str | None = field(
        default=None,
        metadata=_help(
            "The time at which gradients are all-reduced: all after the backward pass (none), layer by layer as they "
            "become ready (layer), or bucket by bucket as DDP does (bucket). If the sharding is fsdp, it tells what is "
            "gathered during the compute: nothing (none), the next layer (layer) or the next bucket (bucket). The "
            "default is none, or layer for fsdp.",
            values=OVERLAPS,
        ),
    )
    bucket_bytes: int | None = field(
        default=None,
        metadata=_help(
            "The size of a bucket of gradients, or of parameters with fsdp, if the overlap is bucket. The default is "
            "25MiB (26214400 bytes). The first bucket of gradients holds at most 1MiB, as in DDP.",
            flag="--bucket",
            most=_MOST_BUCKET_BYTES,
        ),
    )
    optimizer: str | None = field(
        default=None,
        metadata=_help(
            f"The optimizer: {', '.join(OPTIMIZERS)}. The default is adam; on systolic updates take no time, and only "
            "none is accepted.",
            values=OPTIMIZERS,
        ),
    )
    gradient_bytes: int | None = field(
        default=None,
        metadata=_help(
            "The size of an element of a gradient, in bytes. The default is 4 on systolic and with fp32 or tf32, and "
            "otherwise 2.",
            most=_MOST_GRADIENT_BYTES,
        ),
    )
    compute_overhead: float | None = field(
        default=None,
        metadata=_help(
            "The fraction of the compute that an all-reduce takes while it runs, from 0 to below 1; an all-reduce in "
            "switches takes nothing. The default is 0 on systolic and on tpu-v5p, and 0.2 on GPUs."
        ),
    )

    def __post_init__(self) -> None:
        for each in fields(self):
            given = getattr(self, each.name)
            is_own = each.name == "accelerator" and isinstance(given, Accelerator)
            if given is not None and not is_own:
                object.__setattr__(self, each.name, _checked(given, each.name, each.metadata))


def _checked(given: Any, name: str, metadata: Mapping[str, Any]) -> Any:
    """Return a value that is possible: a name, a whole number, or a part of the compute."""
    what = metadata["what"] or name
    if isinstance(given, str) and (other := metadata["instead"].get(given)):
        raise TreefoldError(f"{what} {given!r}: {other} stands for {given}, too; take {name}={other!r}")
    if metadata["values"]:
        return checks.name(what, given, metadata["values"])
    return check_overhead(what, given) if metadata["most"] is None else checks.whole(what, given, 1, metadata["most"])


def texts() -> dict[str, str]:
    """Return what each field means, by its name."""
    return {each.name: each.metadata["help"] for each in fields(TrainingOptions)}


_OWN_ACCELERATOR = "It may also be your own: a `treefold.training.Gpu` or a `treefold.training.Systolic`."
"""What only Python takes."""


def _attributes() -> str:
    """Return the section of the docstring that explains the fields."""
    lines = ["    Attributes:"]
    for name, text in (texts() | {"accelerator": f"{texts()['accelerator']} {_OWN_ACCELERATOR}"}).items():
        lines += textwrap.wrap(
            f"{name}: {text}", 112, initial_indent=" " * 8, subsequent_indent=" " * 12, break_on_hyphens=False
        )
    return "\n".join(lines)


# The texts stand in the fields' metadata, for the command line; `help()` shows docstrings only.
_SUMMARY, _, _EXAMPLE = (TrainingOptions.__doc__ or "").partition("\n\n")
TrainingOptions.__doc__ = f"{_SUMMARY}\n\n{_attributes()}\n\n{_EXAMPLE}"
