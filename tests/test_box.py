"""The WAN in a box: what it is built from, and small ones that are up (these need root and namespaces, or skip)."""

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import treefold
from bench.wan import draw
from bench.wan.rivals import ring
from tools import wan_box
from tools.wan_box import __main__ as command_line
from tools.wan_box import checking, losses, network, routing, state, system
from treefold import TreefoldError

ROOT = Path(__file__).parents[1]
TOPOLOGIES = ROOT / "bench" / "wan" / "topologies"


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
    wan = network.read(topology([*TRIANGLE, ("a", "d", 10, 1, True), ("d", "c", 10, 1, True), ("d", "e", 9, 1, True)]))
    hops = network.next_hops(wan)
    a, b, c, d, e = range(5)
    assert network.route(hops, a, c) == [(a, c)], "one slow hop rather than two quick ones"
    assert network.route(hops, b, d) == [(b, c), (c, d)], "two hops either way: the quicker"
    assert network.route(hops, e, b) == [(e, d), (d, c), (c, b)]
    assert network.route(network.next_hops(wan, {(a, c), (c, a)}), a, c) == [(a, d), (d, c)]


def test_parallel_links_add_up_and_one_way_links_get_an_idle_reverse():
    links = [("a", "b", 40, 10, False), ("a", "b", 20, 5, False), ("b", "c", 30, 0, True), ("c", "a", 20, 5, True)]
    wan = network.read(topology(links))
    assert wan.directions[0, 1] == network.Direction(60 * 125e3, 0.005)
    assert wan.directions[1, 0] == network.Direction(network.ONE_WAY_BPS, 0.005)
    assert network.route(network.next_hops(wan), 1, 0) == [(1, 2), (2, 0)], "nothing is routed over the reverse"


def test_workers_are_the_ranks_in_their_order():
    wan = network.read(topology(CHAIN, switches="s", ranks=["c", "a"]))
    assert [wan.nodes[place] for place in wan.workers] == ["c", "a"]


def test_caps_of_nodes_become_routers_and_other_shared_capacities_are_refused():
    value = json.loads(topology(TRIANGLE).to_json())
    capped = treefold.topology(value, node_cap="48Mbit/s")
    wan = network.read(capped)
    assert wan.nodes == ["a", "b", "c", "a/router", "b/router", "c/router"] and wan.workers == [0, 1, 2]
    assert wan.directions[0, 3] == wan.directions[3, 0] == network.Direction(48 * 125e3, 0.0)
    assert wan.directions[3, 4] == network.Direction(40 * 125e3, 0.01)
    assert network.route(network.next_hops(wan), 0, 1) == [(0, 3), (3, 4), (4, 1)]
    value["links"][0]["shares"] = value["links"][2]["shares"] = ["duct"]
    duct = treefold.topology(value | {"shared": [{"name": "duct", "bandwidth_Bps": 1e6}]})
    with pytest.raises(TreefoldError, match="shared capacity 'duct' is not a node's cap, and a box builds no others"):
        network.read(duct)


def test_what_a_machine_cannot_carry_is_refused():
    with pytest.raises(TreefoldError, match="at most 2000 Mbit/s a link; scale"):
        network.read("ring:4")
    with pytest.raises(TreefoldError, match="at most 200"):
        network.read(treefold.topology("ring:201", bandwidth_Bps=125e3))


def test_best_ring_order():
    links = [("a", "c", 100, 0, True), ("c", "b", 100, 0, True), ("b", "d", 100, 0, True), ("d", "a", 100, 0, True)]
    wan = network.read(topology([*links, ("a", "b", 10, 0, True)]))
    order, seconds = ring.best_order(wan, 10**6)
    assert order in (["a", "c", "b", "d"], ["a", "d", "b", "c"])
    assert seconds == pytest.approx(2 * 3 / 4 * 1e6 / (100 * 125e3 * ring.TCP_SHARE))
    assert ring.rank_order_s(wan, 10**6) > 5 * seconds


