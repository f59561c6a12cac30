"""The commands `algorithms` and `machine`, which list choices."""

import json
import textwrap
from pathlib import Path
from typing import Annotated, Any

import typer

from treefold import _core, auto
from treefold.cli.options import Json, read_machine
from treefold.cli.terminal import show
from treefold.options import Machine
from treefold.report import key_values


def algorithms(as_json: Json = False) -> None:
    """List all algorithms.

    Examples:
    treefold algorithms

    """
    listed = auto.algorithms()
    show(listed, as_json, lambda: key_values(listed))


def machine(
    file: Annotated[Path | None, typer.Option("--machine", help="Start from the machine in this TOML file.")] = None,
    setting: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="Change an option, for example wave=4KiB; may be repeated."),
    ] = None,
    as_json: Json = False,
) -> None:
    """Print the machine of the packet simulator as a TOML file that explains each option.

    Examples:
    treefold machine > machine.toml
    treefold simulate torus:8x8 --machine machine.toml
    treefold machine --set wave=4KiB --set waves=32

    """
    chosen = read_machine(file, setting) or Machine()
    values = json.loads(_core.read_options("machine", vars(chosen)))
    show(values, as_json, lambda: _toml(values))


def _toml(values: dict[str, Any]) -> str:
    declared = json.loads(_core.option_schema("machine"))["properties"]
    parts = [_entry(name, values[name], option) for name, option in declared.items()]
    return "# The machine of treefold's packet simulator: treefold simulate --machine FILE.\n\n" + "\n\n".join(parts)


def _entry(name: str, value: Any, option: dict[str, Any]) -> str:
    text = " ".join(option["description"].split()) + (f" ({option['x-paper']})" if "x-paper" in option else "")
    lines = textwrap.wrap(text, 100, initial_indent="# ", subsequent_indent="# ")
    # TOML has no null, so an option whose default depends on the network or the plan stays a comment.
    lines.append(f"# {name} =" if value is None else f"{name} = {_value(value, option.get('format'))}")
    return "\n".join(lines)


def _value(value: Any, unit: str | None) -> str:
    write = {"bytes": _core.format_size, "seconds": _core.format_time, "bytes/second": _core.format_bandwidth}
    read = {"bytes": _core.parse_size, "seconds": _core.parse_time, "bytes/second": _core.parse_bandwidth}
    if unit in write and read[unit](write[unit](value)) == value:
        return json.dumps(write[unit](value))
    return json.dumps(value)
