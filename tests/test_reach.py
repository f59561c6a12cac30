"""Workers that do not listen, listen at one port, or are behind firewalls: who calls whom, and what plans go round."""

import socket
import warnings
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing

import numpy as np
import pytest

import treefold
from treefold import OutsideError, TreefoldError, runtime
from treefold._core import Mesh
from treefold.rendezvous.identity import listening_port
from treefold.rendezvous.sockets import free_port, listen
from treefold.runtime import forming
from treefold.runtime import tcp as calls

LOOPBACK = "127.0.0.1"
NONE = None
ANY = 0


def act(ports, work, timeout_s=60, **options):
    """Return what each worker's `work` returns with its group, or its error; workers listen at these ports."""
    places = runtime.local(len(ports), timeout_s)

    def one(place):
        place.port = ports[place.rank]
        group = None
        try:
            group = runtime.join(place, **options)
            return work(group)
        except TreefoldError as error:
            return str(error)
        finally:
            place.close()
            if group is not None:
                group.close()

    with warnings.catch_warnings(record=True) as told, ThreadPoolExecutor(len(ports)) as pool:
        warnings.simplefilter("always")
        found = list(pool.map(one, places))
    return found, sorted({str(each.message) for each in told})


def summed(group):
    array = np.full(1000, group.worker + 1, np.int64)
    group.all_reduce(array)
    gathered = group.all_gather(np.array([group.worker]))
    exchanged = group.all_to_all(np.arange(group.size) + 10 * group.worker)
    assert gathered.tolist() == list(range(group.size))
    assert exchanged.tolist() == [10 * other + group.worker for other in range(group.size)]
    return int(array[0])


class Walled:
    """Connections of a rank whose port no call gets through to: they announce another one."""

    def __init__(self, mesh, address):
        self.mesh, self.address = mesh, address

    def __getattr__(self, name):
        return getattr(self.mesh, name)


@pytest.fixture
def walled(monkeypatch):
    """Puts ranks behind firewalls, which refuse calls or swallow them."""
    with listen(LOOPBACK) as deaf:
        silent = f"{LOOPBACK}:{deaf.getsockname()[1]}"
        closed = f"{LOOPBACK}:{free_port(LOOPBACK)}"

        def put(walls):
            def mesh(rank, *given):
                made = Mesh(rank, *given)
                return Walled(made, {"closed": closed, "silent": silent}[walls[rank]]) if rank in walls else made

            monkeypatch.setattr(forming, "Mesh", mesh)
            monkeypatch.setattr(calls, "CONNECT_S", 6.0)

        yield put


@pytest.mark.parametrize(
    ("ports", "is_told"),
    [([ANY, NONE, ANY], False), ([NONE, ANY, ANY], False), ([ANY, ANY, NONE], False), ([NONE, ANY, NONE], True)],
)
@pytest.mark.parametrize("algorithm", ["auto", "multitree"])
def test_who_does_not_listen_calls_the_others(ports, is_told, algorithm):
    found, told = act(ports, summed, network="full:3", algorithm=algorithm)
    assert found == [6] * 3
    assert [("worker 0 (GPU0) and worker 2 (GPU2) cannot connect; plans go round them" in line) for line in told] == [
        True
    ] * is_told


@pytest.mark.parametrize("adapt", [False, True])
@pytest.mark.parametrize("streams", [1, 3])
def test_all_but_one_call_it(adapt, streams):
    connections = runtime.Connections(streams=streams)
    found, told = act([NONE, NONE, ANY, NONE], summed, network="full:4", adapt=adapt, connections=connections)
    assert found == [10] * 4
    assert len(told) == 1 and told[0].count("worker 0 (GPU0)") == 2


def test_a_group_of_which_nobody_listens_cannot_form():
    found, _ = act([NONE] * 3, summed, network="full:3")
    assert len(set(found)) == 1
    assert found[0].startswith("worker 0 (GPU0) can connect to no other worker (neither of them listens); let it")