def test_best_ring_climbs_on_more_workers():
    wan = network.read(treefold.topology("ring:12", bandwidth_Bps=125e4))
    order, seconds = ring.best_order(wan, 10**6)
    assert sorted(order) == sorted(wan.nodes)
    assert seconds <= 2 * ring.rank_order_s(wan, 10**6)


@pytest.mark.parametrize("name", draw.NETWORKS)
def test_topologies_are_what_their_seeds_draw(name):
    path = TOPOLOGIES / f"{name}.json"
    assert path.read_text() == draw.draw(name, **draw.NETWORKS[name])
    assert treefold.bound(treefold.topology(path)).all_reduce.is_exact


@pytest.mark.parametrize("name", ["", "a b", "../up"])
def test_names_of_boxes(name):
    with pytest.raises(TreefoldError, match="cannot name a box"):
        state.file_of(name)


def test_down_without_a_box(capsys):
    assert command_line.main(["down", "--name", "never-up"]) == 2
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
COMMAND = [sys.executable, "-m", "tools.wan_box"]
PRINT = [
    sys.executable,
    "-c",
    "import os; print(*(os.environ[key] for key in ('RANK', 'WORLD_SIZE', 'TREEFOLD_NAME')))",
]


@pytest.fixture(scope="module")
def chain():
    with wan_box.up(topology(CHAIN, switches="s"), NAME, delay=False) as box:
        yield box


def round_trip(box, source, target):
    """Return seconds, or None when nothing comes back."""
    found = checking.round_trips(box, [(box.place(source), box.place(target))], count=2)
    return next(iter(found.values()))


@needs_namespaces
def test_rates_change(chain):
    """Coarse, for other work on this machine delays the receiver; `python -m tools.wan_box check` measures."""
    for rate in (30, 10):
        chain.rate("b", "s", f"{rate}Mbit/s")
        arrived = checking.throughput(chain, [(1, 3)], seconds=0.5, warm_s=0.5)[1, 3]
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


CONNECT = [sys.executable, "-c", "import socket, sys; socket.create_connection((sys.argv[1], 7000), 1).recv(1)"]
SERVE = "import socket\nown = socket.create_server(('', 7000))\nprint('ready', flush=True)\nwhile True: own.accept()"


def connects(box, source, target):
    """Tell whether a connection is made; the process that takes it ends with the box, or before the next."""
    pipe = subprocess.PIPE
    process = box.popen(target, [sys.executable, "-c", SERVE], stdout=pipe, text=True)
    assert process.stdout.readline() == "ready\n"
    try:
        box.run(source, [*CONNECT, box.address(target)])
    except TreefoldError as error:
        assert "timed out" in str(error), "it hears nothing"
        return False
    finally:
        box.end([process])
    return True


@needs_namespaces
def test_a_firewall_stops_connections_one_way(chain):
    if not shutil.which("iptables-legacy-restore"):
        pytest.skip("needs iptables")
    chain.firewall("a", "c")
    chain.firewall("b", "c")
    assert not connects(chain, "a", "c") and not connects(chain, "b", "c")
    assert connects(chain, "c", "a") and connects(chain, "a", "b")
    assert "a cannot open connections to c" in chain.describe()
    chain.mend("c", "a")
    assert connects(chain, "a", "c") and not connects(chain, "b", "c")
    chain.mend()
    assert connects(chain, "b", "c") and not wan_box.attach(NAME).state.firewalls


def arriving_Bps(box, source, target, seconds=1.0):
    """Bytes a second that reach the device of a node at its end of a cable."""
    counter = ["cat", f"/sys/class/net/to{box.place(source)}/statistics/rx_bytes"]
    before, start = int(box.run(target, counter)), time.monotonic()
    time.sleep(seconds)
    return (int(box.run(target, counter)) - before) / (time.monotonic() - start)


