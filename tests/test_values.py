"""Topologies and plans as Python values: copied, compared, pickled; what a plan was made for; what is refused."""

import copy
import json
import pickle
import sys

import pytest

import treefold
from asking import request
from treefold import Plan, Topology, TreefoldError, _core
from treefold.plans import explained_plan

SPECS = ["torus:4x4", "dgx2:planes=6", "cluster:nodes=2,gpus=4,rails=2", "b4:skew=0.5,seed=3", "random:n=9,seed=2"]
ALGORITHMS = ["ring", "dbtree", "multitree", "packing", "halving-doubling", "psld"]


@pytest.mark.parametrize("spec", SPECS)
def test_a_network_is_copied_compared_and_pickled(spec):
    network = treefold.topology(spec)
    again = pickle.loads(pickle.dumps(network))
    assert again == network
    assert hash(again) == hash(network)
    assert again.to_json() == network.to_json()
    assert copy.copy(network) is copy.deepcopy([network])[0] is network
    assert network != network.with_ranks([1, 0])
    assert network != treefold.topology("ring:3")


@pytest.mark.parametrize("spec", SPECS)
def test_a_plan_is_copied_compared_and_pickled(spec):
    plans = [treefold.plan(spec, algorithm, size_bytes=1 << 20) for algorithm in ALGORITHMS]
    for plan in plans:
        again = pickle.loads(pickle.dumps(plan))
        assert (again, hash(again), again.fingerprint) == (plan, hash(plan), plan.fingerprint)
        assert again == treefold.plan(spec, plan.algorithm, size_bytes=1 << 20)
        assert copy.copy(plan) is copy.deepcopy({0: plan})[0] is plan
    assert len(set(plans)) == len(plans)


@pytest.mark.parametrize(
    "other",
    [
        {"algorithm": "dbtree"},
        {"size_bytes": 1 << 21},
        {"network": "ring:5"},
        {"network": "line:4"},
        {"collective": "broadcast"},
        {"collective": "broadcast", "root": 1},
    ],
)
def test_plans_differ_in_what_they_send_and_what_they_were_made_for(other):
    one = treefold.plan("ring:4", "ring", size_bytes=1 << 20, collective=other.get("collective", "all-reduce"))
    also = {"algorithm": "ring", "size_bytes": 1 << 20, "network": "ring:4"} | other
    if other == {"collective": "broadcast"}:
        one = treefold.plan("ring:4", "ring", size_bytes=1 << 20)
    assert treefold.plan(also.pop("network"), **also) != one


def test_a_plan_from_a_file_is_unproven_until_checked_however_often_it_is_pickled():
    document = json.loads(treefold.plan("ring:4", "ring").to_json())
    document["phases"][0]["trees"].pop()
    broken = pickle.loads(pickle.dumps(pickle.loads(pickle.dumps(Plan.from_json(json.dumps(document))))))
    assert not treefold.check(broken).correct
    with pytest.raises(TreefoldError, match="can only be checked"):
        treefold.simulate(broken)


def test_a_plan_remembers_what_it_was_made_for_and_its_fingerprint_does_not_change():
    plan = treefold.plan("torus:4x4", "multitree", size_bytes=1 << 30)
    assert (plan.size_bytes, plan.chosen_by) == (1 << 30, None)
    chosen = treefold.plan("torus:4x4", size_bytes=1 << 20, simulator="flow")
    assert (chosen.size_bytes, chosen.chosen_by) == (1 << 20, "flow")
    other = treefold.plan("torus:4x4", "multitree", size_bytes=1 << 29)
    assert (plan != other, plan.fingerprint) == (True, other.fingerprint)
    assert Plan.from_json(chosen.to_json()) == chosen
    assert plan.derive("all-gather", 0).size_bytes == 1 << 30
    assert treefold.simulate(plan).size_bytes == 1 << 30
    assert treefold.trace(plan).time_s == treefold.simulate(plan, size_bytes=1 << 30, simulator="flow").time_s
    with pytest.raises(TreefoldError, match="size_bytes must be from 0 to 1e18, got -1"):
        plan.made_for(-1)


