"""Several plans at once, and background traffic: from Python and from the command line."""

import json

import pytest

import treefold
from commands import command, output
from treefold import Machine, TreefoldError
from treefold.progress import reported_to

RING = treefold.plan("ring:8", "ring", size_bytes=1 << 20)


def rows_of(ranks):
    network = treefold.topology("torus:4x4", ranks=ranks)
    return treefold.plan(network, "ring", size_bytes=256 << 10)


@pytest.fixture
def files(tmp_path):
    paths = [tmp_path / "a.json", tmp_path / "b.json"]
    for path, ranks in zip(paths, ("0-3", "0-7"), strict=True):
        treefold.save(rows_of(ranks), path)
    return paths


def test_a_single_plan_is_a_job_that_nobody_disturbs():
    [job] = treefold.simulate_together([RING]).jobs
    alone = treefold.simulate(RING, simulator="flow")
    assert (job.job, job.prediction.time_s, job.alone_s, job.slowdown) == (1, alone.time_s, alone.time_s, 1.0)
    assert job.prediction.link_utilization == alone.link_utilization


@pytest.mark.parametrize("simulator", ["flow", "packet"])
def test_equal_jobs_share_and_disjoint_ones_do_not_meet(simulator):
    machine = Machine(lanes=1 << 16) if simulator == "packet" else "flow"
    shared = treefold.simulate_together([RING, RING], simulator=machine)
    # Of 28 messages on each link the other job has the last, so one ends a message earlier.
    assert sorted(job.slowdown for job in shared.jobs) == pytest.approx([27 / 14, 2.0], rel=0.04)
    assert shared.shared_ranks == 8
    apart = treefold.simulate_together([rows_of("0-3"), rows_of("8-11")], simulator=machine)
    assert [job.slowdown for job in apart.jobs] == [1.0, 1.0]
    assert (apart.shared_ranks, apart.background) == (0, None)


def test_sizes_are_those_of_the_plans_or_one_for_all_or_one_for_each():
    def sizes(given):
        result = treefold.simulate_together([RING, RING], sizes_bytes=given, alone=False)
        return [job.prediction.size_bytes for job in result.jobs]

    assert sizes(None) == [1 << 20] * 2
    assert sizes(4096) == [4096] * 2
    assert sizes([4096, 8192]) == [4096, 8192]


def test_without_alone_nothing_is_simulated_twice():
    tasks = set()
    with reported_to(lambda each: tasks.add(each.task)):
        result = treefold.simulate_together([RING, RING], simulator="packet", alone=False)
    assert all("alone" not in task for task in tasks)
    assert [(job.alone_s, job.slowdown) for job in result.jobs] == [(None, None)] * 2


def test_results_become_rows_dictionaries_and_frames():
    result = treefold.simulate_together([RING, RING], background_load=0.05)
    [first, second] = result.rows()
    assert (first["job"], second["job"], first["algorithm"], first["model"]) == (1, 2, "ring", "flow")
    assert result.as_dict()["jobs"] == result.rows()
    assert result.as_dict()["background"]["messages"] is None
    assert list(result.to_pandas()["slowdown"]) == [job.slowdown for job in result.jobs]
    assert repr(result).startswith("Interference(ring ") and "background load 0.05" in repr(result)
    assert repr(result.jobs[0]).startswith("JobPrediction(1: ring, ")


def test_background_messages_have_latencies_in_the_packet_simulator():
    def run(**given):
        return treefold.simulate_together([RING], simulator="packet", background_load=0.02, **given)

    result = run()
    assert result == run(background_bytes=64, background_seed=1) or result.background == run().background
    background = result.background
    assert background.messages > 1000
    assert 160e-9 < background.mean_latency_s < background.p99_latency_s < 1e-5
    assert run(background_seed=2).background != background
    assert run(background_bytes=1024).background.messages < background.messages / 8
    assert result.jobs[0].slowdown > 1.0


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"plans": []}, "there is no job to simulate"),
        ({"plans": ["ring"]}, "is not a treefold.Plan"),
        ({"simulator": "analytic"}, "the analytic simulator takes one plan at a time"),
        ({"sizes_bytes": [1, 2, 3]}, "3 sizes for 2 plans"),
        ({"background_load": 1.5}, "background load 1.5 is not from 0 to below 1"),
        ({"background_load": -0.1}, "background load -0.1 is not from 0 to below 1"),
        ({"background_load": 0.9}, "whose bandwidth would be used up; use a load below"),
        ({"background_bytes": 64}, "background size 64 has no effect without background traffic"),
        ({"background_load": 0.1, "background_bytes": 0}, "background messages must have 1 byte to 1MiB"),
        (
            {"simulator": Machine(table=1024)},
            "table=1KiB has no effect: it is only for pushes and pulls, and this plan is simulated with routers",
        ),
        ({"simulator": Machine(kept_channels=1)}, "kept_channels=1 keeps virtual channels for background traffic"),
        (
            {"simulator": Machine(virtual_channels=2, flow_control="message"), "background_load": 0.1},
            "need 4 channels, got 2; set virtual_channels",
        ),
        ({"plans": [RING, treefold.plan("ring:6", "ring")]}, "needs the network of job 1 (ring on ring:8)"),
    ],
)
def test_what_cannot_be_is_refused(given, message):
    with pytest.raises(TreefoldError) as error:
        treefold.simulate_together(**{"plans": [RING, RING], **given})
    assert message in str(error.value)


def test_simulate_takes_several_plan_files(files):
    result = output("simulate", *files, "--size", "64KiB")
    assert [row["size_bytes"] for row in result["jobs"]] == [65536, 65536]
    assert result["shared_ranks"] == 4
    shown = command("simulate", *files, "--size", "64KiB").stdout
    assert "# 4 ranks take part in more than one job; their links are shared" in shown
    assert shown.splitlines()[0].split() == ["job", "algorithm", "size", "time", "alone", "slowdown", "algbw"]


def test_a_network_with_background_is_planned_and_simulated():
    result = output("simulate", "ring:8", "-a", "ring", "--size", "64KiB", "--background", "0.1")
    [job] = result["jobs"]
    assert job["model"] == "flow" and job["slowdown"] > 1.0
    assert result["background"]["load"] == 0.1


def test_the_trace_of_several_jobs_has_a_process_for_each(files, tmp_path):
    path = tmp_path / "trace.json"
    command("simulate", *files, "--trace", path)
    events = json.loads(path.read_text(encoding="utf-8"))["traceEvents"]
    names = [each["args"]["name"] for each in events if each["name"] == "process_name"]
    assert [name.split(":")[0] for name in names] == ["job 1", "job 2"]
    assert {each["pid"] for each in events} == {1, 2}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{0}", "{1}", "--simulator", "analytic"], "the analytic simulator takes one plan at a time"),
        (["{0}", "ring:8"], "ring:8 is not the file of a plan, and only plans run together"),
        (["{0}", "no.json"], "error: no.json: no such file; check the path"),
        (["{0}", "{1}", "-a", "ring"], "is already a plan; drop --algorithm"),
        (["{0}", "--background", "1"], "background load 1 is not from 0 to below 1"),
        (["{0}", "--background-bytes", "64B"], "without background traffic; give it a load, such as --background 0.1"),
    ],
)
def test_the_command_refuses_in_one_line(files, arguments, message):
    done = command("simulate", *[each.format(*files) for each in arguments])
    assert done.returncode == 2 and message in done.stderr
    assert done.stderr.count("\n") == 1
