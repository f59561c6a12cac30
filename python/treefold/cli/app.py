"""The base of all commands: it corrects names, refuses repeated options, writes help, and explains errors."""

import re
import sys
from collections.abc import Iterator, Sequence
from itertools import pairwise, zip_longest
from pathlib import Path
from typing import Any

import typer
from typer.core import TyperCommand, TyperGroup

from treefold import checks, declared
from treefold._core import is_spec, nearest
from treefold.errors import TreefoldError
from treefold.text import shortened, visible

_RENAMED = {"model": "simulator"}
"""The options that had another name, by that name, which is accepted but not shown."""


def as_known(name: str) -> str:
    """Return the usual spelling of a name of an option or a command: lower case with hyphens, and no old name."""
    known = name.lower().replace("_", "-")
    return _RENAMED.get(known, known)


SETTINGS = {"help_option_names": ["-h", "--help"], "token_normalize_func": as_known, "max_content_width": 100}
"""Every command has -h, and ignores case and underscores in the names of options."""

_READER_GONE = 141
"""The exit code of a command whose output pipe was closed, as shells see it."""

_HYPHEN, _BLANK = "\N{NON-BREAKING HYPHEN}", "\N{WORD JOINER}"
"""While help is wrapped, they stand for a hyphen within a word, and for a blank within `[default: ...]`."""

# Typer carries its own copy of click and exports only these ways to click's UsageError and HelpFormatter.
USAGE_ERROR: Any = typer.BadParameter.__mro__[1]
_HELP_FORMATTER: Any = typer.Context.formatter_class


def _unbroken(text: str) -> str:
    """Return a text whose names, such as `all-gather`, and whose defaults are not broken when it is wrapped."""
    text = re.sub(r"(?<=\w)-(?=\w)|(?<!\S)-+(?=\w)", lambda found: _HYPHEN * len(found[0]), text)
    return re.sub(r"\[default: [^\]]*\]", lambda found: found[0].replace(" ", _BLANK), text)


class _Formatter(_HELP_FORMATTER):  # type: ignore[misc]
    """Wraps help between words only, so that every name can be copied."""

    def write(self, string: str) -> None:
        super().write(string.replace(_HYPHEN, "-").replace(_BLANK, " "))

    def write_text(self, text: str) -> None:
        super().write_text(_unbroken(text))

    def write_dl(self, rows: Sequence[tuple[str, str]], **settings: int) -> None:
        super().write_dl([(name, _unbroken(text)) for name, text in rows], **settings)


class _Context(typer.Context):
    """The context of every command, with a formatter of our own."""

    formatter_class = _Formatter


class Commands(TyperGroup):
    """Finds a command by its name, and suggests similar names if it is unknown."""

    context_class = _Context

    def resolve_command(self, ctx: Any, args: list[str]) -> Any:
        """Return the command that the first argument names."""
        if ctx.resilient_parsing:  # the shell is completing a command line
            return super().resolve_command(ctx, args)
        if args[0] == "help":
            raise TreefoldError("'help' is not a command; write treefold --help, or for example treefold plan --help")
        return super().resolve_command(ctx, [checks.name("command", args[0], self.commands), *args[1:]])


_PANELS = ("Arguments", "Options", "Training", "Planner", "Simulator", "Network", "Workers")
_WORDS = {"str": "NAME", "int": "N", "float": "X", "path": "FILE", "list[str]": "LIST"}
"""The words for the types of values; an option whose value is neither sets its own."""
_WIDEST_NAMES = 26  # columns for the names of options, beside their help

_FOLDED = "Planner"
"""The panel that only `treefold plan --help` shows in full."""


