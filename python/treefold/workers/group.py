"""Joined workers: each holds its own array, and together they run plans on them.

Between operations a thread without Python's lock keeps the connections alive: it passes on what others have to say, and
notices who is gone.
"""

import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treefold import verbs
from treefold._core import Mesh, Plan, Program, Topology, message_cost
from treefold.errors import TreefoldError
from treefold.runtime.arrays import block
from treefold.runtime.driver import Driver, Engine
from treefold.workers import notices, said
from treefold.workers.agreement import Seats, agreed_plan, seat
from treefold.workers.controller import Controller
from treefold.workers.rendezvous import Rendezvous, all_or_none, failures_of

Array = NDArray[Any]
MakeEngine = Callable[[list[int]], Engine]
"""Makes an engine from the list of each rank's worker."""

_PROGRAMS = 64
_CONNECT_S = 30.0


class RankLostError(TreefoldError):
    """A rank's process is gone or does not answer; the others may form a new group."""

    def __init__(self, message: str, ranks: Sequence[int]) -> None:
        super().__init__(message)
        self.ranks = list(ranks)
        """Which ranks of the group, as its workers are numbered."""


class Patience(NamedTuple):
    """How long to wait for what, in seconds."""

    silence_s: float = 30.0
    """For a byte in an operation, then as long again for an answer to "who is there?"."""
    dead_after_s: float = 20.0
    """For the other end of a connection to acknowledge anything."""
    operation_s: float | None = None
    """For the end of an operation though all answer, over TCP; None: as long as it takes."""


PATIENCE = Patience()


