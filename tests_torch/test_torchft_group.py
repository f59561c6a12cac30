"""`ProcessGroupTreefold` without a lighthouse: replicas are threads, which form one quorum after another."""

import builtins
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from itertools import count

import pytest
import torch
import torch.distributed as dist
from torchft.process_group import ProcessGroupGloo

import treefold
from treefold import TreefoldError
from treefold.runtime.faults import RankLostError
from treefold.torch import Options
from treefold.torch.reporting import _reported
from treefold.torchft import ProcessGroupTreefold
from treefold.torchft.plans import SitePlans, next_quorums
from treefold.torchft.versions import check_torchft

TIMEOUT = timedelta(seconds=30)
NUMBERS = 50_000
_quorums = count(1)


@pytest.fixture(scope="module")
def store():
    return dist.TCPStore("127.0.0.1", 0, is_master=True, wait_for_workers=False)


@pytest.fixture(autouse=True)
def loopback(monkeypatch):
    monkeypatch.setenv("GLOO_SOCKET_IFNAME", "lo")


@pytest.fixture
def network(tmp_path) -> str:
    """Return the file of a network of ten sites that are joined directly, some by slower lines."""
    lines = [f"s{one},s{other},{20 + 10 * ((one * other) % 7)}Mbit/s,{5 + one + other}" for one, other in pairs(10)]
    file = tmp_path / "ten.csv"
    file.write_text("\n".join(["source,target,bandwidth,latency_ms", *lines]))
    return str(file)


def pairs(ranks):
    return [(one, other) for one in range(ranks) for other in range(one + 1, ranks)]


def quorum(store, groups):
    """Let groups, by their replicas' ids, form a quorum; return the seconds that it took."""
    number = next(_quorums)

    def configure(rank, name):
        groups[name].configure(f"127.0.0.1:{store.port}/quorum/{number}", name, rank, len(groups), number)

    start = time.monotonic()
    with ThreadPoolExecutor(len(groups)) as pool:
        list(pool.map(configure, range(len(groups)), groups))
    return time.monotonic() - start


def reduced(group, value, numbers=NUMBERS):
    options = dist.AllreduceOptions()
    tensor = torch.full((numbers,), float(value))
    work = group.allreduce([tensor], options)
    return tensor if work.wait() else None


def sums_are_right(groups):
    with ThreadPoolExecutor(len(groups)) as pool:
        tensors = list(pool.map(reduced, groups.values(), range(len(groups))))
    return all(tensor is not None and (tensor == sum(range(len(groups)))).all() for tensor in tensors)


def made(names, options):
    return {name: ProcessGroupTreefold(TIMEOUT, options) for name in names}


def reason(groups):
    """Return why nothing is planned, which all replicas tell alike."""
    (told,) = {group.status().reason for group in groups.values()}
    assert sums_are_right(groups)
    return told


def ended(groups):
    for group in groups.values():
        group.shutdown()


def test_ten_replicas_form_quorums_in_a_moment(store, network, monkeypatch):
    """Printed beside gloo. Each replica has a machine of its own to plan ahead with; here one did so before."""
    names = [f"s{number}" for number in range(10)]
    groups, plain = made(names, Options(topology=network)), {name: ProcessGroupGloo(TIMEOUT) for name in names}
    monkeypatch.setattr(SitePlans, "foresee", lambda *_: None)
    first, ours, theirs = quorum(store, groups), [], []
    quorum(store, plain)
    best = groups["s0"].status().algorithm
    groups["s6"]._plans.make(tuple(name for name in names if name != "s4"), quickly=False)
    for absent in ("s4", None, "s0", None, "s4", None):
        wanted = {name: group for name, group in groups.items() if name != absent}
        ours.append(quorum(store, wanted))
        theirs.append(quorum(store, {name: plain[name] for name in wanted}))
        assert sums_are_right(wanted)
        status = next(iter(wanted.values())).status()
        assert status.ranks == len(wanted) and status.algorithm == ("mtree" if absent == "s0" else best)
    print(
        f"\nfirst {first:.2f} s; treefold {[f'{each:.2f}' for each in ours]}, gloo {[f'{each:.2f}' for each in theirs]}"
    )
    assert sorted(ours)[len(ours) // 2] < 5
    ended(groups)


def test_a_replica_that_leaves_in_mid_operation_is_an_error_of_the_quorum(store, network):
    names = ["s0", "s1", "s2"]
    groups = made(names, Options(topology=network))
    quorum(store, groups)
    assert sums_are_right(groups)
    started = threading.Barrier(3)

    def take_part(name):
        started.wait()
        if name == "s1":
            groups[name].abort()
            return None
        return reduced(groups[name], 1, 8 << 20)

    begun = time.monotonic()
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(take_part, names)) == [None] * 3
    assert time.monotonic() - begun < 10
    assert "was aborted" in str(groups["s1"].errored())
    for name in ("s0", "s2"):
        error = groups[name].errored()
        assert isinstance(error, RankLostError) and "s1" in str(error)
        # A step comes to its end: later calls do nothing, and raise nothing.
        again = groups[name].allreduce([torch.ones(NUMBERS)], dist.AllreduceOptions())
        assert not again.wait() and again.get_future().wait() == []
    others = {name: groups[name] for name in ("s0", "s2")}
    quorum(store, others)
    assert [group.errored() for group in others.values()] == [None, None]
    assert sums_are_right(others)
    ended(groups)


def test_a_quorum_of_one_needs_no_plan(store, network):
    groups = made(["s3"], Options(topology=network))
    quorum(store, groups)
    assert reason(groups) == "the quorum has one replica"
    ended(groups)


