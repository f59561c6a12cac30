"""What a probe measures on loopback, the topology it writes, and how it refuses and fails."""

import json
import os
import re
import socket
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from itertools import combinations

import pytest

import treefold
from commands import TREEFOLD, output, refused, start
from treefold import TreefoldError, importers, probe, rendezvous
from treefold.probe import Measurements, Settings, connections, measuring, report, transfers
from treefold.probe.steps import Step, matchings, steps_of
from treefold.rendezvous.sockets import free_port, listen
from treefold.rendezvous.variables import VARIABLES

LOOPBACK = "127.0.0.1"
QUICK = Settings(seconds=3.5, most_bytes=1 << 30)


def together(work, places):
    """Do `work` with each place in a thread; return results, or the errors as texts."""

    def outcome(place):
        try:
            return work(place)
        except TreefoldError as error:
            return str(error)
        finally:
            place.close()

    with ThreadPoolExecutor(len(places)) as pool:
        return list(pool.map(outcome, places))


def wan(directions: dict[tuple[str, str], float | None], *more: str) -> dict:
    """A network of these links, in bytes a second."""
    names = list(dict.fromkeys([*(end for pair in directions for end in pair), *more]))
    links = [
        {"source": source, "target": target, "bandwidth_Bps": rate, "latency_s": 0.0}
        for (source, target), rate in directions.items()
    ]
    content = {"format": "treefold-topology", "version": 1, "name": "wan", "links": links}
    return importers.complete(content | {"nodes": [{"name": name} for name in names]})


def test_all_pairs_are_measured_and_every_rank_knows_the_same():
    results = together(lambda place: report.summary(probe.measure(place, QUICK)), rendezvous.local(3))
    assert results[0] == results[1] == results[2]
    names = [f"{socket.gethostname()}#{rank}" for rank in range(3)]
    assert [node["name"] for node in results[0]["nodes"]] == names
    ends = [(link["source"], link["target"]) for link in results[0]["links"]]
    assert ends == [(one, other) for one in names for other in names if one != other]
    for link in results[0]["links"]:
        assert link["bandwidth_Bps"] > 1e7
        assert 0 < link["latency_s"] <= link["latency_median_s"] < 0.1
        assert 0 < link["overhead_s"] < 0.01
        assert link["together_Bps"] > 0


def test_pairs_without_a_common_worker_go_at_the_same_time():
    pairs = list(combinations(range(8), 2))
    rounds = matchings(pairs, 8)
    assert sorted(pair for played in rounds for pair in played) == pairs
    assert all(len({rank for pair in played for rank in pair}) == 2 * len(played) for played in rounds)
    assert len(rounds) <= 9
    results = together(lambda place: probe.measure(place, Settings(3.5, 1 << 30, True)), rendezvous.local(4))
    assert len(results[0].rates) == 12


def test_links_of_a_file_alone_are_measured_and_keep_their_shape(monkeypatch):
    document = wan({("b", "a"): 1.0, ("a", "c"): 1.0, ("c", "a"): 1.0})
    settings = Settings(2, 1 << 30, links=document)
    places = rendezvous.local(3)
    for place, name in zip(places, "cab", strict=True):
        place.name = name
    results = together(lambda place: probe.measure(place, settings), places)
    assert sorted(results[0].rates) == [(0, 1), (1, 0), (2, 1)]
    written = report.document(results[0], document)
    assert [node["name"] for node in written["nodes"] if node["kind"] == "accelerator"] == ["b", "a", "c"]
    assert {"b", "a", "c"} >= {link["source"].partition("/")[0] for link in written["links"]}


def test_workers_without_names_match_a_file_by_order():
    document = wan({("x", "y"): 1.0, ("y", "x"): 1.0})
    found = together(lambda place: probe.measure(place, Settings(1, 1 << 30, links=document)), rendezvous.local(2))[0]
    assert {link["source"] for link in report.document(found, document)["links"]} == {"x", "y"}


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (wan({("a", "b"): 1.0}, "c"), "has 3 accelerators, but there are 2 workers; start one worker for each"),
        (wan({("a", "z"): 1.0}), r"worker 'b' is not an accelerator of network 'wan' \(a, z\); set TREEFOLD_NAME"),
        (wan({}, "a", "b"), "has no links to measure"),
        (
            wan({("a", "b"): 1.0}) | {"links": 2 * wan({("a", "b"): 1.0})["links"]},
            "link a -> b stands twice, and parallel links look like one to a probe",
        ),
    ],
)
def test_files_that_do_not_match_are_told_to_all(document, message):
    places = rendezvous.local(2)
    for place, name in zip(places, "ab", strict=True):
        place.name = name
    errors = together(lambda place: probe.measure(place, Settings(links=document)), places)
    assert errors[0] == errors[1]
    with pytest.raises(TreefoldError, match=message):
        raise TreefoldError(errors[0])


