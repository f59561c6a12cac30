"""What the backend should do: which plan or topology, from which size on.

Options come from three places: those given to a group (`pg_options`), else those of `configure`, else the environment.
"""

import os
from dataclasses import dataclass, fields
from typing import Any

from treefold._core import Plan, Topology, parse_size
from treefold.environment import value
from treefold.errors import TreefoldError

TRANSPORTS = ("tcp", "torch")


@dataclass(frozen=True)
class Options:
    """How a group plans; give one as `pg_options`, or the fields to `configure`."""

    plan: Plan | str | os.PathLike[str] | None = None
    """A plan or its file, for the group of all ranks. TREEFOLD_PLAN."""
    topology: Topology | str | os.PathLike[str] | None = None
    """A topology, its file or a spec, of which each group plans its own part. TREEFOLD_TOPOLOGY."""
    least_bytes: int = 4096
    """Smaller tensors go to the wrapped backend. TREEFOLD_LEAST_SIZE, such as `64KiB`."""
    transport: str = "tcp"
    """What carries a plan's messages: `tcp`, connections of treefold's own, or `torch`, gloo's point-to-point messages.
    TREEFOLD_TRANSPORT."""
    adapt: bool = False
    """Whether the plan follows the network: links that change, or die, in mid-run. Over `tcp`. TREEFOLD_ADAPT=1."""
    wraps: str | None = None
    """The wrapped backends: `gloo` or by device `cpu:gloo,cuda:nccl`; the default is gloo for CPU tensors, and nccl for
    CUDA tensors where there is CUDA. TREEFOLD_WRAPS."""

    def __post_init__(self) -> None:
        if self.transport not in TRANSPORTS:
            raise TreefoldError(f"transport '{self.transport}' is unknown; known are {', '.join(TRANSPORTS)}")
        if self.adapt and self.transport != "tcp":
            raise TreefoldError("adapt works over the transport tcp only; drop one of the two")
        if self.plan is not None and self.topology is not None:
            raise TreefoldError("a plan and a topology were given; a plan holds its topology, so give one of the two")


_configured: Options | None = None


def configure(**wishes: Any) -> None:
    """Set the options of groups made from now on in this process: the fields of `Options`; none resets them.

    Args:
        wishes: Fields of `Options`; those left out have their defaults. The environment no longer counts.

    Raises:
        TreefoldError: If a field is unknown or its value is.

    """
    global _configured
    known = [field.name for field in fields(Options)]
    for name in wishes:
        if name not in known:
            raise TreefoldError(f"option '{name}' is unknown; known are {', '.join(known)}")
    _configured = Options(**wishes) if wishes else None


def chosen(given: object) -> Options:
    """Return the options of a group that was given `given` as `pg_options`."""
    if isinstance(given, Options):
        return given
    if given is not None:
        raise TreefoldError(f"pg_options is {type(given).__name__}; the backend treefold takes treefold.torch.Options")
    return _configured or _of_environment()


def _of_environment() -> Options:
    given = {
        "plan": value("TREEFOLD_PLAN"),
        "topology": value("TREEFOLD_TOPOLOGY"),
        "transport": value("TREEFOLD_TRANSPORT"),
        "wraps": value("TREEFOLD_WRAPS"),
        "adapt": value("TREEFOLD_ADAPT") not in ("", "0"),
    }
    wishes: dict[str, Any] = {name: wish for name, wish in given.items() if wish}
    if least := value("TREEFOLD_LEAST_SIZE"):
        wishes["least_bytes"] = parse_size(least)
    return Options(**wishes)
