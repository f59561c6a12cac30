"""The controller: what it takes for a change, how all ranks switch plans, and what is left when a rank dies."""

import json
import os
import signal
import subprocess
import sys
from types import SimpleNamespace

import numpy as np
import pytest

import treefold
from treefold.rendezvous.sockets import free_port
from treefold.runtime import Connections
from treefold.runtime.controller import Controller
from treefold.runtime.networks import bandwidths, with_rates, without_links
from treefold.runtime.plans import GroupPlans
from treefold.runtime.recovery import State, resumption
from treefold.runtime.transport import Operation

WORKER = """
import os, signal, sys
import numpy as np, treefold
from treefold import runtime

meeting = runtime.from_environment()
meeting._address = f"127.0.0.{1 + meeting.rank}"  # workers of one address would not meet over TCP
network = treefold.topology(os.environ["NETWORK"], bandwidth_Bps=1e9)
algorithm, _, trees = os.environ["ALGORITHM"].partition(" ")
limits = {"trees": int(trees)} if trees else {}
connections = runtime.Connections(silence_s=10.0, dead_after_s=1.0)
joined = runtime.join(meeting, network=network, algorithm=algorithm, adapt=True, connections=connections, **limits)

def all_reduce(joined, number):
    array = np.full(200_003, joined.worker + number, np.int64)
    joined.all_reduce(array)
    return bool((array == sum(range(joined.size)) + joined.size * number).all())

"""

SWITCH = """
right, plans = [], []
for number in range(8):
    if number == 3 and joined.rank == 0:  # as if its way to rank 1 had become slow
        control = joined.controller
        control.monitor.rates[0, 1] = 1e8
        control.decide()
    right.append(all_reduce(joined, number))
    plans.append(joined.plan.to_json())
import json
after = joined.plan.algorithm, joined.plan.num_trees
print(json.dumps({"right": right, "changed": [plan != plans[0] for plan in plans], "after": after}))
joined.close()
meeting.close()
"""

CUT = """
import ctypes, json, socket, struct, time
# A socket that drops all that comes (a filter of one instruction: keep 0 bytes), as if its cable were cut.
nothing = ctypes.create_string_buffer(struct.pack("HBBI", 6, 0, 0, 0))

def cut(peer):
    port = int(joined.transport.addresses[peer].rpartition(":")[2])
    for descriptor in map(int, os.listdir("/proc/self/fd")):
        try:
            line = socket.socket(fileno=os.dup(descriptor))
            found = line.getpeername()[1] == port
        except OSError:
            continue
        if found:
            line.setsockopt(socket.SOL_SOCKET, 26, struct.pack("HL", 1, ctypes.addressof(nothing)))
        line.close()

told, right, start, cuts, news, done = [], [], time.monotonic(), 0, 0, False
while not done:
    numbers = range(len(right), len(right) + int(os.environ["AT_ONCE"]))
    arrays = [np.full(200_003, joined.worker + number, np.int64) for number in numbers]
    handles = [joined.start_all_reduce(array) for array in arrays]
    if joined.rank == 1 and cuts == news // 2 and cuts < 2 and len(right) > 3:
        cut(0)
        cuts += 1
    for handle in handles:
        handle.wait()
    right += [bool((array == 6 + 4 * number).all()) for number, array in zip(numbers, arrays)]
    told += joined.changes()
    news = sum(line.endswith("is new") for line in told)
    flag = np.array([news == 4 or time.monotonic() - start > 50], np.int8)
    joined.all_reduce(flag, "min")
    done = bool(flag[0])
print(json.dumps({"right": all(right), "count": len(right), "told": told}))
"""

DEATH = """
import json
if joined.worker in json.loads(os.environ["DEAD"]):
    os.kill(os.getpid(), signal.SIGKILL)
try:
    all_reduce(joined, 1)
except runtime.RankLostError as lost:
    again = runtime.regroup(joined, lost)
    print(json.dumps({"lost": lost.workers, "said": str(lost), "size": again.size, "right": all_reduce(again, 5)}))
    again.close()
"""


def run(script, network="torus:2x2", dead=(), algorithm="packing", silent=(), at_once=1):
    """Return what each worker printed last, or None where it printed nothing."""
    ranks = treefold.topology(network).ranks
    env = os.environ | {
        "WORLD_SIZE": str(ranks),
        "MASTER_ADDR": "127.0.0.1",
        "MASTER_PORT": str(free_port("127.0.0.1")),
    }
    env |= {"NETWORK": network, "DEAD": json.dumps(dead), "ALGORITHM": algorithm, "AT_ONCE": str(at_once)}
    command = [sys.executable, "-c", WORKER + script]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    own = [{"RANK": str(rank)} | ({"TREEFOLD_PORT": "none"} if rank in silent else {}) for rank in range(ranks)]
    workers = [subprocess.Popen(command, env=env | each, **pipes) for each in own]
    try:
        told = [worker.communicate(timeout=60) for worker in workers]
    finally:
        for worker in workers:
            worker.kill()
    failed = [worker.returncode not in (0, -signal.SIGKILL) for worker in workers]
    assert not any(failed), "\n".join(complaint for _, complaint in told)
    return [json.loads(out.splitlines()[-1]) if out else None for out, _ in told]


