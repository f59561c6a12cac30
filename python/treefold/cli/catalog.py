"""The commands `algorithms` and `machine`, which list choices."""

import json
import textwrap
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

from treefold import auto, checks, declared
from treefold.cli.groups import completing, flag_named
from treefold.cli.options import Json, read_machine
from treefold.cli.terminal import show
from treefold.errors import TreefoldError
from treefold.options import Machine
from treefold.report.align import align
from treefold.results import Algorithm

_WORDS = (
    "# plans: all-reduces only; all, the others derived from the all-reduce; or each in its own way",
    "# streamed: each node passes chunks on as they arrive",
    "# with the name of an algorithm: where it comes from, what it fits, and what it costs",
)
_PLANS = {
    "all-reduce": "all-reduces only",
    "all": "all collectives, the others derived from the all-reduce",
    "each": "all collectives, each in its own way",
}
"""What an algorithm plans, by the word that the table has for it."""
_WIDTH = 100
"""The most columns of a line."""


def algorithms(
    name: Annotated[
        str | None,
        typer.Argument(
            metavar="ALGORITHM",
            help="An algorithm, of which all is told; without it, list all.",
            autocompletion=completing(auto.algorithms()),
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """List all algorithms, or tell all about one.

    Examples:
    treefold algorithms
    treefold algorithms forest

    """
    listed = auto.algorithms()
    if name is None:
        show({each.name: each.as_dict() for each in listed.values()}, as_json, lambda: _table(listed.values()))
    else:
        entry = listed[checks.name("algorithm", name, listed)]
        show(entry.as_dict(), as_json, lambda: _entry_of(entry))


def _table(listed: Iterable[Algorithm]) -> str:
    """Return rows of all algorithms with the collectives that they plan, and explain the words of the table."""
    head = ["algorithm", "plans", "idea"]
    rows = [[each.name, each.collectives, each.summary] for each in listed]
    return "\n".join([align([head, *rows], left={0, 1, 2}), *_WORDS])


def _entry_of(algorithm: Algorithm) -> str:
    """Return all about an algorithm: names and values in two columns; a long value goes on below itself."""
    facts = _facts(algorithm)
    width = _WIDTH - max(map(len, facts)) - 2
    lines = {key: textwrap.wrap(value, width, break_on_hyphens=False) for key, value in facts.items() if value}
    rows = [[key if at == 0 else "", line] for key, wrapped in lines.items() for at, line in enumerate(wrapped)]
    return align(rows, left={0, 1})


def _facts(algorithm: Algorithm) -> dict[str, str]:
    """Return what is known of an algorithm by the names that a reader sees; what is empty is left out."""
    most = algorithm.most_work
    return {
        "algorithm": algorithm.name,
        "idea": algorithm.summary,
        "source": algorithm.source,
        "plans": _PLANS[algorithm.collectives],
        "fits": algorithm.fits,
        "cost": algorithm.cost,
        "takes long": "" if most is None else f"where ranks times links exceed {most:,}: auto leaves it out there",
        "proves": algorithm.gap.format("so many percent"),
        "switches": "reduce in its plans" if algorithm.in_network else "only forward in its plans",
        "sharing": f"{'plans' if algorithm.keeps_shared else 'does not plan'} around what links share",
        "relays": "ranks relay nothing if --simulator packet is given" if algorithm.reads_simulator else "",
        "limits": ", ".join(map(flag_named, algorithm.limits)),
        "options": ", ".join(flag_named(each) for each in algorithm.options if each not in algorithm.limits),
    }


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
