"""Operations in flight together: their results, their order, and what the failure of one means for the others."""

import gc
import threading
import time
import weakref

import numpy as np
import pytest

import treefold
from treefold import runtime
from treefold.errors import TreefoldError
from treefold.runtime import pending

SIZES = [0, 1, 7, 1000, 65_537, 300_001]
TYPES = ["uint8", "int32", "int64", "float64"]


def cases(seed, count, ranks):
    """Return random all-reduces and broadcasts, the same on all ranks."""
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield (
            str(rng.choice(["all-reduce", "broadcast", "reduce"])),
            int(rng.choice(SIZES)),
            str(rng.choice(TYPES)),
            (int(rng.integers(ranks))),
        )


def values(worker, number, size, kind):
    return ((np.arange(size) * (worker + 3) + number) % 29).astype(kind)


@pytest.mark.parametrize("ranks", [2, 3, 5])
@pytest.mark.parametrize("options", [{"algorithm": "packing"}, {"algorithm": "ring"}, {}, {"adapt": True}], ids=str)
def test_many_operations_at_once_have_the_results_of_one_after_the_other(ranks, options):
    def work(group):
        rng = np.random.default_rng(group.worker)
        begun = []
        for number, (collective, size, kind, root) in enumerate(cases(1, 60, ranks)):
            array = values(group.worker, number, size, kind)
            plan = group.plan_for(collective, group.mapping.rank_of_worker[root])
            begun.append((array, group.start(plan, array)))
            if rng.random() < 0.2:
                begun[int(rng.integers(len(begun)))][1].wait()
        for _, handle in begun:
            handle.wait()
        group.all_reduce(np.zeros(1))
        return [array for array, _ in begun]

    results = runtime.in_threads(ranks, work, network=treefold.topology(f"full:{ranks}"), **options)
    for number, (collective, size, kind, root) in enumerate(cases(1, 60, ranks)):
        total = sum(values(worker, number, size, kind) for worker in range(ranks))
        for worker, arrays in enumerate(results):
            if collective == "all-reduce" or (collective == "reduce" and worker == root):
                assert np.array_equal(arrays[number], total), (number, worker)
            elif collective == "broadcast":
                assert np.array_equal(arrays[number], values(root, number, size, kind)), (number, worker)


def test_operations_that_share_memory_run_one_after_the_other():
    def work(group):
        array = np.ones(200_000)
        handles = [group.start_all_reduce(part) for part in (array, array[100_000:], array[:150_000])]
        for handle in handles:
            handle.wait()
        return array[0].item(), array[120_000].item(), array[-1].item()

    assert runtime.in_threads(2, work) == [(4.0, 8.0, 4.0)] * 2


def test_only_the_operation_on_which_ranks_disagree_fails():
    def work(group):
        arrays = [np.ones(50_000, np.int64), np.ones(30 if group.worker else 31), np.full(9, 2.0), np.ones(10)]
        handles = [group.start_all_reduce(array) for array in arrays]
        handles[0].wait()
        with pytest.raises(TreefoldError, match="the ranks disagree"):
            handles[1].wait()
        with pytest.raises(TreefoldError, match="the ranks disagree"):
            handles[1].wait()
        handles[3].wait()
        group.all_reduce(again := np.ones(3))
        return [arrays[0][-1].item(), arrays[2][0].item(), arrays[3][0].item(), again[0].item()]

    assert runtime.in_threads(3, work) == [[3, 6.0, 3.0, 3.0]] * 3


def test_ranks_with_windows_of_unlike_sizes_agree(monkeypatch):
    """A rank that begins many operations ahead of the others waits for them."""
    begun = threading.Barrier(2)

    def work(group):
        arrays = [np.full(40_000, group.worker + 1.0) for _ in range(30)]
        if group.worker:
            begun.wait()
            for array in arrays:
                group.all_reduce(array)
        else:
            handles = [group.start_all_reduce(array) for array in arrays[:16]]
            begun.wait()
            for handle in handles + [group.start_all_reduce(array) for array in arrays[16:]]:
                handle.wait()
        return all((array == 3.0).all() for array in arrays)

    assert runtime.in_threads(2, work) == [True, True]


def test_the_memory_in_flight_is_bounded(monkeypatch):
    monkeypatch.setattr(pending, "MOST_BYTES_IN_FLIGHT", 1 << 20)

    def work(group):
        arrays = [np.ones(100_000) for _ in range(4)]
        handles = [group.start_all_reduce(array) for array in arrays]
        over = [handle.is_over for handle in handles]
        for handle in handles:
            handle.wait()
        return over[:3], all((array == 2.0).all() for array in arrays)

    assert runtime.in_threads(2, work) == [([True, True, True], True)] * 2


def test_a_rank_that_dies_ends_all_operations_in_flight():
    gone = threading.Event()

    def work(group):
        group.all_reduce(np.ones(1))
        if group.worker == 1:
            group.close()
            gone.set()
            return 0
        gone.wait()
        handles = [group.start_all_reduce(np.ones(100_000)) for _ in range(5)]
        for handle in handles:
            with pytest.raises(runtime.RankLostError, match="worker 1"):
                handle.wait()
        return len(handles)

    assert runtime.in_threads(3, work) == [5, 0, 5]


def test_a_rank_that_has_left_long_ago_is_missed_at_once():
    gone = threading.Barrier(2)

    def work(group):
        group.all_reduce(np.ones(1))
        if group.worker == 1:
            group.close()
            gone.wait()
            return True
        gone.wait()
        time.sleep(0.3)  # so that the connection is known to be closed before the operation begins
        with pytest.raises(runtime.RankLostError, match="worker 1"):
            group.all_reduce(np.ones(1))
        return True

    assert runtime.in_threads(2, work, connections=runtime.Connections(operation_s=5.0)) == [True, True]


def test_a_closed_group_is_given_back_at_once():
    """Gloo closes its connections when the last reference to its group is gone."""

    def work(group):
        group.all_reduce(np.ones(3))
        group.close()
        return weakref.ref(group)

    gc.collect()
    gc.disable()
    try:
        assert [group() for group in runtime.in_threads(2, work)] == [None, None]
    finally:
        gc.enable()


def test_closing_ends_what_is_in_flight():
    def work(group):
        group.all_reduce(np.ones(1))
        handle = group.start_all_reduce(np.ones(1_000_000)) if group.worker == 0 else None
        group.close()
        if handle is not None:
            with pytest.raises((TreefoldError, KeyboardInterrupt)):
                handle.wait()
        return True

    assert runtime.in_threads(2, work) == [True, True]
