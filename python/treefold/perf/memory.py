"""How much memory is free, so that what cannot fit is refused in one line before anything is allocated."""

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from treefold._core import format_size
from treefold.errors import TreefoldError
from treefold.limits import soft_limit

_MOST_SHOWN = 1 << 63


def free_bytes() -> int:
    """Return how many bytes this process may still take: what the machine, its container and its limits leave."""
    limit = soft_limit("RLIMIT_AS")
    bounds = [_MOST_SHOWN] if limit is None else [limit]
    with suppress(AttributeError):  # on Windows
        bounds.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    with suppress(OSError, ValueError):  # Linux
        lines = Path("/proc/meminfo").read_text().splitlines()
        bounds += [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    with suppress(OSError, ValueError):  # "max" is no number
        bounds.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(bounds)


def check(what: str, least_bytes: int, remedy: str) -> None:
    """Refuse what takes more memory than is free.

    Args:
        what: The beginning of the error, up to the verb: what takes memory.
        least_bytes: How much it takes at least.
        remedy: The end of the error: what to do.

    Raises:
        TreefoldError: If less memory is free.

    """
    if least_bytes > (free := free_bytes()):
        least = format_size(min(least_bytes, _MOST_SHOWN))
        raise TreefoldError(f"{what} at least {least} of memory, and {format_size(free)} are free; {remedy}")


@contextmanager
def exhaustion_reported(what: str, remedy: str) -> Iterator[None]:
    """Turn a MemoryError into an error of one line; `what` and `remedy` are as in `check`."""
    try:
        yield
    except MemoryError:
        raise TreefoldError(
            f"{what} more memory than the {format_size(free_bytes())} that are free; {remedy}"
        ) from None
