"""How much memory there is, so that what cannot fit is refused in one line before anything is allocated."""

import os
import resource
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from treefold._core import format_size
from treefold.errors import TreefoldError

_MOST_TOLD = 1 << 63


def free_bytes() -> int:
    """Return how much memory this process may still take: what the machine, its container and limits leave."""
    limit, _ = resource.getrlimit(resource.RLIMIT_AS)
    found = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    found += [limit] if limit != resource.RLIM_INFINITY else []
    with suppress(OSError, ValueError):  # Linux
        lines = Path("/proc/meminfo").read_text().splitlines()
        found += [int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable:")]
    with suppress(OSError, ValueError):  # "max" is no number
        found.append(int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return min(found)


def check(what: str, least_bytes: int, remedy: str) -> None:
    """Refuse what takes more memory than there is.

    Raises:
        TreefoldError: With what it takes and what there is.

    """
    if least_bytes > (free := free_bytes()):
        least = format_size(min(least_bytes, _MOST_TOLD))
        raise TreefoldError(f"{what} at least {least} of memory, and {format_size(free)} are free; {remedy}")


@contextmanager
def told(what: str, remedy: str) -> Iterator[None]:
    """Turn memory that runs out on the way into an error of one line."""
    try:
        yield
    except MemoryError:
        raise TreefoldError(
            f"{what} more memory than the {format_size(free_bytes())} that are free; {remedy}"
        ) from None
