"""Workers that come to a running group, or come back to it, are taken in between two operations."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from treefold import runtime
from treefold.rendezvous.sockets import free_port

OPEN = runtime.Connections(newcomers=True, silence_s=5.0, dead_after_s=2.0)
WORD = "a word of this test"


class Site:
    """A place where the threads of a test meet as workers."""

    def __init__(self, **options):
        self.port = free_port("127.0.0.1")
        self.options = options
        self.groups, self.errors = {}, []
        self.stop = threading.Event()

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
                    group.transport.close()
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
