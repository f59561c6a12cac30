"""How workers join a group: they agree on a plan, connect, and run it together."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any, TypeVar

from treefold import checks
from treefold._core import Plan, Topology
from treefold.checks import DEFAULT_SIZE_BYTES
from treefold.rendezvous import Rendezvous, local
from treefold.runtime.admitting import enter, open_first
from treefold.runtime.agreement import AgreedPlans, agreed_plans
from treefold.runtime.arrays import WIRE_TYPES
from treefold.runtime.connections import DEFAULT, Connections
from treefold.runtime.engine import MakeEngine
from treefold.runtime.forming import form
from treefold.runtime.group import Group
from treefold.runtime.tcp import TcpTransport

_FLOAT_BYTES = 4
_Result = TypeVar("_Result")


def join(
    meeting: Rendezvous,
    plan: Plan | None = None,
    network: Topology | str | None = None,
    *,
    size_bytes: int | str = DEFAULT_SIZE_BYTES,
    connections: Connections = DEFAULT,
    engine: MakeEngine | None = None,
    adapt: bool | str = False,
    **options: Any,
) -> Group:
    """Join the other workers, to run a plan with them; all workers call this together.

    Args:
        meeting: The rendezvous of the workers, such as `from_environment()`.
        plan: A plan. Worker 0's is used, and a worker with another one gets an error. One that is not for an
            all-reduce serves its own collective, and `auto` plans the others.
        network: The network for which worker 0 makes a plan if it is given none: a `Topology` (`probe.discover` may
            measure it), a spec, or a path. Without both, workers are assumed to reach each other equally well.
        size_bytes: The size of the vectors for which a plan is made, in bytes or as a text with a unit such as `1MiB`.
        connections: How the workers are connected, and whether newcomers may come, who get the plan, the network and
            `adapt` of the group.
        engine: The maker of the engine that carries messages: `engine_maker("mpi", meeting)` for MPI, or
            `engine_maker("torch", meeting)` for gloo. By default treefold's own TCP connections carry them.
        adapt: Whether the plan follows links that change, die or come back: True, with its own algorithm and options;
            or `auto`, with the algorithm that is then the fastest. An operation then ends on all workers or on none;
            for that, each worker keeps a copy of its array. It works over TCP only, and not if the network has
            switches. Where links join all pairs of 3 to 32 workers, the group learns, too, which of them share a line.
        options: The `algorithm` (by default `auto`, by the flow simulator), fields of `treefold.PlannerOptions`, and
            the `wire` type of later calls, for which `auto` chooses. The plan is for all-reduce; others are made when
            they are called, so `collective`, `root` and `simulator` are refused, and later a collective that takes more
            than `steps`. To the file `learn` worker 0 of a group that adapts writes what it learns.

    Returns:
        The group, whose methods are the collectives.

    Raises:
        TreefoldError: If workers and network do not match, plans differ, an option is unknown, or no worker answers.

    Example:
        The environment has RANK=0, WORLD_SIZE=1, MASTER_ADDR and MASTER_PORT before Python starts.

        >>> import numpy as np
        >>> from treefold import runtime
        >>> meeting = runtime.from_environment()
        >>> group = runtime.join(meeting, network="ring:1")
        >>> array = np.arange(3)
        >>> group.all_reduce(array)
        >>> array.tolist()
        [0, 1, 2]
        >>> group.close()
        >>> meeting.close()

    """
    if meeting._line is not None and connections.newcomers:
        return enter(meeting, connections)
    crossing, learn = _crossing(options.pop("wire", None)), options.pop("learn", None)
    agreed = agreed_plans(meeting, plan, network, size_bytes, options, crossing)
    group = form(meeting, agreed, connections, engine, adapt, learn)
    return _opened(meeting, group, agreed, plan is None and network is None)


def _opened(meeting: Rendezvous, group: Group, agreed: AgreedPlans, is_assumed: bool) -> Group:
    """Return a group that has formed, with the plan that was given, and open to newcomers if its workers want that."""
    if isinstance(group.transport, TcpTransport) and group.transport.connections.newcomers:
        open_first(meeting, group, is_assumed)
    if agreed.given is not None:
        group.serve(agreed.given)
    return group


def _crossing(wire: object) -> tuple[str, int] | None:
    """Return how float32 numbers cross lines as a wire type, which may be None."""
    return None if wire is None else (checks.name("wire type", wire, WIRE_TYPES), _FLOAT_BYTES)


def in_threads(workers: int, work: Callable[[Group], _Result], **options: Any) -> list[_Result]:
    """Join threads of this process, let each do `work` with its group, and return the results, by worker.

    It is for trying things out: the threads send messages over loopback, as processes on one machine would.

    Args:
        workers: How many threads to start.
        work: A function of a group; the group is closed when it returns.
        options: Arguments of `join` by their names, such as `network` or `algorithm`.

    Raises:
        TreefoldError: If there are fewer than 1 or more than 65536 workers, or the threads cannot join; any error of
            `work` is raised again.

    Example:
        >>> from treefold import runtime
        >>> runtime.in_threads(2, lambda group: f"worker {group.worker} of {group.size}")
        ['worker 0 of 2', 'worker 1 of 2']

    """

    def join_and_work(meeting: Rendezvous) -> _Result:
        try:
            group = join(meeting, **options)
        finally:
            meeting.close()
        try:
            return work(group)
        finally:
            group.close()

    places = local(workers)
    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(join_and_work, places))