def test_a_switch_cannot_be_measured():
    document = wan({("a", "b"): 1.0, ("s", "a"): 1.0})
    document["nodes"][2]["kind"] = "switch"
    errors = together(lambda place: probe.measure(place, Settings(links=document)), rendezvous.local(2))
    assert errors[0] == errors[1]
    assert "link s -> a: 's' is not a worker, and only links between two workers can be measured" in errors[0]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"seconds": -5}, "seconds is -5; it must be above 0"),
        ({"seconds": "5s"}, "seconds must be a number of seconds, got '5s'"),
        ({"most_bytes": 0}, "most_bytes must be at least 1, got 0"),
        ({"most_bytes": 1.5}, "most_bytes must be a whole number, got 1.5"),
        ({"links": "links.csv"}, "links 'links.csv' is not a topology document"),
    ],
)
def test_settings_that_cannot_be_are_refused_at_once(settings, message):
    with pytest.raises(TreefoldError, match=re.escape(message)):
        Settings(**settings)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        (
            Settings(seconds=0.5),
            "0.5 s are too short for 19 transfers and the round trips, which take at least 2.8 s; allow more seconds",
        ),
        (Settings(most_bytes=1000), "1000B are too few for 19 transfers of 1MiB or more, 19MiB in all; allow at least"),
    ],
)  # fmt: skip
def test_too_small_budgets_are_told_to_all(settings, message):
    errors = together(lambda place: probe.measure(place, settings), rendezvous.local(3))
    assert errors[0] == errors[1] == errors[2]
    assert message in errors[0]


@pytest.mark.parametrize(("workers", "most"), [(2, 20 << 20), (3, 512 << 20), (3, 4 << 30)])
def test_bytes_are_bounded(workers, most):
    sent = {}
    send = transfers.send_stream

    def counted(connection, seconds, most_bytes, rate_Bps):
        before = time.perf_counter()
        sent[len(sent)] = send(connection, seconds, most_bytes, rate_Bps)
        assert time.perf_counter() - before < 5
        return sent[len(sent) - 1]

    transfers.send_stream = counted
    try:
        found = together(lambda place: probe.measure(place, Settings(most_bytes=most)), rendezvous.local(workers))
    finally:
        transfers.send_stream = send
    assert found[0].sent_bytes == found[-1].sent_bytes == sum(sent.values()) <= most


def test_one_worker_has_nothing_to_measure():
    with pytest.raises(TreefoldError, match=r"start 2, as with runtime.local\(2\)"):
        probe.measure(rendezvous.local(1)[0], Settings())


@pytest.fixture
def walled(monkeypatch):
    """Lets calls to some workers go to a port on which nobody listens; returns it."""
    monkeypatch.setattr(connections, "_CONNECT_S", 0.5)
    monkeypatch.setattr(connections, "_HELLO_S", 0.5)
    gone, introduce = free_port(LOOPBACK), measuring._introduction

    def put(walls):
        def wrong(place, listener, settings):
            introduction = introduce(place, listener, settings)
            return introduction | ({"port": gone} if place.rank in walls else {})

        monkeypatch.setattr(measuring, "_introduction", wrong)
        return gone

    return put


def named_places():
    places = rendezvous.local(3)
    for place, name in zip(places, ("rome", "oslo", "bonn"), strict=True):
        place.name = name
    return places


def test_a_worker_that_connects_to_nobody_is_named_to_all(walled):
    gone = walled({0, 1, 2})
    errors = together(lambda place: probe.measure(place, QUICK), named_places())
    assert errors[0] == errors[1] == errors[2]
    assert errors[0].startswith("rome can connect to no other worker: worker 0 (rome) cannot reach worker 1 (oslo) at ")
    assert f"at {LOOPBACK} port {gone} (" in errors[0]
    assert "open firewalls between them, or choose another interface" in errors[0]


def test_a_worker_to_which_no_call_gets_through_calls_itself(walled):
    walled({2})
    measured = together(lambda place: probe.measure(place, QUICK), named_places())
    assert len(measured[0].rates) == 6


@pytest.mark.filterwarnings("ignore:not measured, as they cannot connect")
@pytest.mark.parametrize(("silent", "count"), [([0], 6), ([2], 6), ([0, 2], 4)])
def test_a_worker_that_does_not_listen_calls_the_others(silent, count):
    places = named_places()
    for rank in silent:
        places[rank].port = None
    measured = together(lambda place: probe.measure(place, QUICK), places)
    assert len(measured[0].rates) == count
    assert treefold.topology(report.document(measured[0])).ranks == 3


