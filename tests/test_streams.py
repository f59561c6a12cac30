"""Several TCP streams side by side: how many a line needs, and results that do not depend on them."""

import json
import os
import random
import socket
import threading
import time
from collections import defaultdict
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress

import numpy as np
import pytest

import treefold
from commands import refused
from hosts import at_host
from loopback import Loopback
from treefold import TreefoldError, runtime
from treefold.runtime import Connections, streams

pytestmark = pytest.mark.filterwarnings("ignore:what the workers send each other is not encrypted")


def line(bandwidth, latency):
    return treefold.topology("line:3", bandwidth_Bps=bandwidth, latency_s=latency)


@pytest.fixture
def granted(monkeypatch):
    """Grants each stream 2 MB under way, whatever this machine's settings are."""
    monkeypatch.setattr(streams, "granted_bytes", lambda: 2e6)


@pytest.mark.parametrize(
    ("bandwidth", "latency", "count"),
    [("400Mbit/s", "50ms", 4), ("100Mbit/s", "1ms", 1), ("10Gbit/s", "60ms", 113), ("100Gbit/s", "100ms", 256)],
)
def test_a_line_needs_streams_for_what_it_holds_in_a_round_trip(granted, bandwidth, latency, count):
    plan = treefold.plan(line(bandwidth, latency), "multitree")
    assert streams.streams_of(plan, 1) == {0: count, 2: count}
    assert streams.streams_of(plan, 0) == {1: count}


def test_a_route_holds_the_latency_of_all_its_links_at_the_rate_of_the_slowest(granted):
    network = line("1Gbit/s", "10ms").with_bandwidths({("GPU1", "GPU2"): "100Mbit/s"})
    plan = treefold.plan(network, "direct")
    assert streams.streams_of(plan, 0) == {1: 2, 2: 1}


def told(network, *streams):
    """The network with numbers of streams on its links, in their order; None tells nothing."""
    value = json.loads(network.to_json())
    for link, count in zip(value["links"], streams, strict=True):
        link |= {} if count is None else {"streams": count}
    return treefold.topology(value)


def test_what_the_network_tells_counts_and_of_two_directions_the_larger(granted):
    network = line("400Mbit/s", "50ms")  # 0 -> 1, 1 -> 0, 1 -> 2, 2 -> 1
    assert [(link.source, link.target) for link in network.links()][:2] == [("GPU0", "GPU1"), ("GPU1", "GPU0")]
    plan = treefold.plan(told(network, 2, 16, None, None), "multitree")
    assert streams.streams_of(plan, 1) == {0: 16, 2: 4}


def test_a_route_needs_no_fewer_streams_than_it_holds(granted):
    plan = treefold.plan(told(line("400Mbit/s", "50ms"), 1, 1, 1, 1), "direct")
    assert streams.streams_of(plan, 0) == {1: 1, 2: 8}


def test_caps_hide_nothing_that_the_network_tells(granted):
    network = told(line("400Mbit/s", "50ms"), 3, 3, 3, 3)
    capped = treefold.topology(json.loads(network.to_json()), node_cap="300Mbit/s")
    assert streams.streams_of(treefold.plan(capped, "multitree"), 1) == {0: 3, 2: 3}


@pytest.mark.parametrize("name", ["net.json", "net.graphml", "net.dot"])
def test_files_and_plans_keep_what_the_network_tells(name, tmp_path):
    network = told(line("400Mbit/s", "50ms"), 2, 256, 1, None)
    treefold.save(network, tmp_path / name)
    read = treefold.topology(tmp_path / name)
    assert read == network and [link.streams for link in read.links()] == [2, 256, 1, None]
    treefold.save(treefold.plan(network, "multitree"), tmp_path / "plan.json")
    assert treefold.load_plan(tmp_path / "plan.json").topology == network
    assert read.with_bandwidths({("GPU0", "GPU1"): "1Gbit/s"}).links()[1].streams == 256


@pytest.mark.parametrize("text", ["0", "257", "10000", "-1", "2.5", "many", "1e99"])
@pytest.mark.parametrize("form", ["csv", "dot"])
def test_numbers_of_streams_that_cannot_be_are_refused(form, text, tmp_path):
    path = tmp_path / f"net.{form}"
    csv = f"source,target,bandwidth,latency,streams\na,b,1Gbit/s,1ms,{text}\n"
    path.write_text(
        csv if form == "csv" else f'graph {{ a -- b [bandwidth="1Gbit/s", latency="1ms", streams="{text}"] }}'
    )
    with pytest.raises(
        TreefoldError, match=f"streams '{text}' is not a whole number from 1 to 256; leave it out where"
    ):
        treefold.topology(path)


