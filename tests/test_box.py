"""The WAN in a box: what it is built from, and small ones that are up (these need root and namespaces, or skip)."""

import contextlib
import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

import treefold
from treefold import TreefoldError

WAN = Path(__file__).parents[1] / "bench" / "wan"
sys.path[:0] = [str(WAN), str(WAN / "rivals")]

import box as boxes  # noqa: E402
import cables  # noqa: E402
import check  # noqa: E402
import draw  # noqa: E402
import ring  # noqa: E402
import system  # noqa: E402


def topology(links, switches=(), ranks=None):
    """Return a topology of (source, target, Mbit/s, ms, both ways) links."""
    names = sorted({end for link in links for end in link[:2]})
    nodes = [{"name": name, **({"kind": "switch"} if name in switches else {})} for name in names]
    values = [
        {"source": a, "target": b, "bandwidth_Bps": rate * 125e3, "latency_s": ms / 1e3, "both_ways": both}
        for a, b, rate, ms, both in links
    ]
    value = {"format": "treefold-topology", "version": 1, "name": "small", "nodes": nodes, "links": values}
    return treefold.topology({**value, **({"ranks": ranks} if ranks else {})})


TRIANGLE = [("a", "b", 40, 10, True), ("b", "c", 30, 0, True), ("c", "a", 20, 5, True)]
CHAIN = [("a", "b", 40, 10, True), ("b", "s", 30, 0, True), ("s", "c", 20, 5, True)]


def test_fewest_hops_then_least_latency():
    network = cables.read(
        topology([*TRIANGLE, ("a", "d", 10, 1, True), ("d", "c", 10, 1, True), ("d", "e", 9, 1, True)])
    )
    hops = cables.next_hops(network)
    a, b, c, d, e = range(5)
    assert cables.route(hops, a, c) == [(a, c)], "one slow hop rather than two quick ones"
    assert cables.route(hops, b, d) == [(b, c), (c, d)], "two hops either way: the quicker"
    assert cables.route(hops, e, b) == [(e, d), (d, c), (c, b)]
    assert cables.route(cables.next_hops(network, {(a, c), (c, a)}), a, c) == [(a, d), (d, c)]


def test_parallel_links_add_up_and_one_way_links_get_an_idle_reverse():
    links = [("a", "b", 40, 10, False), ("a", "b", 20, 5, False), ("b", "c", 30, 0, True), ("c", "a", 20, 5, True)]
    network = cables.read(topology(links))
    assert network.directions[0, 1] == cables.Direction(60 * 125e3, 0.005)
    assert network.directions[1, 0] == cables.Direction(cables.ONE_WAY_BPS, 0.005)
    assert cables.route(cables.next_hops(network), 1, 0) == [(1, 2), (2, 0)], "nothing is routed over the reverse"


def test_workers_are_the_ranks_in_their_order():
    network = cables.read(topology(CHAIN, switches="s", ranks=["c", "a"]))
    assert [network.nodes[place] for place in network.workers] == ["c", "a"]


def test_what_a_machine_cannot_carry_is_refused():
    with pytest.raises(TreefoldError, match="at most 2000 Mbit/s a link; scale"):
        cables.read("ring:4")
    with pytest.raises(TreefoldError, match="at most 200"):
        cables.read(treefold.topology("ring:201", bandwidth_Bps=125e3))


def test_best_ring_order():
    links = [("a", "c", 100, 0, True), ("c", "b", 100, 0, True), ("b", "d", 100, 0, True), ("d", "a", 100, 0, True)]
    network = cables.read(topology([*links, ("a", "b", 10, 0, True)]))
    order, seconds = ring.best_order(network, 10**6)
    assert order in (["a", "c", "b", "d"], ["a", "d", "b", "c"])
    assert seconds == pytest.approx(2 * 3 / 4 * 1e6 / (100 * 125e3 * ring.TCP_SHARE))
    assert ring.rank_order_s(network, 10**6) > 5 * seconds


def test_best_ring_climbs_on_more_workers():
    network = cables.read(treefold.topology("ring:12", bandwidth_Bps=125e4))
    order, seconds = ring.best_order(network, 10**6)
    assert sorted(order) == sorted(network.nodes)
    assert seconds <= 2 * ring.rank_order_s(network, 10**6)


@pytest.mark.parametrize("name", draw.NETWORKS)
def test_topologies_are_what_their_seeds_draw(name):
    path = WAN / "topologies" / f"{name}.json"
    assert path.read_text() == draw.draw(name, **draw.NETWORKS[name])
    assert treefold.bound(treefold.topology(path))["exact"]["all_reduce_Bps"]


@pytest.mark.parametrize("name", ["", "a b", "../up"])
def test_names_of_boxes(name):
    with pytest.raises(TreefoldError, match="cannot name a box"):
        system.state_file(name)


def test_down_without_a_box(capsys, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["box.py", "down", "--name", "never-up"])
    assert boxes.main() == 2
    assert "no box 'never-up' is up" in capsys.readouterr().err


def usable():
    """Tell whether this machine lets us make what a box needs."""
    with contextlib.suppress(TreefoldError, OSError):
        system.require("ip", "tc")
        name = f"try-{os.getpid()}"
        system.run("ip", "netns", "add", name)
        try:
            system.run("ip", "-n", name, "link", "add", "one", "type", "veth", "peer", "name", "two")
            return system.accepts(name, "tc", "qdisc add dev one root tbf rate 1mbit burst 32kb latency 50ms")
        finally:
            system.run("ip", "netns", "del", name)
    return False


