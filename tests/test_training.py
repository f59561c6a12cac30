"""Training time: rows, the command and the Python interface."""

import doctest
import json
import signal
import subprocess
import time
from dataclasses import fields

import pytest

import treefold as package
from commands import TREEFOLD, command, output
from treefold import TreefoldError, training
from treefold.report import train_table
from treefold.training import (
    MODELS,
    Gpu,
    Layer,
    Model,
    Systolic,
    TrainingOptions,
    Window,
    convolution,
    iteration,
    linear,
    load,
    train,
)

# Rows


def test_rows_have_the_keys_of_the_contract():
    rows = output("train", "resnet50", "torus:8x8", "-a", "ring,ring2d,multitree", "--overlap", "layer")
    assert [row["algorithm"] for row in rows] == ["ring", "ring2d", "multitree"]
    for row in rows:
        assert row["model"] == "resnet50"
        assert row["compute_s"] == pytest.approx(row["compute_cycles"] / 1e9)
        parts = ("compute", "local_aggregation", "optimizer", "stolen", "exposed_communication")
        assert row["iteration_s"] == pytest.approx(sum(row[f"{part}_s"] for part in parts))
        assert row["exposed_communication_s"] <= row["communication_s"]
        assert row["speedup"] == pytest.approx(rows[0]["iteration_s"] / row["iteration_s"])
        assert row["baseline"] == "ring"
    assert sum(row["winner"] for row in rows) == 1


def test_speedups_are_over_the_first_named_algorithm_that_fits():
    with pytest.warns(UserWarning, match="ring2d is left out"):
        report = train("ncf:paper", "ring:4", "ring2d,multiring,ring")
    multiring, ring = report
    assert (multiring.baseline, ring.baseline, multiring.speedup) == ("multiring", "multiring", 1.0)
    assert ring.speedup == pytest.approx(multiring.iteration_s / ring.iteration_s)
    assert "(over multiring)" in train_table(report) and "stronger" not in train_table(report)
    assert "baseline multiring" in report._repr_html_()


def test_where_nobody_names_algorithms_speedups_are_over_the_preferred_one_or_the_first(monkeypatch):
    assert {row.baseline for row in train("ncf:paper", "ring:4")} == {"nccl"}
    monkeypatch.setattr(iteration, "_BASELINE", "nothing of this name")
    assert {row.baseline for row in train("ncf:paper", "ring:4")} == {"ring"}
    monkeypatch.setattr(iteration, "_BASELINE", "multiring")
    report = train("ncf:paper", "ring:4")
    assert {row.baseline for row in report} == {"multiring"}
    assert [row.speedup for row in report if row.algorithm == "multiring"] == [1.0]
    assert {row.baseline for row in train("ncf:paper", "ring:4", "ring,multiring")} == {"ring"}


def test_a_table_says_that_speedups_over_a_ring_flatter():
    report = train("ncf:paper", "cluster:nodes=2,gpus=4", "ring,multitree")
    assert train_table(report).endswith("one rail between servers; name a stronger algorithm first")
    assert "speed-ups are over" not in train_table(report[:1])


def test_without_overlap_an_iteration_is_compute_and_an_all_reduce():
    [row] = train("alexnet:paper", "torus:4x4", "ring", simulator="flow")
    network = package.topology("torus:4x4")
    expected = package.simulate(package.plan(network, "ring"), size_bytes=4 * 3_745_824, simulator="flow").time_s
    assert row.compute_cycles == 94_936_092
    assert row.communication_s == pytest.approx(expected)
    assert row.exposed_communication_s == pytest.approx(expected)
    # 3,745,824 parameters over 16 arrays, 32 columns each.
    assert row.local_aggregation_s == pytest.approx(117_072e-9)


LARGER = [pytest.param(spec, marks=pytest.mark.slow) for spec in ("fattree:8,2", "dgx2", "b4")]


@pytest.mark.parametrize("network", ["torus:4x4", *LARGER])
def test_every_model_trains_on_every_kind_of_network(network):
    loaded = package.topology(network)
    for name in MODELS:
        for accelerator in ("systolic", "volta"):
            rows = train(name, loaded, "ring,multitree", accelerator=accelerator, overlap="bucket")
            assert all(row.iteration_s >= row.compute_s > 0 for row in rows)


def test_what_is_faster_on_the_network_is_never_slower_to_train():
    for overlap in ("none", "layer", "bucket"):
        ring, multitree = train("resnet50:paper", "torus:8x8", "ring,multitree", overlap=overlap, simulator="flow")
        assert multitree.iteration_s <= ring.iteration_s