def test_a_plan_remembers_the_options_with_which_it_was_made():
    plan = treefold.plan("b4", "mtree", trees=3, least_rate="10Mbit/s", heights="latency")
    assert plan.options == {"trees": 3, "least_rate": 1.25e6, "heights": "latency"}
    assert Plan.from_json(plan.to_json()) == plan == pickle.loads(pickle.dumps(plan))
    assert plan.derive("broadcast", 1).options == plan.options
    assert treefold.plan("b4", "mtree").options == {} and "options" not in json.loads(treefold.plan("b4").to_json())
    # auto keeps the options of the algorithm that it takes.
    assert treefold.plan("b4", trees=4, rho=0.9).options == {"trees": 4}


@pytest.mark.parametrize(
    "options",
    [{"trees": [3]}, {"\x1b[2J": 3}, {"heights": "\x1b[2J"}, {"tree": 3}, {"trees": 0}, {"trees": "many"}, []],
)
def test_options_of_a_file_are_read_as_those_of_a_caller(options):
    document = json.loads(treefold.plan("b4", "mtree").to_json()) | {"options": options}
    with pytest.raises(TreefoldError) as error:
        treefold.replan(Plan.from_json(json.dumps(document)), "b4")
    assert str(error.value).isprintable()


@pytest.mark.parametrize("collective", ["all-reduce", "all-gather", "broadcast"])
def test_only_an_all_reduce_derives_other_collectives(collective):
    for plan in (treefold.plan("ring:4", "ring", collective="broadcast"), treefold.plan("ring:4").derive("all-gather")):
        with pytest.raises(TreefoldError, match=f"the plan is for {plan.collective}; derive {collective} from an all-"):
            plan.derive(collective)
        with pytest.raises(TreefoldError, match=f"the plan is for {plan.collective}; derive"):
            Plan.from_json(plan.to_json()).derive(collective)


@pytest.mark.parametrize("root", [-1, 4, 1 << 40])
def test_a_root_is_a_rank(root):
    plan = treefold.plan("ring:4", "ring")
    assert plan.derive("broadcast").root == 0
    with pytest.raises(TreefoldError, match=f"root {root} does not exist: there are 4 ranks"):
        plan.derive("broadcast", root)


def test_old_plan_files_without_a_size_still_read():
    document = json.loads(treefold.plan("torus:4x4", size_bytes=1 << 20).to_json())
    del document["size_bytes"], document["judged_by"]
    plan = Plan.from_json(json.dumps(document))
    assert (plan.size_bytes, plan.chosen_by) == (None, None)
    assert treefold.simulate(plan).size_bytes == 64 << 20
    for broken in ({"size_bytes": -1}, {"size_bytes": 2 * 10**18}, {"judged_by": "\x1b[2J"}, {"judged_by": 3}):
        with pytest.raises(TreefoldError) as error:
            Plan.from_json(json.dumps(document | broken))
        assert str(error.value).isprintable()


def test_replanning_keeps_to_the_size_that_the_plan_was_made_for():
    plan = treefold.plan("b4", "packing", size_bytes=1 << 30)
    replanned = treefold.replan(plan, "b4:skew=0.5,seed=1")
    assert replanned.plan.size_bytes == replanned.new.size_bytes == replanned.old.size_bytes == 1 << 30
    replanned = treefold.replan(plan, "b4:skew=0.5,seed=1", size_bytes=1 << 20)
    assert replanned.plan.size_bytes == replanned.new.size_bytes == 1 << 20


@pytest.mark.parametrize("kind", [Topology, Plan, treefold.Trace])
def test_compiled_classes_say_what_their_members_are(kind):
    public = [name for name in vars(kind) if not name.startswith("_")]
    assert public
    assert [name for name in public if not getattr(kind, name).__doc__] == []


def test_representations_say_something():
    plan = treefold.plan("ring:4", "ring")
    assert repr(treefold.trace(plan, size_bytes=4096)).startswith('Trace("ring", all-reduce, time_s=')
    assert repr(plan.schedule(100, 4)) == f"Schedule(transfers={len(plan.schedule(100, 4))}, buffers=4)"


PLAN = treefold.plan("ring:4", "ring")


