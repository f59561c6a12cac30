"""`treefold run --trace`: every transfer is recorded once, on one clock; and what files of traces may say."""

import json
import random
import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import jsonschema
import numpy as np
import pytest

import treefold
from commands import command, output, refused, start
from treefold import runtime
from treefold.collectives import COLLECTIVES
from treefold.perf import runs
from treefold.perf.job import Job
from treefold.perf.recorder import median_run
from treefold.runtime import clocks
from treefold.runtime.clocks import Clock

ROOT = Path(__file__).parents[1]
SCHEMA = json.loads((ROOT / "schema" / "trace.schema.json").read_text(encoding="utf-8"))
SIZE = 240_000
ROOTED = ("broadcast", "reduce")


def recorded(plan, path, transport, size=SIZE, **asked):
    """Runs a plan among three or four workers of this process, and returns its trace and its row."""
    job = Job((size,), plan.collective, root=plan.root or 0, transport=transport, trace=str(path), **asked)
    ranks = plan.topology.ranks

    def work(place):
        return runs.among_processes(place, job, plan, {}, None, iter)

    if transport == "threads":
        [row] = runs.among_threads(ranks, job, plan, {}, iter)
    else:
        with ThreadPoolExecutor(ranks) as pool:
            [[row], *_] = pool.map(work, runtime.local(ranks))
    assert row["wrong"] == 0
    return treefold.load_trace(path, plan), row


def rows_of(trace, *names):
    columns = trace.transfers()
    return list(zip(*(columns[name].tolist() for name in names), strict=True))


def check_times(trace):
    columns = trace.transfers()
    assert columns["start_s"].min() == 0.0 and columns["received_s"].max() == trace.time_s
    assert (columns["start_s"] <= columns["sent_s"]).all() and (columns["sent_s"] <= columns["received_s"]).all()
    assert 0 <= trace.clock_uncertainty_s < 1.0
    assert all(0 < link.busy_s <= trace.time_s for link in trace.links() if link.full_rate_s > 0)


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_every_transfer_of_every_collective_is_recorded_once(collective, tmp_path):
    plan = treefold.plan("ring:3", "ring", collective=collective, root=int(collective in ROOTED))
    wanted = Counter(
        rows_of(treefold.trace(plan, size_bytes=SIZE), "source", "target", "tree", "phase", "step", "reduces", "bytes")
    )
    for transport in ("threads", "tcp"):
        trace, _ = recorded(plan, tmp_path / f"{transport}.json", transport, iterations=1)
        found = rows_of(trace, "source", "target", "tree", "phase", "step", "reduces", "bytes")
        if plan.steps is not None:
            assert Counter(found) == wanted
        check_times(trace)
        assert trace.size_bytes == SIZE and trace.plan == plan


@pytest.mark.parametrize("transport", ["threads", "tcp"])
@pytest.mark.parametrize(
    ("network", "algorithm"), [("torus:2x2", "multitree"), ("line:4", "dbtree"), ("full:4", "packing")]
)
def test_every_edge_carries_its_span_in_chunks_that_come_once(network, algorithm, transport, tmp_path):
    plan = treefold.plan(network, algorithm)
    trace, _ = recorded(plan, tmp_path / "trace.json", transport, size=4 << 20, iterations=1)
    check_times(trace)
    bytes_of = {name: Counter() for name in ("run", "flow")}
    for name, each in (("run", trace), ("flow", treefold.trace(plan, size_bytes=4 << 20))):
        chunks = Counter(rows_of(each, "source", "target", "tree", "reduces", "chunk"))
        assert set(chunks.values()) == {1}
        for *edge, size in rows_of(each, "source", "target", "tree", "reduces", "bytes"):
            bytes_of[name][tuple(edge)] += size
    assert bytes_of["run"].keys() == bytes_of["flow"].keys()
    assert all(bytes_of["run"][edge] == pytest.approx(size, abs=64) for edge, size in bytes_of["flow"].items())


