"""The flow simulator from Python and the command line: rows, traces, link models, auto's choice, bad input, Ctrl-C."""

import json
import signal
import subprocess
import time
from itertools import product

import numpy as np
import pytest

import treefold
from commands import TREEFOLD, command, output
from networks import ALWAYS
from treefold import TreefoldError, _core, planning

MIB = 1 << 20
LATENCY, BANDWIDTH = 150e-9, 16e9  # of grids, by default


@pytest.mark.parametrize("link_model", treefold.LINK_MODELS)
def test_a_ring_takes_its_closed_form(link_model):
    plan = treefold.plan("ring:8", "ring")
    row = treefold.simulate(plan, size_bytes=MIB, simulator="flow", link_model=link_model)
    assert row.time_s == pytest.approx(14 * (LATENCY + MIB / 8 / BANDWIDTH), rel=1e-9)
    assert (row.simulator, row.link_model) == ("flow", link_model)
    # The ring goes one way: every other link is idle. Overheads occupy, latencies do not.
    busy = 14 * MIB / 8 / BANDWIDTH / row.time_s if link_model == "propagation" else 1
    assert row.link_utilization.as_dict() == pytest.approx({"mean": busy / 2, "max": busy}, rel=1e-9)
    assert output(
        "simulate", "ring:8", "-a", "ring", "--size", "1MiB", "--simulator", "flow", "--link-model", link_model
    )["time_s"] == pytest.approx(row.time_s, rel=1e-12)


def test_latencies_that_occupy_cost_streams_more():
    plan = treefold.plan("torus:4x4", "dbtree", size_bytes=MIB)
    time_s = {
        link_model: treefold.simulate(plan, size_bytes=MIB, simulator="flow", link_model=link_model).time_s
        for link_model in treefold.LINK_MODELS
    }
    assert time_s["hockney"] > 1.1 * time_s["propagation"]
    assert treefold.simulate(plan, size_bytes=MIB, simulator="flow").time_s == time_s["propagation"]


def test_compare_by_flow_gives_what_simulate_gives():
    rows = treefold.compare("b4", "ring,dbtree", sizes_bytes=[1000, MIB], simulator="flow", link_model="hockney")
    assert [(row.algorithm, row.size_bytes) for row in rows] == [
        (name, size) for size, name in product([1000, MIB], ["ring", "dbtree"])
    ]
    network = treefold.topology("b4").under("hockney")
    for row in rows:
        plan = treefold.plan(network, row.algorithm, size_bytes=row.size_bytes)
        assert row.time_s == treefold.simulate(plan, size_bytes=row.size_bytes, simulator="flow").time_s
        assert (row.simulator, row.link_model) == ("flow", "hockney")
    for size in (1000, MIB):
        at_size = [row for row in rows if row.size_bytes == size]
        assert [row.winner for row in at_size] == [row.time_s == min(row.time_s for row in at_size) for row in at_size]


@pytest.mark.parametrize("algorithm", ["ring", "dbtree", "multitree"])
def test_a_trace_lists_every_transfer_and_link(algorithm):
    network = treefold.topology("mesh:3x3")
    plan = treefold.plan(network, algorithm, size_bytes=MIB)
    seen = treefold.trace(plan, size_bytes=MIB)
    columns = seen.transfers()
    assert list(columns) == [
        *("source", "target", "tree", "phase", "step", "chunk", "reduces", "bytes", "start_s", "sent_s", "received_s")
    ]
    assert all(isinstance(column, np.ndarray) for column in columns.values())
    assert len({len(column) for column in columns.values()}) == 1
    assert {name: column.dtype.kind for name, column in columns.items() if name[-2:] == "_s" or name == "bytes"} == {
        "bytes": "f",
        "start_s": "f",
        "sent_s": "f",
        "received_s": "f",
    }
    assert columns["reduces"].dtype == bool
    assert np.all(columns["start_s"] >= 0)
    assert np.all(columns["start_s"] < columns["sent_s"])
    assert np.all(np.diff(columns["sent_s"]) >= 0)
    assert np.all(columns["received_s"] - columns["sent_s"] >= LATENCY * (1 - 1e-6))
    assert columns["received_s"].max() == seen.time_s
    assert seen.time_s == treefold.simulate(plan, size_bytes=MIB, simulator="flow").time_s
    # Every rank but the root of each tree sends its part up once and gets it back once.
    for half in (columns["reduces"], ~columns["reduces"]):
        assert columns["bytes"][half].sum() == pytest.approx(8 * MIB)
    if algorithm == "dbtree":
        assert columns["chunk"].max() > 1
        assert np.all(columns["step"] == 0)
    else:
        assert np.all(columns["chunk"] == 0)
        assert (columns["step"].min(), columns["step"].max()) == (1, plan.steps)