class Command(TyperCommand):
    """A command whose help has panels and examples. It refuses repeated options, and ends if its reader ends."""

    context_class = _Context

    def collect_usage_pieces(self, ctx: Any) -> list[str]:
        """Return the arguments as other programs show them: only optional ones have brackets."""
        return [piece.strip("{}") for piece in super().collect_usage_pieces(ctx)]

    def format_help_text(self, ctx: Any, formatter: Any) -> None:
        """Write the description of the command, then its examples."""
        text, _, examples = (self.help or "").partition("\nExamples:\n")
        formatter.write_paragraph()
        with formatter.indentation():
            formatter.write_text(text.strip())
        if examples:
            with formatter.section("Examples"):
                formatter.write("\n".join(f"  {line.strip()}" for line in examples.strip().splitlines()) + "\n")

    def format_options(self, ctx: Any, formatter: Any) -> None:
        """Write the arguments, the command's own options, and the options of each panel."""
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
        """Run the command; if its reader (a pager, `head`) has gone, end silently, as commands do."""
        try:
            return super().invoke(ctx)
        except BrokenPipeError:
            sys.stdout = None  # otherwise the interpreter tries to write again at exit
            sys.exit(_READER_GONE)

    def make_parser(self, ctx: Any) -> Any:
        """Return a parser that also checks the order of options, to find repeated ones."""
        parser = super().make_parser(ctx)
        parse = parser.parse_args

        def parse_once(args: list[str]) -> Any:
            try:
                values, rest, order = parse([*_with_values(args)])
            except USAGE_ERROR as error:
                error.ctx = ctx  # which some of these errors lack, and which names the command whose help helps
                raise
            if not ctx.resilient_parsing:
                _refuse_twice(order)
                _refuse_unknown_values(args)
            return values, rest, order

        parser.parse_args = parse_once  # type: ignore[method-assign]
        return parser


_ALONE = {"adapt": ("same", "auto", "no"), "discover": ("cache",)}
"""The values of options that may stand alone; they then have the first of these values."""
_OF_FILES = ("discover",)
"""The options among these whose value may be any file, too."""


def _with_values(args: Sequence[str]) -> Iterator[str]:
    """Yield the arguments, with the value of each option that stands alone."""
    for arg, after in zip_longest(args, args[1:]):
        yield arg
        name = as_known(arg.removeprefix("--"))
        values = _ALONE.get(name) if arg.startswith("--") else None
        if values and not _is_value(after, () if name in _OF_FILES else values):
            yield values[0]


def _is_value(word: str | None, values: Sequence[str]) -> bool:
    """Return whether the word after an option is one of these values, or any file where there are none."""
    return word is not None and (as_known(word) in values if values else not word.startswith("-"))


def _refuse_unknown_values(args: Sequence[str]) -> None:
    """Refuse a word after an option that may stand alone, if it is no value of it and no argument of the command."""
    for arg, after in pairwise(args):
        name = as_known(arg.removeprefix("--"))
        values = _ALONE.get(name) if arg.startswith("--") and name not in _OF_FILES else None
        # A word that could be a file or a network is left to what reads those.
        if values and re.fullmatch(r"\w+", after) and not (is_spec(after) or Path(after).exists()):
            checks.name(arg, after, values)


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
        # Repeating a flag without an opposite changes nothing.
        is_harmless = option.param_type_name == "argument" or option.multiple or _is_plain_flag(option)
        if option in order[:place] and not is_harmless:
            name = " or ".join([option.opts[0], *option.secondary_opts])
            raise TreefoldError(f"{name} is given twice; give it once")


def _is_plain_flag(option: Any) -> bool:
    return bool(option.is_flag) and not option.secondary_opts


def _meant(name: str, options: Sequence[Any]) -> list[str]:
    """Return the options and settings of `--set` that an unknown option may mean."""
    flags = [flag for option in options for flag in option.opts if flag.startswith("--")]
    near = [f"--{each}" for each in nearest(name, [flag.lstrip("-") for flag in flags])]
    keys = list(declared.options("machine")) if "--set" in flags else []
    return near + [f"--set {key}=VALUE" for key in nearest(name.replace("-", "_"), keys)]


def explain_usage(error: Any) -> str:
    """Return the problem of a command line in one line, with a suggestion."""
    path = error.ctx.command_path if error.ctx else "treefold"
    text = error.format_message().rstrip(".")
    if hasattr(error, "possibilities"):  # an unknown option; the suggestions of click are often far off
        meant = _meant(visible(error.option_name).lstrip("-"), error.ctx.command.get_params(error.ctx))
        text = f"No such option: {error.option_name}" + (f"; did you mean {' or '.join(meant)}?" if meant else "")
    elif wrong := re.fullmatch("Invalid value for '(.*)': (.*) is not a valid (int|float)", text):
        option, word, wanted = wrong.groups()
        text = f"{option}: {word} is not a valid {'integer' if wanted == 'int' else 'number'}"
    text = shortened(visible(" ".join(text.split())))
    return f"{text} See {path} --help" if text.endswith("?") else f"{text}; see {path} --help"
