"""A rendezvous on a store of torch.distributed, such as torchrun's."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any

from treefold.errors import OutsideError, PeerError, TreefoldError
from treefold.extras import missing
from treefold.rendezvous.hub import MAX_BLOB_BYTES, absence
from treefold.rendezvous.identity import introduce
from treefold.rendezvous.meeting import Rendezvous, failures_of, first_line
from treefold.rendezvous.variables import master_port, rank_and_size

_PART_BYTES = 1 << 20  # torch's store refuses values of several MiB


def from_store(
    store: Any,
    rank: int,
    size: int,
    timeout_s: float = 60,
    interface: str | None = None,
    prefix: str = "treefold",
    own_port: int | str | None = None,
    name: str | None = None,
) -> Rendezvous:
    """Join `size` workers through a torch.distributed Store; the workers of one group use one `prefix`.

    Args:
        store: A Store of torch.distributed that all of them have.
        rank: The number of this worker, counted from 0.
        size: How many workers there are.
        timeout_s: How many seconds an exchange waits for the others.
        interface: The name or address of the interface on which to listen, as in `from_environment`.
        prefix: The beginning of this rendezvous's keys; choose another for another group on the same store.
        own_port: The port on which to listen, as in `from_environment`.
        name: The worker's name; by default that of TREEFOLD_NAME.

    Raises:
        TreefoldError: If workers are missing, the store fails, or (on every worker) a variable of a worker cannot be
            used.

    Example:
        >>> from torch.distributed import HashStore
        >>> from treefold import runtime
        >>> meeting = runtime.from_store(HashStore(), rank=0, size=1)
        >>> meeting.exchange(b"hello")
        [b'hello']

    """
    rounds, kept = 0, list[str]()

    def gather(blob: bytes) -> list[bytes]:
        nonlocal rounds, kept
        number, rounds = rounds, rounds + 1
        last, kept = kept, _put(store, f"{prefix}/{number}/{rank}", blob)
        blobs = _get_all(store, f"{prefix}/{number}", size, timeout_s)
        # All have begun this round, so all have read the last one.
        _forget(store, last)
        return blobs

    meeting = Rendezvous(rank, size, None, gather, lambda: None, _timeout_s=timeout_s)
    introduce(meeting, interface, own_port, name)
    return meeting


def from_torchrun(
    variables: Mapping[str, str], timeout_s: float, interface: str | None, own_port: int | str | None
) -> Rendezvous:
    """Join the workers that torchrun started, as its environment variables say.

    Raises:
        TreefoldError: If PyTorch is missing, or torchrun's store cannot be reached.

    """
    try:
        from torch.distributed import TCPStore
    except ImportError:
        raise missing("torchrun's store", "torch") from None

    (rank, size), port = rank_and_size(variables, "RANK", "WORLD_SIZE"), master_port(variables)
    wait = timedelta(seconds=timeout_s)
    master = f"worker {rank}: torchrun's store at {variables['MASTER_ADDR']} port {port} cannot be reached"
    with failures_of(master, "look at torchrun's output"):
        store = TCPStore(variables["MASTER_ADDR"], port, size, is_master=False, timeout=wait, wait_for_workers=False)
    run_id, restarts = variables.get("TORCHELASTIC_RUN_ID", ""), variables.get("TORCHELASTIC_RESTART_COUNT", "0")
    return from_store(store, rank, size, timeout_s, interface, f"treefold/{run_id}/{restarts}", own_port)


def _put(store: Any, key: str, blob: bytes) -> list[str]:
    """Store a blob in parts, and return their keys; the one for which readers wait comes last, and says how many."""
    parts = [blob[start : start + _PART_BYTES] for start in range(0, len(blob), _PART_BYTES)] or [b""]
    others = [f"{key}/{number}" for number in range(1, len(parts))]
    for other, part in zip(others, parts[1:], strict=True):
        store.set(other, part)
    store.set(key, b"%d:%b" % (len(parts), parts[0]))
    return [*others, key]


def _get_all(store: Any, round_key: str, size: int, timeout_s: float) -> list[bytes]:
    """Return the blobs of all ranks once they are there: over a slow line, each question to the store takes long."""
    keys, patience = [f"{round_key}/{rank}" for rank in range(size)], timedelta(seconds=max(timeout_s, 0.001))
    try:
        gets_all = store.has_extended_api()
        if not gets_all or store.timeout != patience:  # else it waits by itself, just as long
            store.wait(keys, patience)
        values = store.multi_get(keys) if gets_all else [store.get(key) for key in keys]
        return [_whole(store, key, rank, value) for rank, (key, value) in enumerate(zip(keys, values, strict=True))]
    except (RuntimeError, OSError) as error:
        raise _failure(store, round_key, size, timeout_s, error) from None


def _whole(store: Any, key: str, rank: int, value: bytes) -> bytes:
    """Return the blob of a rank, of which `value` is the first part, with the number of all parts before it."""
    count, _, first = bytes(value).partition(b":")
    others = [store.get(f"{key}/{number}") for number in range(1, _part_count(count, rank))]
    return b"".join([first, *others])


def _part_count(text: bytes, rank: int) -> int:
    """Return the number of parts in which a rank has stored its blob."""
    most = -(-MAX_BLOB_BYTES // _PART_BYTES)
    if not text.isdigit() or len(text) > len(str(most)) or int(text) > most:
        raise TreefoldError(
            f"worker {rank} has stored what is not a blob; start all workers with the same version of treefold"
        )
    return int(text)


def _failure(store: Any, round_key: str, size: int, timeout_s: float, error: Exception) -> OutsideError:
    """Return the error of a round that failed: the ranks that are missing, else the failure of the store."""
    try:
        missing = [rank for rank in range(size) if not store.check([f"{round_key}/{rank}"])]
    except (RuntimeError, OSError):
        missing = []
    if not missing:
        reason = first_line(error)
        return PeerError(f"torch's store failed ({reason}); look whether the process that serves it still runs")
    return absence(missing, timeout_s)


def _forget(store: Any, keys: Sequence[str]) -> None:
    """Empty keys; unlike one that is deleted, a key that is set needs no answer of the store, which may be gone."""
    with suppress(RuntimeError):
        for key in keys:
            store.set(key, b"")