def test_links_of_a_trace_say_how_busy_they_were():
    plan = treefold.plan("line:3", "ring", size_bytes=3 * MIB)
    links = treefold.trace(plan, size_bytes=3 * MIB).links()
    ends = [("GPU0", "GPU1"), ("GPU1", "GPU0"), ("GPU1", "GPU2"), ("GPU2", "GPU1")]
    assert [(link.source, link.target) for link in links] == ends
    # Four steps of a third: GPU2 -> GPU0 takes two hops, so the links back carry it too.
    for link in links:
        assert link.full_rate_s == pytest.approx(4 * MIB / BANDWIDTH)
        assert link.busy_s >= link.full_rate_s * (1 - 1e-9)
    utilization = treefold.trace(plan, size_bytes=3 * MIB).utilization
    part = links[0].full_rate_s / treefold.trace(plan, size_bytes=3 * MIB).time_s
    assert (utilization.mean, utilization.max) == pytest.approx((part, part))


def test_the_command_line_writes_a_trace_beside_what_it_prints(tmp_path):
    from_network, plan_file, from_plan = tmp_path / "network.json", tmp_path / "plan.json", tmp_path / "plan-trace.json"
    arguments = ("--size", "1MiB", "--link-model", "hockney")
    row = output("simulate", "torus:3x3", "-a", "dbtree", *arguments, "--trace", from_network)
    assert (row["model"], row["link_model"]) == ("flow", "hockney")
    output("plan", "torus:3x3", "-a", "dbtree", "--size", "1MiB", "-o", plan_file)
    again = output("simulate", plan_file, *arguments, "--simulator", "flow", "--trace", from_plan)
    assert again["time_s"] == row["time_s"]
    assert from_plan.read_text() == from_network.read_text()
    network = treefold.topology("torus:3x3").under("hockney")
    plan = treefold.plan(network, "dbtree", size_bytes=MIB)
    assert from_network.read_text() == treefold.trace(plan, size_bytes=MIB).to_chrome()
    events = json.loads(from_network.read_text())["traceEvents"]
    slices = [event for event in events if event["ph"] == "X"]
    assert max(event["args"]["received_us"] for event in slices) == pytest.approx(row["time_s"] * 1e6)
    tracks = {event["tid"]: event["args"]["name"] for event in events if event["name"] == "thread_name"}
    assert {event["tid"] for event in slices} <= set(tracks)
    assert "GPU0 -> GPU1" in tracks.values()


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("simulate torus:32x32 --simulator flow --trace missing/trace.json", "there is no folder 'missing'"),
        ("simulate torus:32x32 --trace .", ".: is a folder; name a file in it"),
        ("simulate torus:32x32 --simulator analytic --trace trace.json", "the analytic simulator has no trace"),
        (
            "simulate torus:32x32 --simulator flow --link-model foo",
            "link model 'foo' is unknown; known are propagation",
        ),
        (
            "simulate torus:32x32 --simulator flwo",
            "simulator 'flwo' is unknown; did you mean flow? known are analytic, flow",
        ),
        ("compare torus:32x32 --simulator flow --link-model foo", "link model 'foo' is unknown; known are propagation"),
        (
            "compare torus:32x32 --simulator flwo",
            "simulator 'flwo' is unknown; did you mean flow? known are analytic, flow",
        ),
    ],
)
def test_bad_input_is_one_line_before_the_long_work(arguments, expected, tmp_path):
    start = time.monotonic()
    command_line = [TREEFOLD, *arguments.split(), "--json"]
    result = subprocess.run(command_line, capture_output=True, text=True, check=False, timeout=30, cwd=tmp_path)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert expected in result.stderr
    assert list(tmp_path.iterdir()) == []
    assert time.monotonic() - start < 5


