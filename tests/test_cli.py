"""The command line: keys that programs rely on, bad input in one line, files whole or not at all."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

import treefold as library
from commands import command, output, printed
from treefold import TreefoldError
from treefold.collectives import COLLECTIVES

DATA = Path(__file__).parents[2] / "shared" / "data"


def test_plan_prints_the_keys_of_the_contract():
    summary = output("plan", "torus:4x4", "-a", "multitree")
    assert summary.pop("wall_s") >= 0
    assert summary.pop("rate_Bps") == pytest.approx(16e9 * 16 / 9)
    assert len(summary.pop("busiest_links")) == 32
    assert summary == {
        "algorithm": "multitree",
        "collective": "all-reduce",
        "size_bytes": 64 << 20,
        "topology": {"name": "torus:4x4", "accelerators": 16, "switches": 0, "links": 64},
        "trees": 16,
        "pace": "steps",
        "steps": 10,
        "max_height": 4,
        "mean_height": 4.0,
        "max_fanout": 4,
        "mean_max_fanout": 4.0,
        "normalized_throughput": pytest.approx(5 / 6),
    }


def test_streams_and_orders_have_no_steps():
    assert output("plan", "torus:4x4", "-a", "dbtree")["steps"] is None
    ordered = ("plan", "torus:4x4", "-a", "forest", "--size", "1MiB")
    assert output(*ordered)["pace"] == "ordered"
    assert "steps       none: links send in an order of " in printed(*ordered)


def test_simulate_prints_the_keys_of_the_contract():
    row = output("simulate", "ring:8", "-a", "ring", "--size", "64MiB", "--simulator", "analytic")
    expected_s = 14 * (150e-9 + (64 << 20) / 8 / 16e9)
    assert row["time_s"] == pytest.approx(expected_s, rel=1e-6)
    assert row["algbw_Bps"] == pytest.approx((64 << 20) / expected_s, rel=1e-6)
    assert row["busbw_Bps"] == pytest.approx(row["algbw_Bps"] * 14 / 8)
    assert set(row) >= {"algorithm", "model", "size_bytes", "link_utilization", "wall_s"}


@pytest.mark.parametrize(
    ("spec", "two_phases", "all_reduce", "in_network"),
    [
        ("torus:4x4", 2.1333, 2.1333, None),
        ("mesh:4x4", 1.0667, 1.6, None),
        ("dgx2", 0.5333, 0.5333, 1.0),
        ("b4", 1.0909, 1.5, None),
    ],
)
def test_bounds_with_links_of_one(spec, two_phases, all_reduce, in_network):
    bounds = output("bound", spec, "--bandwidth", "1GB/s")
    assert bounds["reduce_scatter_all_gather_Bps"] == pytest.approx(two_phases * 1e9, rel=1e-4)
    assert bounds["all_reduce_Bps"] == pytest.approx(all_reduce * 1e9, rel=1e-4)
    assert bounds["exact"]["reduce_scatter_all_gather_Bps"]
    assert bounds["exact"]["all_reduce_Bps"]
    assert bounds.get("in_network_Bps") == (None if in_network is None else in_network * 1e9)
    assert set(bounds["exact"]) == set(bounds["method"]) == {key for key in bounds if key.endswith("_Bps")}


def test_one_rank_has_no_bound_and_takes_no_time():
    assert output("bound", "ring:1")["all_reduce_Bps"] is None
    row = output("simulate", "ring:1", "-a", "ring")
    assert (row["time_s"], row["bound_s"], row["bound_fraction"]) == (0, 0, None)


def test_rows_say_how_close_to_the_limit_they_are():
    row = output("simulate", "torus:8x8", "-a", "multiring", "--size", "1GiB")
    assert row["bound_s"] == pytest.approx((1 << 30) * 126 / 64 / (4 * 16e9) + 150e-9)
    assert row["bound_fraction"] == pytest.approx(row["bound_s"] / row["time_s"])
    assert row["bound_fraction"] > 0.99
    gathered = output("simulate", "torus:8x8", "-a", "forest", "--collective", "all-gather", "--size", "1GiB")
    assert gathered["bound_s"] == pytest.approx((1 << 30) * 63 / 64 / (4 * 16e9), rel=1e-3)
    assert gathered["bound_fraction"] > 0.99


def test_compare_lists_a_row_a_size_and_algorithm_with_one_winner_a_size():
    rows = output("compare", "b4", "-a", "ring,multitree,auto", "--sizes", "1MiB:4MiB")
    assert [row["size_bytes"] >> 20 for row in rows] == [1, 1, 1, 2, 2, 2, 4, 4, 4]
    assert [row["algorithm"] for row in rows[:3]] == ["ring", "multitree", "auto"]
    for size in (1 << 20, 2 << 20, 4 << 20):
        at_size = [row for row in rows if row["size_bytes"] == size]
        least = min(row["time_s"] for row in at_size)
        assert all(row["winner"] == (row["time_s"] == least) for row in at_size)


def test_the_table_has_nccl_tests_columns():
    result = command("compare", "torus:4x4", "--sizes", "32KiB:64KiB", "--all")
    assert result.returncode == 0
    answer, table = result.stdout.split("\n\n", 1)
    header = table.splitlines()[0].split()
    assert header[:8] == ["size", "count", "type", "redop", "time", "algbw", "busbw", "bound"]
    winners = [line.split()[-2] for line in table.splitlines() if line.endswith("*")]
    assert [line.split()[1] for line in answer.splitlines()[1:]] == winners
    assert len(winners) == 2


def test_a_long_table_is_shown_where_it_is_asked_for_and_the_answer_always():
    short = command("compare", "torus:4x4", "--sizes", "32KiB:64KiB").stdout
    assert [line.split()[0] for line in short.splitlines()[:3]] == ["size", "32KiB", "64KiB"]
    assert "rows are not shown; --all shows them" in short
    whole = command("compare", "torus:4x4", "-a", "ring,multitree", "--sizes", "32KiB:64KiB").stdout
    assert "not shown" not in whole
    assert whole.count("multitree") == 4


def test_a_plan_file_is_checked_and_simulated(tmp_path):
    file = tmp_path / "plan.json"
    assert command("plan", "dgx2", "-a", "multitree", "-o", str(file)).returncode == 0
    assert output("check", str(file)) == {"correct": True, "reason": ""}
    assert output("simulate", str(file))["algorithm"] == "multitree"


def test_a_wrong_plan_is_refuted_with_exit_code_1(tmp_path):
    file = tmp_path / "plan.json"
    command("plan", "ring:4", "-a", "ring", "-o", str(file))
    plan = json.loads(file.read_text())
    plan["phases"][0]["trees"].pop()
    file.write_text(json.dumps(plan))
    result = command("check", str(file))
    assert result.returncode == 1
    assert result.stdout.startswith("wrong: units 3..4: GPU")


def test_topology_describes_and_converts(tmp_path):
    file = tmp_path / "b4.graphml"
    described = output("topology", "b4:skew=0.5", "-o", str(file))
    assert described == {
        "name": "b4:skew=0.5",
        "accelerators": 12,
        "switches": 0,
        "links": 38,
        "ranks": 12,
        "reduce": 0,
        "multicast": 0,
        "shared": [],
    }
    assert output("topology", str(file)) == described


@pytest.mark.parametrize("spec", ["torus:4x4", "dgx2", "bigraph:4x8", "cluster:nodes=2,gpus=4,rails=2", "b4"])
def test_every_collective_of_every_network(spec):
    for collective in [name for name in COLLECTIVES if name != "all-reduce"]:
        summary = output("plan", spec, "--collective", collective, "-a", "multitree")
        assert summary["collective"] == collective


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("plan torsu:8x8", "topology 'torsu:8x8': neither a file nor a known spec"),
        ("plan torus:8x8 -a multitre", "algorithm 'multitre' is unknown; did you mean multitree? known are auto, ring"),
        ("plan torus:8x8 --bandwidth 16", "bandwidth '16': write a number and a unit"),
        ("plan torus:8x8 --bandwidth 0GB/s", "must be positive, got 0"),
        ("plan torus:8x8 --bandwidth -1GB/s", "must be positive, got -1000000000"),
        ("plan torus:8x8 --bandwidth nanGB/s", "bandwidth 'nanGB/s'"),
        ("plan torus:8x8 --bandwidth 1e30GB/s", "out of range"),
        ("plan torus:8x8 --latency 5", "time '5': write a number and a unit"),
        ("plan torus:8x8 --latency=-5ms", "must not be negative"),
        ("plan fattree:8,2 -a ring2d", "ring2d needs a 2-D torus or mesh"),
        ("plan bigraph:4x8 -a hdrm --ranks 0-5", "hdrm needs a power of two ranks, got 6"),
        ("plan ring:6 -a hdrm", "got 6: use halving-doubling"),
        ("simulate torus:8x8 --size -5", "size '-5'"),
        ("simulate torus:8x8 --size 1.5B", "whole number of bytes"),
        ("simulate torus:8x8 --size 1QiB", "size '1QiB'"),
        ("simulate torus:8x8 --simulator quantum", "simulator 'quantum' is unknown"),
        ("plan torus:4x4 --ranks 0-16", "no accelerator has index 16: the network has 16; write indices from 0 to 15"),
        ("plan torus:4x4 --ranks 3-1", "runs backwards; write 1-3"),
        ("plan torus:4x4 --ranks 1,1", "'GPU1' is listed twice"),
        ("plan torus:4x4 --ranks 99", "no accelerator has index 99"),
        ("plan torus:4x4 --rank-order 0,1", "does not list each of the 16 ranks once"),
        ("plan torus:4x4 --trees 0", "trees must be a whole number from 1 on, got '0'"),
        ("plan torus:4x4 -a multitree --trees 17", "asked for 17 trees on 16 ranks; ask for at most 16"),
        ("plan torus:4x4 --steps 0", "steps must be a whole number from 1 on, got '0'"),
        ("plan torus:4x4 --steps 7", "at least 8 steps; allow 8 steps, or plan only one half"),
        ("plan torus:4x4 -a forest --collective all-gather --steps 3", "all-gather takes at least 4 steps"),
        ("plan torus:4x4 -a ring --steps 8", "ring has no option steps; forest accepts it"),
        ("plan torus:4x4 --steps 8 --height 4", "keeps height and steps at once: packing and mtree accept height"),
        ("topology dgx2:planes=x", "planes='x' is not a number; write for example dgx2"),
        ("topology dgx2:planes=-1", "planes='-1' is not a whole number from 0 on, or is too large; write"),
        ("plan torus:4x4 -a multitree,ring", "this command takes one algorithm; 'treefold compare'"),
        ("plan torus:4x4 --tree-order widdershins", "tree order 'widdershins' is unknown"),
        ("plan torus:4x4 --neighbor-order far", "neighbor order 'far' is unknown"),
        ("plan torus:4x4 --collective scan", "collective 'scan' is unknown"),
        ("plan torus:4x4 --collective broadcast --root 16", "root 16 does not exist"),
        ("plan torus:4x4 -a ring2d --collective reduce", "ring2d cannot do reduce"),
        ("compare torus:4x4 --sizes 4MiB:1MiB", "must rise"),
        ("compare torus:4x4 --sizes 0:1MiB", "must rise"),
        ("compare torus:4x4 --collective foo", "collective 'foo' is unknown"),
        ("compare torus:4x4 --simulator flaw", "simulator 'flaw' is unknown"),
        ("compare torus:4x4 --collective broadcast --root 99", "root 99 does not exist"),
        ("compare torus:4x4 -a hdrm", "hdrm needs a BiGraph"),
        ("check missing.json", "missing.json: no such file"),
        ("plan missing.graphml", "missing.graphml: no such file"),
        ("plan torus:4x4 --frobnicate", "No such option: --frobnicate"),
        ("plan", "Missing argument 'NETWORK'"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(arguments, expected, tmp_path):
    target = tmp_path / "out.json"
    extra = ["-o", str(target)] if arguments.startswith("plan ") else []
    result = command(*arguments.split(), *extra)
    assert (result.returncode, result.stdout) == (2, "")
    assert expected in result.stderr
    assert result.stderr.count("\n") == 1
    assert not target.exists()


def break_plan(text: str, kind: str) -> str:
    plan = json.loads(text)
    match kind:
        case "truncated":
            return text[: len(text) // 2]
        case "a table":
            return "source,target\na,b\n"
        case "newer":
            plan["version"] = 99
        case "other node":
            plan["lanes"][0]["target"] = 99
        case "other link":
            plan["lanes"][0]["links"] = [999]
        case "other lane":
            plan["phases"][0]["trees"][0]["down"]["edges"]["lanes"][0] = 999
        case "two promises":
            plan["phases"][0]["pace"] = {"step": {"transfer_unit_Bps": 1e9, "message_unit_Bps": 2e9}}
        case "other root":
            plan["phases"][0]["trees"][0]["root"] = 99
        case "a topology":
            return json.dumps(plan["topology"])
    return json.dumps(plan)


@pytest.mark.parametrize(
    ("kind", "expected"),
    [
        ("truncated", "not a whole treefold-plan file"),
        ("a table", "not a treefold-plan file, which is JSON"),
        ("newer", "version 99 is newer than this treefold reads (1); upgrade treefold"),
        ("other node", "lane 0 refers to node 99, but ring:4 has 4 nodes"),
        ("other link", "lane 0 refers to link 999, but ring:4 has 8 links"),
        ("other lane", "has lane 999 at edge 0, but the plan lists"),
        ("two promises", "a step has transfer_unit_Bps and message_unit_Bps; leave out one, as links keep one promise"),
        ("other root", "phase 0, tree 0: root must be the number of a node of ring:4, from 0 to 3, got 99"),
        ("a topology", "this is a 'treefold-topology' file, not a 'treefold-plan' one"),
    ],
)
def test_a_bad_plan_file_is_one_line_and_exit_code_2(kind, expected, tmp_path):
    file = tmp_path / "plan.json"
    command("plan", "ring:4", "-a", "ring", "-o", str(file))
    file.write_text(break_plan(file.read_text(), kind))
    result = command("check", str(file))
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1)
    assert expected in result.stderr
    assert str(file) in result.stderr


def test_a_wrong_plan_is_not_simulated(tmp_path):
    file = tmp_path / "plan.json"
    command("plan", "ring:4", "-a", "ring", "-o", str(file))
    plan = json.loads(file.read_text())
    plan["phases"][0]["trees"][0]["up"]["edges"]["steps"][0] = 1
    file.write_text(json.dumps(plan))
    result = command("simulate", str(file))
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "the plan is wrong and can only be checked: tree 0" in result.stderr


@pytest.mark.filterwarnings("ignore::treefold.importers.TopologyWarning")
def test_ranks_are_positions_among_all_accelerators():
    network = {
        "format": "treefold-topology",
        "version": 1,
        "nodes": [{"name": name} for name in "ABCD"],
        "links": [
            {"source": a, "target": b, "bandwidth_Bps": 1e9, "both_ways": True}
            for a, b in [("A", "B"), ("B", "C"), ("C", "D")]
        ],
        "ranks": ["D", "B"],
    }
    choose = (
        {"ranks": "D", "rank_order": None},
        {"ranks": None, "rank_order": "1,3"},
        {"ranks": [0, 2], "rank_order": None},
    )
    names = [library.topology(network, **chosen).rank_names for chosen in choose]
    assert names == [["D"], ["B", "D"], ["A", "C"]]


@pytest.mark.parametrize("node_cap", [None, "100MB/s"])
def test_idle_accelerators_relay_unless_they_may_not(node_cap):
    def passed(plan):
        edges = (edge for tree in plan.trees() for edge in (*tree.reduce(), *tree.broadcast()))
        return {node.partition("/")[0] for edge in edges for node in edge.route} - set(plan.topology.rank_names)

    relayed = library.topology("b4", ranks="0-5", node_cap=node_cap)
    alone = library.without_relays(relayed)
    assert alone.accelerator_names == relayed.accelerator_names
    assert passed(library.plan(relayed, "packing"))
    assert not passed(library.plan(alone, "packing"))
    rates = [library.bound(network).all_reduce.rate_Bps for network in (relayed, alone)]
    assert rates[0] > rates[1]


def test_replanning_without_relays_keeps_the_ranks(tmp_path):
    plan, new = tmp_path / "plan.json", tmp_path / "new.json"
    options = ("--ranks", "0-5", "--relays", "none")
    assert command("plan", "b4", *options, "-a", "packing", "-o", str(plan)).returncode == 0
    for relays, are_idle in (((), True), (("--relays", "None"), True), (("--relays", "all"), False)):
        assert command("replan", str(plan), "b4:skew=0.5,seed=1", *relays, "-o", str(new)).returncode == 0
        network = library.load_plan(new).topology
        assert network.ranks == 6
        assert ({link.source for link in network.links()} <= set(network.rank_names)) == are_idle
    assert "relays 'some' is unknown; known are all, none" in command("plan", "b4", "--relays", "some").stderr


@pytest.mark.filterwarnings("ignore::treefold.importers.TopologyWarning")
def test_ranges_of_numeric_names_are_names():
    network = {
        "format": "treefold-topology",
        "version": 1,
        "nodes": [{"name": str(i)} for i in range(1, 7)],
        "links": [{"source": str(i), "target": str(i % 6 + 1), "both_ways": True} for i in range(1, 7)],
    }
    chosen = library.topology(network, bandwidth_Bps=1e9, latency_s=0.0, ranks="1-3,5")
    assert chosen.rank_names == ["1", "2", "3", "5"]


def test_times_longer_than_any_latency_are_printed():
    result = command("plan", "random:n=4", "--bandwidth", "1B/s", "--size", "1TB")
    assert result.returncode == 0
    row = output("simulate", "ring:4", "-a", "ring", "--bandwidth", "1kB/s", "--size", "1PB")
    assert row["time_s"] == pytest.approx(1.5e12)


@pytest.mark.parametrize("size", [float("nan"), float("inf"), -1, 0.5, True])
def test_sizes_in_python_are_whole_numbers(size):
    with pytest.raises(TreefoldError, match="must be a whole number of bytes"):
        library.plan("ring:4", size_bytes=size)


@pytest.mark.parametrize("ranks", [[-1], [0.5, 1], [4], ["GPU9"], [], "²", "99999999999"])
def test_ranks_in_python_are_positions_or_names(ranks):
    with pytest.raises(TreefoldError):
        library.topology("ring:4", ranks=ranks)


def test_a_plan_file_takes_no_second_algorithm(tmp_path):
    file = tmp_path / "plan.json"
    command("plan", "ring:4", "-a", "ring", "-o", str(file))
    result = command("simulate", str(file), "-a", "multitree")
    assert (result.returncode, result.stderr.count("\n")) == (2, 1)
    assert "is already a plan; drop --algorithm" in result.stderr


def test_help_imports_nothing_slow():
    code = "import sys, treefold.cli.main; sys.exit(bool({'numpy', 'networkx', 'matplotlib'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.skipif(not DATA.exists(), reason="the shared data are not beside this repository")
@pytest.mark.slow
def test_real_networks_compare_within_the_minute_that_the_issue_allows():
    measured = ("compare", DATA / "skyplane_matrix.json", "--node-cap", "5Gbit/s")
    backbone = ("compare", DATA / "Interoute.graphml", "--bandwidth", "10Gbit/s", "--latency", "5ms")
    for words in (measured, backbone):
        rows = json.loads(command(*words, "--sizes", "64MiB", "--json").stdout)  # they warn of what the files lack
        assert {row["algorithm"] for row in rows} >= {"ring", "multiring", "dbtree", "multitree", "packing"}
