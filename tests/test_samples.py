"""What the packet simulator samples over time, and the pages that show it."""

import json

import numpy as np
import pytest

import treefold
from treefold.viewing.columns import unpack

INNET = "dgx2:planes=6"


@pytest.fixture(scope="module")
def routed():
    plan = treefold.plan("torus:3x3", "dbtree")
    report = treefold.simulate(plan, size_bytes="64KiB", simulator="packet").packets
    return treefold.trace(plan, size_bytes="64KiB", simulator="packet"), report


@pytest.fixture(scope="module")
def in_network():
    plan = treefold.plan(INNET, "innet-push")
    prediction = treefold.simulate(plan, size_bytes="256KiB", simulator="packet")
    return treefold.trace(plan, size_bytes="256KiB", simulator="packet"), plan.topology, prediction


def test_routers_hold_no_more_than_their_peaks(routed):
    trace, report = routed
    samples = trace.samples(100)
    assert {name: (each.of, each.unit) for name, each in samples.items()} == {
        "buffers": ("nodes", "flits"),
        "credits": ("links", ""),
        "contention": ("links", ""),
    }
    buffers = samples["buffers"].values
    assert buffers.dtype == np.float32
    assert buffers.shape == (9, 100)
    # A node has four links in and as many interfaces, each with four virtual channels.
    assert 0 < buffers.max() <= report.buffer_peak_flits * 8 * 4
    for name in ("credits", "contention"):
        assert samples[name].values.shape == (36, 100)
        assert 0 <= samples[name].values.min() <= samples[name].values.max() <= 1
    assert samples["contention"].values.max() > 0


def test_what_is_in_a_window_is_in_its_parts(routed):
    trace, _ = routed
    whole, parts = trace.samples(1), trace.samples(60)
    for name, each in whole.items():
        np.testing.assert_allclose(each.values[:, 0], parts[name].values.mean(axis=1), rtol=1e-4, atol=1e-6)


def test_a_window_smaller_than_a_cycle_and_a_run_of_no_time():
    plan = treefold.plan("ring:4", "ring")
    fine = treefold.trace(plan, size_bytes=4, simulator="packet").samples(50_000)["buffers"].values
    assert np.isfinite(fine).all()
    assert fine.max() > 0
    nothing = treefold.trace(plan, size_bytes=0, simulator="packet").samples(3)
    assert not any(each.values.any() for each in nothing.values())


@pytest.mark.parametrize("windows", [0, -1, 100_001, 1.5, "many", None])
def test_windows_that_there_cannot_be(routed, windows):
    with pytest.raises((treefold.TreefoldError, TypeError)):
        routed[0].samples(windows)


def test_other_simulators_sample_nothing():
    assert treefold.trace(treefold.plan("ring:4", "ring"), size_bytes=4096).samples(10) == {}


def test_in_network_plans_fill_tables_and_links(in_network):
    trace, network, prediction = in_network
    assert len(trace.transfers()["tree"]) == 0
    assert trace.time_s == prediction.time_s
    samples = trace.samples(64)
    tables = samples["tables"].values
    switches = np.array([node.is_switch for node in network.nodes()])
    ports = max(sum(link.source == node.name for link in network.links()) for node in network.nodes())
    assert 0 < tables.max() <= prediction.packets.fabric.table_peak_bytes * ports
    assert tables[switches].max(axis=1).min() > 0
    assert not tables[~switches].any()
    busy = trace.busy(64)
    np.testing.assert_array_equal(busy, samples["busy"].values)
    carried = [link.full_rate_s / trace.time_s for link in trace.links()]
    # Each packet's time on a wire is rounded to cycles.
    np.testing.assert_allclose(busy.mean(axis=1), carried, rtol=0.15, atol=0.01)
    assert trace.critical_path().size == 0


def test_a_chrome_trace_of_an_in_network_plan_has_counters(in_network):
    events = json.loads(in_network[0].to_chrome())["traceEvents"]
    counters = [event for event in events if event["ph"] == "C"]
    assert {event["name"].split(": ")[1] for event in counters} == {"tables", "busy"}
    assert all(event["ts"] <= in_network[0].time_s * 1e6 * 1.0001 for event in counters)
    assert not any(event["ph"] == "X" for event in events)


def test_pages_have_the_series():
    for source, algorithm, names in [
        ("torus:3x3", "dbtree", ["buffers", "contention"]),  # no link ever waits for credit
        (INNET, "innet-push", ["tables"]),
        (INNET, "innet-pull", ["tables"]),
    ]:
        page = treefold.view(source, algorithm=algorithm, size_bytes="64KiB", simulator="packet")
        document, blocks = treefold.viewing.pages.page_parts(page.title, page.scenes)
        [scene] = document["scenes"]
        assert [each["name"] for each in scene["series"]] == names
        columns = unpack(blocks[scene["columns"]])
        samples = page.scenes[0].trace.samples(128)
        assert names == [name for name, each in samples.items() if name != "busy" and each.values.any()]
        for each in scene["series"]:
            values = samples[each["name"]].values
            table = columns[f"series-{each['name']}"].reshape(values.shape)
            assert each["largest"] == values.max()
            np.testing.assert_allclose(table / 65535 * each["largest"], values, atol=each["largest"] / 65535)