@pytest.mark.parametrize(
    ("call", "expected"),
    [
        (lambda: treefold.plan("ring:4", tree=3), "plan has no argument 'tree'; did you mean trees or tree_rate or"),
        (lambda: treefold.replan(PLAN, "ring:4", hight=3), "replan has no argument 'hight'; did you mean height"),
        (lambda: treefold.train("alexnet", "ring:4", acelerator="h100"), "did you mean accelerator?"),
        (
            lambda: treefold.simulate("torus:8x8"),
            "plan 'torus:8x8' is not a treefold.Plan; make one with treefold.plan",
        ),
        (lambda: treefold.check(None), "plan None is not a treefold.Plan"),
        (lambda: treefold.tables("ring:4"), "plan 'ring:4' is not a treefold.Plan"),
        (lambda: treefold.summarize(3), "plan 3 is not a treefold.Plan"),
        (lambda: treefold.replan("ring:4", "ring:4"), "plan 'ring:4' is not a treefold.Plan"),
        (lambda: treefold.plan(5), "network 5 is not a network; give a spec such as torus:8x8, or a file"),
        (lambda: treefold.compare(None, sizes_bytes=[1]), "network None is not a network"),
        (lambda: treefold.topology("ring:4", bandwidth_Bps="16 G"), "bandwidth '16 G': write a number and a unit"),
        (lambda: treefold.topology("ring:4", latency_s=[1]), "latency_s must be a number of seconds, or a text"),
        (
            lambda: treefold.plan("ring:4", size_bytes="1 mile"),
            "size '1 mile': write a number and a unit",
        ),
        (lambda: treefold.plan("ring:4", size_bytes=1.5), "or a text such as '64MiB'"),
        (
            lambda: treefold.compare("ring:4", sizes_bytes="1MiB:1KiB"),
            "sizes '1MiB:1KiB': the range must rise from at least 1B",
        ),
        (lambda: treefold.planning.is_quick("ring:4"), "network 'ring:4' is not a treefold.Topology; make one with"),
        (lambda: treefold.planning.is_fabric("dgx2"), "network 'dgx2' is not a treefold.Topology"),
        (lambda: treefold.planning.is_quick(treefold.topology("ring:4"), "rign"), "algorithm 'rign' is unknown"),
        (lambda: treefold.simulate(PLAN, size_bytes=10**5000), "must be a whole number of bytes"),
        (lambda: treefold.plan("ring:4", 7), "algorithm 7 is not a name"),
        (
            lambda: treefold.plan("ring:4", neighbor_order=None),
            "neighbor order must be one of listed, reversed, got none",
        ),
        (lambda: treefold.topology("ring:4", node_cap=5), "node_cap 5 is not a cap; give 5Gbit/s"),
        (lambda: treefold.topology("ring:4", ranks=5), "ranks 5 are not a list; write for example 0-7,12"),
        (lambda: treefold.compare("ring:4", sizes_bytes=8), "sizes 8 are not a list"),
        (lambda: treefold.tables(PLAN, machine=3), "machine 3 is not a treefold.Machine; write for example"),
        (
            lambda: treefold.without_relays(treefold.topology("ring:4", ranks="0,2")),
            "ring:4: without idle accelerators, some ranks do not reach others",
        ),
        (lambda: treefold.topology("ring:4", rank_order="0,1,2"), "of the 4 ranks once; GPU3 missing"),
        (lambda: treefold.topology("ring:99999999999"), "'99999999999' is too large"),
        (lambda: treefold.plan("ring:4", simulator=7), "simulator 7 is not a name"),
        (lambda: treefold.plan("ring:4", collective=["reduce"]), "collective ['reduce'] is not a name"),
        (
            lambda: treefold.plan("ring:4", "packing", trees=2**64),
            "trees must be at most 4294967295, got 18446744073709551616",
        ),
        (lambda: treefold.plan("ring:4", "topoadopt", trees=2**31 - 1), "anneals at most 1024 trees, got 2147483647"),
        (
            lambda: treefold.plan("ring:4", "packing", height="3.5"),
            "height must be a whole number from 1 on, got '3.5'",
        ),
        (lambda: treefold.plan("ring:4", seed=-1), "seed must be a whole number from 0 on, got -1"),
        (lambda: treefold.plan("ring:4", "packing", least_rate=float("nan")), "least rate: bandwidth 'NaN'"),
        (
            lambda: treefold.plan("ring:4", "packing", trees=[3]),
            "trees must be a number, a text, True or False, got a value of type list",
        ),
        (lambda: treefold.plan("ring:4", "packing", trees=10**5000), "trees must be a whole number from 1 on"),
        (lambda: treefold.plan("ring:4", "mtree", rho="x"), "rho must be a number"),
        (lambda: treefold.plan("ring:4", tree_order=3), "tree order must be one of ascending, remaining-height, got 3"),
        (lambda: treefold.plan("ring:4", pipeline=3), "pipeline must be true or false, got 3"),
        (lambda: treefold.plan("ring:4", root=10**5000), "does not exist: there are 4 ranks"),
        (lambda: treefold.plan("ring:4").schedule(-1, 4), "elements must be from 0 to 1e18, got -1"),
        (lambda: treefold.plan("ring:4").schedule(8, 0), "element_bytes must be at least 1, got 0"),
        (lambda: treefold.plan("ring:4").schedule(10**17, 11), f"a vector of {11 * 10**17} bytes is out of range"),
        (lambda: treefold.plan("ring:4").pipelines(-1), "size_bytes must be from 0 to 1e18, got -1"),
        (lambda: treefold.plan("ring:4").made_for(10**19), f"size_bytes must be from 0 to 1e18, got {10**19}"),
        (lambda: treefold.plan("ring:4").derive("reduce", 1 << 70), f"root {1 << 70} does not exist"),
        (lambda: treefold.topology("ring:4").bounds().of_sizes.seconds(-1), "must be from 0 to 1e18, got -1"),
        (lambda: _core.read_options("nonsense", {}), "owner of options 'nonsense' is unknown; known are machine"),
        (lambda: _core.option_schema("nonsense"), "owner of options 'nonsense' is unknown; known are machine"),
        (lambda: treefold.compare("ring:4", 5, sizes_bytes=[1]), "algorithm 5 is not a name"),
        (lambda: treefold.train("alexnet", "ring:4", batch="16"), "batch must be a whole number, got '16'"),
        (lambda: treefold.train("alexnet", "ring:4", accelerator=5), "accelerator 5 is not a name"),
        (lambda: treefold.train("alexnet", "ring:4", compute_overhead="x"), "compute_overhead is 'x'; it must be"),
        (lambda: treefold.train("alexnet", "ring:4", gradient_bytes=10**5000), "must be at most"),
    ],
)
def test_python_is_told_in_one_line_what_is_wrong(call, expected):
    with pytest.raises(TreefoldError) as error:
        call()
    assert expected in str(error.value)
    assert str(error.value).isprintable()


