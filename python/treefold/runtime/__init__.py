"""Runs plans on the arrays of one process, or among workers that join a group.

- `run` runs a plan on the arrays of one process, with a thread for each rank.
- `from_environment` (or `from_master`, `from_store`, `local`) makes a `Rendezvous`, where workers find each other.
- `join` makes a `Group` of them, whose methods are the collectives.
- `engine_maker` lets MPI or torch carry the messages of a group.
- `regroup` makes a new group of the workers that are left after a `RankLostError`.
- `admit` takes newcomers into a running group, and workers that come back.
- `in_threads` tries all of it with threads of one process.

`Connections` says how workers are connected, and how long they wait for each other. Nothing is imported before it is
used.

A worker is a process (or a thread), numbered by whatever started it: `Rendezvous.rank`, torch's rank and RANK are the
numbers of workers. A rank is an accelerator of the plan: `Group.rank` is this worker's. Both numbers are equal, unless
every worker has a name (TREEFOLD_NAME): then each is the accelerator of its name.
"""

from __future__ import annotations

TYPE_CHECKING = False  # as in treefold/__init__.py
if TYPE_CHECKING:
    from typing import Any

    from treefold.rendezvous.launchers import from_environment
    from treefold.rendezvous.master import from_master
    from treefold.rendezvous.meeting import Rendezvous, local
    from treefold.rendezvous.store import from_store
    from treefold.runtime.admitting import admit
    from treefold.runtime.arrays import OPERATORS, run
    from treefold.runtime.connections import Connections
    from treefold.runtime.engines import engine_maker
    from treefold.runtime.faults import RankLostError
    from treefold.runtime.group import Group
    from treefold.runtime.joining import in_threads, join
    from treefold.runtime.survivors import regroup

__all__ = [
    "OPERATORS",
    "Connections",
    "Group",
    "RankLostError",
    "Rendezvous",
    "admit",
    "engine_maker",
    "from_environment",
    "from_master",
    "from_store",
    "in_threads",
    "join",
    "local",
    "regroup",
    "run",
]

# No module has the name of a function: importing it would hide the function.
_MODULE_OF = {
    "OPERATORS": "runtime.arrays",
    "Group": "runtime.group",
    "RankLostError": "runtime.faults",
    "Rendezvous": "rendezvous.meeting",
    "Connections": "runtime.connections",
    "admit": "runtime.admitting",
    "engine_maker": "runtime.engines",
    "from_environment": "rendezvous.launchers",
    "from_master": "rendezvous.master",
    "from_store": "rendezvous.store",
    "in_threads": "runtime.joining",
    "join": "runtime.joining",
    "local": "rendezvous.meeting",
    "regroup": "runtime.survivors",
    "run": "runtime.arrays",
}


def __getattr__(name: str) -> Any:
    """Import a name when it is used, so that `import treefold` stays fast."""
    from importlib import import_module

    if name not in _MODULE_OF:
        raise AttributeError(f"module 'treefold.runtime' has no attribute '{name}'")
    return globals().setdefault(name, getattr(import_module(f"treefold.{_MODULE_OF[name]}"), name))


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