def test_a_worker_listens_at_its_port():
    places = rendezvous.local(2)
    places[1].port = free_port(LOOPBACK)
    measured = together(lambda place: probe.measure(place, QUICK), places)
    assert measured[0].workers[1]["port"] == places[1].port
    with listen(LOOPBACK, places[1].port):
        errors = together(lambda place: probe.measure(place, QUICK), places_at(places[1].port))
    assert errors[0] == errors[1]
    assert "the port is in use" in errors[0]


def places_at(port):
    places = rendezvous.local(2)
    places[1].port = port
    return places


def test_an_address_that_is_not_here_is_told_to_all():
    places = rendezvous.local(2)
    places[1]._address = "192.0.2.1"
    errors = together(lambda place: probe.measure(place, QUICK), places)
    assert errors[0] == errors[1]
    assert "worker 1 cannot listen on 192.0.2.1 port 0: the address is not of this machine" in errors[0]


def test_a_connection_that_breaks_is_named_to_all(monkeypatch):
    receive = transfers.receive_stream

    def broken(connection):
        if threading.current_thread() is not doomed.get("thread"):
            return receive(connection)
        connection.shutdown(socket.SHUT_RDWR)
        raise EOFError

    doomed = {}
    monkeypatch.setattr(transfers, "receive_stream", broken)

    def work(place):
        if place.rank == 1:
            doomed["thread"] = threading.current_thread()
        return probe.measure(place, QUICK)

    errors = together(work, rendezvous.local(2))
    assert errors[0] == errors[1]
    assert "lost its connection to worker" in errors[0]


def test_slow_start_and_the_end_do_not_count():
    slow = [(0.0, 0)] + [(0.1 + 0.01 * i, 1000 * i) for i in range(31)]
    fast = [(0.4 + 0.01 * i, 30_000 + 10_000 * i) for i in range(1, 71)]
    late = [(1.5, 730_001)]
    assert transfers.steady_rate(slow + fast + late, 1.0, 0.001) == pytest.approx(1e6)
    assert transfers.steady_rate([(0.0, 0), (0.5, 1000)], 1.0, 0.001) == pytest.approx(2000)


def test_a_disturbance_does_not_count():
    samples = [(0.0, 0)] + [(0.01 * i, 10_000 * (i if i < 60 or i >= 70 else 60)) for i in range(1, 101)]
    assert transfers.steady_rate(samples, 1.0, 0.001, 7) == pytest.approx(1e6)


def measured(rates, egress=None, ingress=None, all_at_once=None) -> Measurements:
    size = 1 + max(rank for pair in rates for rank in pair)
    workers = [{"name": f"n{rank}", "address": LOOPBACK, "named": True} for rank in range(size)]
    trips = {(min(pair), max(pair)): transfers.RoundTrips(0.01, 0.012) for pair in rates}
    overheads = dict.fromkeys(rates, 1e-5)
    return Measurements(workers, 1.0, 1 << 40, rates, trips, overheads, egress or {}, ingress or {}, all_at_once or {})


def test_nodes_whose_links_cannot_all_be_used_get_caps():
    pairs = {(one, other): 10e6 for one in range(4) for other in range(4) if one != other}
    free = dict.fromkeys(range(4), 29e6)
    found = measured(pairs, {**free, 1: 15e6}, free)
    assert report.node_caps(found) == {1: (15e6, 29e6)}
    text = json.dumps(report.document(found, None))
    topology = treefold.topology(json.loads(text))
    assert (topology.ranks, topology.switches, topology.num_links) == (4, 0, 12)
    assert [(shared.name, shared.bandwidth_Bps) for shared in topology.shared()] == [
        ("n1 egress", 15e6),
        ("n1 ingress", 29e6),
    ]
    assert treefold.check(treefold.plan(topology)).correct
    assert treefold.bound(topology).all_reduce.rate_Bps == pytest.approx(15e6, rel=1e-3)


def test_pairs_that_share_a_bottleneck_are_noted():
    pairs = {(one, other): 10e6 for one in range(3) for other in range(3) if one != other}
    assert report.summary(measured(pairs, all_at_once=pairs))["notes"] == []
    shared = dict.fromkeys(pairs, 5e6)
    assert "all pairs at once carry 50%" in report.summary(measured(pairs, all_at_once=shared))["notes"][0]


def test_short_measurements_are_noted():
    found = measured({(0, 1): 1e9, (1, 0): 1e9})
    found.most_transfer_bytes = 10 << 20
    assert "n0 -> n1 and 1 more: measured for less than 10 round trips" in report.summary(found)["notes"][0]


