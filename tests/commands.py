"""Command lines within this process: what they print, and how they end."""

import sys

import pytest

from treefold.cli.main import main


class Commands:
    """Runs command lines one by one."""

    def __init__(self, monkeypatch, capsys):
        self._monkeypatch, self._capsys = monkeypatch, capsys

    def __call__(self, *arguments):
        """Returns the exit code, the output, and what stands on standard error."""
        self._monkeypatch.setattr(sys, "argv", ["treefold", *map(str, arguments)])
        with pytest.raises(SystemExit) as stop:
            main()
        printed = self._capsys.readouterr()
        return stop.value.code, printed.out, printed.err

    def output(self, *arguments):
        """Returns the output of a command line that succeeds."""
        code, out, err = self(*arguments)
        assert (code, err) == (0, ""), (arguments, err)
        return out

    def refused(self, *arguments):
        """Returns the one line that refuses a command line."""
        code, out, err = self(*arguments)
        assert (code, out, err.count("\n"), err[:7]) == (2, "", 1, "error: "), (arguments, err)
        assert err.rstrip("\n").isprintable()
        return err
