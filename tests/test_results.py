"""Results: frozen dataclasses, the same values as the JSON of the command line, tables that become data frames."""

import copy
import io
import json
import pickle
import re
import sys
from dataclasses import FrozenInstanceError, fields, is_dataclass

import pytest

import treefold
from asking import request
from commands import output
from treefold import TreefoldError, explanation_results, job_results, records, results, schedule_tables, winner_results
from treefold.plans import explained_plan
from treefold.regions import Region, switch_tables
from treefold.training.results import TrainingIteration, TrainingReport

KIB, MIB = 1 << 10, 1 << 20


def timeless(value):
    """Returns a value without how long its computation took."""
    if isinstance(value, dict):
        return {key: timeless(each) for key, each in value.items() if key != "wall_s"}
    return [timeless(each) for each in value] if isinstance(value, list) else value


@pytest.fixture(scope="module")
def comparison():
    return treefold.compare("torus:4x4", "ring,multitree,auto", sizes_bytes=[KIB, MIB])


@pytest.fixture(scope="module")
def values():
    """One result of each kind."""
    ring = treefold.plan("ring:4", "ring", size_bytes=MIB)
    choice = explained_plan(request("ring:4", size_bytes=MIB)).choice
    packets = treefold.simulate(treefold.plan("dgx2:planes=6", "innet-push"), size_bytes=64 * KIB, simulator="packet")
    together = treefold.simulate_together([ring, ring], background_load=0.1)
    explained = treefold.explain("ring:4", without="GPU0", is_whole=True)
    grown = treefold.explain("line:3").together
    capped = treefold.topology("line:3", node_cap="20GB/s")
    return [
        treefold.algorithms()["forest"],
        treefold.describe("dgx2:planes=6"),
        treefold.describe(capped).shared[0],
        treefold.check(ring),
        treefold.bound("dgx2"),
        treefold.bound_at("dgx2", MIB, "all-gather"),
        treefold.simulate(ring),
        packets,
        packets.packets,
        packets.packets.fabric,
        packets.link_utilization,
        choice,
        choice.fastest(),
        treefold.summarize(ring),
        treefold.summarize(ring).topology,
        treefold.replan(ring, treefold.topology("ring:4").without_links([("GPU0", "GPU1")])),
        treefold.tables(treefold.plan("ring:4", "multitree", size_bytes=MIB)),
        treefold.train("alexnet", "ring:4", "ring")[0],
        together,
        together.jobs[0],
        together.background,
        explained,
        explained.now,
        explained.links[0],
        treefold.explain(capped).shared[0],
        grown,
        explained.failures[0],
        explained.limits[0],
        explained.answer,
        treefold.winners("ring:4", "ring,swing", sizes_bytes=[MIB])[0],
        treefold.winners("ring:4", "ring,swing", sizes_bytes=[MIB])[0].over,
    ]


def test_every_kind_of_result_is_tried_here(values):
    found = [*vars(results).values(), *vars(schedule_tables).values(), *vars(job_results).values()]
    found += [*vars(winner_results).values(), *vars(explanation_results).values()]
    kinds = {each for each in found if isinstance(each, type) and issubclass(each, records.Record)}
    assert {type(each) for each in values} == (kinds - {records.Record}) | {TrainingIteration}


def test_results_are_frozen_documented_and_short_to_look_at(values):
    for each in values:
        assert is_dataclass(each)
        name = fields(each)[0].name
        with pytest.raises(FrozenInstanceError):
            setattr(each, name, None)
        assert type(each).__doc__
        assert repr(each).startswith(f"{type(each).__name__}(")
        assert len(repr(each)) < 1000


def test_results_become_plain_dictionaries_and_pickle(values):
    for each in values:
        plain = each.as_dict()
        assert json.loads(json.dumps(plain)) == plain
        again = pickle.loads(pickle.dumps(each))
        assert (again, again.as_dict()) == (each, plain)
        assert copy.deepcopy(each) == each


def test_the_command_line_prints_what_python_returns(tmp_path):
    assert output("topology", "dgx2:planes=6") == treefold.describe("dgx2:planes=6").as_dict()
    assert output("bound", "dgx2") == treefold.bound("dgx2").as_dict()
    plan = treefold.plan("b4", "mtree", size_bytes=MIB)
    summary = output("plan", "b4", "-a", "mtree", "--size", "1MiB", "-o", tmp_path / "plan.json")
    expected = treefold.summarize(plan).as_dict()
    assert {key: summary[key] for key in expected} == expected
    assert output("check", tmp_path / "plan.json") == treefold.check(plan).as_dict()
    assert timeless(output("simulate", tmp_path / "plan.json")) == timeless(treefold.simulate(plan).as_dict())


def test_choices_and_tables_are_printed_as_python_returns_them():
    choice = explained_plan(request("torus:4x4", size_bytes=MIB)).choice
    summary = output("plan", "torus:4x4", "--size", "1MiB", "--tables")
    assert summary["choice"] == choice.as_dict()
    best = min(each["time_s"] for each in summary["choice"]["candidates"] if each["time_s"] is not None)
    assert choice.fastest().time_s == best
    tables = treefold.tables(treefold.plan("torus:4x4", size_bytes=MIB)).as_dict()
    assert summary["schedule_tables"] == json.loads(json.dumps(tables))
    network = treefold.topology("dgx2:planes=6")
    regions = output("plan", network.name, "-a", "innet-push", "--region", "0x0:1MiB:0-7")["switch_tables"]
    entries = switch_tables(network, [Region(0, MIB, "0-7")], "innet-push")
    assert regions == {name: [entry.as_dict() for entry in rows] for name, rows in entries.items()}


