"""Workers that come to a running group, or come back to it, are taken in between two operations."""

import contextlib
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import treefold
from treefold import TreefoldError, runtime
from treefold.rendezvous.reception import Reception
from treefold.rendezvous.sockets import free_port
from treefold.runtime import hosting
from treefold.runtime.networks import with_only
from treefold.runtime.newcomers import Places

OPEN = runtime.Connections(newcomers=True, silence_s=5.0, dead_after_s=2.0)
WORD = "a word of this test"


class Site:
    """A place where the threads of a test meet as workers."""

    def __init__(self, **options):
        self.port = free_port("127.0.0.1")
        self.options = options

    def meet(self, rank, size, name=None, word=WORD, timeout_s=20):
        meeting = runtime.from_master(rank, size, "127.0.0.1", self.port, timeout_s, job=word)
        meeting.name = name
        return meeting

    def join(self, rank, size, name=None, **options):
        meeting = self.meet(rank, size, name)
        try:
            return runtime.join(meeting, connections=OPEN, **{**self.options, **options})
        finally:
            meeting.close()


def steps(group, until, leave=lambda group: False):
    """Train: sum numbers and let newcomers in, until the group has so many workers; return the last group."""
    end = time.monotonic() + 30
    done = False
    while not done:
        try:
            array = np.full(1000, group.worker, np.int64)
            group.all_reduce(array)
            assert (array == sum(range(group.size))).all()
            flag = np.array([group.size == until or time.monotonic() > end], np.int8)
            group.all_reduce(flag, "min")
            done = bool(flag[0])
            if not done:
                if leave(group):
                    group.close()
                    return None
                group = runtime.admit(group)
        except runtime.RankLostError as lost:
            group = runtime.regroup(group, lost)
    assert group.size == until
    group.all_reduce(np.zeros(1))
    return group


def outcome(group):
    found = (group.worker, group.size, group.plan.topology.ranks, group.mapping.names[group.rank])
    group.all_reduce(np.zeros(1))
    group.close()
    return found


def test_newcomers_come_to_a_group_without_a_network():
    site = Site()

    def work(rank):
        if rank < 3:
            return outcome(steps(site.join(rank, 3), 5))
        time.sleep(0.5)
        return outcome(steps(site.join(rank, 9), 5))

    with ThreadPoolExecutor(5) as pool:
        found = list(pool.map(work, range(5)))
    assert [each[:3] for each in found[:3]] == [(rank, 5, 5) for rank in range(3)]
    assert sorted(each[0] for each in found[3:]) == [3, 4]


@pytest.mark.parametrize("adapt", [False, True])
@pytest.mark.parametrize("gone", [0, 2], ids=["worker 0", "another one"])
def test_a_worker_that_was_lost_comes_back_to_its_node(gone, adapt):
    site = Site(network="ring:4", algorithm="ring", adapt=adapt)
    names = ["GPU2", "GPU0", "GPU3", "GPU1"]

    def work(rank):
        if rank == 4:
            site.left.wait(30)
            rank = 1  # any number but 0 does
            return outcome(steps(site.join(1, 4, names[gone]), 4))
        group = steps(site.join(rank, 4, names[rank]), 4 if rank != gone else 99, lambda group: rank == gone)
        if group is None:
            site.left.set()
            return None
        return outcome(group)

    site.left = threading.Event()
    with ThreadPoolExecutor(5) as pool:
        found = list(pool.map(work, range(5)))
    stayed = [rank for rank in range(4) if rank != gone]
    assert [found[rank] for rank in stayed] == [(new, 4, 4, names[rank]) for new, rank in enumerate(stayed)]
    assert found[4] == (3, 4, 4, names[gone])


def test_who_cannot_come_is_told_why_and_the_group_goes_on(monkeypatch):
    monkeypatch.setattr(hosting, "_PATIENCE_S", 0.0)
    site = Site(network="ring:3", algorithm="ring")

    def work(rank):
        return outcome(steps(site.join(rank, 2, f"GPU{rank}"), 3))

    def refused(act):
        with pytest.raises(TreefoldError) as caught:
            act()
        return str(caught.value)

    with ThreadPoolExecutor(3) as pool:
        found = pool.map(work, range(2))
        time.sleep(0.5)
        assert "another job's rendezvous" in refused(lambda: site.meet(1, 2, word="another word"))
        assert "network 'ring:3' of the group has no node 'GPU7', and no worker is GPU2" in refused(
            lambda: site.join(1, 2, "GPU7")
        )
        assert "has a worker 1 called 'GPU1' already" in refused(lambda: site.join(1, 2, "GPU1"))
        assert "the workers of the group have names, and this one has none" in refused(lambda: site.join(1, 2))
        closed = site.meet(1, 2)
        assert "runs already, and newcomers come" in refused(lambda: runtime.join(closed))
        closed.close()
        monkeypatch.undo()
        silent = site.meet(1, 2, "GPU2")  # says nothing, and is no newcomer yet
        dies = site.meet(1, 2, "GPU2")
        dies._line.send({"name": "GPU2"})
        time.sleep(0.1)
        dies.close()
        last = outcome(steps(site.join(1, 2, "GPU2"), 3))
        silent.close()
        assert [*found, last] == [(rank, 3, 3, f"GPU{rank}") for rank in range(3)]


