"""The options of the backend: which plan or topology it uses, and from which size on.

They are given to a group (`pg_options`), else to `configure`, else they come from the environment.
"""

import os
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any

from treefold import checks
from treefold._core import Plan, Topology, parse_size, parse_time
from treefold.checks import guess
from treefold.environment import switch, value
from treefold.errors import TreefoldError
from treefold.probe.settings import Settings
from treefold.runtime.adaptive import check_adapt
from treefold.runtime.arrays import WIRE_TYPES
from treefold.text import message

TRANSPORTS = ("tcp", "torch")

_DISCOVER = "discover"
_MOST_BYTES = (1 << 63) - 1
_LEAST_STAGING = 1 << 20


@dataclass(frozen=True)
class Options:
    """The options of a process group; give them as `pg_options`, or the fields to `configure`.

    Fields that are left out have their defaults; the environment is not read for them.

    Give a plan or a topology, not both. Rank 0's plan or topology, `least_bytes`, `transport`, `adapt`, `wire` and
    `error_feedback` count for all ranks, and `wraps` is each rank's own. A rank with a plan or a topology where rank 0
    has none is an error, and so is a plan other than rank 0's.

    Raises:
        TreefoldError: If a value is not allowed, or two fields exclude each other.

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
    topology, unless every process has a name (TREEFOLD_NAME). `discover` stands for the network between the processes:
    they measure it when the group of all ranks is made, and keep it in a file of rank 0, in `~/.cache/treefold`, which
    the next group of the same processes uses; `discover:net.json` names the file. Its variable is
    TREEFOLD_TOPOLOGY."""
    least_bytes: int | str = 4096
    """Calls with fewer bytes than this go to the wrapped backend. The bytes are those of the whole vector: of the
    output of an all-gather, of the input of a reduce-scatter, and of coalesced tensors together. It may be a text with
    a unit, such as `64KiB`, and becomes a number. With certificates (TREEFOLD_TLS) smaller calls are planned, too, so
    that they are encrypted, but they are not rounded. Its variable is TREEFOLD_LEAST_SIZE."""
    transport: str = "tcp"
    """The transport of a plan's messages: `tcp`, which is treefold's own connections, or `torch`, which is gloo's
    point-to-point messages; its variable is TREEFOLD_TRANSPORT."""
    adapt: bool | str = False
    """Whether the plan follows links that change or are cut while it runs: True with its own algorithm, `auto` with the
    fastest. It works over `tcp` only, and not if the network has switches. Its variable is TREEFOLD_ADAPT, which is
    `yes`, `no` or `auto`; 1, true and on mean yes, and 0, false and off mean no."""
    wire: str | None = None
    """The type in which float32 and bfloat16 numbers of sums by all-reduce and reduce-scatter cross lines: `bfloat16`,
    `float16`, `float8` or `int8`; None if they cross as they are, as all other numbers do. Its variable is
    TREEFOLD_WIRE."""
    error_feedback: bool = False
    """Whether each rank keeps what a wire type takes from its tensors in all-reduces, and adds it to what is next in
    the same memory; a float32 number for each element. Its variable is TREEFOLD_ERROR_FEEDBACK, which is `yes` or `no`;
    1, true and on mean yes, and 0, false and off mean no."""
    wraps: str | None = None
    """The wrapped backends: for example `gloo`, or by device `cpu:gloo,cuda:nccl`. The default is gloo for CPU tensors,
    and nccl for CUDA tensors where there is CUDA; its variable is TREEFOLD_WRAPS."""
    staging_bytes: int | str = 64 << 20
    """The maximum of pinned host memory through which a group copies the tensors of each GPU, at least 1 MiB. It may be
    a text with a unit, and becomes a number. Its variable is TREEFOLD_STAGING."""
    probe_seconds: float | None = None
    """The approximate time for which `discover` measures, in seconds, as `seconds` of `treefold.probe.Settings`. Its
    variable is TREEFOLD_PROBE_SECONDS, which may have a unit, such as `90s`."""
    probe_bytes: int | str | None = None
    """The maximum traffic of all ranks together while `discover` measures: by default 64 GiB. It may be a text with a
    unit, and becomes a number. Its variable is TREEFOLD_PROBE_BYTES."""

    def __post_init__(self) -> None:
        least = parse_size(self.least_bytes) if isinstance(self.least_bytes, str) else self.least_bytes
        object.__setattr__(self, "least_bytes", checks.whole("least_bytes", least, 0, _MOST_BYTES))
        staging = parse_size(self.staging_bytes) if isinstance(self.staging_bytes, str) else self.staging_bytes
        object.__setattr__(self, "staging_bytes", checks.whole("staging_bytes", staging, _LEAST_STAGING, _MOST_BYTES))
        object.__setattr__(self, "transport", checks.name("transport", self.transport, TRANSPORTS))
        check_adapt(self.adapt)
        if self.adapt and self.transport != "tcp":
            raise TreefoldError("adapt works over the transport tcp only; drop one of the two")
        if self.wire is not None:
            object.__setattr__(self, "wire", checks.name("wire type", self.wire, WIRE_TYPES))
        if self.error_feedback not in (False, True):
            raise TreefoldError(f"error_feedback {checks.shown(self.error_feedback)} is unknown; it is True or False")
        if self.error_feedback and self.wire is None:
            raise TreefoldError(
                "error_feedback needs a wire type, as nothing is rounded without; give wire (TREEFOLD_WIRE), for "
                "example int8"
            )
        if self.plan is not None and self.topology is not None:
            raise TreefoldError("a plan and a topology were given; a plan holds its topology, so give one of the two")
        if self.discovers and self.discovered_file == "":
            raise TreefoldError("topology 'discover:' names no file; write discover:net.json, or discover alone")
        self._check_probe()

    def _check_probe(self) -> None:
        """Check how much `discover` may take."""
        for name, given in (("probe_seconds", self.probe_seconds), ("probe_bytes", self.probe_bytes)):
            if given is not None and not self.discovers:
                raise TreefoldError(
                    f"{name} {checks.shown(given)}: only discover measures; drop it (TREEFOLD_{name.upper()}), or give "
                    "topology='discover' (TREEFOLD_TOPOLOGY)"
                )
        if self.probe_seconds is not None and checks.number("probe_seconds", self.probe_seconds, "seconds") <= 0:
            raise TreefoldError(f"probe_seconds {checks.shown(self.probe_seconds)}: must be above 0, for example 30")
        if self.probe_bytes is not None:
            most = parse_size(self.probe_bytes) if isinstance(self.probe_bytes, str) else self.probe_bytes
            object.__setattr__(self, "probe_bytes", checks.whole("probe_bytes", most, 1, _MOST_BYTES))

    @property
    def discovers(self) -> bool:
        """Tell whether the ranks measure their network, or use what they measured before."""
        return isinstance(self.topology, str) and self.topology.partition(":")[0] == _DISCOVER

    @property
    def probe(self) -> Settings:
        """The settings with which the ranks measure their network."""
        return Settings(self.probe_seconds, Settings.most_bytes if self.probe_bytes is None else int(self.probe_bytes))

    @property
    def discovered_file(self) -> str | None:
        """The file in which the measured network is kept; None for one in the cache."""
        return None if self.topology == _DISCOVER else str(self.topology).partition(":")[2]


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
    texts = {name: (variable, value(variable)) for name, (variable, _) in _VARIABLES.items()}
    return Options(**{name: _read(name, *given) for name, given in texts.items() if given[1]})