def test_data_leave_a_rank_only_when_they_have_come(tmp_path):
    """In a ring, each step sends on what the step before brought, which rank by rank one clock tells exactly."""
    trace, _ = recorded(treefold.plan("ring:4", "ring"), tmp_path / "trace.json", "tcp", size=1 << 20, iterations=3)
    received = {
        (tree, target, step): time
        for tree, target, step, time in rows_of(trace, "tree", "target", "step", "received_s")
    }
    waits = [
        start - received[tree, source, step - 1]
        for tree, source, step, start in rows_of(trace, "tree", "source", "step", "start_s")
        if step > 1
    ]
    assert len(waits) == 4 * 5 and min(waits) > -2e-4 - trace.clock_uncertainty_s


@pytest.mark.parametrize("transport", ["threads", "tcp"])
def test_the_trace_takes_about_as_long_as_the_run_with_the_median_time(transport, tmp_path):
    plan = treefold.plan("ring:3", "ring")
    trace, row = recorded(plan, tmp_path / "trace.json", transport, size=24 << 20, iterations=3)
    assert 0.5 * row["median_time_s"] < trace.time_s < 1.2 * row["median_time_s"]


def test_the_run_with_the_median_time_is_chosen():
    assert [median_run(times) for times in ([1.0], [2.0, 1.0], [3.0, 1.0, 2.0], [4.0, 1.0, 2.0, 3.0])] == [0, 1, 2, 2]


@pytest.mark.parametrize("ranks", [2, 5])
def test_clocks_are_compared_within_what_is_claimed(ranks):
    """Threads of one process have one clock, so the true offset is 0."""
    found = runtime.in_threads(ranks, lambda group: clocks.compare(group, group.transport), network=f"ring:{ranks}")
    assert found[0].offset_s == found[0].uncertainty_s == 0.0
    for clock in found[1:]:
        assert abs(clock.offset_s) <= clock.uncertainty_s + 1e-9 and 0 < clock.uncertainty_s < 0.1


def test_a_clock_that_runs_fast_is_corrected():
    before, after = Clock(at_s=10.0, offset_s=5.0), Clock(at_s=20.0, offset_s=4.0)
    assert before.corrected(np.array([0.0, 10.0, 15.0, 20.0]), after).tolist() == [0.0, 15.0, 19.5, 24.0]
    assert Clock().corrected(np.array([0.0, 3.0]), Clock()).tolist() == [0.0, 3.0]


def test_unequal_blocks_and_a_single_rank_have_traces(tmp_path):
    blocks = np.array([[0, 4, 8], [1, 0, 2], [16, 2, 0]])
    plan = treefold.plan("ring:3", "forest", collective="all-to-all", blocks=blocks)
    job = {"blocks": tuple(map(tuple, blocks.tolist())), "iterations": 1}
    for transport in ("threads", "tcp"):
        trace, row = recorded(plan, tmp_path / "trace.json", transport, size=1 << 16, **job)
        assert sum(trace.transfers()["bytes"]) >= row["size_bytes"]
        check_times(trace)
    for transport in ("threads", "tcp"):
        trace, _ = recorded(treefold.plan("ring:1", "ring"), tmp_path / "one.json", transport)
        assert (trace.time_s, trace.transfers()["bytes"].size) == (0.0, 0)