def test_workers_that_fall_into_parts_are_told_which():
    found, _ = act([NONE, ANY, ANY, NONE], summed, network="ring:4", algorithm="ring")
    assert len(set(found)) == 1 and found[0] == 10
    network = treefold.topology("line:4")
    found, _ = act([ANY, NONE, NONE, ANY], summed, network=network)
    assert len(set(found)) == 1
    assert "the workers fall into parts, as worker 1 (GPU1) and worker 2 (GPU2) cannot connect" in found[0]


def test_a_plan_that_was_given_is_kept_or_refused():
    network = treefold.topology("full:4")
    plan = treefold.plan(network.without_links([("GPU0", "GPU2")]), "ring", size_bytes=8000)
    found, _ = act([NONE, ANY, NONE, ANY], lambda group: group.plan.algorithm, plan=plan)
    assert found == ["ring"] * 4
    found, _ = act([ANY, NONE, NONE, ANY], summed, plan=plan)
    assert len(set(found)) == 1
    assert "the plan that was given joins worker 1 (GPU1) and worker 2 (GPU2), who cannot connect" in found[0]


def test_a_group_that_adapts_keeps_a_plan_that_was_given():
    plan = treefold.plan(treefold.topology("full:4").without_links([("GPU0", "GPU2")]), "ring", size_bytes=8000)
    document = treefold.topology("full:4")
    plan = treefold.replan(plan, document, "ring").plan
    assert (0, 2) not in plan.pairs
    found, told = act([NONE, ANY, NONE, ANY], lambda group: (summed(group), summed(group)), plan=plan, adapt=True)
    assert found == [(10, 10)] * 4
    assert len(told) == 1


@pytest.mark.parametrize("wall", ["closed", "silent"])
@pytest.mark.parametrize("rank", [0, 2])
def test_who_is_behind_a_firewall_calls_the_others(walled, wall, rank):
    walled({rank: wall})
    found, told = act([ANY] * 3, summed, network="full:3")
    assert found == [6] * 3
    assert not told


def test_plans_go_round_two_that_are_behind_firewalls(walled):
    walled({1: "closed", 2: "silent"})
    found, told = act([ANY] * 4, summed, network="full:4")
    assert found == [10] * 4
    assert told == ["worker 1 (GPU1) and worker 2 (GPU2) cannot connect; plans go round them"]


def test_plans_go_round_two_that_cannot_connect_however_short_the_timeout_is(walled, monkeypatch):
    walled({1: "silent", 2: "silent"})
    monkeypatch.setattr(calls, "CONNECT_S", 15.0)
    found, told = act([ANY] * 4, summed, timeout_s=8, network="full:4")
    assert found == [10] * 4
    assert told == ["worker 1 (GPU1) and worker 2 (GPU2) cannot connect; plans go round them"]


def test_a_pair_that_only_a_later_plan_joins_is_gone_round_then(walled):
    walled({0: "closed", 2: "closed"})

    def work(group):
        plan = treefold.plan(group.plan.topology, "direct", collective="all-gather")
        assert (0, 2) in plan.pairs
        vector = np.zeros(4, np.int64)
        vector[group.rank] = group.rank + 1
        group.run(plan, vector)
        return vector.tolist(), summed(group)

    found, told = act([ANY] * 4, work, network="full:4", algorithm="ring")
    assert found == [([1, 2, 3, 4], 10)] * 4
    assert told == ["worker 0 (GPU0) and worker 2 (GPU2) cannot connect; plans go round them"]


def test_workers_of_one_process_share_a_port():
    port = free_port(LOOPBACK)
    found, _ = act([port] * 3, summed, network="full:3")
    assert found == [6] * 3
    found, _ = act([port, NONE, port], summed, network="full:3")
    assert found == [6] * 3


def test_groups_of_one_process_share_a_port():
    port = free_port(LOOPBACK)

    def twice(group):
        place = group.transport.meeting
        return summed(group), group.transport.addresses[place.rank]

    found, _ = act([port, ANY], lambda group: (act([port, ANY], twice, network="full:2")[0][0], summed(group)))
    assert found[0] == ((3, f"{LOOPBACK}:{port}"), 3)


