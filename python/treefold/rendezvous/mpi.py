"""A rendezvous of workers that mpiexec started, over MPI's own messages."""

import os
import time
from typing import Any

from treefold.errors import TreefoldError
from treefold.extras import missing
from treefold.rendezvous.hub import MAX_BLOB_BYTES, absence
from treefold.rendezvous.identity import introduce
from treefold.rendezvous.meeting import Rendezvous
from treefold.rendezvous.variables import MPI_VARIABLES, rank_and_size

_SIZE_TAG, _BLOB_TAG = 32001, 32002  # every MPI has tags up to 32767
_POLL_S = 2e-4  # ranks often outnumber cores, so they sleep between polls


def import_mpi(needed_by: str) -> Any:
    """Return mpi4py's MPI, which `needed_by` needs.

    Raises:
        TreefoldError: If it is missing, with the command that installs it.

    """
    try:
        from mpi4py import MPI
    except ImportError:
        raise missing(needed_by, "mpi") from None
    except RuntimeError as error:
        reason = " ".join(str(error).split())
        raise TreefoldError(f"mpi4py finds no MPI ({reason}); install one: pip install 'treefold[mpi]'") from None
    return MPI


def from_mpi(timeout_s: float, interface: str | None, own_port: int | str | None) -> Rendezvous:
    """Join the workers that mpiexec started.

    Raises:
        TreefoldError: If mpi4py is missing, or mpiexec's variables or those of treefold are wrong.

    """
    for names in MPI_VARIABLES:
        if all(name in os.environ for name in names):
            rank_and_size(os.environ, *names)  # MPI itself does not check them
    MPI = import_mpi("mpiexec")
    world = MPI.COMM_WORLD
    rank, size = world.Get_rank(), world.Get_size()

    def gather(blob: bytes) -> list[bytes]:
        deadline = time.monotonic() + timeout_s
        sizes = [bytearray(8) for _ in range(size)]
        _exchange(MPI, len(blob).to_bytes(8, "big"), sizes, _SIZE_TAG, deadline, timeout_s)
        blobs = [bytearray(_blob_size(each, sender)) for sender, each in enumerate(sizes)]
        _exchange(MPI, blob, blobs, _BLOB_TAG, deadline, timeout_s)
        return [bytes(each) for each in blobs]

    meeting = Rendezvous(rank, size, None, gather, lambda: None, _timeout_s=timeout_s)
    introduce(meeting, interface, own_port)
    return meeting


def _blob_size(announced: bytearray, sender: int) -> int:
    size = int.from_bytes(announced, "big")
    if size > MAX_BLOB_BYTES:
        raise TreefoldError(f"worker {sender} sends a blob of {size} bytes; the most is {MAX_BLOB_BYTES}")
    return size


def _exchange(mpi: Any, blob: bytes, into: list[bytearray], tag: int, deadline: float, timeout_s: float) -> None:
    """Send `blob` to all ranks and receive theirs, point to point, so that missing ranks are known."""
    world = mpi.COMM_WORLD
    receives = [world.Irecv([buffer, mpi.BYTE], source, tag) for source, buffer in enumerate(into)]
    sends = [world.Isend([blob, mpi.BYTE], target, tag) for target in range(len(into))]
    pending = dict(enumerate(receives))
    while pending or not all(send.Test() for send in sends):
        pending = {source: receive for source, receive in pending.items() if not receive.Test()}
        if time.monotonic() > deadline:
            raise absence(list(pending) or list(range(len(into))), timeout_s)
        time.sleep(_POLL_S)
