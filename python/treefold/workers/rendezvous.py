"""How workers find each other: a rendezvous gathers a small blob from every worker, as often as they like.

It stands on what started the workers: torchrun's store, mpiexec, or RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT, for
which rank 0 keeps a server of our own that listens on MASTER_ADDR only. Threads of one process have one too.
TREEFOLD_NAME names a worker, TREEFOLD_INTERFACE is the interface (or address) that its sockets listen on, and
TREEFOLD_JOB is a word that all workers of a job know and others do not (see `master` and `server`).
"""

import os
import socket
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any, TypeVar

from treefold import environment
from treefold.errors import TreefoldError
from treefold.text import visible
from treefold.workers import master, said
from treefold.workers.hub import MAX_BLOB_BYTES, Hub, absent
from treefold.workers.master import Gather
from treefold.workers.sockets import address_of, own_address_towards

_LOOPBACK = "127.0.0.1"
_VARIABLES = ("RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
_MPI_VARIABLES = (("OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_SIZE"), ("PMI_RANK", "PMI_SIZE"))
_PART_BYTES = 1 << 20  # torch's store refuses values of several MiB
_MPI_TAGS = (32001, 32002)  # of sizes and blobs; every MPI has tags up to 32767

MOST_WORKERS = 1 << 16
"""Of a group."""

_Result = TypeVar("_Result")


@dataclass
class Rendezvous:
    """One worker's place among `size` workers; `exchange` and `close` block and are called by one thread."""

    rank: int
    size: int
    name: str | None
    """The worker's name, from TREEFOLD_NAME."""
    _gather: Gather
    _close: Callable[[], None]
    _address: str | None = None

    @property
    def address(self) -> str:
        """The address on which this worker listens: its interface's, else the one with which it reaches the others."""
        if self._address is None:
            raise TreefoldError(
                f"rank {self.rank}: the address on which others reach this worker is not known; set TREEFOLD_INTERFACE "
                "to the name or address of a network interface"
            )
        return self._address

    def exchange(self, blob: bytes) -> list[bytes]:
        """Return every worker's blob, by rank, once all have called.

        Args:
            blob: At most 64 MiB.

        Raises:
            TreefoldError: On every worker that waits, naming the ranks that did not come in time, or are gone.

        """
        if len(blob) > MAX_BLOB_BYTES:
            raise TreefoldError(f"a blob of {len(blob)} bytes is too large to exchange; the most is {MAX_BLOB_BYTES}")
        return self._gather(bytes(blob))

    def close(self) -> None:
        """Leave; harmless when called again. Who still waits for this worker gets an error that names it."""
        close, self._close = self._close, lambda: None
        close()


def all_or_none(rendezvous: Rendezvous, prepare: Callable[[], _Result]) -> _Result:
    """Return what `prepare` does, if it works on all ranks; an error of one is an error of all.

    Raises:
        TreefoldError: The first rank's that has one.

    """
    results, trouble = [], ""
    try:
        results.append(prepare())
    except TreefoldError as error:
        trouble = str(error)
    troubles = said.read_texts(rendezvous.exchange(trouble.encode(errors="replace")))
    if any(troubles):
        rank, first = next((rank, each) for rank, each in enumerate(troubles) if each)
        raise TreefoldError(first if len(set(troubles)) == 1 else f"rank {rank}: {first}")
    return results[0]


@contextmanager
def failures_of(what: str, remedy: str) -> Iterator[None]:
    """Turn what torch or MPI raise into an error of one line that says what failed, why and what to do."""
    try:
        yield
    except (RuntimeError, OSError) as error:
        raise TreefoldError(f"{what}: {_first_line(error)}; {remedy}") from None


def _first_line(error: Exception) -> str:
    return (str(error).splitlines() or ["no reason given"])[0]


def from_environment(timeout_s: float = 60, interface: str | None = None) -> Rendezvous:
    """Join the workers among which this process was started; returns once all are there.

    Args:
        timeout_s: How long to wait for the others, here and in each exchange.
        interface: Name or address of the interface on which to listen; by default TREEFOLD_INTERFACE, else the one
            with which this worker reaches MASTER_ADDR.

    Raises:
        TreefoldError: If nothing tells this process its rank, or workers are missing, doubled or disagree.

    """
    environment.warn_of_strangers()
    given = os.environ
    started_by = launcher()
    if started_by == "torchrun":
        return _of_torchrun(given, timeout_s, interface)
    if started_by == "mpiexec":
        return _of_mpi(timeout_s, interface)
    missing = [name for name in _VARIABLES if not given.get(name)]
    if missing:
        raise TreefoldError(
            f"this process is no worker of a group: {', '.join(missing)} not set; start it with torchrun or mpiexec, "
            "or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT (on this machine alone, commands take --local 4)"
        )
    return of_master(
        *_numbers(given, _VARIABLES[0], _VARIABLES[1]), given["MASTER_ADDR"], _port(given), timeout_s, interface
    )


def launcher() -> str | None:
    """Return what started this process as a worker, as its environment tells: `torchrun`, `mpiexec` or None."""
    if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":
        return "torchrun"
    by_mpi = any(rank in os.environ for rank, _ in _MPI_VARIABLES)
    return "mpiexec" if by_mpi and not all(name in os.environ for name in _VARIABLES) else None


def _numbers(given: Mapping[str, str], *names: str) -> tuple[int, int]:
    """Return a worker's rank and how many there are."""
    rank, size = (_number(given, name, MOST_WORKERS) for name in names)
    if not rank < size:
        raise TreefoldError(f"{names[0]} {rank} does not exist in a {names[1]} of {size}; ranks count from 0")
    return rank, size


def _number(given: Mapping[str, str], name: str, most: int) -> int:
    text = given.get(name, "").strip()
    digits = text.lstrip("0") or text[-1:]
    if not (text.isascii() and text.isdecimal()) or len(digits) > len(str(most)) or int(digits) > most:
        shown = visible(text if len(text) <= 20 else f"{text[:20]}...")
        raise TreefoldError(f"{name} '{shown}' is not a whole number from 0 to {most}; set it to one")
    return int(digits)


def _port(given: Mapping[str, str]) -> int:
    return _number(given, "MASTER_PORT", (1 << 16) - 1)


def of_master(
    rank: int,
    size: int,
    address: str,
    port: int,
    timeout_s: float = 60,
    interface: str | None = None,
    job: str | None = None,
) -> Rendezvous:
    """Join `size` workers at `address` and `port`, where rank 0 serves; otherwise as `from_environment`.

    `job` is a word that strangers cannot guess, by default TREEFOLD_JOB.
    """
    if not 0 < size <= MOST_WORKERS:
        raise TreefoldError(f"WORLD_SIZE {size} is not a number of workers; it is 1 to {MOST_WORKERS}")
    if not 0 <= rank < size:
        raise TreefoldError(f"RANK {rank} does not exist in a WORLD_SIZE of {size}; ranks count from 0")
    if not 0 < port < 1 << 16:
        raise TreefoldError(f"MASTER_PORT {port} is not a port; choose one between 1024 and 65535")
    own, name = _listening_address(interface), _name()
    gather, close, here = master.gathering(rank, size, name, address, port, timeout_s, job)
    joined = Rendezvous(rank, size, name, gather, close, own or here)
    try:
        joined.exchange(b"")
    except BaseException:
        joined.close()
        raise
    return joined


def local(size: int, timeout_s: float = 60) -> list[Rendezvous]:
    """Return the places of `size` threads of this process, by rank; they listen on loopback."""
    if not 0 < size <= MOST_WORKERS:
        raise TreefoldError(f"a group has 1 to {MOST_WORKERS} workers, got {size}")
    hub = Hub(size, timeout_s)

    def place(rank: int) -> Rendezvous:
        why = f"rank {rank} has left the group; look at its output"
        return Rendezvous(
            rank, size, None, lambda blob: hub.gather(rank, blob), lambda: hub.leave(rank, why), _LOOPBACK
        )

    return [place(rank) for rank in range(size)]


def of_store(
    store: Any, rank: int, size: int, timeout_s: float = 60, interface: str | None = None, prefix: str = "treefold"
) -> Rendezvous:
    """Join `size` workers through a torch.distributed Store; workers of one group use one `prefix`.

    Args:
        store: A Store of torch.distributed that all of them have.
        rank: This worker's, from 0.
        size: How many workers there are.
        timeout_s: How long an exchange waits for the others.
        interface: As in `from_environment`.
        prefix: Keys of this rendezvous start with it; choose another for another group on the same store.

    """
    rounds = 0

    def gather(blob: bytes) -> list[bytes]:
        nonlocal rounds
        number, rounds = rounds, rounds + 1
        _put(store, f"{prefix}/{number}/{rank}", blob)
        deadline = time.monotonic() + timeout_s
        blobs = [_get(store, f"{prefix}/{number}", each, size, deadline, timeout_s) for each in range(size)]
        # Everyone has begun this round, so the last one is read by all.
        _forget(store, f"{prefix}/{number - 1}/{rank}")
        return blobs

    joined = Rendezvous(rank, size, _name(), gather, lambda: None)
    joined._address = _listening_address(interface) or _guessed_address(joined)
    return joined


def _put(store: Any, key: str, blob: bytes) -> None:
    """Store a blob in parts; the key itself, which readers wait for, comes last and holds their number."""
    parts = [blob[start : start + _PART_BYTES] for start in range(0, len(blob), _PART_BYTES)]
    for number, part in enumerate(parts):
        store.set(f"{key}/{number}", part)
    store.set(key, str(len(parts)).encode())


def _get(store: Any, round_key: str, rank: int, size: int, deadline: float, timeout_s: float) -> bytes:
    from datetime import timedelta

    key = f"{round_key}/{rank}"
    try:
        store.wait([key], timedelta(seconds=max(deadline - time.monotonic(), 0.001)))
        parts = _parts(store.get(key), rank)
        return b"".join(store.get(f"{key}/{number}") for number in range(parts))
    except (RuntimeError, OSError) as error:
        raise TreefoldError(_absence(store, round_key, size, timeout_s, error)) from None


def _parts(text: bytes, rank: int) -> int:
    """Return in how many parts a rank has stored its blob."""
    most = -(-MAX_BLOB_BYTES // _PART_BYTES)
    if not text.isdigit() or len(text) > len(str(most)) or int(text) > most:
        raise TreefoldError(
            f"rank {rank} has stored what is no blob; start all ranks with the same version of treefold"
        )
    return int(text)


def _absence(store: Any, round_key: str, size: int, timeout_s: float, error: Exception) -> str:
    try:
        missing = [rank for rank in range(size) if not store.check([f"{round_key}/{rank}"])]
    except (RuntimeError, OSError):
        missing = []
    if not missing:
        return f"torch's store failed ({_first_line(error)}); look whether the process that serves it still runs"
    return absent(missing, timeout_s)


def _forget(store: Any, key: str) -> None:
    """Delete a blob; a store that cannot delete keeps it."""
    with suppress(RuntimeError, NotImplementedError):
        if not store.check([key]):
            return
        for number in range(int(store.get(key))):
            store.delete_key(f"{key}/{number}")
        store.delete_key(key)


def _of_torchrun(given: Mapping[str, str], timeout_s: float, interface: str | None) -> Rendezvous:
    try:
        from torch.distributed import TCPStore
    except ImportError:
        raise TreefoldError("torchrun's store needs PyTorch; install it: pip install 'treefold[torch]'") from None
    from datetime import timedelta

    (rank, size), port = _numbers(given, "RANK", "WORLD_SIZE"), _port(given)
    wait = timedelta(seconds=timeout_s)
    master = f"rank {rank}: torchrun's store at {given['MASTER_ADDR']} port {port} cannot be reached"
    with failures_of(master, "look at torchrun's output"):
        store = TCPStore(given["MASTER_ADDR"], port, size, is_master=False, timeout=wait, wait_for_workers=False)
    prefix = f"treefold/{given.get('TORCHELASTIC_RUN_ID', '')}/{given.get('TORCHELASTIC_RESTART_COUNT', '0')}"
    return of_store(store, rank, size, timeout_s, interface, prefix)


def mpi(what: str) -> Any:
    """Return mpi4py's MPI, which `what` needs.

    Raises:
        TreefoldError: If it is missing, with the command that installs it.

    """
    try:
        from mpi4py import MPI
    except ImportError:
        raise TreefoldError(f"{what} needs mpi4py; install it: pip install 'treefold[mpi]'") from None
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise TreefoldError(f"mpi4py finds no MPI ({reason}); install one: pip install 'treefold[mpi]'") from None
    return MPI


def _of_mpi(timeout_s: float, interface: str | None) -> Rendezvous:
    for names in _MPI_VARIABLES:
        if all(name in os.environ for name in names):
            _numbers(os.environ, *names)  # which MPI itself takes as they are
    MPI = mpi("mpiexec")
    world = MPI.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()

    def gather(blob: bytes) -> list[bytes]:
        deadline = time.monotonic() + timeout_s
        sizes = [bytearray(8) for _ in range(size)]
        _swap(MPI, world, len(blob).to_bytes(8, "big"), sizes, _MPI_TAGS[0], deadline, timeout_s)
        blobs = [bytearray(_mpi_size(each, rank)) for rank, each in enumerate(sizes)]
        _swap(MPI, world, blob, blobs, _MPI_TAGS[1], deadline, timeout_s)
        return [bytes(each) for each in blobs]

    joined = Rendezvous(rank, size, _name(), gather, lambda: None)
    joined._address = _listening_address(interface) or _guessed_address(joined)
    return joined


def _mpi_size(said_size: bytearray, rank: int) -> int:
    size = int.from_bytes(said_size, "big")
    if size > MAX_BLOB_BYTES:
        raise TreefoldError(f"rank {rank} sends a blob of {size} bytes; the most is {MAX_BLOB_BYTES}")
    return size


def _swap(
    mpi: Any, world: Any, blob: bytes, into: list[bytearray], tag: int, deadline: float, timeout_s: float
) -> None:
    """Send `blob` to all ranks and receive theirs; point to point, so that it is known who is missing."""
    receives = [world.Irecv([buffer, mpi.BYTE], source, tag) for source, buffer in enumerate(into)]
    sends = [world.Isend([blob, mpi.BYTE], target, tag) for target in range(len(into))]
    pending = dict(enumerate(receives))
    while pending or not all(send.Test() for send in sends):
        pending = {source: each for source, each in pending.items() if not each.Test()}
        if time.monotonic() > deadline:
            raise TreefoldError(absent(list(pending) or list(range(len(into))), timeout_s))
        time.sleep(0.0002)  # ranks often outnumber cores


def _name() -> str | None:
    name = environment.value("TREEFOLD_NAME")
    if not said.is_name(name):
        shown = visible(name[:40])
        raise TreefoldError(f"TREEFOLD_NAME '{shown}' is no name of at most 1000 printable characters; set it to one")
    return name or None


def _listening_address(interface: str | None) -> str | None:
    chosen = interface or environment.value("TREEFOLD_INTERFACE")
    return address_of(chosen) if chosen else None


def _guessed_address(joined: Rendezvous) -> str | None:
    """Return the address with which a worker reaches MASTER_ADDR, else the first worker on another machine.

    None if these do not tell, for example where host names resolve to loopback.
    """
    places = said.read_texts(joined.exchange(_place().encode()))
    others = [place.partition(" ")[0] for place in places if place != places[joined.rank]]
    if not others:
        return _LOOPBACK
    with suppress(TreefoldError):
        found = own_address_towards(os.environ.get("MASTER_ADDR") or others[0])
        return None if found.startswith("127.") or found == "::1" else found
    return None


def _place() -> str:
    """Host and network namespace: workers that share both reach each other over loopback."""
    with suppress(OSError):
        return f"{socket.gethostname()} {os.readlink('/proc/self/ns/net')}"
    return f"{socket.gethostname()} -"