def _read(option: str, variable: str, text: str) -> Any:
    """Return the value of an option that a variable gives; errors name the variable."""
    try:
        return _VARIABLES[option][1](text)
    except TreefoldError as error:
        raise TreefoldError(message(variable, str(error))) from None


def _seconds(text: str) -> float:
    """Return a time in seconds: a number of them, or a text with a unit."""
    with suppress(ValueError):
        return float(text)
    return parse_time(text)


def _adapt(text: str) -> bool | str:
    """Return what TREEFOLD_ADAPT says."""
    return "auto" if text.lower() == "auto" else _switch(text, "auto")


def _switch(text: str, *others: str) -> bool:
    """Return whether a text says yes or no; errors name the `others` that are known, too."""
    if (is_on := switch(text)) is not None:
        return is_on
    near = guess(text.lower(), ("yes", "no", *others, "true", "false"))
    hint = f"did you mean {near}? " if near else ""
    known = ", ".join(("yes (1, true, on)", "no (0, false, off)", *others))
    raise TreefoldError(f"{checks.shown(text)} is unknown; {hint}known are {known}")


_VARIABLES: dict[str, tuple[str, Callable[[str], Any]]] = {
    "plan": ("TREEFOLD_PLAN", str),
    "topology": ("TREEFOLD_TOPOLOGY", str),
    "least_bytes": ("TREEFOLD_LEAST_SIZE", parse_size),
    "transport": ("TREEFOLD_TRANSPORT", lambda text: checks.name("transport", text, TRANSPORTS)),
    "adapt": ("TREEFOLD_ADAPT", _adapt),
    "wire": ("TREEFOLD_WIRE", lambda text: checks.name("wire type", text, WIRE_TYPES)),
    "error_feedback": ("TREEFOLD_ERROR_FEEDBACK", _switch),
    "wraps": ("TREEFOLD_WRAPS", str),
    "staging_bytes": ("TREEFOLD_STAGING", parse_size),
    "probe_seconds": ("TREEFOLD_PROBE_SECONDS", _seconds),
    "probe_bytes": ("TREEFOLD_PROBE_BYTES", parse_size),
}
"""The variable of each option, and how its text is read."""
