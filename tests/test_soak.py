"""Random all-reduces over random connections: none is wrong, memory does not grow, and nothing is left behind."""

import gc
import os
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import treefold
from hosts import at_host
from treefold import MisfitError, certificates, environment, rendezvous, runtime
from treefold.rendezvous.sockets import free_port
from treefold.runtime import Connections

ALGORITHMS = ["auto", "ring", "packing", "multitree", "dbtree", "hierarchical", "recursive-doubling"]
ERRORS = {"bfloat16": 2**-8, "float16": 2**-11, "float8": 2**-4, "int8": 1 / 253}
AT_A_TIME = 50
LOOPBACK = "127.0.0.1"


def operations(seed):
    """Yield a random type, operator, size, wire type, and whether it is awaited at once; the same on all ranks."""
    rng = np.random.default_rng(seed)
    for _ in range(AT_A_TIME):
        size = int(rng.choice([1, 5, 300, 5_000, 70_000, 300_000], p=[0.1, 0.1, 0.2, 0.3, 0.2, 0.1]))
        kind = str(rng.choice(["int32", "int64", "uint8", "float32", "float64"]))
        wire = str(rng.choice(list(ERRORS))) if kind == "float32" and rng.random() < 0.7 else None
        yield kind, "sum" if wire else str(rng.choice(["sum", "max", "min"])), size, wire, rng.random() < 0.3


def values(rank, number, size, kind):
    return ((np.arange(size) * (rank + 3) + number) % 23).astype(kind)


def work(group, seed):
    """Run the operations of a seed, and return how many elements of their results are wrong."""
    begun, wrong = [], 0
    for number, (kind, operator, size, wire, at_once) in enumerate(operations(seed)):
        array = values(group.worker, number, size, kind)
        pending = group.start_all_reduce(array, operator, wire=wire)
        begun.append((array, pending, (number, kind, operator, size, wire)))
        if at_once:
            pending.wait()
    for array, pending, (number, kind, operator, size, wire) in begun:
        pending.wait()
        inputs = [values(rank, number, size, kind) for rank in range(group.size)]
        combine = {"sum": np.add, "max": np.maximum, "min": np.minimum}[operator]
        expected = combine.reduce(inputs, dtype=kind)
        off = 0 if wire is None else ERRORS[wire] * group.size * 23 * group.size
        wrong += int((np.abs(array.astype(np.float64) - expected) > off).sum())
    group.all_reduce(np.zeros(1))
    return wrong


def soak(seed, keys, own):
    """Form a random group, and let it work; return how many elements are wrong."""
    rng = np.random.default_rng(seed)
    ranks, port = int(rng.integers(2, 6)), free_port(LOOPBACK)
    is_secret, streams = rng.random() < 0.4, int(rng.choice([1, 1, 2, 5]))
    hosts = int(rng.choice([1, 2]))  # workers of different addresses meet over TCP, and not over Unix sockets
    network = f"full:{ranks}" if is_secret or rng.random() < 0.5 else f"ring:{ranks}"
    algorithm = str(rng.choice(ALGORITHMS))
    try:
        treefold.plan(network, algorithm)
    except MisfitError:
        algorithm = "auto"

    def join(rank):
        if is_secret:
            own.TREEFOLD_TLS, own.TREEFOLD_NAME = str(keys / "site"), f"site/{rank}"
        meeting = rendezvous.from_master(rank, ranks, LOOPBACK, port, 30)
        meeting = at_host(meeting, rank % hosts)
        connections = Connections(streams=streams)
        names = None if is_secret else network
        group = runtime.join(meeting, network=names, algorithm=algorithm, connections=connections)
        meeting.close()
        try:
            return work(group, seed)
        finally:
            group.close()

    with ThreadPoolExecutor(ranks) as pool:
        return sum(pool.map(join, range(ranks)))


def resident_bytes():
    gc.collect()
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")


@pytest.mark.filterwarnings("ignore:what the workers send each other is not encrypted")
@pytest.mark.parametrize("count", [150, pytest.param(10_000, marks=pytest.mark.slow)])
def test_random_all_reduces_over_random_connections(count, monkeypatch, tmp_path):
    pytest.importorskip("cryptography")
    certificates.make(["site"], tmp_path)
    own, elsewhere = threading.local(), environment.value
    monkeypatch.setattr(environment, "value", lambda name: getattr(own, name, elsewhere(name)))
    threads, files, memory = threading.active_count(), len(os.listdir("/proc/self/fd")), []
    for seed in range(count // AT_A_TIME):
        assert soak(seed, tmp_path, own) == 0, f"seed {seed}"
        memory.append(resident_bytes())
    # The allocator takes its time to reach its height.
    half = len(memory) // 2
    assert len(memory) < 20 or memory[-1] < 1.05 * max(memory[half // 2 : half])
    end = time.monotonic() + 10
    while threading.active_count() > threads and time.monotonic() < end:
        time.sleep(0.1)
    assert threading.active_count() <= threads
    assert len(os.listdir("/proc/self/fd")) <= files + 2
    print([round(each / 1e6) for each in memory[:: max(1, len(memory) // 20)]])