@needs_namespaces
def test_traffic_that_is_not_ours(chain):
    with chain.traffic("a", "c", "8Mbit/s"):
        assert 0.7 < arriving_Bps(chain, "s", "c") / 1e6 < 1.3
    assert arriving_Bps(chain, "s", "c", 0.1) < 1e4 and not chain.processes
    with chain.traffic("a", "c", "8Mbit/s", on_s=0.2, off_s=0.6):
        assert 0.1 < arriving_Bps(chain, "s", "c", 1.6) / 1e6 < 0.5


@needs_namespaces
def test_traffic_ends_with_the_box():
    with wan_box.up(topology(TRIANGLE), f"{NAME}t", delay=False) as box:
        command = [*COMMAND, "traffic", "--name", f"{NAME}t", "a", "b", "4Mbit/s", "--off", "10ms"]
        process = subprocess.Popen(command, cwd=ROOT)
        while arriving_Bps(box, "a", "b", 0.2) < 1e4:
            assert process.poll() is None
    assert process.wait(timeout=30) == 0


@needs_namespaces
def test_wrong_traffic_and_firewalls(chain):
    for rate, on_s, off_s, problem in [
        ("40", 1, 0, "write a number and a unit"),
        (float("nan"), 1, 0, "rate nan is not one that a box carries"),
        ("3Gbit/s", 1, 0, "rate 3Gbit/s is not one"),
        (1e6, 0, 0, "on for 0 s"),
        (1e6, 1, -1, "off for -1 s"),
    ]:
        with pytest.raises(TreefoldError, match=problem), chain.traffic("a", "b", rate, on_s, off_s):
            pass
    with pytest.raises(TreefoldError, match="source and target are both a"):
        chain.firewall("a", "a")
    with pytest.raises(TreefoldError, match="no cable joins a and c"):
        chain.mend("a", "c")


@needs_namespaces
def test_wrong_names(chain):
    with pytest.raises(TreefoldError, match="no node 'z'; it has a, b, c, s"):
        chain.address("z")
    with pytest.raises(TreefoldError, match="no cable joins a and c; a has cables to b"):
        chain.cut("a", "c")
    with pytest.raises(TreefoldError, match="is up already"):
        wan_box.start(topology(TRIANGLE), NAME)


@needs_namespaces
def test_delays_routes_and_nothing_left():
    if not shutil.which("iptables-legacy-restore"):
        pytest.skip("needs iptables")
    name = f"{NAME}d"
    with wan_box.up(topology(TRIANGLE), name) as box:
        assert 0.018 < round_trip(box, "a", "b") < 0.2
        box.cut("a", "b", reroute=True)
        assert 0.008 < round_trip(box, "a", "b") < 0.2, "over c"
        box.mend()
        status = box.describe()
        assert "a -> b  40 Mbit/s  10 ms" in status and "DEAD" not in status
        process = box.state.delay_process
    assert process is None or not process.is_running
    left = subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    assert f"{name}-" not in left
    assert not state.file_of(name).exists()


@pytest.mark.parametrize("text", ["", "x", "60%", "-1%", "nan", "1e-9", "0.1%%"])
def test_a_share_that_no_box_loses_is_refused(text):
    with pytest.raises(TreefoldError, match=r"loss .* is not a share"):
        losses.parse(text)


def test_shares_are_read_as_people_write_them():
    assert [losses.parse(text) for text in ("0.1%", "0.001", " 2 % ", "0%")] == [0.001, 0.001, 0.02, 0.0]
    with pytest.raises(TreefoldError, match="drop --loss or --no-delay"):
        losses.check(0.001, delay=False)


@needs_namespaces
def test_frames_are_lost_one_by_one():
    if not shutil.which("iptables-legacy"):
        pytest.skip("needs iptables")
    with wan_box.up(topology(TRIANGLE), f"{NAME}l", loss=0.02) as box:
        assert 0.018 < round_trip(box, "a", "b") < 0.2
        checking.throughput(box, [(1, 2)], seconds=0.5, warm_s=0.5)  # a cable without latency
        counters = box.run("c", ["iptables-legacy", "-t", "mangle", "-nvxL", "INPUT"]).splitlines()
        lost = [list(map(int, line.split()[:2])) for line in counters if " DROP " in line]
        assert "loss: 2% of frames" in box.describe()
    frames, size = (sum(each) for each in zip(*lost, strict=True))
    assert frames > 0 and size / frames <= 1500