def test_a_port_that_another_program_has_is_told_to_all():
    with listen(LOOPBACK) as other:
        port = other.getsockname()[1]
        found, _ = act([ANY, port], summed, network="full:2")
    assert len(set(found)) == 1
    assert f"worker 1: cannot listen on {LOOPBACK} port {port}: the port is in use; each worker of a" in found[0]


@pytest.mark.parametrize("rank", [0, 1])
def test_a_port_that_is_the_one_of_the_rendezvous_is_told_to_all(rank):
    port, connections = free_port(LOOPBACK), runtime.Connections(newcomers=rank == 0)

    def work(worker):
        own_port = port if worker == rank else None
        with closing(runtime.from_master(worker, 2, LOOPBACK, port, 20, own_port=own_port)) as meeting:
            with pytest.raises(OutsideError) as caught:
                runtime.join(meeting, network="full:2", connections=connections)
            return str(caught.value)

    with ThreadPoolExecutor(2) as pool:
        found = set(pool.map(work, range(2)))
    assert found == {
        f"worker {rank}: cannot listen on {LOOPBACK} port {port}: it is the MASTER_PORT, on which worker 0 serves, and "
        "newcomers call if any may come; choose another TREEFOLD_PORT"
    }


@pytest.mark.filterwarnings("ignore:.* cannot connect; plans go round them")
def test_worker_0_needs_one_port_for_everything():
    port = free_port(LOOPBACK)

    def work(worker):
        own_port = "none" if worker else port
        with closing(runtime.from_master(worker, 3, LOOPBACK, port, 20, own_port=own_port)) as meeting:
            for _ in range(2):
                group = runtime.join(meeting, network="full:3", algorithm="packing")
                group.all_reduce(array := np.full(10, worker))
                group.close()
        return array.tolist()

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(work, range(3))) == [[3] * 10] * 3


@pytest.mark.parametrize("adapt", [False, True])
def test_survivors_regroup_though_some_do_not_listen(adapt):
    def work(group):
        if group.worker == 1:
            return "gone"
        try:
            group.all_reduce(np.ones(2))
        except runtime.RankLostError as lost:
            group = runtime.regroup(group, lost)
        array = np.ones(2)
        group.all_reduce(array)
        assert group.transport.meeting.port == [NONE, ANY, NONE][group.worker]
        group.close()
        return array.tolist()

    found, _ = act([NONE, ANY, ANY, NONE], work, network="full:4", adapt=adapt)
    assert found == [[3.0, 3.0], "gone", [3.0, 3.0], [3.0, 3.0]]


@pytest.mark.parametrize("text", ["0", "70000", "abc", "-1", "1.5", "8000 ", "９", "9" * 50])
def test_a_port_is_a_port_or_none(text, monkeypatch):
    if text == "8000 ":
        assert listening_port(text) == 8000
        return
    with pytest.raises(TreefoldError, match=r"^own_port=.*: a worker listens on a port from 1 to 65535, or on none"):
        listening_port(text)
    monkeypatch.setenv("TREEFOLD_PORT", text)
    with pytest.raises(TreefoldError, match=r"^TREEFOLD_PORT '.*': a worker listens on a port from 1 to 65535"):
        listening_port(None)


def test_the_environment_says_the_port(monkeypatch):
    assert listening_port(None) == 0
    monkeypatch.setenv("TREEFOLD_PORT", "None")
    assert listening_port(None) is None
    assert listening_port(5000) == 5000
    assert listening_port("none") is None


def test_a_closed_group_listens_no_more():
    def work(group):
        host, _, port = group.transport.addresses[group.rank].rpartition(":")
        group.close()
        with pytest.raises(ConnectionRefusedError):
            socket.create_connection((host, int(port)), 5)

    runtime.in_threads(2, work)