def test_all_that_fit_are_tried_and_auto_says_what_it_took():
    rows = train("ncf:paper", "torus:4x4")
    assert {"ring", "ring2d", "multitree", "packing"} <= {row.algorithm for row in rows}
    [auto] = train("ncf:paper", "torus:4x4", "auto")
    assert auto.iteration_s <= min(row.iteration_s for row in rows) * 1.02
    assert auto.chosen


def test_software_takes_compute_away_and_switches_do_not():
    ring, push = train("bert-base", "dgx2:planes=6", "ring,innet-push", accelerator="volta", overlap="layer", batch=2)
    assert ring.compute_overhead_s > 0 == push.compute_overhead_s
    [free] = train(
        "bert-base", "dgx2:planes=6", "ring", accelerator="volta", overlap="layer", batch=2, compute_overhead=0
    )
    assert free.iteration_s < ring.iteration_s


def test_model_parallelism_splits_compute_and_waits_for_every_sum():
    [row] = train("megatron-345m", "dgx2", "ring", accelerator="volta", model_parallel=16, batch=4)
    [alone] = train("megatron-345m", "dgx2", "ring", accelerator="volta", batch=4)
    assert row.compute_s < alone.compute_s / 4
    assert row.exposed_communication_s == pytest.approx(row.communication_s)


@pytest.mark.parametrize("accelerator", ["systolic", "volta"])
def test_one_rank_trains_alone(accelerator):
    alone = package.topology("torus:4x4", ranks="3")
    for model, how in (("resnet50", {"overlap": "layer"}), ("megatron-345m", {"model_parallel": 1})):
        [row] = train(model, alone, "ring", accelerator=accelerator, **how)
        assert row.communication_s == row.compute_overhead_s == row.collectives == 0


def test_whose_parameters_and_samples_are_told():
    [data] = train("megatron-345m", "dgx2", "ring", accelerator="volta", batch=4)
    [split] = train("megatron-345m", "dgx2", "ring", accelerator="volta", batch=4, model_parallel=16)
    assert data.parameters == data.parameters_per_rank == split.parameters == 354_823_168
    assert split.parameters_per_rank == pytest.approx(354_823_168 / 16, rel=0.05)
    assert (data.samples, split.samples) == (64, 4)
    assert split.samples_per_s == pytest.approx(4 / split.iteration_s)
    result = command("train", "megatron-345m", "dgx2", "-a", "ring", "--accelerator", "volta", "--model-parallel", "16")
    assert "354,823,168 parameters, 16 samples of each group of 16 ranks" in result.stdout


def test_auto_names_what_its_messages_took():
    [row] = train("alexnet:paper", "torus:4x4", "auto", simulator="flow")
    assert row.collectives == 1 and "," not in row.chosen
    large, small = linear("large", 3000, 3000), Layer("small", parameters=100)
    [alone] = train(Model("one", (large,)), "ring:8", "auto", simulator="packet", overlap="layer")
    [both] = train(Model("two", (large, small)), "ring:8", "auto", simulator="packet", overlap="layer")
    assert alone.chosen in both.chosen


def test_short_buffers_are_told():
    [row] = train("ncf:paper", package.topology("ring:3", latency_s=1e-3), "ring", simulator="packet")
    assert row.buffer_cover < 1
    result = command("train", "ncf:paper", "ring:3", "--latency", "1ms", "-a", "ring", "--simulator", "packet")
    assert "of a link's round trip, which limits its rate; raise them with --set buffer_flits=N" in result.stdout


def test_each_algorithm_gets_the_planner_options_that_it_has():
    ring, few = train("alexnet", "b4", "ring,packing", trees=2)
    _, many = train("alexnet", "b4", "ring,packing")
    assert few.iteration_s != many.iteration_s
    assert [ring.iteration_s] == [each.iteration_s for each in train("alexnet", "b4", "ring")]
    with pytest.raises(TreefoldError, match="ring"):
        train("alexnet", "b4", "ring", trees=2)


def test_a_machine_asks_for_the_packet_simulator():
    [slow] = train("alexnet:paper", "torus:4x4", "ring", simulator=package.Machine(virtual_channels=2, buffer_flits=20))
    [fast] = train("alexnet:paper", "torus:4x4", "ring", simulator="packet")
    assert slow.simulator == fast.simulator == "packet"
    assert slow.communication_s > fast.communication_s