def test_the_command_writes_a_trace_that_its_plan_reads(tmp_path):
    plan, trace = tmp_path / "plan.json", tmp_path / "trace.json"
    treefold.save(treefold.plan("ring:3", "ring", size_bytes=SIZE), plan)
    [row] = output("run", plan, "--local", 3, "--trace", trace)
    found = treefold.load_trace(trace, treefold.load_plan(plan))
    assert (found.size_bytes, len(found.transfers()["bytes"])) == (row["size_bytes"], 12)
    done = command("run", plan, "--local", 3, "--trace", trace)
    assert re.search(
        rf"{re.escape(str(trace))} has the transfers of the run with the median time, [0-9.]+ us", done.stdout
    )
    done = start("run", plan, "--local", 3, "--trace", "/dev/stdout")
    assert json.loads(done.stdout)["format"] == "treefold-trace"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--trace", "{}/t.json", "--sizes", "1KiB:4KiB"), "a trace is of one size, and 3 are given; give one"),
        (("--trace", "{}/t.json", "--iters", 1001), "--iters 1001: with a trace it must be at most 1000"),
        (
            ("--trace", "{}/t.json", "--transport", "tcp", "--adapt"),
            "a trace is of one plan, and --adapt may",
        ),
        (("--trace", "{}/t.csv"), "its extension '.csv' is not the extension of traces; write"),
        (("--trace", "{}/t"), "it has no extension; write"),
        (("--trace", "{}/no/t.json"), "there is no folder 'no'; create it first"),
        (("--trace", "{}"), "is a folder; name a file in it"),
        (("--trace", "{}/plan.json"), "it is the file of the plan; name another one"),
        (("--trace", "/dev/stdout", "--json"), "/dev/stdout and --json would both write to standard output"),
    ],
)
def test_what_cannot_be_recorded_is_refused_before_it_runs(arguments, message, tmp_path):
    treefold.save(treefold.plan("ring:3", "ring"), tmp_path / "plan.json")
    arguments = [str(each).format(tmp_path) for each in arguments]
    assert message in refused("run", tmp_path / "plan.json", "--local", 3, *arguments)


@pytest.mark.parametrize("transport", ["mpi", "torch"])
def test_transports_of_others_tell_no_times(transport):
    with pytest.raises(treefold.TreefoldError, match=f"{transport} does not tell when messages leave and come; drop"):
        Job((1024,), transport=transport, trace="trace.json").check()


@pytest.mark.parametrize("collective", COLLECTIVES)
def test_a_run_on_arrays_returns_its_trace(collective, tmp_path):
    plan = treefold.plan("ring:3", "ring", collective=collective, root=int(collective in ROOTED))
    arrays = [np.arange(3000, dtype=np.float32) + rank for rank in range(3)]
    results, trace = treefold.run(plan, arrays, trace=True)
    for one, other in zip(results, treefold.run(plan, arrays), strict=True):
        assert one is other is None or np.array_equal(one, other)
    check_times(trace)
    blocks = 3 if collective == "all-gather" else 1
    assert (trace.size_bytes, trace.clock_uncertainty_s, trace.plan) == (blocks * 12_000, 0.0, plan)
    wanted = treefold.trace(plan, size_bytes=trace.size_bytes)
    ways = ("source", "target", "tree", "phase", "step", "reduces", "bytes")
    if plan.steps is not None:
        assert Counter(rows_of(trace, *ways)) == Counter(rows_of(wanted, *ways))
    treefold.save(trace, tmp_path / "trace.json")
    assert treefold.load_trace(tmp_path / "trace.json", plan).to_json() == trace.to_json()


def test_runs_of_little_have_traces_too():
    for network, arrays in (("ring:1", [[1.0]]), ("ring:2", [[], []]), ("ring:2", [[1], [2]])):
        results, trace = treefold.run(treefold.plan(network, "ring"), arrays, trace=True)
        assert len(results) == len(arrays) and trace.time_s >= 0 and trace.to_chrome() and trace._repr_html_()
    blocks = np.array([[0, 4, 8], [1, 0, 2], [16, 2, 0]])
    plan = treefold.plan("ring:3", "forest", collective="all-to-all", blocks=blocks)
    _, trace = treefold.run(plan, [np.ones(int(row.sum())) for row in blocks], trace=True)
    assert sum(trace.transfers()["bytes"]) >= 8 * blocks.sum()
    with pytest.raises(treefold.TreefoldError, match="trace is of type str; write trace=True, and save"):
        treefold.run(plan, [[]] * 3, trace="trace.json")