@pytest.mark.parametrize(
    "call",
    [
        lambda plan: treefold.simulate(plan, link_model="foo"),
        lambda plan: treefold.trace(plan, link_model="foo"),
        lambda plan: treefold.compare("ring:4", sizes_bytes=[1], link_model="foo"),
        lambda plan: treefold.simulate(plan, simulator="foo"),
        lambda plan: treefold.compare("ring:4", sizes_bytes=[1], simulator="foo"),
        lambda plan: treefold.plan("ring:4", simulator="foo"),
        lambda plan: treefold.trace(plan, size_bytes=-1),
    ],
)
def test_simulators_and_sizes_that_do_not_exist_are_refused(call):
    with pytest.raises(TreefoldError, match=r"'foo' is unknown; known are|size -1: must be"):
        call(treefold.plan("ring:4", "ring"))


@pytest.mark.parametrize(
    "spec",
    [
        pytest.param("torus:4x4", marks=pytest.mark.slow),
        "dgx2",
        pytest.param("b4", marks=pytest.mark.slow),
        "hypercube:3",
    ],
)
@pytest.mark.parametrize("simulator", ["analytic", "flow"])
@pytest.mark.parametrize("link_model", treefold.LINK_MODELS)
def test_auto_is_as_fast_as_the_fastest(spec, simulator, link_model):
    names = list(treefold.algorithms())
    sizes = [1 << 10, 1 << 16, 1 << 22, 1 << 28]
    options = {"sizes_bytes": sizes, "simulator": simulator, "link_model": link_model}
    others = treefold.compare(spec, **options)
    chosen = treefold.compare(spec, "auto", **options)
    for size, auto in zip(sizes, chosen, strict=True):
        time_s = {row.algorithm: row.time_s for row in others if row.size_bytes == size}
        # With fewer trees, MultiTree may be faster than anything that compare lists; within 1 % of the bound will do.
        assert auto.time_s <= max(min(time_s.values()), 1.01 * auto.bound_s)
        assert auto.chosen.split(",")[0] in names
        if auto.chosen in time_s:
            assert auto.time_s == time_s[auto.chosen]
        else:
            assert auto.time_s < min(time_s.values())


@pytest.mark.parametrize("simulator", [None, "analytic", "flow"])
def test_auto_says_why(simulator):
    asked = [] if simulator is None else ["--simulator", simulator]
    summary = output("plan", "bigraph:2x4", "--size", "1MiB", *asked)
    choice = summary["choice"]
    assert (choice["model"], choice["size_bytes"]) == (simulator or "analytic", MIB)
    candidates = choice["candidates"]
    assert {candidate["algorithm"].split(",")[0] for candidate in candidates} == set(treefold.algorithms())
    for candidate in candidates:
        assert set(candidate) == {"algorithm", "time_s", "latency_s", "reason"}
        assert (candidate["time_s"] is None) == (candidate["latency_s"] is None) == (candidate["reason"] is not None)
    fitting = [candidate for candidate in candidates if candidate["reason"] is None]
    assert all(0 < candidate["latency_s"] <= candidate["time_s"] for candidate in fitting)
    best = min(fitting, key=lambda candidate: candidate["time_s"])
    assert best["algorithm"].split(",")[0] == summary["algorithm"]
    plan = treefold.plan("bigraph:2x4", size_bytes=MIB, simulator=simulator or "analytic")
    row = treefold.simulate(plan, size_bytes=MIB, simulator=simulator or "analytic")
    assert row.time_s == best["time_s"]
    assert [c["algorithm"] for c in candidates if c["reason"] and "torus" in c["reason"]] == ["ring2d", "bucket"]


def test_auto_tries_few_steps_and_simulates_nothing_that_a_link_makes_slower():
    asked = "--size", "16KiB", "--simulator", "flow", "--collective", "all-gather"
    candidates = output("plan", "bigraph:4x8", *asked)["choice"]["candidates"]
    assert "forest, 1 step" in [candidate["algorithm"] for candidate in candidates if candidate["time_s"]]
    least = min(candidate["time_s"] for candidate in candidates if candidate["time_s"])
    slow = [each["algorithm"] for each in candidates if (each["reason"] or "").startswith("not simulated: its busiest")]
    assert "ps" in slow
    for name in slow:
        algorithm, _, trees = name.partition(", ")
        options = {"trees": int(trees.split()[0])} if trees else {}
        plan = treefold.plan("bigraph:4x8", algorithm, size_bytes="16KiB", collective="all-gather", **options)
        assert treefold.simulate(plan, size_bytes="16KiB", simulator="flow").time_s > least