# The command


def test_a_picture_and_a_trace_show_the_same_iterations(tmp_path):
    picture, trace = tmp_path / "lines.svg", tmp_path / "trace.json"
    arguments = ("transformer:paper", "torus:4x4", "-a", "ring,multitree", "--overlap", "bucket")
    rows = output("train", *arguments, "--plot", str(picture), "--trace", str(trace))
    assert "all-reduce" in picture.read_text(encoding="utf-8")
    events = json.loads(trace.read_text(encoding="utf-8"))["traceEvents"]
    for process, row in enumerate(rows):
        own = [event for event in events if event["ph"] == "X" and event["pid"] == process]
        assert max(event["ts"] + event["dur"] for event in own) == pytest.approx(row["iteration_s"] * 1e6)


def test_people_see_a_table_with_the_winner():
    result = command("train", "ncf:paper", "torus:4x4", "-a", "ring,multitree")
    assert result.returncode == 0
    header, units, ring, multitree, facts, memory, warned, assumed = result.stdout.splitlines()
    assert memory == "# memory of a rank: 0.1 GB (parameters 0.0, gradients 0.0, optimizer 0.0, activations 0.0)"
    assert "--accelerator is systolic by default" in assumed
    assert header.split()[:3] == ["algorithm", "iteration", "compute"]
    assert header.endswith("  speed-up") and units.endswith("  (over ring)")
    assert warned.startswith("# speed-ups are over ring, which uses one link of each rank")
    assert ring.split()[0] == "ring" and multitree.endswith("*")
    assert "11,042,704 parameters, 16 samples per rank, 16 x systolic" in facts


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["vgg99", "torus:4x4"], "model 'vgg99' is unknown; known are alexnet, alphagozero"),
        (["bert-large:paper", "torus:4x4"], "model 'bert-large:paper' is unknown"),
        (["nowhere.csv", "torus:4x4"], "nowhere.csv: no such file"),
        (["resnet50", "torus:4x4", "--batch", "20"], "batch 20 does not divide over systolic's 16 arrays"),
        (["resnet50", "torus:4x4", "--batch", "0"], "batch must be at least 1, got 0"),
        (["resnet50", "torus:4x4", "--batch", f"1{'0' * 400}"], "batch must be at most 1000000000"),
        (["resnet50", "torus:4x4", "--bucket", "1MB"], "has no effect with the overlap none; take --overlap bucket"),
        (["resnet50", "torus:4x4", "--optimizer", "sgd"], "optimizer 'sgd': updates take no time on systolic; drop it"),
        (
            ["bert-base", "ring:4", "--model-parallel", "4", "--overlap", "layer"],
            "--overlap layer is for gradients of",
        ),
        (["resnet50", "torus:4x4", "--overlap", "bucket", "--bucket", "0"], "--bucket must be at least 1"),
        (["resnet50", "torus:4x4", "--overlap", "some"], "overlap 'some' is unknown; known are none, layer, bucket"),
        (["resnet50", "torus:4x4", "--accelerator", "abacus"], "accelerator 'abacus' is unknown; known are systolic"),
        (["resnet50", "torus:4x4", "--optimizer", "lion"], "optimizer 'lion' is unknown; known are none, sgd"),
        (["resnet50", "torus:4x4", "--model-parallel", "4"], "cuts it; drop --model-parallel 4, take"),
        (["megatron-2.5b", "torus:4x4", "--model-parallel", "16"], "16 ranks do not divide 20 heads"),
        (["bert-base", "ring:4", "--model-parallel", "4", "--sharding", "fsdp"], "--sharding fsdp is for gradients"),
        (["bert-base", "ring:4", "--model-parallel", "3"], "4 ranks do not fall into groups of 3; take for example"),
        (["bert-base", "ring:4", "--model-parallel", "5"], "--model-parallel must be at most 4, got 5"),
        (["bert-base", "ring:4", "--accumulate", "0"], "--accumulate must be at least 1, got 0"),
        (
            ["bert-base", "ring:4", "--sharding", "zero-9"],
            "sharding 'zero-9' is unknown; known are none, zero-1, zero-2, fsdp",
        ),
        (["bert-base", "ring:4", "--numbers", "fp8"], "numbers fp8: systolic computes with numbers of 32 bits only"),
        (
            ["bert-base", "ring:4", "--accelerator", "a100", "--numbers", "fp16"],
            "bf16 stands for fp16, too; take --numbers bf16",
        ),
        (["bert-base", "ring:4", "--accelerator", "a100", "--numbers", "fp8"], "a100 has no peak for fp8; take"),
        (
            ["resnet50", "torus:4x4", "--compute-overhead", "1"],
            "--compute-overhead is 1.0; it must be a fraction of the compute",
        ),
        (
            ["bert-base", "ring:4", "--accelerator", "a100", "--compute-overhead", "0.1"],
            "a --compute-overhead of 0.1 has no effect with the overlap none",
        ),
        (["resnet50", "torus:4x4", "--gradient-bytes", "0"], "--gradient-bytes must be at least 1"),
        (["resnet50", "torus:4x4", "--input", "x=3"], "inputs are for PyTorch modules, and resnet50 is not one"),
        (["resnet50", "torus:4x4", "-a", "ring,magic"], "algorithm 'magic' is unknown"),
        (["resnet50", "dgx2", "-a", "ring2d"], "ring2d needs a 2-D torus or mesh"),
        (["resnet50", "torus:4x4", "-a", "ring2d", "--sharding", "zero-2"], "ring2d cannot do reduce-scatter"),
        (["resnet50", "torus:4x4", "--plot", "x.gif"], "cannot draw the extension '.gif'"),
        (["resnet50", "torus:4x4", "--trace", "/nowhere/x.json"], "/nowhere"),
        (
            ["resnet50", "torus:4x4", "--simulator", "magic"],
            "simulator 'magic' is unknown; known are analytic, flow, packet",
        ),
        (["no_such_module:build", "torus:4x4"], "model no_such_module:build needs PyTorch"),
        (["ncf:build", "torus:4x4"], "model ncf:build needs PyTorch"),
        (["ncf:papr", "torus:4x4"], "model 'ncf:papr' is unknown; did you mean ncf:paper?"),
    ],
)
def test_bad_input_is_one_clear_line(arguments, message):
    result = command("train", *arguments)
    assert (result.returncode, result.stdout, result.stderr.count("\n")) == (2, "", 1), result.stderr
    assert message in result.stderr