@pytest.mark.parametrize("simulator", ["flow", "packet"])
@pytest.mark.parametrize(
    ("network", "algorithm"), [("torus:2x4", "multitree"), ("fattree:levels=2,radix=4", "packing"), ("line:3", "ps")]
)
def test_simulated_traces_are_written_and_read_back(network, algorithm, simulator, tmp_path):
    plan = treefold.plan(network, algorithm)
    trace = treefold.trace(plan, size_bytes=1 << 16, simulator=simulator)
    treefold.save(trace, tmp_path / "trace.json")
    read = treefold.load_trace(tmp_path / "trace.json", plan)
    assert (read.time_s, read.size_bytes, read.clock_uncertainty_s) == (trace.time_s, 1 << 16, 0.0)
    ways = ("source", "target", "tree", "phase", "step", "chunk", "reduces", "bytes", "start_s", "sent_s", "received_s")
    assert Counter(rows_of(read, *ways)) == Counter(rows_of(trace, *ways))
    assert [(link.busy_s, link.full_rate_s) for link in read.links()] == [
        (link.busy_s, link.full_rate_s) for link in trace.links()
    ]
    assert repr(read) == repr(trace) and "<table>" in read._repr_html_() and read.busiest_links == trace.busiest_links


def test_without_links_their_times_follow_from_transfers():
    plan = treefold.plan("torus:2x4", "multitree")
    trace = treefold.trace(plan, size_bytes=1 << 20)
    text = changed(trace, lambda content: content.pop("links"))
    read = treefold.Trace.from_json(text, plan)
    for ours, theirs in zip(read.links(), trace.links(), strict=True):
        assert (ours.busy_s, ours.full_rate_s) == pytest.approx((theirs.busy_s, theirs.full_rate_s))


def changed(trace, change):
    """Returns the text of a trace file with a change."""
    content = json.loads(trace.to_json())
    change(content)
    return json.dumps(content)


def put(name, value):
    def change(content):
        content["transfers"][name][3] = value

    return change


WRONG = [
    (lambda content: content.update(format="treefold-plan"), "it is a plan; give the file of a trace of it"),
    (lambda content: content.update(format="treefold-topology"), "treefold-topology"),
    (lambda content: content.update(version=2), "version"),
    (lambda content: content.update(fingerprint="0" * 16), "the trace is of another plan"),
    (lambda content: content.update(ranks=4), "the trace is of another plan"),
    (lambda content: content.update(fingerprint=7), "fingerprint must be a fingerprint of what the plan sends"),
    (lambda content: content.update(size_bytes=-1), "size_bytes must be the size of the vector in bytes, got -1"),
    (lambda content: content.update(size_bytes=10**18 + 1), "size_bytes: "),
    (lambda content: content.update(time_s=-1.0), "time_s: time must not be negative, got -1"),
    (lambda content: content.update(time_s=None), "time_s must be the seconds from the first byte"),
    (lambda content: content.update(time_s=1e-9), "start_s <= sent_s <= received_s <= time_s does not hold"),
    (lambda content: content.update(clock_uncertainty_s=-1), "clock_uncertainty_s: time must not be negative"),
    (lambda content: content.update(transfers=[]), "transfers"),
    (lambda content: content.update(colour="red"), "'colour' is unknown; known are format, version, network"),
    (lambda content: content.pop("time_s"), "'time_s' is missing"),
    (lambda content: content["transfers"].pop("step"), "'step' is missing"),
    (lambda content: content["transfers"]["tree"].pop(), "source has 12 items, but tree has 11; list both"),
    (lambda content: content["links"]["busy_s"].pop(), "links: busy_s has 5 items, but the plan's network has 6"),
    (lambda content: content["links"].update(full_rate_s=[-1.0] * 6), "links: full_rate_s: time must not be negative"),
    (put("source", 3), "transfer 3: tree"),
    (put("source", 2**32), "transfers: source 3 cannot be 4294967296; source must be"),
    (put("source", -1), "-1"),
    (put("source", "GPU0"), "GPU0"),
    (put("tree", 99), "transfer 3: tree 99 of the plan"),
    (put("phase", 1), "transfer 3: it has phase 1 and step"),
    (put("step", 9), "and step 9, and the plan sends it in phase 0 and step"),
    (put("reduces", 1), "reduces"),
    (put("reduces", None), "null"),
    (put("bytes", -1.0), "transfer 3: bytes must be from 0 to 1e18, got -1"),
    (put("start_s", -1e-9), "transfer 3: time must not be negative"),
    (put("start_s", 1.0), "transfer 3: start_s <= sent_s <= received_s <= time_s does not hold"),
    (put("received_s", float("nan")), "not a whole treefold-trace file"),
    (put("received_s", float("inf")), "not a whole treefold-trace file"),
]