def test_an_edge_list_tells_streams(tmp_path):
    path = tmp_path / "net.csv"
    path.write_text("source,target,bandwidth,latency,streams\na,b,1Gbit/s,1ms,7\nb,c,1Gbit/s,1ms,\n")
    assert [link.streams for link in treefold.topology(path).links()] == [7, 7, None, None]


@pytest.mark.parametrize("value", [0, 257, True, 2.5, "8", None, []])
def test_a_document_with_no_number_of_streams_is_refused(value):
    document = json.loads(line("1Gbit/s", "1ms").to_json())
    document["links"][0]["streams"] = value
    with pytest.raises(TreefoldError, match="streams"):
        treefold.topology(document)


def test_what_the_kernel_grants_is_half_the_least_memory_of_its_sockets(monkeypatch, tmp_path):
    monkeypatch.setattr(streams, "_SETTINGS", tmp_path)
    assert streams.granted_bytes() == 2 << 20
    (tmp_path / "tcp_wmem").write_text("4096\t16384\t1048576\n")
    assert streams.granted_bytes() == 1 << 19


@pytest.mark.parametrize("asked", [1, 2, 7])
@pytest.mark.parametrize("collective", ["all_reduce", "all_gather"])
def test_results_do_not_depend_on_streams(asked, collective):
    def work(group):
        array = np.arange(300_000, dtype=np.int64) * (group.rank + 1)
        if collective == "all_reduce":
            group.all_reduce(array)
            return array.sum()
        return group.all_gather(array).sum()

    # 1 + 2 + 3 times the sum of the numbers, on each of three workers or once.
    whole = 6 * 300_000 * 299_999 // 2
    assert runtime.in_threads(3, work, network="ring:3", connections=Connections(streams=asked)) == [whole] * 3


@pytest.mark.parametrize(("workers", "asked"), [(2, 256), (4, 100), (6, 32)])
def test_many_streams_connect_at_once(workers, asked):
    def work(group):
        group.all_reduce(array := np.ones(1000))
        return array.sum()

    begun = time.monotonic()
    found = on_hosts(workers, workers, work, network=f"full:{workers}", connections=Connections(streams=asked))
    assert found == [1000.0 * workers] * workers
    # Nobody waits for the turn of the other end, or for who was sent away.
    assert time.monotonic() - begun < 20


def test_the_environment_says_how_many(monkeypatch):
    assert streams.asked_streams(None) is None
    monkeypatch.setenv("TREEFOLD_STREAMS", " 5 ")
    assert streams.asked_streams(None) == 5
    assert streams.asked_streams(3) == 3


@pytest.mark.parametrize("text", ["0", "257", "-1", "many", "2.5", "²", "1" * 5000])
def test_a_number_that_is_none_is_an_error_on_every_worker(monkeypatch, text):
    monkeypatch.setenv("TREEFOLD_STREAMS", text)
    with pytest.raises(TreefoldError, match="is not a whole number from 1 to 256; set it to one"):
        runtime.in_threads(2, lambda group: None, network="ring:2")


@pytest.mark.parametrize("given", [0, 257, 10_000, "4", 2.0, True])
def test_a_caller_gives_a_number_that_can_be(given):
    with pytest.raises(TreefoldError, match=r"^streams=.*: must be a whole number from 1 to 256$"):
        runtime.in_threads(2, lambda group: None, network="ring:2", connections=Connections(streams=given))


def test_run_says_how_many_streams_there_can_be():
    how = ("--local", "2", "--transport", "tcp", "--size", "1KiB")
    assert refused("run", *how, "--streams", "0") == "error: --streams 0: must be a whole number from 1 to 256\n"


@pytest.mark.parametrize("from_environment", [False, True])
def test_engines_have_no_streams(monkeypatch, from_environment):
    if from_environment:
        monkeypatch.setenv("TREEFOLD_STREAMS", "2")
    asked = Connections(streams=None if from_environment else 2)
    with pytest.raises(TreefoldError, match="only connections over TCP have streams, and an engine was given; drop"):
        runtime.in_threads(2, lambda group: None, connections=asked, engine=lambda workers: Loopback(0, [[], []]))


