"""Comparisons go on without what does not fit, and lose nothing when they are interrupted."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path

import pytest

import treefold
from treefold import MisfitError, TreefoldError, comparison, interrupts, planning, progress
from treefold.cli.main import main as command_line

MIB = 1 << 20


def test_what_does_not_fit_is_left_out_with_the_reason():
    with pytest.warns(UserWarning, match="ring2d is left out: ring2d needs a 2-D torus or mesh") as told:
        rows = treefold.compare("b4", ["ring", "ring2d", "multitree"], sizes_bytes=[MIB, 2 * MIB])
    assert [row.algorithm for row in rows] == ["ring", "multitree"] * 2
    assert len(told) == 1


def test_what_cannot_keep_a_limit_is_left_out_or_told():
    with pytest.warns(UserWarning, match="ring, multiring, .* cannot keep steps, so they are left out") as told:
        rows = treefold.compare("ring:4", sizes_bytes=[MIB, 2 * MIB], steps=4)
    assert [row.algorithm for row in rows] == ["forest"] * 2
    assert len(told) == 1
    with pytest.warns(UserWarning, match="ring cannot keep steps, so it is compared without that limit"):
        rows = treefold.compare("ring:4", "ring,forest", sizes_bytes=[MIB], steps=4)
    assert [row.algorithm for row in rows] == ["ring", "forest"]
    with pytest.warns(UserWarning, match="left out"), pytest.raises(MisfitError, match="steps 3 is too few"):
        treefold.compare("ring:4", sizes_bytes=[MIB], steps=3)


def test_where_nothing_fits_all_reasons_are_told():
    with pytest.raises(MisfitError, match=r"hdrm needs .*; ring2d needs"):
        treefold.compare("b4", "hdrm,ring2d", sizes_bytes=[MIB])
    with pytest.raises(MisfitError, match=r"hdrm needs .*; ring2d needs"):
        treefold.train("alexnet", "b4", "hdrm,ring2d")


REFUSED = {
    "payload": (100, "a payload must be a multiple of the flit (16 bytes), got 100 bytes"),
    "buffer_flits": (1, "a buffer must hold a whole packet (17 flits: a head and 256 bytes), got 1 flits"),
    "injection_flits": (1, "an injection queue must hold a whole packet (17 flits), got 1"),
}


@pytest.mark.parametrize("option", REFUSED)
def test_a_machine_that_runs_no_plan_is_refused_before_any_planning(option, monkeypatch):
    value, message = REFUSED[option]
    machine = treefold.Machine(**{option: value})
    with pytest.raises(TreefoldError) as alone:
        treefold.simulate(treefold.plan("torus:4x4", "ring"), size_bytes=MIB, simulator=machine)
    monkeypatch.setattr(planning, "plan", lambda _request: pytest.fail("a plan was made"))
    with pytest.raises(TreefoldError) as compared:
        treefold.compare("torus:4x4", sizes_bytes=[MIB], simulator=machine)
    with pytest.raises(TreefoldError) as trained:
        treefold.train("alexnet", "torus:4x4", simulator=machine)
    for error in (alone, compared, trained):
        assert type(error.value) is TreefoldError
        assert str(error.value) == message


@pytest.mark.filterwarnings("ignore:.* is left out")
def test_a_machine_that_runs_some_plans_leaves_out_the_others():
    machine = treefold.Machine(virtual_channels=1)
    rows = treefold.compare("mesh:3x3", "ring2d,hdrm", sizes_bytes=[MIB], simulator=machine)
    assert [row.algorithm for row in rows] == ["ring2d"]
    with pytest.raises(MisfitError, match="needs 2 virtual channels"):
        treefold.simulate(treefold.plan("torus:4x4", "ring2d"), simulator=machine)


def test_a_mistake_ends_a_comparison_at_once(monkeypatch):
    asked = []

    def mistaken(request):
        asked.append(request.algorithm)
        raise TreefoldError("a file is gone")

    monkeypatch.setattr(planning, "plan", mistaken)
    for call in (
        lambda: treefold.compare("torus:4x4", "ring,multitree", sizes_bytes=[MIB]),
        lambda: treefold.train("googlenet", "torus:3x5", "ring,multitree"),
    ):
        with pytest.raises(TreefoldError, match=r"^a file is gone$"):
            call()
    assert len(asked) == 2


def test_code_can_tell_what_does_not_fit_from_what_is_wrong():
    for algorithm, is_misfit in {"ring2d": True, "innet": True, "hdrm": True, "ringg": False}.items():
        with pytest.raises(TreefoldError) as error:
            treefold.plan("line:4", algorithm)
        assert isinstance(error.value, MisfitError) == is_misfit
    for root, is_misfit in {0: True, 9: False}.items():
        with pytest.raises(TreefoldError) as error:
            treefold.plan("line:4", "p2p", collective="broadcast", root=root)
        assert isinstance(error.value, MisfitError) == is_misfit


def test_training_leaves_out_what_does_not_fit():
    with pytest.warns(UserWarning, match="ring2d is left out"):
        report = treefold.train("alexnet", "b4", "ring2d,ring")
    assert [each.algorithm for each in report] == ["ring"]


def test_nothing_wins_where_nothing_takes_time():
    for rows in (
        treefold.compare("ring:1", "ring,dbtree", sizes_bytes=[MIB]),
        treefold.compare("ring:4", "ring,dbtree", sizes_bytes=[0]),
    ):
        assert [(row.time_s, row.winner) for row in rows] == [(0.0, False)] * 2


@pytest.mark.parametrize("simulator", treefold.SIMULATORS)
def test_no_time_is_minus_nothing(simulator, monkeypatch, capsys):
    monkeypatch.setattr(
        sys, "argv", ["treefold", "compare", "torus:1x1", "-a", "ring,dbtree", "--simulator", simulator]
    )
    with pytest.raises(SystemExit) as stop:
        command_line()
    told = capsys.readouterr().out
    assert stop.value.code == 0
    assert "-0" not in told


@pytest.fixture
def interrupted_at_the_fourth(monkeypatch):
    plans, plan = [], comparison.explained_plan

    def once_more(*arguments, **options):
        plans.append(arguments)
        if len(plans) == 4:
            raise KeyboardInterrupt
        return plan(*arguments, **options)

    monkeypatch.setattr(comparison, "explained_plan", once_more)


def test_an_interrupt_brings_the_rows_so_far(interrupted_at_the_fourth):
    with pytest.raises(treefold.Interrupted) as stop:
        treefold.compare("ring:4", "ring,dbtree", sizes_bytes=[MIB, 2 * MIB])
    assert [(row.size_bytes // MIB, row.algorithm) for row in stop.value.rows] == [
        (1, "ring"),
        (1, "dbtree"),
        (2, "ring"),
    ]
    assert [row.winner for row in stop.value.rows] == [True, False, False]


def interrupt(monkeypatch, command):
    """Run a command that is interrupted on the way, and does not end this process."""
    monkeypatch.setattr(sys, "argv", command)
    monkeypatch.setattr(interrupts, "end", lambda: sys.exit(interrupts.EXIT_CODE))
    with pytest.raises(SystemExit) as stop:
        command_line()
    assert stop.value.code == interrupts.EXIT_CODE


@pytest.mark.parametrize("extra", [[], ["--json"]])
def test_an_interrupted_comparison_prints_what_it_has(extra, interrupted_at_the_fourth, monkeypatch, capsys):
    command = ["treefold", "compare", "ring:4", "-a", "ring,dbtree", "--sizes", "1MiB:2MiB"]
    interrupt(monkeypatch, [*command, *extra])
    told = capsys.readouterr().out
    assert len(json.loads(told)) == 3 if extra else "dbtree" in told


def test_interrupted_training_prints_what_it_has(monkeypatch, capsys):
    from treefold.training import iteration

    runs, run = [], iteration._run

    def once_more(*arguments):
        runs.append(arguments)
        if len(runs) == 3:
            raise KeyboardInterrupt
        return run(*arguments)

    monkeypatch.setattr(iteration, "_run", once_more)
    interrupt(monkeypatch, ["treefold", "train", "alexnet", "ring:4", "-a", "ring,dbtree,multitree", "--json"])
    rows = json.loads(capsys.readouterr().out)
    assert [(row["algorithm"], row["winner"]) for row in rows] == [("ring", False), ("dbtree", False)]


def test_what_is_worked_on_is_told_with_its_size_and_algorithm():
    told: list[str] = []

    def listen(report: progress.Progress) -> None:
        told.append(report.task)

    with progress.reported_to(listen):
        treefold.compare("full:4", "ring,packing", sizes_bytes=[MIB, 2 * MIB])
    assert {"1MiB (1 of 2): ring", "2MiB (2 of 2): packing", "2MiB (2 of 2): packing: packing"} <= set(told)
    told.clear()
    with progress.reported_to(listen):
        treefold.train("alexnet", "full:4", "ring,dbtree")
    assert told == ["ring (1 of 2)", "dbtree (2 of 2)"]


def test_a_terminal_shows_what_is_worked_on_and_a_pipe_does_not():
    command = [Path(sys.executable).with_name("treefold"), "compare", "ring:4", "-a", "ring,dbtree", "--sizes", "1MiB"]
    main, terminal = pty.openpty()
    environment = os.environ | {"TERM": "xterm", "COLUMNS": "100"}
    seen = subprocess.run(command, stdout=subprocess.PIPE, stderr=terminal, env=environment, check=True)
    os.close(terminal)
    told = os.read(main, 1 << 16)
    os.close(main)
    assert b"1MiB (1 of 1): dbtree" in told
    piped = subprocess.run(command, capture_output=True, check=True)
    assert (piped.stdout, piped.stderr) == (seen.stdout, b"")
