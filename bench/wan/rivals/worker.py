"""Runs one rank of a rival: it times all-reduces of float32 and verifies every sum; rank 0 prints one JSON line.

    worker.py gloo|treefold|runtime|mpi SIZE_BYTES ITERATIONS WARM_UPS [BUCKETS]

With buckets the vector is cut into so many all-reduces, which begin one behind the other. It runs with RANK and
WORLD_SIZE (gloo, treefold's backend for PyTorch, treefold.runtime) or under mpiexec (mpi), and needs what it measures.
"""

import json
import os
import statistics
import sys
import time

import numpy as np

PATTERN = 251


class Torch:
    """A backend of torch.distributed: gloo or treefold."""

    def __init__(self, backend):
        import torch
        import torch.distributed as dist

        torch.set_num_threads(1)
        if backend == "treefold":
            import treefold.torch  # noqa: F401
        dist.init_process_group(backend)
        self.torch, self.dist = torch, dist
        self.rank, self.size, self.version = dist.get_rank(), dist.get_world_size(), f"torch {torch.__version__}"
        self.barrier, self.close = dist.barrier, dist.destroy_process_group

    def all_reduce(self, arrays):
        """Sum arrays in place."""
        tensors = map(self.torch.from_numpy, arrays)
        for work in [self.dist.all_reduce(tensor, async_op=True) for tensor in tensors]:
            work.wait()

    def slowest(self, seconds):
        """Return the maximum over all ranks."""
        value = self.torch.tensor([seconds], dtype=self.torch.float64)
        self.dist.all_reduce(value, self.dist.ReduceOp.MAX)
        return value.item()


class Mpi:
    """MPI, through mpi4py."""

    def __init__(self):
        from mpi4py import MPI

        self.mpi, self.world = MPI, MPI.COMM_WORLD
        self.rank, self.size = self.world.Get_rank(), self.world.Get_size()
        self.version = MPI.Get_library_version().split("\n")[0].replace("\t", " ").strip("\0")
        self.barrier, self.close = self.world.Barrier, lambda: None

    def all_reduce(self, arrays):
        """Sum arrays in place."""
        self.mpi.Request.Waitall([self.world.Iallreduce(self.mpi.IN_PLACE, array) for array in arrays])

    def slowest(self, seconds):
        """Return the maximum over all ranks."""
        return self.world.allreduce(seconds, self.mpi.MAX)


class Runtime:
    """A group of treefold.runtime, with the network that TREEFOLD_TOPOLOGY names."""

    def __init__(self):
        import treefold
        from treefold import runtime

        meeting = runtime.from_environment()
        self.group = runtime.join(meeting, network=os.environ["TREEFOLD_TOPOLOGY"])
        meeting.close()
        self.rank, self.size, self.version = self.group.worker, self.group.size, f"treefold {treefold.__version__}"
        self.close = self.group.close

    def barrier(self):
        """Wait until all ranks are here."""
        self.group.all_reduce(np.zeros(1))

    def all_reduce(self, arrays):
        """Sum arrays in place."""
        for pending in [self.group.start_all_reduce(array) for array in arrays]:
            pending.wait()

    def slowest(self, seconds):
        """Return the maximum over all ranks."""
        value = np.array([seconds], np.float64)
        self.group.all_reduce(value, "max")
        return value.item()


def main(engine, size_bytes, iterations, warm_ups, buckets="1"):
    """Time the iterations; each takes as long as its slowest rank."""
    engine = {"mpi": Mpi, "runtime": Runtime}.get(engine, lambda: Torch(engine))()
    pattern = (np.arange(int(size_bytes) // 4) % PATTERN).astype(np.float32)
    expected = pattern * engine.size + engine.size * (engine.size - 1) / 2
    times, wrong = [], 0
    for _ in range(int(warm_ups) + int(iterations)):
        array = pattern + np.float32(engine.rank)
        engine.barrier()
        start = time.perf_counter()
        engine.all_reduce(np.array_split(array, int(buckets)))
        times.append(engine.slowest(time.perf_counter() - start))
        wrong += int(np.count_nonzero(array != expected))
    wrong = int(engine.slowest(wrong))
    if engine.rank == 0:
        kept = times[int(warm_ups) :]
        result = {"time_s": min(kept), "median_s": statistics.median(kept), "times_s": times, "wrong": wrong}
        print(json.dumps({**result, "version": engine.version}), flush=True)
    engine.close()
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