def test_one_rank_takes_no_time_and_has_no_bound(tmp_path):
    alone = ("full:8", "--ranks", "0")
    bounds = output("bound", *alone)
    assert (bounds["all_reduce_Bps"], bounds["reduce_scatter_all_gather_Bps"]) == (None, None)
    rows = output("compare", *alone, "--sizes", "1MiB,0", "--simulator", "flow")
    rows.append(output("simulate", *alone, "--trace", tmp_path / "trace.json"))
    plan = treefold.plan(treefold.topology("full:8", ranks="0"))
    rows += [treefold.simulate(plan, simulator=simulator).as_dict() for simulator in treefold.SIMULATORS]
    assert len(rows) > 8
    for row in rows:
        assert (row["time_s"], row["bound_s"], row["bound_fraction"], row["algbw_Bps"]) == (0, 0, None, None)
        assert row["link_utilization"] == {"mean": 0, "max": 0}
    table = command("compare", *alone)
    assert (table.returncode, table.stderr) == (0, "")
    assert not {"inf", "nan"} & set(table.stdout.split())


SMALL = (
    *("ring:5", "line:4", "full:5", "mesh:3x4", "torus:3x4", "torus:2x3x2", "hypercube:3", "fattree:4,2", "fattree128"),
    *("bigraph:2x4", "dgx1", "dgx2", "dgx2:planes=2", "cluster:nodes=2,gpus=4,rails=2", "fattree:radix=4,taper=2"),
    *("twisted-torus:2x4", "dragonfly:groups=3,routers=2,hosts=1,global=1", "hammingmesh:board=1x2,boards=2x2"),
    *("nvl72:nodes=2,gpus=4,rails=2", "cluster:nodes=4,gpus=2,pods=2,spines=1,taper=2"),
    "random:n=8,links=20,seed=1",
    *("b4", "b4:skew=0.5,seed=3", "idn-like", "equinix-like"),
)
"""A network of each generator, as small as shows what is special about it."""


def test_every_generator_has_a_small_network():
    assert {spec.split(":")[0] for spec in SMALL} == {spec.split(":")[0] for spec in _core.generators()}


def _networks_under_link_models():
    """Yield what to compare: each generator's networks under each link model; the slow ones are marked."""
    for spec in dict.fromkeys((*SMALL, *_core.generators())):
        ranks = treefold.topology(spec).ranks
        for link_model in treefold.LINK_MODELS if ranks < 100 else treefold.LINK_MODELS[:1]:
            is_quick = spec in SMALL and ranks < 13 and link_model == treefold.LINK_MODELS[0]
            yield pytest.param(spec, link_model, marks=[] if is_quick else pytest.mark.slow)


@pytest.mark.parametrize(("spec", "link_model"), [*_networks_under_link_models()])
def test_no_algorithm_beats_the_bound_on_any_generator(spec, link_model):
    network = treefold.topology(spec)
    rows = treefold.compare(network, sizes_bytes=[MIB], simulator="flow", link_model=link_model)
    assert {row.algorithm for row in rows} >= {name for name in ALWAYS if planning.is_quick(network, name)}
    for row in rows:
        assert row.time_s >= row.bound_s * (1 - 1e-9) > 0, row.algorithm
        assert row.bound_fraction == pytest.approx(row.bound_s / row.time_s)
        assert 0 < row.link_utilization.mean <= row.link_utilization.max * (1 + 1e-9) <= 1 + 1e-9


def test_ctrl_c_ends_a_long_simulation():
    arguments = ["simulate", "torus:32x32", "-a", "dbtree", "--simulator", "flow"]
    process = subprocess.Popen([TREEFOLD, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(timeout=1.2)
        process.send_signal(signal.SIGINT)
        stdout, stderr = process.communicate(timeout=3)
    finally:
        process.kill()
    assert (process.returncode, stdout) == (130, "")
    assert "Traceback" not in stderr