def test_accelerators_of_ones_own_can_be_given():
    slow = Gpu(name="mine", peak_flops=1e12, memory_Bps=100e9)
    small = Systolic(arrays=4, rows=8, columns=8, name="small")
    for accelerator in (slow, small):
        [row] = train("resnet50", "torus:4x4", "ring", accelerator=accelerator, batch=4)
        assert row.accelerator == accelerator.name


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: Gpu(name="g", peak_flops=0, memory_Bps=1e12), "g's peak_flops is 0; it must be a number above 0"),
        (lambda: Gpu(name="g", peak_flops=1e12, memory_Bps=-1), "g's memory_Bps is -1"),
        (
            lambda: Gpu(name="g", peak_flops=1e12, memory_Bps=1, attainable=5),
            "g's attainable is 5; it must be",
        ),
        (lambda: Gpu(name="g", peak_flops=1e12, memory_Bps=1, attainable_memory=2), "above 0, and at most 1"),
        (lambda: Gpu(name="g", peak_flops=1e12, memory_Bps=1, launch_s=-1), "launch_s is -1; it must be at least 0"),
        (
            lambda: Gpu(name="g", peak_flops=1e12, memory_Bps=1, compute_overhead=1),
            "g's compute_overhead is 1; it",
        ),
        (lambda: Systolic(launch_s="1ms"), "systolic's launch_s must be a number of seconds, got '1ms'"),
        (lambda: Systolic(arrays=0), "systolic's arrays must be at least 1, got 0"),
        (lambda: Systolic(rows=1.5), "systolic's rows must be a whole number, got 1.5"),
        (lambda: Systolic(clock_hz=0), "systolic's clock_hz is 0; it must be a number above 0"),
        (lambda: linear("fc", 4, 4, extra_parameters=-5), "layer fc: extra_parameters must be at least 0, got -5"),
        (lambda: linear("fc", 4, 4, split="foo"), "layer fc: split 'foo' is unknown; known are columns, rows, heads"),
        (
            lambda: convolution("c", (8, 8), Window(3, 3), channels=3, filters=4, extra_parameters=-1),
            "layer c: extra_parameters must be at least 0, got -1",
        ),
        (
            lambda: train(Model("m", (Layer("x", parameters=1, split="foo"),)), "ring:2", model_parallel=2),
            "model 'm': layer 1: split 'foo' is unknown",
        ),
        (lambda: TrainingOptions(batch=-1), "batch must be at least 1, got -1"),
        (lambda: TrainingOptions(bucket_bytes=0), "bucket_bytes must be at least 1, got 0"),
        (lambda: TrainingOptions(overlap="bukcet"), "overlap 'bukcet' is unknown; did you mean bucket?"),
        (lambda: TrainingOptions(accelerator=5), "accelerator 5 is not a name"),
        (lambda: train("resnet50", "torus:4x4", batch=1.5), "batch must be a whole number, got 1.5"),
        (lambda: train(3, "torus:4x4"), "model is of type int; give a name, a Model"),
        (lambda: train(Model("empty", (Layer("x"),)), "torus:4x4"), "model empty has no parameters"),
        (
            lambda: train(Model("idle", (Layer("x", parameters=1),)), "ring:1", accelerator="h100", optimizer="none"),
            "nothing",
        ),
    ],
)
def test_what_cannot_be_in_python_is_one_clear_line(make, message):
    with pytest.raises(TreefoldError) as error:
        make()
    assert message in str(error.value)