def test_written_values_are_what_was_measured():
    document = report.document(measured({(0, 1): 12_345_678.0, (1, 0): 1e6}), None)
    assert document["links"][0] == {
        "source": "n0", "target": "n1", "bandwidth_Bps": 12_350_000.0, "latency_s": 0.005, "overhead_s": 1e-5,
        "both_ways": False,
    }  # fmt: skip


def test_what_the_links_of_a_file_share_is_not_written_without_them():
    [link] = wan({("n0", "n1"): 1e9})["links"]
    shared = {"shared": [{"name": "duct", "bandwidth_Bps": 5e8}], "links": [link | {"shares": ["duct"]}]}
    found = report.document(measured({(0, 1): 1e9, (1, 0): 1e9}), wan({("n0", "n1"): 1e9}) | shared)
    assert treefold.topology(found).shared() == []


def test_steps_know_stars_only_where_there_are_several_partners():
    steps = steps_of([[(0, 1)], [(1, 2)]], [(0, 1), (1, 0), (1, 2)], 3)
    assert steps == [
        Step("trips", [(0, 1)]), Step("pair", [(0, 1)]), Step("pair", [(1, 0)]),
        Step("trips", [(1, 2)]), Step("pair", [(1, 2)]),
        Step("egress", [(1, 0), (1, 2)]), Step("together", [(0, 1), (1, 0), (1, 2)]),
    ]  # fmt: skip


def test_local_writes_a_file_that_plan_takes(tmp_path):
    file = tmp_path / "net.json"
    run = start("probe", "--local", 3, "--seconds", 5, "-o", file, "--json")
    assert run.returncode == 0, run.stderr
    printed = json.loads(run.stdout)
    assert set(printed) == {
        "transfer_s", "transfer_most_bytes", "nodes", "links", "together", "rounds", "tests", "shared", "notes"
    }  # fmt: skip
    first, *rounds = run.stderr.splitlines()
    assert first.startswith("3 pairs, at most 19 transfers of ") and first.endswith("many pairs at once, 1.9 s or less")
    assert len(rounds) == len(printed["rounds"]) > 0
    assert all(re.match(rf"round {number}, [0-9]+ tests?: the model promises .*, the network carried .*", line)
               for number, line in enumerate(rounds, 1))  # fmt: skip
    assert output("plan", file)["topology"]["accelerators"] == 3


def test_processes_with_names_print_on_rank_0_only(tmp_path):
    file, port = tmp_path / "net.json", free_port(LOOPBACK)
    runs = []
    for rank, name in enumerate(("rome", "oslo")):
        variables = {"RANK": str(rank), "WORLD_SIZE": "2", "MASTER_ADDR": LOOPBACK, "MASTER_PORT": str(port)}
        command = [TREEFOLD, "probe", "--seconds", "1", "-o", file]
        pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
        runs.append(subprocess.Popen(command, env=os.environ | variables | {"TREEFOLD_NAME": name}, **pipes))
    outputs = [run.communicate(timeout=60) for run in runs]
    assert [run.returncode for run in runs] == [0, 0], outputs
    assert outputs[0][0].startswith("pair")
    assert outputs[1] == ("", "")
    assert [node["name"] for node in json.loads(file.read_text())["nodes"]][:2] == ["rome", "oslo"]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT not set; start it with torchrun or mpiexec"),
        (["--local", "1"], "it takes 2 to 65536 workers; write for example --local 4"),
        (["--local", "2", "-o", "/nowhere/x.json"], "there is no folder"),
        (["--local", "2", "--bytes", "many"], "many"),
        (["--local", "2", "--links", "/nowhere.json"], "/nowhere.json"),
        (["--local", "2", "--seconds", "0.1"], "allow more seconds"),
        (["--local", "2", "--seconds", "100ms"], "allow more seconds"),
        (["--local", "2", "--timeout", "5s"], "--timeout 5: it takes a while to notice dead connections; write 30 or"),
    ],
)
def test_bad_input_is_one_line(arguments, message, monkeypatch):
    for name in VARIABLES:
        monkeypatch.delenv(name, raising=False)
    assert message in refused("probe", *arguments)


def test_links_are_a_document_and_the_measurements_make_a_network(tmp_path):
    with pytest.raises(TreefoldError, match=r"links 'x\.json' is not a topology document; read a file with read_links"):
        probe.Settings(links="x.json")
    path = tmp_path / "links.csv"
    path.write_text("source,target\na,b\n", encoding="utf-8")
    links = probe.read_links(path)
    settings = probe.Settings(seconds=1.0, most_bytes=64 << 20, links=links)
    with ThreadPoolExecutor(2) as pool:
        measured = list(pool.map(lambda place: probe.measure(place, settings), rendezvous.local(2)))
    network = treefold.topology(probe.document(measured[1], links))
    assert network.rank_names == ["a", "b"]
