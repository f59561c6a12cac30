"""The command line reads arguments, calls the library, and prints. No other package knows terminals or typer.

A caller's mistake is reported in one line on standard error, with exit code 2; `check` exits with 1 if a plan is wrong.
With `--json` a command prints one JSON value and nothing else on standard output.
"""
