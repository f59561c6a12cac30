"""What all commands have in common: names that are nearly right, options that are given once, and how errors read."""

import json
import sys
from collections.abc import Sequence
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from treefold import checks
from treefold._core import nearest, option_schema
from treefold.errors import TreefoldError
from treefold.text import shortened, visible


def as_known(name: str) -> str:
    """Return an option's or a command's name as it is known, however it was written."""
    return name.lower().replace("_", "-")


SETTINGS = {"help_option_names": ["-h", "--help"], "token_normalize_func": as_known, "max_content_width": 100}
"""Every command has short help, and reads options without regard to case and underscores."""

_READER_GONE = 141
"""The exit code that shells see of a command that a closed pipe ends."""

# Typer carries its own copy of click and exports only this child of click's UsageError.
USAGE_ERROR: Any = typer.BadParameter.__mro__[1]


class Commands(TyperGroup):
    """Commands by their names, and a hint for names that are none."""

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first argument names."""
        if ctx.resilient_parsing:  # while the shell completes
            return super().resolve_command(ctx, args)
        if args[0] == "help":
            raise TreefoldError("'help' is no command; write treefold --help, or for example treefold plan --help")
        return super().resolve_command(ctx, [checks.name("command", args[0], self.commands), *args[1:]])


_PANELS = ("Arguments", "Options", "Training", "Planner", "Simulator", "Network", "Workers")
_WORDS = {"str": "TEXT", "int": "N", "float": "X", "path": "FILE", "list[str]": "LIST"}
_WIDEST_NAMES = 26  # columns of option names beside their help

_FOLDED = "Planner"
"""The panel that only `treefold plan --help` shows in full."""


class Command(TyperCommand):
    """A command whose help has panels and examples, which refuses options given twice and ends with its reader."""

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write what the command does, then its examples as they are."""
        text, _, examples = (self.help or "").partition("\nExamples:\n")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text.strip())
        if examples:
            with formatter.section("Examples"):
                formatter.write("\n".join(f"  {line.strip()}" for line in examples.strip().splitlines()) + "\n")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, the command's own options, and then those of each panel."""
        panels: dict[str, list[Any]] = {}
        for each in self.get_params(ctx):
            if each.param_type_name == "argument":
                panels.setdefault("Arguments", []).append(each)
            else:
                panels.setdefault(getattr(each, "rich_help_panel", None) or "Options", []).append(each)
        for title, options in sorted(panels.items(), key=lambda panel: _PANELS.index(panel[0])):
            with formatter.section(title):
                if title == _FOLDED and self.name != "plan":
                    names = ", ".join(each.opts[0] for each in options)
                    formatter.write_text(f"{names}; 'treefold plan --help' explains them.")
                else:
                    records = [_record(each, ctx) for each in options]
                    formatter.write_dl([record for record in records if record], col_max=_WIDEST_NAMES)

    def invoke(self, ctx: Any) -> Any:
        """Run the command; when the reader has gone (a pager, `head`) it ends, as commands do, and says nothing."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            sys.stdout = None  # else the interpreter tries once more at exit
            sys.exit(_READER_GONE)

    def make_parser(self, ctx: Any) -> Any:
        """Return a parser that looks at the order of what it has read."""
        parser = super().make_parser(ctx)
        parse = parser.parse_args

        def parse_once(args: list[str]) -> Any:
            values, rest, order = parse(args)
            if not ctx.resilient_parsing:
                _refuse_twice(order)
            return values, rest, order

        parser.parse_args = parse_once  # type: ignore[method-assign]
        return parser


def _record(parameter: Any, ctx: Any) -> tuple[str, str] | None:
    """Return the names and the help of a parameter, with words for the types of its value."""
    record = parameter.get_help_record(ctx)
    if record is None:
        return None
    names, text = record
    for kind, word in _WORDS.items():
        names = names.replace(f" <{kind}>", f" {word}" if parameter.param_type_name == "option" else "")
    return names, text.removesuffix("  [required]")


def _refuse_twice(order: Sequence[Any]) -> None:
    for place, option in enumerate(order):
        # A flag without an opposite says the same again.
        is_harmless = option.param_type_name == "argument" or option.multiple or _is_plain_flag(option)
        if option in order[:place] and not is_harmless:
            name = " or ".join([option.opts[0], *option.secondary_opts])
            raise TreefoldError(f"{name} is given twice; give it once")


def _is_plain_flag(option: Any) -> bool:
    return bool(option.is_flag) and not option.secondary_opts


def explain(error: Any) -> str:
    """Return what is wrong with a command line, in one line with what may have been meant."""
    path = error.ctx.command_path if error.ctx else "treefold"
    text = error.format_message().rstrip(".")
    if hasattr(error, "possibilities"):  # an unknown option; what the library finds near is often far
        options = [
            name for option in error.ctx.command.get_params(error.ctx) for name in option.opts if name.startswith("--")
        ]
        near = nearest(visible(error.option_name).lstrip("-"), [name.lstrip("-") for name in options])
        hint = f"; did you mean {' or '.join(f'--{name}' for name in near)}?" if near else ""
        key = error.option_name.lstrip("-").replace("-", "_")
        if "--set" in options and key in json.loads(option_schema("machine"))["properties"]:
            hint = f"; it belongs to the machine: write --set {key}=VALUE"
        text = f"No such option: {error.option_name}{hint}"
    elif errors := getattr(error.__context__, "errors", None):  # a word where a number belongs
        problem = errors()[0]
        wanted = problem["msg"].partition(",")[0].replace("Input should be", "is not")
        text = f"{error.param.opts[0]}: {checks.shown(problem['input'])} {wanted}"
    return f"{shortened(visible(' '.join(text.split())))}; see {path} --help"
