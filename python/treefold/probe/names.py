"""The names of workers: their own, or those of their machines."""

import socket
from collections.abc import Sequence

from treefold.rendezvous import Rendezvous


def own_name(meeting: Rendezvous) -> str:
    """Return the name of this worker: that of TREEFOLD_NAME, else that of its machine."""
    return meeting.name or socket.gethostname()


def distinct_names(names: Sequence[str]) -> list[str]:
    """Return the names of workers, with their numbers appended to those that several have."""
    taken, distinct = set(names), []
    for rank, name in enumerate(names):
        if names.count(name) > 1:
            name += f"#{rank}"
            while name in taken:
                name += f"#{rank}"
            taken.add(name)
        distinct.append(name)
    return distinct
