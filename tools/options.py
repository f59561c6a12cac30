"""Writes down what the core declares of its options: Python's dataclasses, JSON Schemas, and the manual's tables.

`make options` runs it after a change of `crates/treefold/src/planners/options.rs` or `sim/packet/options.rs`; a test
holds the written files to the declarations.
"""

import json
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from treefold import _core

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
    schemas = {what: json.loads(_core.option_schema(what)) for what in TITLES}
    texts = {ROOT / "python/treefold/options.py": _module(schemas), ROOT / "docs/options.md": _manual(schemas)}
    for what, schema in schemas.items():
        texts[ROOT / f"schema/{what}.schema.json"] = json.dumps(_closed(what, schema), indent=2) + "\n"
    return texts


def _closed(what: str, schema: Mapping[str, Any]) -> dict[str, Any]:
    """Return the schema as editors need it, which mark names that are unknown."""
    head = {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": TITLES[what]}
    return {**head, **schema, "additionalProperties": False}


def _choices(option: Mapping[str, Any]) -> list[str]:
    nested = [choice for part in option.get("anyOf", ()) for choice in _choices(part)]
    return [each["const"] for each in option.get("oneOf", ())] + nested


def _types(option: Mapping[str, Any]) -> set[str]:
    kinds = option.get("type", [])
    nested = {kind for part in option.get("anyOf", ()) for kind in _types(part)}
    return {*([kinds] if isinstance(kinds, str) else kinds), *nested}


def _annotation(option: Mapping[str, Any], *, is_read: bool = False) -> str:
    """Return the type of an option; a quantity that the core has read is a number, else it may be a text."""
    if choices := _choices(option):
        kind = f"Literal[{', '.join(json.dumps(choice) for choice in choices)}]"
    elif "format" in option and "string" in _types(option):
        kind = "int" if option["format"] == "bytes" else "float"
        kind += "" if is_read else " | str"
    else:
        kind = next(_PLAIN[each] for each in _types(option) if each in _PLAIN)
    return f"{kind} | None" if "null" in _types(option) else kind


def _help(option: Mapping[str, Any]) -> str:
    return " ".join(option["description"].split())


def _source(option: Mapping[str, Any]) -> str:
    return f" ({option['x-paper']})" if "x-paper" in option else ""


def _default(option: Mapping[str, Any]) -> str:
    """Return a default as a person writes it."""
    return "" if option["default"] is None else _written(option, option["default"])


def _written(option: Mapping[str, Any], value: Any) -> str:
    """Return a value of an option as a person writes it."""
    write = {"bytes": _core.format_size, "seconds": _core.format_time, "bytes/second": _core.format_bandwidth}
    if option.get("format") in write:
        return write[option["format"]](value)
    if option.get("format") == "hertz":
        return f"{value:g}Hz".replace("e+", "e")
    return str(value).lower() if isinstance(value, bool) else str(value)


def _module(schemas: Mapping[str, Mapping[str, Any]]) -> str:
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
        *_dataclass("Machine", schemas["machine"], "The machine on which the packet simulator runs a plan."),
        "",
        "",
        *_dataclass(
            "PlannerOptions",
            schemas["planner"],
            "What a caller asks of a planner, as the core has read it.",
            is_read=True,
        ),
        "",
        "",
        *_arguments(schemas["planner"]),
    ]
    text = "\n".join(lines) + "\n"
    ruff = [sys.executable, "-m", "ruff", "format", "--line-length", "120", "-"]
    return subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout


def _dataclass(name: str, schema: Mapping[str, Any], title: str, *, is_read: bool = False) -> list[str]:
    texts = "" if is_read else ", or a text with a unit, such as 8KiB"
    body = [f"class {name}:", f'    """{title}', ""]
    body += [f"    A quantity is a number of its base unit (bytes, seconds, bytes a second, Hz){texts}."]
    body += ["    None stands for a default that depends on the network or the plan.", "", "    Example:"]
    body += [*(f"        {line}" for line in EXAMPLES[name]), "", '    """', ""]
    lines = ["@dataclass(frozen=True, kw_only=True)", *body]
    for key, option in schema["properties"].items():
        default = json.dumps(_default(option)) if _is_quantity(option) and option["default"] is not None else None
        lines.append(f"    {key}: {_annotation(option, is_read=is_read)} = {default or repr(option['default'])}")
        lines += _docstring(option)
    return lines


def _is_quantity(option: Mapping[str, Any]) -> bool:
    return "format" in option and "string" in _types(option)


def _docstring(option: Mapping[str, Any]) -> list[str]:
    import textwrap

    wrapped = textwrap.wrap(f"{_help(option)}{_source(option)}", 110)
    return (
        [f'    """{wrapped[0]}"""']
        if len(wrapped) == 1
        else [f'    """{wrapped[0]}', *(f"    {each}" for each in wrapped[1:]), '    """']
    )


def _arguments(schema: Mapping[str, Any]) -> list[str]:
    lines = [
        "class PlannerArguments(TypedDict, total=False):",
        '    """The fields of `PlannerOptions`, as keyword arguments of the functions that plan."""',
        "",
    ]
    return lines + [f"    {key}: {_annotation(option)}" for key, option in schema["properties"].items()]


def _manual(schemas: Mapping[str, Mapping[str, Any]]) -> str:
    lines = ["# Options", "", "`make options` writes this page from the declarations in the core; do not edit it.", ""]
    lines += ["A quantity is written with its unit: `8KiB`, `80ns`, `10Mbit/s`, `1.5GHz`.", ""]
    uses = {
        "planner": 'In a shell `--least-rate 10Mbit/s`; in Python `treefold.plan(network, least_rate="10Mbit/s")`.',
        "machine": 'In a shell `--set wave=4KiB` or `--machine FILE.toml`; in Python `treefold.Machine(wave="4KiB")`.',
    }
    for what, schema in schemas.items():
        lines += [f"## {TITLES[what]}", "", uses[what], ""]
        for key, option in schema["properties"].items():
            lines += _entry(key, option)
    return "\n".join(lines).rstrip() + "\n"


def _entry(key: str, option: Mapping[str, Any]) -> list[str]:
    import textwrap

    default = _default(option)
    facts = [f"Default: `{default}`."] if default else []
    if choices := _choices(option):
        facts.append(f"One of {', '.join(f'`{choice}`' for choice in choices)}.")
    if "minimum" in option and "maximum" in option:
        facts.append(f"From {_written(option, option['minimum'])} to {_written(option, option['maximum'])}.")
    if "x-planners" in option:
        facts.append(f"For {', '.join(option['x-planners'])}.")
    if "x-paper" in option:
        facts.append(f"Source: {option['x-paper']}.")
    return [f"**`{key}`**", *textwrap.wrap(" ".join([_help(option), *facts]), 118, break_on_hyphens=False), ""]


def main() -> None:
    """Write the files."""
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
