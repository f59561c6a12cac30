"""How workers join a group: they agree on a plan, connect, and run it together."""

import warnings
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from functools import partial
from typing import Any, NamedTuple, TypeVar

from treefold import checks
from treefold._core import Mesh, Plan, Topology, message_cost
from treefold.checks import DEFAULT_SIZE_BYTES
from treefold.errors import TreefoldError
from treefold.rendezvous import Rendezvous, challenge, local, tls, validation
from treefold.rendezvous.meeting import all_or_none, failures_of
from treefold.runtime.adaptive import AdaptiveGroup, check_adapt, check_direct
from treefold.runtime.agreement import AgreedPlans, agreed_plans
from treefold.runtime.arrays import WIRE_TYPES
from treefold.runtime.connections import DEFAULT, Connections
from treefold.runtime.driver import EngineTransport
from treefold.runtime.engine import MakeEngine
from treefold.runtime.group import Group
from treefold.runtime.rank_mapping import RankMapping, map_ranks
from treefold.runtime.reach import connected_plan
from treefold.runtime.streams import asked_streams
from treefold.runtime.tcp import TcpTransport
from treefold.text import some

_FLOAT_BYTES = 4
_Result = TypeVar("_Result")

_HELLO: dict[str, validation.Schema] = {
    "name": lambda value: value is None or validation.is_name(value),
    "number": challenge.is_number,
    "tls": bool,
}
"""The schema of what each worker says of itself."""

_CLEAR_TEXT = (
    "what the workers send each other is not encrypted when it leaves a machine; use a network that strangers cannot "
    "read, or certificates (TREEFOLD_TLS)"
)


class _Agreed(NamedTuple):
    """The agreement of the workers of a new group."""

    plans: AgreedPlans
    mapping: RankMapping
    connections: Connections
    key: bytes
    """A secret by which the workers know each other's connections."""


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
        network: The network for which worker 0 makes a plan if it is given none: a `Topology`, a spec, or the path of
            a file. Without both, workers are assumed to reach each other equally well.
        size_bytes: The size of the vectors for which a plan is made, in bytes or as a text with a unit such as `1MiB`.
        connections: How the workers are connected, and how long they wait for each other.
        engine: The maker of the engine that carries messages: `engine_maker("mpi", meeting)` for MPI, or
            `engine_maker("torch", meeting)` for gloo. By default treefold's own TCP connections carry them.
        adapt: Whether the plan follows links that change, die or come back: True, with its own algorithm and options;
            or `auto`, with the algorithm that is then the fastest. An operation then ends on all workers or on none;
            for that, each worker keeps a copy of its array. It works over TCP only, and not if the network has
            switches; node caps are switches, too, and `treefold.topology(file, node_cap="none")` leaves them out.
        options: The `algorithm` (by default `auto`, which compares plans by the flow simulator), fields of
            `treefold.PlannerOptions`, and the `wire` type of later calls, so that `auto` counts the bytes that cross
            lines. The plan is for all-reduce, and the group makes those of other collectives when they are called, so
            `collective`, `root` and `simulator` are refused, and later a collective that takes more than `steps`.

    Returns:
        The group, whose methods are the collectives.

    Raises:
        TreefoldError: If workers and network do not match, plans differ, an option is unknown, or a worker cannot be
            reached.

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
    agreed = agreed_plans(meeting, plan, network, size_bytes, options, _crossing(options.pop("wire", None)))
    group = form(meeting, agreed, connections, engine, adapt)
    if agreed.given is not None:
        group.serve(agreed.given)
    return group


def _crossing(wire: object) -> tuple[str, int] | None:
    """Return how float32 numbers cross lines as a wire type, which may be None."""
    return None if wire is None else (checks.name("wire type", wire, WIRE_TYPES), _FLOAT_BYTES)