@pytest.mark.parametrize("algorithm", ["packing", "mtree 2"])
def test_all_ranks_switch_between_the_same_operations(algorithm):
    reports = run(SWITCH, algorithm=algorithm)
    name, _, most = algorithm.partition(" ")
    assert all(report["after"][0] == name and report["after"][1] <= int(most or 9) for report in reports)
    assert all(all(report["right"]) for report in reports)
    changed = [report["changed"] for report in reports]
    assert changed == [changed[0]] * 4
    # Decided before the fourth operation begins (number 3): it counts from two later on.
    assert changed[0][:4] == [False] * 4 and changed[0][-1]


@pytest.mark.parametrize(
    ("peer", "silent", "at_once"),
    [(0, [], 1), (2, [1], 1), (0, [], 7)],
    ids=["the higher rank calls", "the lower rank calls", "seven in flight"],
)
def test_a_cut_pair_comes_back_and_may_be_cut_again(peer, silent, at_once):
    reports = run(CUT.replace("cut(0)", f"cut({peer})"), "full:4", silent=silent, at_once=at_once)
    ends = sorted([1, peer])
    for report in reports:
        assert report["right"] and report["count"] == reports[0]["count"]
        gone, new = ([f"link GPU{one} -> GPU{sum(ends) - one} is {state}" for one in ends] for state in ("gone", "new"))
        assert report["told"] == [*gone, *new, *gone, *new]


@pytest.mark.parametrize(
    ("network", "dead"),
    [("torus:2x2", [2]), ("ring:6", [1, 4]), ("line:3", [1])],
    ids=["one", "two at once", "the only way between the others"],
)
def test_dead_ranks_are_named_and_the_others_go_on(network, dead):
    reports = run(DEATH, network, dead)
    assert all(reports.pop(rank) is None for rank in reversed(dead))
    for report in reports:
        assert report["lost"] and set(report["lost"]) <= set(dead)
        assert report["said"].startswith(f"worker {report['lost'][0]} ") and " is gone: " in report["said"]
        assert report["size"] == len(reports) and report["right"]


def test_after_a_cut_results_that_all_have_are_kept_and_other_operations_run_again():
    plan = treefold.plan(treefold.topology("ring:4"), "packing")
    cut, started = SimpleNamespace(kind="cut"), []

    def start(program, operation, waits=False):
        started.append(operation)
        return len(started)

    def outcome(run):
        return cut if run > 4 else None  # the data of operation 3, and all behind them

    methods = {name: lambda *_, **__: None for name in ("broadcast", "skip_to", "use", "connect", "watch", "pace")}
    methods |= {"start": start, "outcome": outcome}
    mapping = SimpleNamespace(describe=str)
    transport = SimpleNamespace(rank=2, mapping=mapping, connections=Connections(), sequence=8, failure=None, **methods)
    control = Controller(transport, GroupPlans(plan, 2, 0.0))
    vectors = [np.full(8, number, np.uint8) for number in range(1, 5)]
    for number, vector in enumerate(vectors, 1):
        control.flights.add(number, plan, Operation(vector, "uint8", "sum"), 8, 1)
        vector[:] = 0  # as if it were half added up
    control.count = 4
    resume = {"error": "", "lives": [[0, 1, None]], "sequence": 9, "changes": [], "plan": plan.to_json()}
    control.resumed = resume | {"done": 1}
    control.recover()
    assert control.states == {} and len(control.flights) == 3
    again = started[8::2]
    assert [operation.vector.tolist() for operation in again] == [[number] * 8 for number in (2, 3, 4)]
    assert not vectors[0].any(), "its result is kept"


@pytest.mark.parametrize(
    ("states", "done"), [([(3, 9), (4, 7)], 3), ([(5, 1), (5, 1)], 5)], ids=["one is behind", "all are as far"]
)
def test_all_go_on_behind_the_one_that_is_least_far(states, done):
    assert resumption([State(*state) for state in states]) == (done, max(sequence for _, sequence in states) + 1)


def test_an_algorithm_that_gave_way_comes_back_when_it_fits_again():
    network = treefold.topology("torus:4x4")
    plans = GroupPlans(treefold.plan(network, "ring2d"), 0, 0.0)
    transport = SimpleNamespace(rank=0, connections=Connections())
    control = Controller(transport, plans)
    broken = control._replanned(network.without_links([("GPU0", "GPU1")]))
    assert broken.plan.algorithm != "ring2d" and "ring2d does not fit" in broken.gave_way
    plans.adopt(broken.plan)
    assert control._replanned(network).plan.algorithm == "ring2d"
    assert control._replanned(broken.plan.topology).plan.algorithm == broken.plan.algorithm


def test_rates_of_a_network_change():
    network = treefold.topology("line:3", bandwidth_Bps=1e9)
    changed = with_rates(network, {(1, 2): 0.25})
    assert bandwidths(changed) == {(0, 1): 1e9, (1, 0): 1e9, (1, 2): 2.5e8, (2, 1): 1e9}


def test_a_cut_network_is_planned_around_or_named():
    ring = without_links(treefold.topology("ring:4"), [(1, 2)])
    assert set(bandwidths(ring)) == {(0, 1), (1, 0), (2, 3), (3, 2), (3, 0), (0, 3)}
    pair = without_links(treefold.topology("full:4"), [(0, 3), (1, 2)])
    assert set(bandwidths(pair)) == {(0, 1), (1, 0), (0, 2), (2, 0), (1, 3), (3, 1), (2, 3), (3, 2)}
    with pytest.raises(
        treefold.TreefoldError, match="the connection between GPU1 and GPU2 is cut, and there is no other"
    ):
        without_links(treefold.topology("line:4"), [(1, 2)])
    with pytest.raises(treefold.TreefoldError, match="which no link of the network joins"):
        without_links(treefold.topology("ring:6"), [(1, 4)])
