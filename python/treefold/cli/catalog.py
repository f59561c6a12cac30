"""The commands `algorithms` and `machine`, which list choices."""

import json
import textwrap
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from treefold import auto, declared, planning
from treefold.cli.options import Json, read_machine
from treefold.cli.terminal import show
from treefold.errors import TreefoldError
from treefold.options import Machine
from treefold.report.align import align


def algorithms(as_json: Json = False) -> None:
    """List all algorithms.

    Examples:
    treefold algorithms

    """
    listed = auto.algorithms()
    show(listed, as_json, lambda: _table(listed))


def _table(listed: dict[str, str]) -> str:
    """Return rows of all algorithms with the collectives that they plan, and explain the words of the table."""
    head = ["algorithm", "plans", "idea"]
    rows = [[name, planning.collectives(name), summary] for name, summary in listed.items()]
    return "\n".join([align([head, *rows], left={0, 1, 2}), *_WORDS])


_WORDS = (
    "# plans: all-reduces only; all, with the others derived from the all-reduce; or each in a way of its own",
    "# streamed: each node passes chunks on as they arrive",
)


def machine(
    file: Annotated[Path | None, typer.Option("--machine", help="Begin with the machine in this TOML file.")] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change an option, for example wave=4KiB; may be repeated."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the packet simulator's machine as a TOML file.

    The file explains each option.

    Examples:
    treefold machine > machine.toml
    treefold simulate torus:8x8 --machine machine.toml
    treefold machine --set wave=4KiB --set waves=32

    """
    chosen = read_machine(file, setting) or Machine()
    values = declared.read("machine", vars(chosen))
    show(values, as_json, lambda: _toml(values))


def _toml(values: dict[str, Any]) -> str:
    parts = [_entry(name, values[name], option) for name, option in declared.options("machine").items()]
    return "# The machine of treefold's packet simulator: treefold simulate --machine FILE.\n\n" + "\n\n".join(parts)


def _entry(name: str, value: Any, option: declared.Option) -> str:
    lines = textwrap.wrap(option.explained(), 100, initial_indent="# ", subsequent_indent="# ", break_on_hyphens=False)
    # TOML has no null, so an option whose default depends on the network or the plan stays a comment.
    lines.append(f"# {name} =" if value is None else f"{name} = {_value(name, value, option)}")
    return "\n".join(lines)


def _value(name: str, value: Any, option: declared.Option) -> str:
    """Return a value as TOML: with its unit, unless the text would round it."""
    if option.unit in ("bytes", "seconds"):  # a frequency is a number of Hz
        text = option.written(value)
        with suppress(TreefoldError):  # a rounded size may be no whole number of bytes
            if declared.read("machine", {name: text})[name] == value:
                return json.dumps(text)
    return json.dumps(value)