def test_a_newcomer_comes_in_though_the_group_loses_a_worker_just_then(monkeypatch):
    site, has_come = Site(), threading.Event()
    take = Reception.take

    def watched(self, timeout_s):
        if waiting := take(self, timeout_s):
            has_come.set()
        return waiting

    monkeypatch.setattr(Reception, "take", watched)
    monkeypatch.setattr(hosting, "_TOGETHER_S", 1.5)  # worker 0 regroups while its thread awaits other newcomers

    def work(rank):
        if rank == 3:
            time.sleep(0.5)
            return outcome(steps(site.join(rank, 4), 3))
        group = steps(site.join(rank, 3), 3 if rank < 2 else 99, lambda group: group.worker == 2 and has_come.is_set())
        return group and outcome(group)

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(4)))
    assert [each and each[0] for each in found] == [0, 1, None, 2]


def test_a_newcomer_whose_name_is_taken_reads_that_it_waits(caplog):
    caplog.set_level("INFO", "treefold")
    site = Site(network="ring:2", algorithm="ring")

    def has_read():
        return any("this worker waits to come into the group" in record.message for record in caplog.records)

    def work(rank):
        if rank == 2:
            time.sleep(0.5)
            return outcome(steps(site.join(1, 2, "GPU1"), 2))
        group = steps(site.join(rank, 2, f"GPU{rank}"), 99 if rank else 2, lambda group: bool(rank) and has_read())
        return group and outcome(group)

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(work, range(3)))
    assert found == [(0, 2, 2, "GPU0"), None, (1, 2, 2, "GPU1")]
    waits = [(each.levelname, each.getMessage()) for each in caplog.records if " waits" in each.getMessage()]
    why = "the group has a worker 1 called 'GPU1' already; give this one another TREEFOLD_NAME, or wait until the group"
    assert [level for level, _ in waits] == ["INFO", "WARNING"]
    assert all(why in text for _, text in waits)


def test_lines_of_a_group_that_is_over_are_missing_at_once():
    site = Site()
    meeting = site.meet(0, 1)
    with contextlib.closing(runtime.join(meeting, connections=OPEN)) as group:
        reception, number = group.membership._reception, group.membership.terms.number
        reception.expect("another", 2)
        assert reception.lines(number, 0) == [] and reception.lines("another", 0.1) is None
        threading.Timer(0.2, reception.dismiss, ["another"]).start()
        before = time.monotonic()
        assert reception.lines("another", 20) is None
        assert time.monotonic() < before + 10
        assert reception.lines("another", 0) is None and not reception.has_lines("another")
    meeting.close()


def test_newcomers_need_a_door():
    with pytest.raises(TreefoldError, match="the group is closed to newcomers"):
        runtime.in_threads(2, runtime.admit)
    with pytest.raises(TreefoldError, match="only workers that meet at MASTER_ADDR"):
        runtime.in_threads(2, runtime.admit, connections=OPEN)


@pytest.mark.parametrize(
    ("by_name", "is_assumed", "name", "rank", "node"),
    [
        (True, False, "GPU2", None, "GPU2"),
        (False, False, None, 2, "GPU2"),
        (False, False, None, None, "GPU1"),
        (False, False, None, 0, "GPU1"),
        (False, False, "GPU2", 1, "GPU2"),
        (True, True, "new", None, "new"),
    ],
)
def test_places(by_name, is_assumed, name, rank, node):
    first = treefold.topology("ring:4")
    places = Places(("GPU0", "GPU3"), by_name, with_only(first, [0, 3]), first, is_assumed)
    found = places.with_newcomer(name, rank)
    assert found.nodes == ("GPU0", "GPU3", node)
    assert set(found.network().rank_names) == {"GPU0", "GPU3", node}
