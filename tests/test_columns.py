"""What viewers draw: columns of plans and traces, causes, the critical path, and heat, from Python."""

import numpy as np
import pytest

import treefold
from treefold import TreefoldError, _core

MIB = 1 << 20
PLAN_COLUMNS = {
    "lane_source": np.uint32,
    "lane_target": np.uint32,
    "lane_start": np.uint32,
    "lane_links": np.uint32,
    "tree_root": np.uint32,
    "tree_phase": np.uint16,
    "tree_share": np.float32,
    "half_start": np.uint32,
    "edge_lane": np.uint32,
    "edge_step": np.uint16,
}
TRACE_COLUMNS = {
    "edge_transfer": np.uint32,
    "edge_chunks": np.uint32,
    "lane": np.uint32,
    "tree": np.uint32,
    "phase": np.uint16,
    "step": np.uint16,
    "chunk": np.uint32,
    "reduces": bool,
    "bytes": np.float32,
    "start_s": np.float64,
    "sent_s": np.float64,
    "received_s": np.float64,
    "cause": np.int32,
}
PLANS = [
    ("torus:4x4", "multitree"),
    ("mesh:3x3", "dbtree"),
    ("ring:8", "halving-doubling"),
    ("ring:8", "exchange"),
    ("torus:4x4", "hierarchical"),
    ("fattree:2,3", "ring"),
]


def traced(network, algorithm, simulator="flow"):
    plan = treefold.plan(network, algorithm)
    return plan, treefold.trace(plan, size_bytes=MIB if simulator == "flow" else 16384, simulator=simulator)


def rows(columns):
    """Return the transfers of columns in one order, with times and bytes as float32."""
    real = [columns[name].astype(np.float32) for name in ("bytes", "start_s", "sent_s", "received_s")]
    return sorted(zip(*(columns[name] for name in ("tree", "phase", "step", "chunk", "reduces")), *real, strict=True))


@pytest.mark.parametrize(("network", "algorithm"), PLANS)
def test_columns_of_a_plan_are_its_trees_and_lanes(network, algorithm):
    plan = treefold.plan(network, algorithm)
    columns = plan.columns()
    assert {name: column.dtype for name, column in columns.items()} == PLAN_COLUMNS
    sources, targets, _ = plan.topology.link_columns()
    for lane in range(len(columns["lane_source"])):
        links = columns["lane_links"][columns["lane_start"][lane] : columns["lane_start"][lane + 1]]
        assert sources[links[0]] == columns["lane_source"][lane]
        assert targets[links[-1]] == columns["lane_target"][lane]
        assert np.array_equal(targets[links[:-1]], sources[links[1:]])
    trees = plan.trees()
    assert len(columns["half_start"]) == 2 * len(trees) + 1
    assert columns["tree_phase"].tolist() == [tree.phase for tree in trees]
    assert columns["tree_share"].tolist() == pytest.approx([tree.share for tree in trees], rel=1e-6)
    ends = np.stack([columns["lane_source"], columns["lane_target"]])[:, columns["edge_lane"]]
    for number, tree in enumerate(trees):
        up, down, end = columns["half_start"][2 * number : 2 * number + 3]
        assert [up, down, end] == sorted([up, down, end])
        assert (len(tree.reduce()), len(tree.broadcast())) == (down - up, end - down)
        steps = [edge.step or 0 for edge in [*tree.reduce(), *tree.broadcast()]]
        assert columns["edge_step"][up:end].tolist() == steps
        assert len(set(ends[0, up:down])) == down - up, "every node sends its sum once"


@pytest.mark.parametrize("simulator", ["flow", "packet"])
@pytest.mark.parametrize(("network", "algorithm"), PLANS)
def test_columns_of_a_trace_are_its_transfers_in_the_order_of_the_edges(network, algorithm, simulator):
    plan, trace = traced(network, algorithm, simulator)
    columns, transfers = trace.columns(), trace.transfers()
    assert {name: column.dtype for name, column in columns.items()} == PLAN_COLUMNS | TRACE_COLUMNS
    assert all(np.array_equal(columns[name], column) for name, column in plan.columns().items())
    assert rows(columns) == rows(transfers)
    first, chunks = columns["edge_transfer"].astype(int), columns["edge_chunks"]
    assert np.all(chunks > 0)
    assert np.array_equal(columns["lane"][first], columns["edge_lane"])
    assert np.array_equal(columns["step"][first], columns["edge_step"])
    served = np.concatenate([np.arange(start, start + count) for start, count in zip(first, chunks, strict=True)])
    assert np.array_equal(np.unique(served), np.arange(len(columns["lane"])))
    assert np.all(np.diff(np.unique(served, return_index=True)[1]) > 0), "transfers stand in the order of first edges"


@pytest.mark.parametrize("simulator", ["flow", "packet"])
@pytest.mark.parametrize(("network", "algorithm"), PLANS)
def test_the_critical_path_is_a_chain_of_causes_whose_parts_add_up(network, algorithm, simulator):
    _, trace = traced(network, algorithm, simulator)
    columns, path, summary = trace.columns(), trace.critical_path(), trace.path_summary()
    assert path.dtype == np.uint32
    assert len(path) == summary.transfers
    assert columns["cause"][path].tolist() == [-1, *path[:-1].tolist()]
    assert columns["received_s"][path[-1]] == columns["received_s"].max()
    assert summary.time_s == trace.time_s
    assert summary.sending_s + summary.latency_s + summary.waiting_s == pytest.approx(trace.time_s, rel=1e-12)
    assert min(summary.sending_s, summary.latency_s, summary.waiting_s) >= 0
    if simulator == "flow":
        assert summary.waiting_s <= 1e-12 * trace.time_s


