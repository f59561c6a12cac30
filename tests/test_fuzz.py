"""A short fixed part of the fuzzing (fuzz/README.md); what Hypothesis draws, it also makes small."""

import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from fuzz.cases import Case, Fault, check_message
from fuzz.driver import maker
from fuzz.shrinking import shrink

ROOT = Path(__file__).resolve().parents[1]
CASES = {"files": 1000, "plans": 600, "traces": 600, "specs": 600, "commands": 40, "networks": 8, "peers": 6}
DRAWN = {"plans": 40, "traces": 40, "specs": 80, "networks": 4}


@pytest.mark.parametrize("target", CASES)
def test_fuzzing_finds_nothing(target):
    command = [sys.executable, "-m", "fuzz", target, "--cases", str(CASES[target]), "--seed", "18"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("target", DRAWN)
def test_nor_does_hypothesis(target, tmp_path):
    module = import_module(f"fuzz.targets.{target}")
    corpus = module.corpus()

    @settings(max_examples=DRAWN[target], derandomize=True, database=None, deadline=None)
    @given(st.randoms(use_true_random=False))
    def runs(random):
        case = module.make(random, corpus)
        note(repr(case))
        module.run(case.write(tmp_path / "case"))

    runs()


@pytest.mark.parametrize("target", CASES)
def test_a_number_is_always_the_same_case(target):
    one, other = maker(target, 3), maker(target, 3)
    assert [one(number) for number in range(20)] == [other(number) for number in reversed(range(20))][::-1]
    assert one(4) != maker(target, 4)(4)


def test_what_fails_is_made_small():
    case = Case.of({"a": [1, 2, {"b": "bad", "c": [4, 5]}], "d": list(range(100))})
    assert shrink(case, lambda tried: b"bad" in tried.content).content == b"bad"


ENDS = """
import itertools, os, time
from fuzz import batches
from fuzz.cases import Case
batches.MOST_S, batches.MOST_WALL_S = 0.3, 2
hangs = lambda _: time.sleep(9), lambda _: sum(itertools.repeat(1))
for run in (*hangs, lambda _: bytes(3 << 30), lambda _: os.abort(), lambda _: 1 / 0, lambda _: None):
    fault = batches.only(run, Case("", b""))
    print(fault and fault.what)
"""


def test_whatever_ends_a_case_is_told():
    done = subprocess.run([sys.executable, "-c", ENDS], cwd=ROOT, capture_output=True, text=True, timeout=60)
    told = [line.partition(" than")[0] for line in done.stdout.splitlines()]
    expected = [
        "takes longer",
        "computes longer",
        "MemoryError: ",
        "SIGABRT",
        "ZeroDivisionError: division by zero",
        "None",
    ]
    assert told == expected, done.stderr


@pytest.mark.parametrize("message", ["", "two\nlines", "\x1b[2J", "x" * 3000, "nothing of the file"])
def test_messages_are_judged(message):
    with pytest.raises(Fault):
        check_message(message, "net.json")
    check_message("net.json: is empty; it needs a node", "net.json")