@pytest.mark.parametrize(
    ("names", "told"),
    [
        (["s0", "mars"], "no node of the topology is called mars; give each torchft.Manager the name of its site"),
        (["s0:1", "s0:2"], "several replicas are at s0; give each torchft.Manager a replica_id of its own"),
    ],
)
def test_replicas_of_unknown_sites_are_left_to_gloo(store, network, names, told):
    groups = made(names, Options(topology=network))
    for _ in range(2):
        quorum(store, groups)
        assert told in reason(groups)
    assert sum(told in kind for kind in _reported) == 1  # each kind is logged once
    assert all(group.errored() is None for group in groups.values())
    ended(groups)


@pytest.mark.parametrize("lacks", [0, 1])
def test_a_replica_without_a_topology_follows_rank_0(store, network, lacks):
    options = [Options(topology=network), Options(topology=network)]
    options[lacks] = Options()
    groups = {name: ProcessGroupTreefold(TIMEOUT, each) for name, each in zip(("s0", "s1"), options, strict=True)}
    quorum(store, groups)
    if lacks == 0:
        assert "rank 0 has neither a plan nor a topology" in reason(groups)
    else:
        assert reason(groups) == ""
    ended(groups)


def test_the_environment_gives_the_topology_and_the_id_may_go_on(store, network, monkeypatch):
    monkeypatch.setenv("TREEFOLD_TOPOLOGY", network)
    groups = made(["s0:east", "s7"], None)
    quorum(store, groups)
    assert reason(groups) == "" and groups["s7"].status().ranks == 2
    with ThreadPoolExecutor(2) as pool:  # gloo connects now, which a small tensor needs
        small = [*pool.map(lambda group: reduced(group, 3, 5).tolist(), groups.values())]
    assert small == [[6.0] * 5] * 2
    ended(groups)


def test_a_plan_serves_its_own_sites_and_its_network_all_others(store, network):
    whole = treefold.topology(network)
    plan = treefold.plan(whole.with_ranks([0, 1, 2]), "ring")
    groups = made(["s0", "s1", "s2"], Options(plan=plan))
    quorum(store, groups)
    assert {group.status().algorithm for group in groups.values()} == {"ring"} and sums_are_right(groups)
    others = {name: group for name, group in groups.items() if name != "s0"} | made(["s5"], Options(plan=plan))
    quorum(store, others)
    assert reason(others) == "" and others["s5"].status().ranks == 3
    quorum(store, groups)
    assert {group.status().algorithm for group in groups.values()} == {"ring"}
    ended(groups | others)


@pytest.mark.parametrize(
    ("options", "told"),
    [
        ({"topology": "discover"}, "measure the network once with treefold probe"),
        ({"topology": "no-such-file.json"}, "no-such-file.json"),
        ({"plan": treefold.plan("full:3", collective="broadcast")}, "the plan is for broadcast"),
    ],
)
def test_options_that_cannot_serve_are_refused_at_once(options, told):
    with pytest.raises(TreefoldError, match=told):
        ProcessGroupTreefold(TIMEOUT, Options(**options))


def test_without_a_quorum_calls_say_so():
    group = ProcessGroupTreefold(TIMEOUT, Options(topology="full:3"))
    with pytest.raises(AssertionError, match="not initialized"):
        reduced(group, 1)
    with pytest.raises(TreefoldError, match="no quorum yet"):
        group.status()
    assert group.errored() is None and group.getBackendName() == "torchft-treefold"


def test_a_quorum_that_cannot_form_is_an_error_that_is_told(store, network):
    """torchft's DDP would end the program if the manager knew of the error before the step is over."""
    alone = ProcessGroupTreefold(timedelta(seconds=1), Options(topology=network))
    alone.configure(f"127.0.0.1:{store.port}/quorum/nobody-else", "s0", 0, 2, 1)
    assert "worker 1 did not come within 1 s" in str(alone.errored())
    assert reduced(alone, 1) is None
    groups = {"s0": alone}
    quorum(store, groups)
    assert alone.errored() is None and sums_are_right(groups)
    ended(groups)


def test_a_missing_torchft_names_its_command(monkeypatch):
    real = builtins.__import__

    def without(name, *rest):
        if name.partition(".")[0] == "torchft":
            raise ModuleNotFoundError("No module named 'torchft'")
        return real(name, *rest)

    monkeypatch.setattr(builtins, "__import__", without)
    for name in [name for name in sys.modules if name.partition(".")[0] == "torchft"]:
        monkeypatch.delitem(sys.modules, name)
    with pytest.raises(TreefoldError, match=r"pip install 'treefold\[torchft\]'"):
        check_torchft()


def test_replicas_foresee_every_quorum_that_is_near():
    known = ["a", "b", "c", "d", "e", "f"]
    sites = known[:4]
    ahead = {each for rank in range(4) for each in next_quorums(sites, rank, known)}
    for lost in sites:
        assert tuple(sorted(set(sites) - {lost})) in ahead
    for more in ("e", "f"):
        assert tuple(sorted([*sites, more])) in ahead
    assert tuple(known) in ahead


def test_plans_are_made_ahead_and_the_best_are_kept(network):
    plans = SitePlans(treefold.topology(network), None)
    eight, six = (tuple(f"s{number}" for number in range(size)) for size in (8, 6))
    quick = plans.make(eight, quickly=True)
    assert quick.algorithm == "mtree" and plans.get(eight) is None
    plans.foresee([eight, six])
    deadline = time.monotonic() + 60
    while plans.get(six) is None and time.monotonic() < deadline:
        time.sleep(0.02)
    assert plans.get(eight).chosen_by == "flow" and plans.get(six).topology.rank_names == list(six)
    assert len({*plans.keys()}) == 2