def test_an_interrupt_does_not_wait_for_simulations():
    arguments = ("train", "bert-large", "fattree:8,2", "-a", "dbtree", "--overlap", "layer", "--simulator", "packet")
    running = subprocess.Popen([TREEFOLD, *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    time.sleep(1.5)
    assert running.poll() is None
    running.send_signal(signal.SIGINT)
    assert running.communicate(timeout=5) == ("", "interrupted\n")
    assert running.returncode == 130


# The Python interface


def test_a_misspelt_keyword_says_what_was_meant():
    for keyword, meant in (
        ("bach", "batch"),
        ("acelerator", "accelerator"),
        ("simulater", "simulator"),
        ("tree", "trees"),
    ):
        with pytest.raises(TreefoldError, match=f"train has no argument '{keyword}'; did you mean {meant}"):
            train("resnet50", "ring:4", **{keyword: 1})


@pytest.mark.parametrize(
    ("make", "meant"),
    [
        (lambda: load("resnet5"), "resnet50"),
        (lambda: train("resnet50", "ring:4", accelerator="h10"), "h100"),
        (lambda: train("resnet50", "ring:4", overlap="buckets"), "bucket"),
        (lambda: train("resnet50", "ring:4", accelerator="h100", optimizer="adams"), "adam"),
    ],
)
def test_a_misspelt_name_says_what_was_meant(make, meant):
    with pytest.raises(TreefoldError, match=f"did you mean {meant}"):
        make()


def test_every_option_has_a_sentence_of_help_and_names_its_values():
    for option in fields(TrainingOptions):
        text = option.metadata["help"]
        assert text[0].isupper() and text.endswith(".")
        assert all(value in text for value in option.metadata["values"])


def test_the_options_of_the_command_are_those_of_python():
    shown = command("train", "--help").stdout
    for option in fields(TrainingOptions):
        assert (option.metadata["flag"] or f"--{option.name.replace('_', '-')}") in shown


def test_a_report_is_short_and_has_the_rows_of_the_command():
    report = train("ncf:paper", "torus:4x4", "ring,multitree")
    printed = output("train", "ncf:paper", "torus:4x4", "-a", "ring,multitree")
    assert [list(row) for row in report.rows()] == [list(row) for row in printed]
    assert [row | {"wall_s": 0} for row in report.rows()] == [row | {"wall_s": 0} for row in printed]
    assert report.as_dict() == {"rows": report.rows()}
    assert len(repr(report)) < 100 and len(repr(report[0])) < 100 and len(repr(load("bert-large"))) < 100
    assert report.fastest() is report[1] and len(report) == 2 and report[:1] == (report[0],)


def test_examples_in_docstrings_do_what_they_say():
    finder, runner = doctest.DocTestFinder(recurse=False), doctest.DocTestRunner()
    # PyTorch's example runs in tests_torch.
    public = {name: getattr(training, name) for name in training.__all__ if name != "from_torch"}
    listed = {name: value for name, value in public.items() if callable(value) and name != "Accelerator"}
    examples = [*finder.find(training, "training"), *(finder.find(value, name)[0] for name, value in listed.items())]
    assert [each.name for each in examples if not each.examples] == []
    for each in examples:
        each.globs["treefold"] = package
        runner.run(each)
    assert runner.summarize().failed == 0
