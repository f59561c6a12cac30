"""The options of the backend: which plan or topology it uses, and from which size on.

They are given to a group (`pg_options`), else to `configure`, else they come from the environment.
"""

import os
from dataclasses import dataclass, fields
from typing import Any

from treefold import checks
from treefold._core import Plan, Topology, parse_size
from treefold.environment import value
from treefold.errors import TreefoldError
from treefold.runtime.adaptive import check_adapt

TRANSPORTS = ("tcp", "torch")

_MOST_BYTES = (1 << 63) - 1
_ADAPT = {"": False, "0": False, "1": True}
"""The meaning of TREEFOLD_ADAPT, which may also be `auto`."""


@dataclass(frozen=True)
class Options:
    """The options of a process group; give them as `pg_options`, or the fields to `configure`.

    Fields that are left out have their defaults; the environment is not read for them.

    Give a plan or a topology, not both. Rank 0's plan or topology, `least_bytes`, `transport` and `adapt` count for all
    ranks, and `wraps` is each rank's own. A rank with a plan or a topology where rank 0 has none is an error, as is
    another plan than rank 0's.

    Example:
        >>> import treefold.torch
        >>> treefold.torch.Options(topology="ring:4", least_bytes=65536).transport
        'tcp'

    """

    plan: Plan | str | os.PathLike[str] | None = None
    """A plan or its file, for the group of all ranks; smaller groups then plan nothing, so give a topology if you make
    some. Its variable is TREEFOLD_PLAN."""
    topology: Topology | str | os.PathLike[str] | None = None
    """A topology, its file or a spec; each process group plans for its own part of it. Rank r of torch is rank r of the
    topology, unless every process has a name (TREEFOLD_NAME). Its variable is TREEFOLD_TOPOLOGY."""
    least_bytes: int = 4096
    """Calls with fewer bytes than this go to the wrapped backend. The bytes are those of the whole vector: of the
    output of an all-gather, of the input of a reduce-scatter, and of coalesced tensors together. Its variable is
    TREEFOLD_LEAST_SIZE, for example `64KiB`."""
    transport: str = "tcp"
    """The transport of a plan's messages: `tcp`, which is treefold's own connections, or `torch`, which is gloo's
    point-to-point messages; its variable is TREEFOLD_TRANSPORT."""
    adapt: bool | str = False
    """Whether the plan follows links that change or are cut while it runs: True with its own algorithm, `auto` with the
    fastest. It works over `tcp` only, and not if the network has switches (node caps are switches, too); its variable
    is TREEFOLD_ADAPT, which is 1 or `auto`."""
    wraps: str | None = None
    """The wrapped backends: for example `gloo`, or by device `cpu:gloo,cuda:nccl`. The default is gloo for CPU tensors,
    and nccl for CUDA tensors where there is CUDA; its variable is TREEFOLD_WRAPS."""

    def __post_init__(self) -> None:
        checks.whole("least_bytes", self.least_bytes, 0, _MOST_BYTES)
        if self.transport not in TRANSPORTS:
            raise TreefoldError(f"transport '{self.transport}' is unknown; known are {', '.join(TRANSPORTS)}")
        check_adapt(self.adapt)
        if self.adapt and self.transport != "tcp":
            raise TreefoldError("adapt works over the transport tcp only; drop one of the two")
        if self.plan is not None and self.topology is not None:
            raise TreefoldError("a plan and a topology were given; a plan holds its topology, so give one of the two")


_configured: Options | None = None


def configure(**options: Any) -> None:
    """Set the options of groups that this process makes from now on; without arguments, the environment is read again.

    Args:
        options: Fields of `Options`; those left out have their defaults, and the environment is no longer read.

    Raises:
        TreefoldError: If a field is unknown, a value is not allowed, or two fields exclude each other. Files, specs and
            backends are looked up only when a group is made, by `init_process_group`.

    Example:
        >>> import treefold.torch
        >>> treefold.torch.configure(topology="ring:4", least_bytes=65536)
        >>> treefold.torch.configure()

    """
    global _configured
    known = [field.name for field in fields(Options)]
    for name in options:
        if name not in known:
            raise TreefoldError(f"option '{name}' is unknown; known are {', '.join(known)}")
    _configured = Options(**options) if options else None


def chosen(given: object) -> Options:
    """Return the options of a group that was given `given` as `pg_options`."""
    if isinstance(given, Options):
        return given
    if given is not None:
        raise TreefoldError(f"pg_options is {type(given).__name__}; the backend treefold takes treefold.torch.Options")
    return _configured or _from_environment()


def _from_environment() -> Options:
    given = {
        "plan": value("TREEFOLD_PLAN"),
        "topology": value("TREEFOLD_TOPOLOGY"),
        "transport": value("TREEFOLD_TRANSPORT"),
        "wraps": value("TREEFOLD_WRAPS"),
        "adapt": _ADAPT.get(value("TREEFOLD_ADAPT"), value("TREEFOLD_ADAPT")),
    }
    options: dict[str, Any] = {name: option for name, option in given.items() if option}
    if least := value("TREEFOLD_LEAST_SIZE"):
        options["least_bytes"] = parse_size(least)
    return Options(**options)