@pytest.mark.parametrize(("network", "algorithm"), PLANS)
@pytest.mark.parametrize("windows", [1, 7])
def test_windows_add_up_to_what_links_were_busy(network, algorithm, windows):
    _, trace = traced(network, algorithm)
    busy = trace.busy(windows)
    assert (busy.dtype, busy.shape) == (np.float32, (len(trace.links()), windows))
    seconds = busy.sum(axis=1) * (trace.time_s / windows)
    assert seconds == pytest.approx([link.busy_s for link in trace.links()], rel=1e-5, abs=1e-12)


@pytest.mark.parametrize(("network", "algorithm"), PLANS)
def test_transfers_of_links_and_trees_are_those_of_the_columns(network, algorithm):
    plan, trace = traced(network, algorithm)
    columns = trace.columns()
    start = columns["lane_start"]
    routes = [set(columns["lane_links"][start[lane] : start[lane + 1]].tolist()) for lane in range(len(start) - 1)]
    for link in range(len(trace.links())):
        lanes = [lane for lane, route in enumerate(routes) if link in route]
        assert trace.transfers_of_link(link).tolist() == np.flatnonzero(np.isin(columns["lane"], lanes)).tolist()
    for tree in range(plan.num_trees):
        edges = slice(columns["half_start"][2 * tree], columns["half_start"][2 * tree + 2])
        spans = zip(columns["edge_transfer"][edges].tolist(), columns["edge_chunks"][edges].tolist(), strict=True)
        expected = {number for first, count in spans for number in range(first, first + count)}
        assert trace.transfers_of_tree(tree).tolist() == sorted(expected)


def test_jobs_have_columns_each():
    plans = [treefold.plan("torus:3x3", algorithm) for algorithm in ("ring", "multitree")]
    for plan, trace in zip(plans, _core.simulate_flow_together(plans, [MIB, MIB], None, True), strict=True):
        columns = trace.columns()
        assert len(columns["edge_lane"]) == len(plan.columns()["edge_lane"])
        assert trace.path_summary().transfers == len(trace.critical_path()) > 0


def test_a_trace_of_nothing_has_no_transfers():
    plan = treefold.plan("ring:4", "ring")
    trace = treefold.trace(plan, size_bytes=0)
    columns = trace.columns()
    assert all(len(columns[name]) == 0 for name in ("lane", "cause", "start_s"))
    assert columns["edge_transfer"].tolist() == [2**32 - 1] * 24
    assert not columns["edge_chunks"].any()
    assert trace.critical_path().tolist() == []
    assert trace.busy(2).tolist() == [[0, 0]] * 8
    assert repr(trace.path_summary()) == "PathSummary(0 transfers, 0ps sending + 0ps latency + 0ps waiting = 0ps)"
    one = treefold.trace(treefold.plan("line:1", "ring"), size_bytes=8)
    assert len(one.columns()["lane_start"]) == 1
    assert one.busy(3).shape == (0, 3)


def test_a_trace_that_was_not_recorded_has_the_columns_of_its_plan():
    plan = treefold.plan("ring:4", "ring")
    trace = _core.simulate_flow(plan, MIB, False)
    columns = trace.columns()
    assert len(columns["edge_lane"]) == 24
    assert len(columns["lane"]) == len(trace.critical_path()) == len(trace.transfers_of_link(1)) == 0
    assert not trace.busy(3).any()
    assert trace.path_summary().waiting_s == trace.time_s


@pytest.mark.parametrize(
    ("method", "given", "message"),
    [
        ("busy", 0, "windows must be from 1 to 100000 for 8 links, got 0"),
        ("busy", -1, "windows must be from 1 to 100000 for 8 links, got -1"),
        ("busy", 10**30, "windows must be from 1 to 100000 for 8 links, got 1000000000000000000000000000000"),
        ("transfers_of_link", 8, "there is no link 8; the network has 8, counted from 0"),
        ("transfers_of_link", -1, "there is no link -1; links are counted from 0"),
        ("transfers_of_tree", 4, "there is no tree 4; the plan has 4, counted from 0"),
        ("transfers_of_tree", 10**30, "there is no tree 1000000000000000000000000000000; trees are counted from 0"),
    ],
)
def test_numbers_of_nothing_are_refused(method, given, message):
    trace = treefold.trace(treefold.plan("ring:4", "ring"), size_bytes=4096)
    with pytest.raises(TreefoldError) as error:
        getattr(trace, method)(given)
    assert str(error.value) == message


@pytest.mark.parametrize("method", ["busy", "transfers_of_link", "transfers_of_tree"])
@pytest.mark.parametrize("given", ["3", 1.5, None])
def test_values_that_are_no_numbers_are_type_errors(method, given):
    trace = treefold.trace(treefold.plan("ring:4", "ring"), size_bytes=4096)
    with pytest.raises(TypeError):
        getattr(trace, method)(given)