@pytest.mark.parametrize("simulator", treefold.SIMULATORS)
def test_predictions_are_printed_as_python_returns_them(simulator):
    for spec, algorithm in (("ring:4", "ring"), ("dgx2:planes=6", "innet-push")):
        row = treefold.simulate(treefold.plan(spec, algorithm), size_bytes=64 * KIB, simulator=simulator).as_dict()
        command = ("simulate", spec, "-a", algorithm, "--size", "64KiB", "--simulator", simulator)
        assert timeless(output(*command)) == timeless(row)


def test_comparisons_and_training_are_printed_as_python_returns_them(comparison):
    rows = output("compare", "torus:4x4", "-a", "ring,multitree,auto", "--sizes", "1KiB,1MiB")
    assert timeless(rows) == timeless(comparison.rows())
    report = treefold.train("alexnet", "ring:4", "ring,multitree")
    assert isinstance(report, TrainingReport)
    assert timeless(output("train", "alexnet", "ring:4", "-a", "ring,multitree")) == timeless(report.rows())


def test_a_comparison_is_a_sequence_that_knows_its_fastest(comparison):
    assert len(comparison) == 6
    assert [each.algorithm for each in comparison] == ["ring", "multitree", "auto"] * 2
    assert comparison[0] is next(iter(comparison)) and comparison[-1] == comparison[5]
    assert comparison[:2] == tuple(comparison)[:2]
    assert comparison.sizes() == [KIB, MIB]
    assert comparison.rows() == [each.as_dict() for each in comparison]
    assert comparison.as_dict() == {"rows": comparison.rows()}
    for size, best in zip(comparison.sizes(), comparison.fastest(), strict=True):
        ranked = comparison.at(size)
        assert ranked[0] is best and len(ranked) == 3
        assert [each.time_s for each in ranked] == sorted(each.time_s for each in ranked)
    assert comparison.at(3) == []
    assert repr(comparison) == "Comparison(3 algorithms, sizes 1KiB, 1MiB)"


def test_tables_pickle_and_compare(comparison):
    again = pickle.loads(pickle.dumps(comparison))
    assert (again, hash(again), type(again)) == (comparison, hash(comparison), treefold.results.Comparison)
    assert copy.deepcopy(comparison) == comparison
    assert comparison != treefold.results.Comparison(comparison[:2])
    report = treefold.train("alexnet", "ring:4", "ring")
    assert pickle.loads(pickle.dumps(report)) == report
    assert report != comparison


def test_tables_become_data_frames(comparison):
    pytest.importorskip("pandas")
    frame = comparison.to_pandas()
    assert len(frame) == len(comparison)
    flat = {"link_utilization.mean", "link_utilization.max"}
    assert set(frame.columns) >= ({*comparison[2].as_dict()} - {"link_utilization"}) | flat
    assert list(frame["time_s"]) == [each.time_s for each in comparison]
    assert list(frame["link_utilization.max"]) == [each.link_utilization.max for each in comparison]
    best = frame.loc[frame.groupby("size_bytes")["time_s"].idxmin(), "algorithm"]
    assert list(best) == [each.algorithm for each in comparison.fastest()]
    assert len(treefold.train("alexnet", "ring:4", "ring,dbtree").to_pandas()) == 2


def test_a_table_as_csv_has_the_columns_and_values_of_its_data_frame():
    pandas = pytest.importorskip("pandas")
    rows = treefold.compare("torus:4x4", "ring,multitree", sizes_bytes=[KIB, MIB], simulator="packet")
    read = pandas.read_csv(io.StringIO(rows.to_csv()))
    pandas.testing.assert_frame_equal(read, rows.to_pandas(), check_dtype=False, check_like=True)


def test_without_pandas_the_error_says_what_to_do(comparison, monkeypatch):
    monkeypatch.setitem(sys.modules, "pandas", None)
    with pytest.raises(TreefoldError, match=r"to_pandas needs pandas; install it: pip install .treefold\[pandas\]"):
        comparison.to_pandas()


def test_tables_of_notebooks_have_titles_in_words():
    plan = treefold.plan("ring:4", "ring")
    expected = {
        "Network summary: ring:4": treefold.describe("ring:4"),
        "Plan summary: ring, all-reduce on ring:4": plan,
        "Trace: all-reduce by ring in 1.284us, the busiest links first": treefold.trace(plan, size_bytes=4096),
        "Verdict: correct": treefold.check(plan),
        "Bound report": treefold.bound("ring:4"),
        "Comparison, network ring:4": treefold.compare("ring:4", "ring,dbtree", sizes_bytes=[4096]),
    }
    for title, value in expected.items():
        found = re.findall("<caption>(.*?)</caption>", value._repr_html_())
        assert len(found) == 1 and found[0].startswith(title), found
    explained = treefold.explain("ring:4")._repr_html_()
    assert "<caption>Explanation: ring:4, all-reduce of" in explained and "<caption>Links" in explained
    assert "problem </caption>" not in explained, "what is empty in all rows is not said"
