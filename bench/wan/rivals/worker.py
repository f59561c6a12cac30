"""Runs one rank of a rival: it times all-reduces of float32 and verifies every sum; rank 0 prints one JSON line.

    worker.py gloo|treefold|mpi SIZE_BYTES ITERATIONS WARM_UPS

It runs with RANK and WORLD_SIZE (torch) or under mpiexec (mpi). It needs torch or mpi4py, and treefold only to measure
treefold's backend.
"""

import json
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

    def all_reduce(self, array):
        """Sum an array in place."""
        self.dist.all_reduce(self.torch.from_numpy(array))

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

    def all_reduce(self, array):
        """Sum an array in place."""
        self.world.Allreduce(self.mpi.IN_PLACE, array)

    def slowest(self, seconds):
        """Return the maximum over all ranks."""
        return self.world.allreduce(seconds, self.mpi.MAX)


def main(engine, size_bytes, iterations, warm_ups):
    """Time the iterations; each takes as long as its slowest rank."""
    engine = Mpi() if engine == "mpi" else Torch(engine)
    pattern = (np.arange(int(size_bytes) // 4) % PATTERN).astype(np.float32)
    expected = pattern * engine.size + engine.size * (engine.size - 1) / 2
    times, wrong = [], 0
    for _ in range(int(warm_ups) + int(iterations)):
        array = pattern + np.float32(engine.rank)
        engine.barrier()
        start = time.perf_counter()
        engine.all_reduce(array)
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