needs_namespaces = pytest.mark.skipif(not usable(), reason="needs root, iproute2, network namespaces, veth and TBF")
NAME = f"test{os.getpid()}"
PRINT = [
    sys.executable,
    "-c",
    "import os; print(*(os.environ[key] for key in ('RANK', 'WORLD_SIZE', 'TREEFOLD_NAME')))",
]


@pytest.fixture(scope="module")
def chain():
    with boxes.up(topology(CHAIN, switches="s"), NAME, delay=False) as box:
        yield box


def round_trip(box, source, target):
    """Return seconds, or None when nothing comes back."""
    found = check.round_trips(box, [(box.place(source), box.place(target))], count=2)
    return next(iter(found.values()))


@needs_namespaces
def test_rates_change(chain):
    """Coarse, for other work on this machine delays the receiver; bench/wan/check.py measures."""
    for rate in (30, 10):
        chain.rate("b", "s", f"{rate}Mbit/s")
        arrived = check.throughput(chain, [(1, 3)], seconds=0.5, warm_s=0.5)[1, 3]
        assert 0.5 < arrived / (rate * 125e3) < 1.5
    chain.rate("b", "s", "30Mbit/s")


@needs_namespaces
def test_every_worker_knows_its_rank(chain):
    assert [one.stdout.split() for one in chain.run_all(PRINT)] == [["0", "3", "a"], ["1", "3", "b"], ["2", "3", "c"]]
    assert [one.node for one in chain.run_all(PRINT, order=["c", "a", "b"])] == ["c", "a", "b"]


@needs_namespaces
def test_one_failure_ends_all(chain):
    script = "import os, sys, time; sys.exit('no luck') if os.environ['RANK'] == '1' else time.sleep(60)"
    start = time.monotonic()
    with pytest.raises(TreefoldError, match=r"b \(exit code 1\): no luck"):
        chain.run_all([sys.executable, "-c", script])
    assert time.monotonic() - start < 20
    with pytest.raises(TreefoldError, match="not done within 1 s: a, b, c"):
        chain.run_all(["sleep", "60"], timeout_s=1)
    assert not chain.processes


@needs_namespaces
@pytest.mark.parametrize("down", [False, True])
def test_cut_and_mend(chain, down):
    assert round_trip(chain, "a", "c") is not None
    chain.cut("b", "s", down)
    assert round_trip(chain, "a", "b") is not None
    assert round_trip(chain, "b", "s") is None
    chain.mend()
    assert round_trip(chain, "a", "c") is not None


@needs_namespaces
def test_wrong_names(chain):
    with pytest.raises(TreefoldError, match="no node 'z'; it has a, b, c, s"):
        chain.address("z")
    with pytest.raises(TreefoldError, match="no cable joins a and c; a has cables to b"):
        chain.cut("a", "c")
    with pytest.raises(TreefoldError, match="is up already"):
        boxes.start(topology(TRIANGLE), NAME)


@needs_namespaces
def test_delays_routes_and_nothing_left():
    if not any(map(os.path.exists, ("/usr/sbin/iptables-legacy-restore", "/sbin/iptables-legacy-restore"))):
        pytest.skip("needs iptables")
    name = f"{NAME}d"
    with boxes.up(topology(TRIANGLE), name) as box:
        assert 0.018 < round_trip(box, "a", "b") < 0.2
        box.cut("a", "b", reroute=True)
        assert 0.008 < round_trip(box, "a", "b") < 0.2, "over c"
        box.mend()
        status = boxes.describe(box)
        assert "a -> b  40 Mbit/s  10 ms" in status and "DEAD" not in status
        process = box.state.get("delay_process")
    assert process is None or system.started(process["pid"]) != process["started"]
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    assert f"{name}-" not in left
    assert not system.state_file(name).exists()


@needs_namespaces
def test_a_failed_start_leaves_nothing(monkeypatch):
    name = f"{NAME}f"
    monkeypatch.setattr(boxes.Box, "set_routes", lambda self: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        boxes.start(topology(TRIANGLE), name)
    assert f"{name}-" not in subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    assert not system.state_file(name).exists()


@needs_namespaces
def test_the_command_line(tmp_path, monkeypatch, capsys):
    name, file = f"{NAME}c", tmp_path / "small.json"
    file.write_text(topology(TRIANGLE).to_json())

    def run(command, *arguments):
        monkeypatch.setattr(sys, "argv", ["box.py", command, "--name", name, *arguments])
        return boxes.main(), capsys.readouterr()

    assert run("up", str(file), "--no-delay")[0] == 0
    try:
        assert "a -> b  40 Mbit/s" in run("status")[1].out
        assert run("rate", "a", "b", "25Mbit/s", "--both")[0] == 0
        assert "b -> a  25 Mbit/s" in run("status")[1].out
        assert run("cut", "a", "b")[0] == 0
        assert "b -> a  25 Mbit/s  10 ms cut" in run("status")[1].out
        assert run("mend")[0] == 0
        code, printed = run("rate", "a", "b", "25")
        assert code == 2 and "write a number and a unit" in printed.err
        inside = [sys.executable, str(WAN / "box.py"), "exec", "--name", name, "b", "--", "echo", "hello"]
        assert subprocess.run(inside, capture_output=True, text=True).stdout == "hello\n"
    finally:
        assert run("down")[0] == 0