def form(
    meeting: Rendezvous,
    plans: AgreedPlans,
    connections: Connections = DEFAULT,
    engine: MakeEngine | None = None,
    adapt: bool | str = False,
) -> Group:
    """Connect workers that have agreed on plans; the other arguments, the result and the errors are those of `join`."""
    check_adapt(adapt)
    if adapt and engine is not None:
        raise TreefoldError("adapt works over TCP only, and an engine was given; drop one of the two")
    hello = {"name": meeting.name, "number": challenge.number(), "tls": meeting._credentials is not None}
    hellos = validation.exchange(meeting.exchange, hello, _HELLO)
    _check_tls([hello["tls"] for hello in hellos], engine is None)
    mapping = map_ranks([hello["name"] for hello in hellos], plans.all_reduce.topology)
    agreed = _Agreed(plans, mapping, connections, meeting._key_from([hello["number"] for hello in hellos]))
    with ExitStack() as undo:
        if engine is None:
            group = _over_tcp(undo, meeting, agreed, adapt)
        else:
            group = _over_engine(undo, meeting, agreed, engine)
        undo.pop_all()
        return group


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


def _over_engine(undo: ExitStack, meeting: Rendezvous, agreed: _Agreed, engine: MakeEngine) -> Group:
    """Form a group whose messages an engine carries."""

    def connected() -> Group:
        with failures_of("the engine that carries messages", "look at the other workers, or choose another transport"):
            made = engine(agreed.mapping.worker_of_rank)
        transport = EngineTransport(made, agreed.connections.silence_s)
        undo.callback(transport.close)
        return Group(meeting.rank, agreed.plans.all_reduce, agreed.mapping, transport)

    return all_or_none(meeting, connected)


def _over_tcp(undo: ExitStack, meeting: Rendezvous, agreed: _Agreed, adapt: bool | str) -> Group:
    """Form a group whose messages treefold's own TCP connections carry."""
    rank = agreed.mapping.rank_of_worker[meeting.rank]

    def listening() -> tuple[Mesh, float]:
        asked_streams(agreed.connections.streams)
        if adapt:
            check_direct(agreed.plans.all_reduce.topology)
        mesh = Mesh(rank, meeting.size, meeting.address, agreed.key, meeting.port)
        undo.callback(mesh.close)
        if meeting._credentials is not None:
            mesh.secure(*meeting._credentials.texts(), [tls.certified_name(name) for name in agreed.mapping.names])
        return mesh, message_cost()

    mesh, own_message_s = all_or_none(meeting, listening)
    schema = (validation.is_endpoint, validation.is_amount)
    by_worker = validation.exchange(meeting.exchange, [mesh.address, own_message_s], schema)
    if meeting.rank == 0 and meeting._credentials is None:
        _warn_of_clear_text([endpoint for endpoint, _ in by_worker])
    addresses, costs = zip(*(by_worker[worker] for worker in agreed.mapping.worker_of_rank), strict=True)

    transport = TcpTransport(mesh, rank, agreed.mapping, agreed.connections, meeting, addresses, max(costs))
    undo.callback(transport.close)
    plan = connected_plan(meeting, transport, agreed.plans, bool(adapt))
    make = partial(AdaptiveGroup, adapt=adapt) if adapt else _served_group
    return make(meeting.rank, plan, agreed.mapping, transport)


def _check_tls(have: Sequence[bool], is_tcp: bool) -> None:
    """Refuse a group of which some have certificates, or whose vectors an engine carries that knows none."""
    if any(have) and not is_tcp:
        raise TreefoldError("only the transport tcp encrypts, and TREEFOLD_TLS is set; choose tcp, or unset it")
    if any(have) and not all(have):
        lack = [str(worker) for worker, has in enumerate(have) if not has]
        plural, have_none = ("s", "have") if len(lack) > 1 else ("", "has")
        raise TreefoldError(
            f"worker{plural} {some(lack, 8)} {have_none} no certificate, and others have; set TREEFOLD_TLS on all "
            "workers, or on none"
        )


def _warn_of_clear_text(endpoints: Sequence[str]) -> None:
    """Warn if vectors leave the machine, as nothing encrypts them."""
    hosts = {endpoint.rpartition(":")[0] for endpoint in endpoints}
    if len(hosts) > 1:
        warnings.warn(_CLEAR_TEXT, stacklevel=2)


def _served_group(worker: int, plan: Plan, mapping: RankMapping, transport: TcpTransport) -> Group:
    """Return a group over TCP whose connections are kept alive between operations."""
    group = Group(worker, plan, mapping, transport)
    transport.serve()
    return group