def on_hosts(count, workers, work, **options):
    """Run `work` as `in_threads` does, with so many addresses; workers of one address do not meet over TCP."""

    def join(place):
        group = runtime.join(at_host(place, place.rank % count), **options)
        try:
            return work(group)
        finally:
            group.close()

    with ThreadPoolExecutor(workers) as pool:
        return list(pool.map(join, runtime.local(workers)))


def ends_of_lines(held, listening):
    """Yield both ends of each stream between ranks of this process, as sockets, and the port of the rank called."""
    for name in os.listdir("/proc/self/fd"):
        with suppress(OSError):
            if os.readlink(f"/proc/self/fd/{name}").startswith("socket:"):
                end = held.enter_context(socket.socket(fileno=os.dup(int(name))))
                for address in (end.getpeername(), end.getsockname()):
                    is_named = isinstance(address, bytes) and address.startswith(b"\0treefold ")
                    port = int(address.split()[1].rpartition(b":")[2]) if is_named else address and address[1]
                    if port in listening:
                        yield end, port


def break_some(drawn, listening, count):
    """Break so many of the connections to each of these ports, at either end; return how many that were."""
    ends, broken = defaultdict(list), 0
    with ExitStack() as held:
        for end, port in ends_of_lines(held, listening):
            ends[port].append(end)
        for lines in ends.values():
            for line in drawn.sample(lines, min(len(lines), count)):
                with suppress(OSError):
                    line.shutdown(socket.SHUT_RDWR)
                    broken += 1
    return broken


@pytest.mark.parametrize("wire", [None, "int8"])
@pytest.mark.parametrize("algorithm", ["ring", "packing"])
@pytest.mark.parametrize("hosts", [1, 3])
@pytest.mark.parametrize("seed", range(2))
def test_a_stream_that_breaks_costs_nothing_but_its_share(algorithm, wire, seed, hosts):
    drawn, ready, listening, broken = random.Random(seed), threading.Barrier(4), set(), []

    def work(group):
        rng = np.random.default_rng(group.worker)
        arrays = [rng.integers(-100, 100, 700_000).astype(np.float32) for _ in range(24)]
        listening.add(int(group.transport.addresses[group.rank].rpartition(":")[2]))
        ready.wait()
        is_over = np.zeros(1)
        while not is_over[0]:
            is_over[0] = len(broken) == 2
            group.all_reduce(is_over, "min")
            sums = [array.copy() for array in arrays]
            handles = [group.start_all_reduce(array, wire=wire) for array in sums]
            for handle in handles:
                handle.wait()
        return arrays, sums

    def breaker():
        ready.wait()
        for count in (3, 2):  # of six streams, so that one is left of each pair
            time.sleep(drawn.uniform(0.02, 0.15))
            broken.append(break_some(drawn, listening, count))

    thread = threading.Thread(target=breaker)
    thread.start()
    found = on_hosts(hosts, 3, work, network="ring:3", algorithm=algorithm, connections=Connections(streams=6))
    thread.join()
    assert sum(broken) > 3
    for number in range(24):
        total = sum(arrays[number] for arrays, _ in found)
        assert len({sums[number].tobytes() for _, sums in found}) == 1
        assert np.abs(found[0][1][number] - total).max() <= (0 if wire is None else 4)


@pytest.mark.parametrize("hosts", [1, 2])
def test_a_broken_stream_is_made_again(hosts):
    drawn, listening, ready = random.Random(1), set(), threading.Barrier(2)

    def lines():
        with ExitStack() as held:
            ends = [end.fileno() for end, _ in ends_of_lines(held, listening)]
            # The other thread's copies are the same ends.
            return len({os.fstat(end).st_ino for end in ends}) / 2

    def work(group):
        listening.add(int(group.transport.addresses[0].rpartition(":")[2]))
        ready.wait()
        for count in (3, 3, 2):
            if group.rank == 0:
                assert break_some(drawn, listening, count)
            end = time.monotonic() + 25
            back, since = np.zeros(1), time.monotonic()
            while not back[0]:
                group.all_reduce(array := np.full(1_000_000, group.rank + 1.0))
                assert (array == 3).all()
                # A call that is not answered yet is a connection, too: what counts is that all four stay.
                since = since if lines() == 4 else time.monotonic()
                back[0] = time.monotonic() > min(since + 1, end)
                group.all_reduce(back, "min")
            assert time.monotonic() < end
        return True

    assert on_hosts(hosts, 2, work, network="ring:2", connections=Connections(streams=4)) == [True, True]