class Group:
    """Workers that run plans together. Operations are run by one thread at a time, in the same order everywhere.

    Messages go over TCP connections of our own (`mesh`), or by a `driver` over an engine such as MPI.
    """

    def __init__(
        self,
        rendezvous: Rendezvous,
        plan: Plan,
        seats: Seats,
        patience: Patience,
        mesh: Mesh | None = None,
        driver: Driver | None = None,
        addresses: Sequence[str] = (),
        message_s: float = 0.0,
        adapt: bool = False,
    ) -> None:
        self.worker, self.size = rendezvous.rank, rendezvous.size
        self.seats, self.rank = seats, seats.rank_of_worker[rendezvous.rank]
        self.plan = plan
        self.patience = patience
        self.mesh, self.driver = mesh, driver
        self.message_s = message_s
        """What sending or receiving a message costs a worker, besides its bytes: it decides how small chunks are."""
        self._addresses = addresses
        if adapt and plan.topology.switches:
            raise TreefoldError(
                f"a plan follows links between workers, and network '{plan.topology.name}' has switches between them; "
                "drop --adapt (adapt=False)"
            )
        self._connect(plan)
        self._programs: OrderedDict[Any, Program] = OrderedDict()
        self._derived: dict[tuple[str, int], Plan] = {}
        self._resting = False
        self.controller = Controller(self, mesh) if mesh is not None and adapt else None
        self._keeper: threading.Thread | None = None
        if mesh is not None:
            mesh.call_ranks([self.who(rank) for rank in range(self.size)])
            self._keeper = threading.Thread(target=self._keep_alive, args=(mesh,), name="treefold-idle", daemon=True)
            self._keeper.start()

    def _keep_alive(self, mesh: Mesh) -> None:
        while not self._resting:
            mesh.idle(1.0)
            if self.controller is not None and self.controller.lock.acquire(blocking=False):
                try:
                    # What is wrong now is told by the next operation.
                    with suppress(TreefoldError):
                        self.controller.attend()
                finally:
                    self.controller.lock.release()
            else:
                time.sleep(0.001)

    def all_reduce(self, array: Array, op: str = "sum", number: str | None = None) -> None:
        """Reduce the arrays of all workers, in place: afterwards all have the same.

        Args:
            array: C-contiguous; the same shape and type everywhere.
            op: `sum`, `prod`, `min`, `max`, `band`, `bor` or `bxor`.
            number: Name of the number type where NumPy has none: `bfloat16` in an array of two-byte integers.

        Raises:
            RankLostError: If a worker is gone, naming it.
            TreefoldError: If the workers disagree, or the type has no such operator.

        """
        self.run(self.plan, array, op, number)

    def broadcast(self, array: Array, root: int = 0) -> None:
        """Give all workers the array of worker `root`, in place."""
        self.run(self.derived("broadcast", self.seats.rank_of_worker[root]), array)

    def reduce(self, array: Array, root: int = 0, op: str = "sum", number: str | None = None) -> None:
        """Reduce the arrays of all workers into that of worker `root`, in place; the others' are used up."""
        self.run(self.derived("reduce", self.seats.rank_of_worker[root]), array, op, number)

    def all_gather(self, array: Array, number: str | None = None) -> Array:
        """Return the arrays of all workers, flat and one behind the other, in the workers' order."""
        vector = np.empty(array.size * self.size, array.dtype)
        vector[block(vector.size, self.size, self.rank)] = array.reshape(-1)
        self.run(self.derived("all-gather"), vector, number=number)
        if self.seats.are_in_order:
            return vector
        return vector.reshape(self.size, -1)[self.seats.rank_of_worker].reshape(-1)

    def reduce_scatter(self, array: Array, op: str = "sum", number: str | None = None) -> Array:
        """Return this worker's block of the reduction of all arrays, flat; worker w's begins at size * w // workers."""
        vector, own = self._dealt(array)
        self.run(self.derived("reduce-scatter"), vector, op, number)
        first = block(vector.size, self.size, self.rank).start
        return vector[first : first + own].copy()

    def all_to_all(self, array: Array, number: str | None = None) -> Array:
        """Return this worker's block of every worker's array, flat and in the workers' order."""
        vector, own = self._dealt(array)
        mine = block(vector.size, self.size, self.rank)
        result = np.empty((self.size, mine.stop - mine.start), array.dtype)
        self.run(self.derived("all-to-all"), vector, number=number, result=result)
        return result[self.seats.rank_of_worker, :own].reshape(-1)

    def _dealt(self, array: Array) -> tuple[Array, int]:
        """Return a copy of `array` in which each rank's block is that of its worker, and the length of this worker's.

        Blocks are cut by rank: where workers sit in another order and blocks are unequal, they are made equal.
        """
        blocks = [block(array.size, self.size, worker) for worker in range(self.size)]
        own = blocks[self.worker].stop - blocks[self.worker].start
        if self.seats.are_in_order:
            return array.reshape(-1).copy(), own
        dealt = np.zeros((self.size, -(-array.size // self.size)), array.dtype)
        for row, worker in zip(dealt, self.seats.worker_of_rank, strict=True):
            part = array.reshape(-1)[blocks[worker]]
            row[: part.size] = part
        return dealt.reshape(-1), own

    def run(
        self, plan: Plan, array: Array, op: str = "sum", number: str | None = None, result: Array | None = None
    ) -> None:
        """Run any collective's plan on this worker's whole vector, in place.

        `result` takes what does not end in the vector (all-to-all), or a copy of this worker's part (reduce-scatter).
        """
        if not isinstance(array, np.ndarray):
            raise TreefoldError(f"a {type(array).__name__} is no NumPy array; pass np.asarray(values)")
        if not array.flags.c_contiguous or not array.flags.writeable:
            raise TreefoldError("the array must be C-contiguous and writeable; pass np.ascontiguousarray(array)")
        view = array.reshape(-1).view(np.uint8)
        out = None if result is None else result.reshape(-1).view(np.uint8)
        how = (number or array.dtype.name, op, self.patience.silence_s)
        if self.controller is not None:
            self.controller.run(plan, view, array.itemsize, (*how, self.patience.operation_s, out))
            return
        with_what = (self.program(plan, array.size, array.itemsize), view, *how)
        if self.driver is not None:
            self.driver.run(*with_what, out)
        elif self.mesh is not None and (fault := self.mesh.run(*with_what, self.patience.operation_s, out)) is not None:
            raise self.error(fault)

    def program(self, plan: Plan, elements: int, element_bytes: int) -> Program:
        """Return this worker's part of `plan` for one size, remembered for the next time."""
        key = (plan.fingerprint, elements, element_bytes)
        program = self._programs.pop(key, None)
        if program is None:
            program = Program(plan, self.rank, elements, element_bytes, self.message_s)
        self._programs[key] = program
        if len(self._programs) > _PROGRAMS:
            self._programs.popitem(last=False)
        return program

    def changes(self) -> list[str]:
        """Return what the controller has found changed about the network since the last call, a line each."""
        if self.controller is None:
            return []
        found = list(self.controller.events)
        self.controller.events.clear()
        return found

    def adopt(self, plan: Plan) -> None:
        """Run this all-reduce, and what is derived from it, from now on."""
        self.plan = plan
        self._derived.clear()
        self._connect(plan)

    def _connect(self, plan: Plan) -> None:
        """Connect to all whom the plan, or the network, joins to this worker."""
        others = {end for pair in _pairs(plan) if self.rank in pair for end in pair} - {self.rank}
        self.connect_to(sorted(others), _CONNECT_S)

    def connect_to(self, ranks: Sequence[int], patience_s: float) -> None:
        """Connect to these ranks, which do the same at the same time, but those to whom the way is known to be cut."""
        if self.mesh is not None:
            cut = {rank for way in self.mesh.ways_cut if self.rank in way for rank in way}
            peers = [(other, self._addresses[other]) for other in ranks if other not in cut]
            self.mesh.connect(peers, patience_s, self.patience.dead_after_s)

    def current(self, plan: Plan) -> Plan:
        """Return the plan of today for what `plan` was once made for."""
        return self.plan if plan.collective == "all-reduce" else self.derived(plan.collective, plan.root or 0)

    def derived(self, collective: str, root: int = 0) -> Plan:
        """Return the plan of another collective by the same trees; `root` is a rank of the plan."""
        if (collective, root) not in self._derived:
            self._derived[collective, root] = self.plan.derive(collective, root)
        return self._derived[collective, root]

    def who(self, rank: int) -> str:
        """Return how people call a rank of the plan."""
        worker = self.seats.worker_of_rank[rank]
        name = self.seats.names[rank]
        return f"rank {worker}" if name == str(worker) else f"rank {worker} ({name})"

    def error(self, fault: tuple[str, int, int, str]) -> TreefoldError:
        """Return a fault of the transport as an exception that names workers."""
        kind, rank, by, text = fault
        if kind == "given up":
            return TreefoldError(text)
        if kind == "cut":
            return self.lost(f"{self.who(by)} cannot reach {self.who(rank)} any more ({text})", [rank])
        others = [other for other in self.mesh.lost if other != rank] if self.mesh is not None else []
        message = f"{self.who(rank)} {text}, as {self.who(by)} noticed"
        message += f"; gone too: {', '.join(map(self.who, others))}" if others else ""
        return self.lost(message, [rank, *others])

    def lost(self, message: str, ranks: Sequence[int]) -> RankLostError:
        """Return the error that ranks of the plan are lost."""
        workers = [self.seats.worker_of_rank[each] for each in ranks]
        return RankLostError(f"{message}; form a new group of the others, or start it again", workers)

    def words(self) -> list[tuple[int, dict[str, Any]]]:
        """Return what other ranks said since that the controller has no use for."""
        if self.mesh is None:
            return []
        heard = [(origin, self.read(origin, words)) for origin, words in self.mesh.words()]
        return heard if self.controller is None else self.controller.unheeded(heard)

    def read(self, origin: int, words: bytes) -> dict[str, Any]:
        """Return the notice in a rank's words."""
        return notices.read(self.who(origin), words, self.size)

    def rest(self) -> None:
        """Run no more operations: the connections stay."""
        self._resting = True
        if self._keeper is not None and self.mesh is not None:
            _ = self.mesh.sequence  # wakes it
            self._keeper.join()
            self._keeper = None

    def close(self) -> None:
        """Leave the group, which ends an operation at work in another thread; harmless when called again."""
        if self.mesh is not None:
            self.mesh.stop()
        self.rest()
        if self.mesh is not None:
            self.mesh.close()
        if self.driver is not None:
            self.driver.close()
        self.mesh = self.driver = self.controller = None


def join(
    rendezvous: Rendezvous,
    plan: Plan | None = None,
    network: Topology | None = None,
    *,
    size_bytes: int = verbs.DEFAULT_SIZE_BYTES,
    patience: Patience = PATIENCE,
    engine: MakeEngine | None = None,
    adapt: bool = False,
    **wishes: Any,
) -> Group:
    """Join the other workers, to run a plan with them.

    Args:
        rendezvous: Where they meet.
        plan: An all-reduce; rank 0's counts, and whoever brings another one is told so.
        network: For which rank 0 makes a plan where none is given; without both, the workers are thought to reach each
            other equally well.
        size_bytes: What the plan is made for.
        patience: How long to wait for what.
        engine: Makes an engine that carries the messages, from the list of each rank's worker; by default TCP does.
        adapt: Whether the plan follows the network (see `controller`); operations then end everywhere or nowhere, for
            which each worker keeps a copy of its array. Over TCP only.
        wishes: As for `treefold.plan`, `algorithm` among them.

    Raises:
        TreefoldError: If workers and network do not match, plans differ, or a worker cannot be reached.

    """
    return form(rendezvous, agreed_plan(rendezvous, plan, network, size_bytes, wishes), patience, engine, adapt)


def form(
    rendezvous: Rendezvous,
    plan: Plan,
    patience: Patience = PATIENCE,
    engine: MakeEngine | None = None,
    adapt: bool = False,
) -> Group:
    """Connect workers that have agreed on a plan; otherwise as `join`."""
    hello = {"name": rendezvous.name, "token": secrets.randbits(63)}
    form = {"name": lambda value: value is None or said.is_name(value), "token": said.is_count}
    blobs = said.exchange(rendezvous.exchange, hello, form)
    seats = seat([blob["name"] for blob in blobs], plan.topology)
    with ExitStack() as undo:
        place = (rendezvous, plan, seats, patience)
        if engine is None:
            group = _over_tcp(undo, *place, token=blobs[0]["token"], adapt=adapt)
        else:
            group = _over_engine(undo, *place, engine=engine)
        undo.pop_all()
        return group


def _over_engine(
    undo: ExitStack, rendezvous: Rendezvous, plan: Plan, seats: Seats, patience: Patience, *, engine: MakeEngine
) -> Group:
    def connected() -> Group:
        with failures_of("the engine that carries messages", "look at the other ranks, or choose another transport"):
            driver = Driver(engine(seats.worker_of_rank))
        undo.callback(driver.close)
        return Group(rendezvous, plan, seats, patience, driver=driver, message_s=driver.engine.message_s)

    return all_or_none(rendezvous, connected)


def _over_tcp(
    undo: ExitStack, rendezvous: Rendezvous, plan: Plan, seats: Seats, patience: Patience, *, token: int, adapt: bool
) -> Group:
    def listening() -> tuple[Mesh, float]:
        mesh = Mesh(seats.rank_of_worker[rendezvous.rank], rendezvous.size, rendezvous.address, token)
        undo.callback(mesh.close)
        return mesh, message_cost()

    mesh, message_s = all_or_none(rendezvous, listening)
    form = (said.is_endpoint, said.is_amount)
    told = said.exchange(rendezvous.exchange, [mesh.address, message_s], form)
    addresses, costs = zip(*(told[worker] for worker in seats.worker_of_rank), strict=True)

    def connected() -> Group:
        how = {"addresses": addresses, "message_s": max(costs), "adapt": adapt}
        group = Group(rendezvous, plan, seats, patience, mesh, **how)
        undo.callback(group.close)
        return group

    return all_or_none(rendezvous, connected)


def _pairs(plan: Plan) -> set[tuple[int, int]]:
    """Pairs of ranks that are connected: those that the plan uses, and those that the network joins directly."""
    sources, targets, _ = plan.topology.link_columns()
    ranks = plan.topology.ranks
    direct = {
        (min(ends), max(ends))
        for ends in zip(sources.tolist(), targets.tolist(), strict=True)
        if max(ends) < ranks and ends[0] != ends[1]
    }
    return direct | set(plan.pairs)
