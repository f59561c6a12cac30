"""Command lines: `command` runs them within this process, `start` as a process of their own, as a shell does."""

import io
import json
import subprocess
import sys
import warnings
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

import pytest

from treefold.cli.main import main

TREEFOLD = Path(sys.executable).with_name("treefold")


def command(*arguments):
    """Returns how a command ends and what it prints, without the third of a second in which an interpreter starts."""
    argv = ["treefold", *map(str, arguments)]
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    with mock.patch.object(sys, "argv", argv), redirect_stdout(out), redirect_stderr(err), warnings.catch_warnings():
        warnings.simplefilter("default")
        warnings.simplefilter("ignore", ResourceWarning)  # as in a process of its own: it is of an earlier test
        with pytest.raises(SystemExit) as stop:
            main()
    return subprocess.CompletedProcess(argv, stop.value.code, _text(out), _text(err))


def _text(stream):
    stream.flush()
    return stream.buffer.getvalue().decode()


def start(*arguments, stdin=None, **how):
    """Returns how a process of its own ends; it reads `stdin`."""
    argv = [TREEFOLD, *map(str, arguments)]
    return subprocess.run(argv, capture_output=True, input=stdin, timeout=60, text=True, check=False, **how)


def printed(*arguments):
    """Returns the output of a command line that succeeds and warns of nothing."""
    done = command(*arguments)
    assert (done.returncode, done.stderr) == (0, ""), (arguments, done.stderr)
    return done.stdout


def output(*arguments):
    """Returns the value that a command prints with --json, and nothing else."""
    return json.loads(printed(*arguments, "--json"))


def refused(*arguments):
    """Returns the one line that refuses a command line."""
    done = command(*arguments)
    assert (done.returncode, done.stdout) == (2, ""), (arguments, done.stderr)
    assert done.stderr.startswith("error: ") and done.stderr.count("\n") == 1, done.stderr
    assert done.stderr.rstrip("\n").isprintable()
    return done.stderr