@needs_namespaces
def test_a_failed_start_leaves_nothing(monkeypatch):
    name = f"{NAME}f"
    monkeypatch.setattr(routing, "set_routes", lambda state: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        wan_box.start(topology(TRIANGLE), name)
    assert f"{name}-" not in subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    assert not state.file_of(name).exists()


@needs_namespaces
def test_the_command_line(tmp_path, capsys):
    name, file = f"{NAME}c", tmp_path / "small.json"
    file.write_text(topology(TRIANGLE).to_json())

    def run(command, *arguments):
        return command_line.main([command, "--name", name, *arguments]), capsys.readouterr()

    assert run("up", str(file), "--no-delay")[0] == 0
    try:
        assert "a -> b  40 Mbit/s" in run("status")[1].out
        assert run("rate", "a", "b", "25Mbit/s", "--both")[0] == 0
        assert "b -> a  25 Mbit/s" in run("status")[1].out
        assert run("cut", "a", "b")[0] == 0
        assert "b -> a  25 Mbit/s  10 ms cut" in run("status")[1].out
        assert run("mend")[0] == 0
        if shutil.which("iptables-legacy-restore"):
            assert run("firewall", "a", "b")[0] == 0
            assert "a cannot open connections to b" in run("status")[1].out
            assert run("mend", "a", "b")[0] == 0
            assert "cannot open" not in run("status")[1].out
        code, printed = run("rate", "a", "b", "25")
        assert code == 2 and "write a number and a unit" in printed.err
        inside = [*COMMAND, "exec", "--name", name, "b", "--", "echo", "hello"]
        assert subprocess.run(inside, capture_output=True, text=True, cwd=ROOT).stdout == "hello\n"
    finally:
        assert run("down")[0] == 0


@needs_namespaces
def test_run_starts_a_command_on_every_worker_and_takes_the_box_down(tmp_path, capsys):
    name, file = f"{NAME}r", tmp_path / "small.json"
    file.write_text(topology(TRIANGLE).to_json())
    options = ["--name", name, "--no-delay", str(file)]
    assert command_line.main(["run", *options, "--", *PRINT]) == 0
    assert capsys.readouterr().out == "a: 0 3 a\nb: 1 3 b\nc: 2 3 c\n"
    assert command_line.main(["run", *options, "--", "false"]) == 2
    assert "`false` failed" in capsys.readouterr().err
    assert command_line.main(["run", *options]) == 2
    assert "there is no command to run; write it behind --" in capsys.readouterr().err
    assert not state.file_of(name).exists()


@needs_namespaces
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_an_interrupted_run_leaves_nothing(tmp_path, number):
    name, file = f"{NAME}i", tmp_path / "small.json"
    file.write_text(topology(TRIANGLE).to_json())
    script = f"import pathlib, time; pathlib.Path({str(tmp_path / 'begun')!r}).touch(); time.sleep(60)"
    command = [*COMMAND, "run", "--name", name, "--no-delay", str(file), "--", sys.executable, "-c", script]
    with subprocess.Popen(command, cwd=ROOT, stderr=subprocess.PIPE) as process:
        while not (tmp_path / "begun").exists():
            time.sleep(0.05)
        process.send_signal(number)
        assert process.wait(timeout=30) in (130, 128 + number)
    assert f"{name}-" not in subprocess.run(["ip", "netns", "list"], capture_output=True, text=True).stdout
    assert not state.file_of(name).exists()


def test_help_is_in_sentences(capsys):
    for arguments in (["--help"], ["run", "--help"], ["cut", "--help"]):
        with pytest.raises(SystemExit):
            command_line.main(arguments)
        assert "." in capsys.readouterr().out
