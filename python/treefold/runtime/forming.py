"""How workers that have agreed on a plan form a group: they map themselves to its ranks, and connect."""

import warnings
from collections.abc import Sequence
from contextlib import ExitStack
from functools import partial
from os import PathLike
from typing import NamedTuple

from treefold._core import Mesh, Plan, message_cost
from treefold.errors import OutsideError, TreefoldError
from treefold.rendezvous import Rendezvous, challenge, tls, validation
from treefold.rendezvous.meeting import all_or_none, failures_of
from treefold.runtime.adaptive import AdaptiveGroup, check_adapt, check_direct, check_learn, warn_if_nothing_to_learn
from treefold.runtime.agreement import AgreedPlans
from treefold.runtime.connections import DEFAULT, Connections
from treefold.runtime.driver import EngineTransport
from treefold.runtime.engine import MakeEngine
from treefold.runtime.group import Group
from treefold.runtime.rank_mapping import RankMapping, map_ranks
from treefold.runtime.reach import connected_plan
from treefold.runtime.streams import asked_streams
from treefold.runtime.tcp import TcpTransport
from treefold.text import some

_HELLO: dict[str, validation.Schema] = {
    "name": lambda value: value is None or validation.is_name(value),
    "number": challenge.is_number,
    "tls": bool,
    "newcomers": bool,
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


def form(
    meeting: Rendezvous,
    plans: AgreedPlans,
    connections: Connections = DEFAULT,
    engine: MakeEngine | None = None,
    adapt: bool | str = False,
    learn: str | PathLike[str] | None = None,
) -> Group:
    """Connect workers that have agreed on plans; the other arguments, the result and the errors are those of `join`."""
    check_adapt(adapt)
    if adapt and engine is not None:
        raise TreefoldError("adapt works over TCP only, and an engine was given; drop one of the two")
    hello = {
        "name": meeting.name,
        "number": challenge.number(),
        "tls": meeting._credentials is not None,
        "newcomers": connections.newcomers,
    }
    if connections.newcomers and engine is not None:
        raise TreefoldError("newcomers come over TCP only, and an engine was given; drop one of the two")
    hellos = validation.exchange(meeting.exchange, hello, _HELLO)
    _check_tls([hello["tls"] for hello in hellos], engine is None)
    _check_open([hello["newcomers"] for hello in hellos])
    mapping = map_ranks([hello["name"] for hello in hellos], plans.all_reduce.topology)
    agreed = _Agreed(plans, mapping, connections, meeting._key_from([hello["number"] for hello in hellos]))
    with ExitStack() as undo:
        if engine is None:
            group = _over_tcp(undo, meeting, agreed, adapt, learn)
        else:
            group = _over_engine(undo, meeting, agreed, engine)
        undo.pop_all()
        return group


def _over_engine(undo: ExitStack, meeting: Rendezvous, agreed: _Agreed, engine: MakeEngine) -> Group:
    """Form a group whose messages an engine carries."""

    def connected() -> Group:
        if asked_streams(agreed.connections.streams) is not None:
            raise TreefoldError(
                "only connections over TCP have streams, and an engine was given; drop streams and TREEFOLD_STREAMS, "
                "or the engine"
            )
        with failures_of("the engine that carries messages", "look at the other workers, or choose another transport"):
            made = engine(agreed.mapping.worker_of_rank)
        transport = EngineTransport(made, agreed.connections.silence_s)
        undo.callback(transport.close)
        return Group(meeting.rank, agreed.plans.all_reduce, agreed.mapping, transport)

    return all_or_none(meeting, connected)


def _over_tcp(
    undo: ExitStack,
    meeting: Rendezvous,
    agreed: _Agreed,
    adapt: bool | str,
    learn: str | PathLike[str] | None,
) -> Group:
    """Form a group whose messages treefold's own TCP connections carry."""
    rank = agreed.mapping.rank_of_worker[meeting.rank]

    def listening() -> tuple[Mesh, float]:
        asked_streams(agreed.connections.streams)
        if rank == 0:
            check_learn(learn, adapt)
            warn_if_nothing_to_learn(learn, agreed.plans.all_reduce.topology)
        if adapt:
            check_direct(agreed.plans.all_reduce.topology)
        mesh = _listening(meeting, rank, agreed)
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
    make = partial(AdaptiveGroup, adapt=adapt, learn=learn) if adapt else _served_group
    return make(meeting.rank, plan, agreed.mapping, transport)


def _listening(meeting: Rendezvous, rank: int, agreed: _Agreed) -> Mesh:
    """Return the connections of a rank, which listen; worker 0 may do so where all have met, as all have come."""
    is_shared = meeting._door is not None and meeting.port == meeting._door.port
    if is_shared and meeting._hand_over is not None and not agreed.connections.newcomers:
        hand_over, meeting._hand_over = meeting._hand_over, None
        hand_over().close()
    try:
        return Mesh(rank, meeting.size, meeting.address, agreed.key, meeting.port)
    except OutsideError:
        if not is_shared:
            raise
        raise OutsideError(
            f"cannot listen on {meeting.address} port {meeting.port}: it is the MASTER_PORT, on which worker 0 serves, "
            "and newcomers call if any may come; choose another TREEFOLD_PORT"
        ) from None


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


def _check_open(are: Sequence[bool]) -> None:
    """Refuse a group that only some of its workers open to newcomers."""
    if any(are) and not all(are):
        some_not = some([str(worker) for worker, is_open in enumerate(are) if not is_open], 8)
        raise TreefoldError(
            f"some workers open the group to newcomers, and others (worker {some_not}) do not; give all of "
            "them Connections(newcomers=True), or none"
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
