"""The pages of the reference: the command line, Python, JSON, and environment variables, as the code declares them."""

import inspect
import os
import re
from pathlib import Path
from typing import Any

import treefold
from tools.manual import json_keys
from treefold import environment, probe, regions, report, runtime, sizing, training

MODULES = {
    "treefold": treefold,
    "treefold.report": report,
    "treefold.runtime": runtime,
    "treefold.training": training,
    "treefold.probe": probe,
    "treefold.sizing": sizing,
    "treefold.regions": regions,
}
CLASSES = ("Topology", "Plan", "Trace")
"""The classes of the compiled core, whose documentation Python has and the source of the package does not."""


def write(pages: Path) -> list[tuple[str, str]]:
    """Write the pages, and return their titles and paths."""
    folder = pages / "reference"
    folder.mkdir()
    texts = {"cli": _command_line(), "python": _python(), "json": json_keys.page(), "environment": _environment()}
    for name, text in texts.items():
        (folder / f"{name}.md").write_text(text, encoding="utf-8")
    titles = {"cli": "Command line", "python": "Python", "json": "JSON", "environment": "Environment"}
    return [(title, f"reference/{name}.md") for name, title in titles.items()]


def _command_line() -> str:
    """Return the help of all commands."""
    os.environ["COLUMNS"] = "100"
    from typer.main import get_command

    from treefold.cli.main import app

    group: Any = get_command(app)
    parts = ["# The command line\n\nEach section is what `treefold COMMAND --help` prints."]
    parts.append(f"## treefold\n\n```text\n{_help(group, 'treefold')}\n```")
    for name, command in sorted(group.commands.items()):
        parts.append(f"## treefold {name}\n\n```text\n{_help(command, f'treefold {name}')}\n```")
    return "\n\n".join(parts) + "\n"


def _help(command: Any, name: str) -> str:
    context = command.make_context(name, [], resilient_parsing=True)
    text: str = command.get_help(context)
    return text.strip()


def _python() -> str:
    """Return the page from which mkdocstrings makes the reference of Python."""
    parts = [f"# Python\n\n<!-- {_DIRECTIVES} -->"]
    for name, module in MODULES.items():
        parts.append(f"## {name}\n\n{_introduction(module) if name != 'treefold' else ''}")
        public = getattr(module, "__all__", None) or sorted(_own(module))
        for each in public:
            found = getattr(module, each)
            if inspect.ismodule(found):
                continue
            if name == "treefold" and each in CLASSES:
                parts.append(_core_class(found))
            elif inspect.isclass(found) or inspect.isfunction(found):
                parts.append(f"::: {found.__module__}.{each}")
    return "\n\n".join(parts) + "\n"


_DIRECTIVES = (
    "A line that begins with ::: stands for the documentation of what it names, which the site shows in its place; in "
    "Python, help(treefold.plan) prints the same."
)
"""What those read who open the page as a file; the site does not show it."""


def _own(module: Any) -> list[str]:
    named = inspect.getmembers(module, lambda each: inspect.isclass(each) or inspect.isfunction(each))
    return [name for name, each in named if each.__module__ == module.__name__ and not name.startswith("_")]


def _introduction(module: Any) -> str:
    return inspect.getdoc(module) or ""


def _core_class(found: type) -> str:
    """Return the documentation of a class of the core, with those of its methods and properties."""
    parts = [f"### {found.__name__}\n\n{_docstring(found)}"]
    for name, member in vars(found).items():
        if not name.startswith("_") and inspect.getdoc(member):
            parts.append(f"#### {found.__name__}.{name}\n\n{_docstring(getattr(found, name))}")
    return "\n\n".join(parts)


def _docstring(found: object) -> str:
    """Return a docstring as Markdown: its sections in bold, its examples as code."""
    text = inspect.getdoc(found) or ""
    text = re.sub(r"^(Args|Returns|Raises|Attributes|Example):$", r"**\1**", text, flags=re.MULTILINE)
    text = re.sub(r"((?:^ {4}(?:>>>|\.\.\.).*\n(?:^ {4}.*\n?)*)+)", _code, text + "\n", flags=re.MULTILINE)
    return re.sub(r"^ {4}(\w+): ", r"- `\1`: ", text, flags=re.MULTILINE).strip()


def _code(found: re.Match[str]) -> str:
    return f"\n```pycon\n{inspect.cleandoc(found[1])}\n```\n"


def _environment() -> str:
    rows = "\n".join(f"| `{name}` | {meaning} |" for name, meaning in environment.VARIABLES.items())
    return (
        "# Environment variables\n\nA variable that looks like one of these but is none of them is ignored, with a "
        f"warning.\n\n| variable | meaning |\n|---|---|\n{rows}\n"
    )