LAYER = treefold.training.Layer("a", inputs=1, outputs=1, channels=8, filters=8, parameters=64)


@pytest.mark.parametrize(
    ("layers", "expected"),
    [
        (([1, 2], [3]), "layer 1 is [1, 2]; make it with treefold.training.Layer"),
        (None, "layers are None, which is not a list of layers"),
        ((LAYER, LAYER._replace(inputs=[[1], [2, 3]])), "layer 2: inputs must be a whole number"),
        ((LAYER._replace(parameters=-1),), "layer 1: parameters must be at least 0"),
        ((LAYER._replace(channels=10**5000),), "layer 1: channels must be at most"),
        ((LAYER._replace(operand="wait"),), "operand 'wait' is unknown"),
    ],
)
def test_models_of_anything_else_are_refused(layers, expected):
    with pytest.raises(TreefoldError) as error:
        treefold.train(treefold.training.Model("mine", layers), "ring:4", "ring")
    assert expected in str(error.value)


@pytest.mark.parametrize("collective", ["reduce-scatter", "all-gather", "broadcast", "reduce", "all-to-all"])
@pytest.mark.parametrize(
    ("spec", "algorithm"), [("full:4", "packing"), ("b4", "mtree"), ("b4", "blink"), ("dgx2", "innet")]
)
def test_what_is_proven_of_an_all_reduce_is_not_told_of_others(spec, algorithm, collective):
    try:
        planned = explained_plan(request(spec, algorithm, collective=collective))
    except treefold.MisfitError as error:
        pytest.skip(str(error))
    assert planned.report == {}
    assert treefold.summarize(planned.plan).normalized_throughput is None
    assert "gap" in explained_plan(request(spec, algorithm)).report


WINDOW = treefold.training.Window(3, 3)