@pytest.mark.parametrize(("change", "message"), WRONG)
def test_a_wrong_file_is_refused_in_one_line_that_says_why(change, message, tmp_path):
    plan = treefold.plan("ring:3", "ring")
    path = tmp_path / "trace.json"
    path.write_text(changed(treefold.trace(plan, size_bytes=4096), change))
    with pytest.raises(treefold.TreefoldError) as error:
        treefold.load_trace(path, plan)
    text = str(error.value)
    assert message in text and text.startswith(f"{path}: ") and text.isprintable()


def test_what_is_written_satisfies_the_schema_and_what_the_schema_refuses_is_refused():
    jsonschema.Draft202012Validator.check_schema(SCHEMA)
    validator = jsonschema.Draft202012Validator(SCHEMA)
    for network, algorithm in (("ring:1", "ring"), ("torus:2x2", "multitree"), ("line:3", "dbtree")):
        plan = treefold.plan(network, algorithm)
        content = json.loads(treefold.trace(plan, size_bytes=4096).to_json())
        validator.validate(content)
        content.pop("links")
        validator.validate(content)
    plan = treefold.plan("ring:3", "ring")
    trace = treefold.trace(plan, size_bytes=4096)
    seen = 0
    for change, _ in WRONG:
        content = json.loads(changed(trace, change).replace("NaN", "null").replace("Infinity", "null"))
        seen += not validator.is_valid(content)
    assert seen > 15, "the schema knows all but what depends on the plan, and on other columns"


def test_every_field_of_the_schema_is_described_and_stands_on_the_page():
    page = (ROOT / "docs" / "plan-files.md").read_text(encoding="utf-8").partition("## Trace files")[2]
    described = {
        name: field for part in (SCHEMA, *SCHEMA["$defs"].values()) for name, field in part["properties"].items()
    }
    assert [name for name in described if f"`{name}`" not in page] == []
    assert [name for name, field in described.items() if not re.match("(A|An|The) ", field["description"])] == []


def test_whatever_the_bytes_of_a_file_it_is_read_or_refused(tmp_path):
    plan, path = treefold.plan("ring:3", "ring"), tmp_path / "trace.json"
    whole = treefold.trace(plan, size_bytes=4096).to_json().encode()
    draw = random.Random(7)
    for _ in range(300):
        content = bytearray(whole[: draw.randrange(len(whole))] if draw.random() < 0.3 else whole)
        for _ in range(draw.randrange(4)):
            if content:
                content[draw.randrange(len(content))] = draw.choice(b'0123456789-.eE[]{},":"\x00\xff')
        path.write_bytes(content)
        try:
            trace = treefold.load_trace(path, plan)
        except treefold.TreefoldError as error:
            assert str(error).isprintable() and len(str(error)) < 1000
        else:
            assert trace.utilization.max <= 1 and trace.links() and trace.to_chrome() and trace.transfers()


def test_only_traces_and_plans_are_taken(tmp_path):
    plan = treefold.plan("ring:3", "ring")
    treefold.save(plan, tmp_path / "plan.json")
    treefold.save(treefold.trace(plan, size_bytes=4096), tmp_path / "trace.json")
    for path, given, message in [
        ("plan.json", plan, "it is a plan; give the file of a trace of it"),
        ("trace.json", treefold.plan("ring:3", "dbtree"), "the trace is of another plan: of one with the fingerprint"),
        ("trace.json", "plan.json", "is not a treefold.Plan"),
        ("none.json", plan, "none.json"),
    ]:
        with pytest.raises(treefold.TreefoldError, match=message):
            treefold.load_trace(tmp_path / path, given)
    with pytest.raises(treefold.TreefoldError, match="is neither a network nor a plan nor a trace"):
        treefold.save(3, tmp_path / "trace.json")
