"""What PyTorch changes from one version to the next, and what the backend does about it.

`CHANGES` is the table, and all code that depends on torch's version is here. torch is imported late, so that
`check_torch` can say what is wrong with it.
"""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

from treefold.errors import TreefoldError

OLDEST_TORCH = (2, 10)
"""The oldest torch on which the backend's tests pass."""


class Change(NamedTuple):
    """A change of torch that the backend meets."""

    since: tuple[int, int]
    """The first version that has it."""
    before: str
    """What older versions do, and what the backend does about it."""


CHANGES = {
    "quiet gloo": Change(
        (2, 11),
        "When gloo connects, it prints lines on standard output. For groups that we make, they go to standard error.",
    ),
    "lists over gloo": Change(
        (2, 12), "gloo refuses `all_to_all` with lists. We pass such calls on, so they fail as they do on gloo."
    ),
    "single names": Change(
        (2, 13),
        "Calls such as `all_gather_single` have only their older names, such as `_allgather_base`. Our process group "
        "has both, and torch calls those that it knows.",
    ),
    "entry points": Change(
        (2, 14),
        "torch finds no backend by its entry point, so users import `treefold.torch` first. It has no record of how "
        "its own backends are made, so gloo and nccl are made here and in `wrapped`.",
    ),
}
"""The changes by name, in the order of versions."""


def check_torch() -> None:
    """Refuse a torch that lacks what the backend needs.

    Raises:
        TreefoldError: If torch is missing, too old, or built without torch.distributed.

    """
    install = "install it: pip install 'treefold[torch]'"
    try:
        import torch
        import torch.distributed
    except ImportError as error:
        raise TreefoldError(f"treefold.torch needs PyTorch, which cannot be imported ({error}); {install}") from None
    if _running() < OLDEST_TORCH:
        oldest = ".".join(map(str, OLDEST_TORCH))
        raise TreefoldError(f"torch {torch.__version__} is too old for treefold.torch, which needs {oldest}; {install}")
    if not torch.distributed.is_available():
        raise TreefoldError("this torch was built without torch.distributed; install one that has it, such as PyPI's")


def _running() -> tuple[int, ...]:
    """Return the version of the torch that runs."""
    import torch

    return tuple(int(part) for part in torch.__version__.split(".")[:2])


def has(change: str) -> bool:
    """Return whether the torch that runs has a change of the table."""
    return _running() >= CHANGES[change].since


def maker(name: str) -> Callable[[Any], Any] | None:
    """Return what makes a backend from torch's description of a group; None if torch has no such backend."""
    from torch.distributed import distributed_c10d as c10d

    if has("entry points"):
        c10d.Backend._ensure_backend_registered(name)
    elif name == "nccl":
        return _nccl
    if (plugin := c10d.Backend._plugins.get(name.upper())) is None:
        return None
    if plugin.extended_api:
        return lambda given: plugin.creator_fn(given, None)
    return lambda given: plugin.creator_fn(given.store, given.group_rank, given.group_size, given.timeout)


def _nccl(given: Any) -> Any:
    """Return a new backend over nccl."""
    from torch.distributed import ProcessGroupNCCL

    options = ProcessGroupNCCL.Options()
    options._timeout = given.timeout
    options.global_ranks_in_group, options.group_name = given.global_ranks_in_group, given.group_id
    return ProcessGroupNCCL(given.store, given.group_rank, given.group_size, options)


_quiet = threading.Lock()
_connecting = 0
"""How many threads make a group of gloo at this time."""
_standard_output = -1
"""A descriptor of standard output while they do."""


@contextmanager
def quiet_gloo() -> Iterator[None]:
    """Keep standard output free of what gloo prints while a group is made: other programs may read it."""
    if has("quiet gloo"):
        yield
        return
    _count_connecting(1)
    try:
        yield
    finally:
        _count_connecting(-1)


def _count_connecting(difference: int) -> None:
    """Send standard output to standard error when the first thread begins to connect, and back after the last one."""
    global _connecting, _standard_output
    with _quiet:
        if _connecting == 0:
            _standard_output = os.dup(1)
            os.dup2(2, 1)
        _connecting += difference
        if _connecting == 0:
            os.dup2(_standard_output, 1)
            os.close(_standard_output)