@pytest.mark.parametrize(
    ("make", "expected"),
    [
        (lambda: treefold.training.convolution("c", (8, 8), (3, 3), 3, 4), "layer c: window must be a Window, for"),
        (lambda: treefold.training.convolution("c", (8,), WINDOW, 3, 4), "layer c: size must be a height and a width"),
        (
            lambda: treefold.training.convolution("c", [[8], [8, 8]], WINDOW, 3, 4),
            "layer c: size must be a whole number",
        ),
        (
            lambda: treefold.training.convolution("c", (8, 8), treefold.training.Window(3, 3, stride=0), 3, 4),
            "layer c: stride of the window must be at least 1",
        ),
        (lambda: treefold.training.linear("l", "8", 8), "layer l: channels must be a whole number, got '8'"),
    ],
)
def test_layers_of_no_size_are_refused(make, expected):
    with pytest.raises(TreefoldError) as error:
        make()
    assert expected in str(error.value)


def test_commands_take_the_size_that_a_plan_was_made_for_and_say_so(tmp_path, monkeypatch, capsys):
    from treefold.cli.main import main

    file = tmp_path / "plan.json"
    file.write_text(treefold.plan("ring:4", size_bytes=3 << 10).to_json())

    def told(*arguments):
        monkeypatch.setattr(sys, "argv", ["treefold", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        assert stop.value.code == 0
        return capsys.readouterr().out

    note = "# the plan was made for this size; --size sets another"
    for command in (["simulate", file], ["run", file, "--local", "4", "--iters", "1"]):
        assert "3072 " in told(*command)
        assert note in told(*command)
        assert json.loads(told(*command, "--json"))
        other = told(*command, "--size", "8KiB")
        assert "8192 " in other
        assert note not in other
    assert "made for    3KiB" in told("plan", "ring:4", "--size", "3KiB")


def test_schedule_tables_name_the_ranks_and_are_cut_for_people():
    from treefold.report import schedule_table

    plan = treefold.plan("b4", "packing", size_bytes=1 << 30)
    lines = schedule_table(treefold.tables(plan)).splitlines()
    assert "Accelerator 0, site0" in lines
    assert sum("more entries; as_dict() lists them all" in line for line in lines) > 0
    assert len(lines) < 1000


def test_tables_are_refused_where_they_would_be_nearly_all_nops():
    data = json.loads(treefold.plan("ring:4", "multitree").to_json())
    [phase], phases = data["phases"], 32
    for tree in phase["trees"]:  # the result comes long after the sums, which mirror it
        tree["down"]["edges"]["steps"] = [step + 65_530 for step in tree["down"]["edges"]["steps"]]
    data["phases"] = [copy.deepcopy(phase) for _ in range(phases)]  # a part of the vector each
    data["units"] *= phases
    for number, phase in enumerate(data["phases"]):
        for tree in phase["trees"]:
            tree["span"] = [unit + 4 * number for unit in tree["span"]]
    plan = Plan.from_json(json.dumps(data))
    for refused in (treefold.tables, lambda plan: treefold.simulate(plan, simulator="packet", size_bytes=4096)):
        with pytest.raises(TreefoldError, match="at most 4194304 NOPs; leave out steps without sends"):
            refused(plan)


def test_a_size_may_be_a_text_with_a_unit():
    plan = treefold.plan("ring:4", "ring", size_bytes="1MiB")
    assert plan.size_bytes == 1 << 20
    assert treefold.replan(plan, "ring:4", size_bytes="2KB").plan.size_bytes == 2000
    assert treefold.simulate(plan, size_bytes="4096").size_bytes == 4096
    assert treefold.trace(plan, size_bytes="4KiB").time_s == treefold.trace(plan, size_bytes=4096).time_s
    assert treefold.tables(plan, size_bytes="4KiB") == treefold.tables(plan, size_bytes=4096)
    assert treefold.compare("ring:4", "ring", sizes_bytes=["1KiB", 2048]).sizes() == [1024, 2048]
    for sizes in ("1KiB", ["1KiB", 1024]):
        jobs = treefold.simulate_together([plan, plan], sizes_bytes=sizes, alone=False).jobs
        assert [job.prediction.size_bytes for job in jobs] == [1024, 1024]
    background = treefold.simulate_together(plan, background_load=0.1, background_bytes="1KiB").background
    assert background.message_bytes == 1024
    [joined] = treefold.runtime.in_threads(1, lambda group: group.plan.size_bytes, size_bytes="1KiB")
    assert joined == 1024


def test_bandwidths_and_latencies_of_a_network_may_be_texts():
    texts = treefold.topology("ring:4", bandwidth_Bps="10Gbit/s", latency_s="5ms")
    assert texts.to_json() == treefold.topology("ring:4", bandwidth_Bps=1.25e9, latency_s=0.005).to_json()
