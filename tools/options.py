"""Writes down what the core declares of its options: Python's dataclasses, JSON Schemas, and the manual's tables.

`make options` runs it after a change of `crates/treefold/src/planners/options.rs` or `sim/packet/options.rs`; a test
holds the written files to the declarations.
"""

import json
import subprocess
import sys
import textwrap
from pathlib import Path

from treefold import declared
from treefold.declared import Option

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = {
    "Machine": [
        '>>> machine = treefold.Machine(virtual_channels=2, payload="64B")',
        '>>> treefold.simulate(treefold.plan("torus:4x4", "ring"), size_bytes=4096, model=machine).packets.packets',
        "1920",
    ],
    "PlannerOptions": [
        '>>> treefold.plan("b4", "packing", trees=4, height=5).num_trees <= treefold.PlannerOptions(trees=4).trees',
        "True",
    ],
}
TITLES = {"planner": "The options of planners", "machine": "The machine that the packet simulator simulates"}
_PLAIN = {"integer": "int", "number": "float", "boolean": "bool"}


def files() -> dict[Path, str]:
    """Return the text of each written file."""
    texts = {ROOT / "python/treefold/options.py": _module(), ROOT / "docs/options.md": _manual()}
    for what in TITLES:
        schema = declared.schema(what)
        head = {key: schema[key] for key in ("$schema", "title")}
        # Editors mark names that are unknown.
        closed = {**head, **schema, "additionalProperties": False}
        texts[ROOT / f"schema/{what}.schema.json"] = json.dumps(closed, indent=2) + "\n"
    return texts


def _annotation(option: Option, *, is_read: bool = False) -> str:
    """Return the type of an option; a quantity that the core has read is a number, else it may be a text."""
    if option.choices:
        kind = f"Literal[{', '.join(json.dumps(choice) for choice in option.choices)}]"
    elif option.unit is not None:
        kind = "int" if option.unit == "bytes" else "float"
        kind += "" if is_read else " | str"
    else:
        kind = next(_PLAIN[each] for each in option.types if each in _PLAIN)
    return f"{kind} | None" if "null" in option.types else kind


def _module() -> str:
    lines = [
        '"""The options of planners and of the packet simulator\'s machine, as the core declares them.',
        "",
        "`make options` writes this file from the declarations in the core; do not edit it.",
        '"""',
        "",
        "from dataclasses import dataclass",
        "from typing import Literal, TypedDict",
        "",
        "",
        *_dataclass("Machine", "machine", "The machine on which the packet simulator runs a plan."),
        "",
        "",
        *_dataclass(
            "PlannerOptions",
            "planner",
            "What a caller asks of a planner, as the core has read it.",
            is_read=True,
        ),
        "",
        "",
        *_arguments(),
    ]
    text = "\n".join(lines) + "\n"
    ruff = [sys.executable, "-m", "ruff", "format", "--line-length", "120", "-"]
    return subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout


def _dataclass(name: str, what: str, title: str, *, is_read: bool = False) -> list[str]:
    texts = "" if is_read else ", or a text with a unit, such as 8KiB"
    body = [f"class {name}:", f'    """{title}', ""]
    body += [f"    A quantity is a number of its base unit (bytes, seconds, bytes a second, Hz){texts}."]
    body += ["    None stands for a default that depends on the network or the plan.", "", "    Example:"]
    body += [*(f"        {line}" for line in EXAMPLES[name]), "", '    """', ""]
    lines = ["@dataclass(frozen=True, kw_only=True)", *body]
    for key, option in declared.options(what).items():
        is_text = option.unit is not None and option.default is not None
        default = json.dumps(option.written(option.default)) if is_text else repr(option.default)
        lines.append(f"    {key}: {_annotation(option, is_read=is_read)} = {default}")
        lines += _docstring(option)
    return lines


def _docstring(option: Option) -> list[str]:
    wrapped = textwrap.wrap(option.explained(), 110)
    return (
        [f'    """{wrapped[0]}"""']
        if len(wrapped) == 1
        else [f'    """{wrapped[0]}', *(f"    {each}" for each in wrapped[1:]), '    """']
    )


def _arguments() -> list[str]:
    lines = [
        "class PlannerArguments(TypedDict, total=False):",
        '    """The fields of `PlannerOptions`, as keyword arguments of the functions that plan."""',
        "",
    ]
    return lines + [f"    {key}: {_annotation(option)}" for key, option in declared.options("planner").items()]


def _manual() -> str:
    lines = ["# Options", "", "`make options` writes this page from the declarations in the core; do not edit it.", ""]
    lines += ["A quantity is written with its unit: `8KiB`, `80ns`, `10Mbit/s`, `1.5GHz`.", ""]
    uses = {
        "planner": 'In a shell `--least-rate 10Mbit/s`; in Python `treefold.plan(network, least_rate="10Mbit/s")`.',
        "machine": 'In a shell `--set wave=4KiB` or `--machine FILE.toml`; in Python `treefold.Machine(wave="4KiB")`.',
    }
    for what, title in TITLES.items():
        lines += [f"## {title}", "", uses[what], ""]
        for key, option in declared.options(what).items():
            lines += _entry(key, option)
    return "\n".join(lines).rstrip() + "\n"


def _entry(key: str, option: Option) -> list[str]:
    facts = [option.help]
    if option.default is not None:
        facts.append(f"Default: `{option.written(option.default)}`.")
    if option.choices:
        facts.append(f"One of {', '.join(f'`{choice}`' for choice in option.choices)}.")
    if option.minimum is not None and option.maximum is not None:
        facts.append(f"From {option.written(option.minimum)} to {option.written(option.maximum)}.")
    if option.planners is not None:
        facts.append(f"For {', '.join(option.planners)}.")
    if option.source is not None:
        facts.append(f"Source: {option.source}.")
    return [f"**`{key}`**", *textwrap.wrap(" ".join(facts), 118, break_on_hyphens=False), ""]


def main() -> None:
    """Write the files."""
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
