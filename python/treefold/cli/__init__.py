"""The command line: it reads arguments, calls the library, and prints; nothing else knows screens or typer.

Errors of the caller are one line on standard error and exit code 2; `check` exits with 1 when a plan is wrong. With
`--json` a command prints one JSON value and nothing else on standard output.
"""
