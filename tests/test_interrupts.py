"""Whatever a command is at when it is interrupted or ended: no traceback, and no process is left behind."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from commands import TREEFOLD, start

RUN = ("run", "--local", "3", "--transport", "tcp", "--size", "1MiB", "--iters", "100000")
PROBE = ("probe", "--local", "2", "--seconds", "30")


def marked(mark):
    """The processes that have inherited a mark, but those that have ended."""
    mark, found = mark.encode(), []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes() and (folder / "stat").read_text().split()[2] != "Z":
                found.append(int(folder.name))
        except OSError:
            continue
    return found


@pytest.fixture
def mark(request):
    """A variable of the environment and its value, by which processes are found again, and ended where a test fails."""
    mark = f"TREEFOLD_TEST_MARK={os.getpid()}_{request.node.name}"
    yield mark
    for process in marked(mark):
        os.kill(process, signal.SIGKILL)


def wait_until(is_so, seconds=30.0):
    deadline = time.monotonic() + seconds
    while not is_so():
        assert time.monotonic() < deadline
        time.sleep(0.005)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="looks into /proc")
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
@pytest.mark.parametrize(
    ("arguments", "after_s"), [(RUN, 0.0), (RUN, 0.1), (RUN, 0.3), (RUN, 1.0), (PROBE, 0.4), (PROBE, 1.2)]
)
def test_nothing_is_left_behind(mark, number, arguments, after_s):
    pipe = subprocess.PIPE
    environment = os.environ | dict([mark.split("=")])
    process = subprocess.Popen([str(TREEFOLD), *arguments], env=environment, stdout=pipe, stderr=pipe, text=True)
    maps = Path(f"/proc/{process.pid}/maps")
    wait_until(lambda: "treefold/_core" in maps.read_text())  # it is at its imports
    time.sleep(after_s)
    process.send_signal(number)
    out, error = process.communicate(timeout=30)
    # A shell calls the second one 143.
    assert process.returncode == {signal.SIGINT: 130, signal.SIGTERM: -signal.SIGTERM}[number]
    assert out == "" and "Traceback" not in error and "Exception" not in error
    wait_until(lambda: not marked(mark), 5)


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="looks into /proc")
@pytest.mark.parametrize(("number", "after_s"), [(signal.SIGINT, 0.0), (signal.SIGINT, 3.0), (signal.SIGTERM, 3.0)])
def test_a_pool_of_trials_ends_with_its_command(mark, number, after_s, tmp_path):
    command = [str(TREEFOLD), "reproduce", "mtree/fig6", "--jobs", "2", "--trials", "500", "-o", str(tmp_path)]
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, env=os.environ | dict([mark.split("=")]), stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
    wait_until(lambda: len(marked(mark)) == 4)  # and the one that tracks what they share
    time.sleep(after_s)
    os.killpg(process.pid, number) if number == signal.SIGINT else process.send_signal(number)
    _, error = process.communicate(timeout=30)  # whoever lives on keeps the pipes open
    assert "Traceback" not in error
    wait_until(lambda: not marked(mark), 5)


def test_a_parent_that_is_gone_is_said(monkeypatch):
    monkeypatch.setenv("TREEFOLD_PARENT", "abc")
    done = start("plan", "ring:4")
    assert done.returncode == 130
    assert done.stderr == "error: the process 'abc' that started this one is gone; unset TREEFOLD_PARENT\n"


def test_a_command_whose_interrupts_are_ignored_goes_on():
    code = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); from treefold import interrupts; "
    code += "interrupts.install(); signal.raise_signal(signal.SIGINT); print('on')"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout == "on\n"


SWALLOWED = """
import signal
from treefold import interrupts
interrupts.install()

class Deaf:
    def __del__(self):
        signal.raise_signal(signal.SIGINT)

with interrupts.unwinding():
    Deaf()
    print("missed", flush=True)
"""


def test_an_interrupt_that_cannot_be_raised_ends_the_command():
    done = subprocess.run([sys.executable, "-c", SWALLOWED], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (130, "", "interrupted\n")


def test_importing_treefold_imports_nothing_that_takes_long():
    code = "import sys, treefold.__main__; print([name for name in sys.modules if name.startswith('treefold.')])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout == "['treefold.interrupts', 'treefold.__main__']\n"
