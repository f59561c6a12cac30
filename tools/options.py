"""Writes down what the core declares: Python's dataclasses, JSON Schemas and the manual's page of its options.

The schemas of plan files and of trace files follow from the core's types, too.

`make options` runs it after a change of `crates/treefold/src/planners/options.rs`, `sim/packet/options.rs`,
`plan/json.rs` or `sim/trace_file.rs`, or of `python/treefold/training/options.py`, which the page lists, too; a test
holds the written files to the declarations.
"""

import json
import subprocess
import sys
import textwrap
from dataclasses import fields
from pathlib import Path
from typing import Any

from treefold import _core, declared
from treefold.declared import Option
from treefold.training import options as training

ROOT = Path(__file__).resolve().parent.parent
EXAMPLES = {
    "Machine": [
        '>>> machine = treefold.Machine(virtual_channels=2, payload="64B")',
        '>>> treefold.simulate(treefold.plan("torus:4x4", "ring"), size_bytes=4096, simulator=machine).packets.packets',
        "1920",
    ],
    "PlannerOptions": [
        '>>> treefold.plan("b4", "packing", trees=4, height=5, least_rate="10Mbit/s").num_trees <= 4',
        "True",
        '>>> treefold.PlannerOptions(least_rate="8Mbit/s").least_rate',
        "1000000.0",
    ],
}
_QUANTITIES = (
    "A quantity is a number of its base unit (bytes, seconds, bytes per second, Hz); one that is given as a text with "
    "a unit, such as {}, becomes that number. None stands for a default that depends on the network or the plan."
)
ABOUT = {
    "Machine": _QUANTITIES.format("`8KiB`"),
    "PlannerOptions": "Give them to `treefold.plan` as keyword arguments. " + _QUANTITIES.format("`10Mbit/s`"),
}
READING = """\
def _read(options: Machine | PlannerOptions, what: str) -> None:
    \"""Replace the values of new options by those that the core has read: checked, and as numbers of base units.\"""
    for name, value in _core.read_options(what, vars(options)).items():
        object.__setattr__(options, name, value)
""".splitlines()
TITLES = {"planner": "The options of planners", "machine": "The machine that the packet simulator simulates"}
INTRODUCTION = """\
# Options

<!-- make options writes this page from the declarations in the code; do not edit it. -->

Each option of planners names those that accept it. A quantity is written with its unit: `8KiB`, `80ns`,
`10Mbit/s`, `1.5GHz`. The [glossary](glossary.md) explains the words. "Source" tells which paper an option comes from:

- *MultiTree*: "Communication Algorithm-Architecture Co-Design for Distributed Deep Learning" (ISCA 2021);
- *in-network*: "An In-Network Architecture for Accelerating Shared-Memory Multiprocessor Collectives" (ISCA 2020);
- *MTree*: "Efficient inter-datacenter all-reduce with multiple trees";
- *SCCL*: "Synthesizing Optimal Collective Algorithms" (PPoPP 2021).
"""
USES = {
    "planner": """\
In a shell `--least-rate 10Mbit/s` and `--no-pipeline`; in Python `treefold.plan(network, least_rate="10Mbit/s",
pipeline=False)`.""",
    "machine": """\
In a shell `--set wave=4KiB` or `--machine FILE.toml`; in Python `treefold.Machine(wave="4KiB")`.""",
}
TRAINING_USE = """\
In a shell `--overlap bucket --bucket 10MiB`; in Python `treefold.train(model, network, overlap="bucket",
bucket_bytes=10 << 20)`. `docs/models.md` explains the models and the accelerators."""
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
    for what, found in (("plan", _core.plan_schema()), ("trace", _core.trace_schema())):
        schema = _unwrapped(found)
        head = {key: schema[key] for key in ("$schema", "title", "description")}
        texts[ROOT / f"schema/{what}.schema.json"] = json.dumps({**head, **schema}, indent=2) + "\n"
    return texts


def _unwrapped(schema: Any) -> Any:
    """Return a schema whose descriptions stand on one line each, however the source's comments are wrapped."""
    if isinstance(schema, dict):
        text = {key: " ".join(each.split()) for key, each in schema.items() if key == "description"}
        return {key: text.get(key) or _unwrapped(each) for key, each in schema.items()}
    return [_unwrapped(each) for each in schema] if isinstance(schema, list) else schema


def _annotation(option: Option, *, is_read: bool = False) -> str:
    """Return the type of an option; a quantity is a number where it `is_read`, else it may be a text."""
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
        "from treefold import _core",
        "",
        "",
        *_dataclass("Machine", "machine", "The machine on which the packet simulator runs a plan."),
        "",
        "",
        *_dataclass("PlannerOptions", "planner", "The options of planners, with their defaults.", is_read=True),
        "",
        "",
        *_arguments(),
        "",
        "",
        *READING,
    ]
    text = "\n".join(lines) + "\n"
    ruff = [sys.executable, "-m", "ruff", "format", "--line-length", "120", "-"]
    return subprocess.run(ruff, input=text, capture_output=True, text=True, check=True).stdout


def _dataclass(name: str, what: str, title: str, *, is_read: bool = False) -> list[str]:
    body = [f"class {name}:", f'    """{title}', "", *_wrapped(ABOUT[name], 4), "", "    Attributes:"]
    for key, option in declared.options(what).items():
        body += _wrapped(f"{key}: {' '.join(_facts(option, has_default=False))}", 8, 12)
    raises = ["", "    Raises:", "        TreefoldError: If a value is not allowed."]
    body += [*raises, "", "    Example:", *(f"        {line}" for line in EXAMPLES[name]), "", '    """', ""]
    lines = ["@dataclass(frozen=True, kw_only=True)", *body]
    for key, option in declared.options(what).items():
        is_text = not is_read and option.unit is not None and option.default is not None
        default = json.dumps(option.written(option.default)) if is_text else repr(option.default)
        lines.append(f"    {key}: {_annotation(option, is_read=is_read)} = {default}")
    return [*lines, "", "    def __post_init__(self) -> None:", f'        _read(self, "{what}")']


def _wrapped(text: str, first: int, later: int | None = None) -> list[str]:
    """Return the lines of a text, the first indented by `first` blanks, the others by `later` or as many."""
    blanks = " " * first, " " * (first if later is None else later)
    return textwrap.wrap(text, 118, initial_indent=blanks[0], subsequent_indent=blanks[1], break_on_hyphens=False)


def _arguments() -> list[str]:
    lines = [
        "class PlannerArguments(TypedDict, total=False):",
        '    """The fields of `PlannerOptions`, as keyword arguments of the functions that plan."""',
        "",
    ]
    return lines + [f"    {key}: {_annotation(option)}" for key, option in declared.options("planner").items()]


def _manual() -> str:
    lines = [INTRODUCTION]
    for what, title in TITLES.items():
        lines += [f"## {title}", "", USES[what], ""]
        for key, option in declared.options(what).items():
            lines += _entry(key, _facts(option))
    lines += ["## The options of a training iteration", ""]
    lines += [TRAINING_USE, ""]
    for field in fields(training.TrainingOptions):
        default = [] if field.default is None else [f"Default: `{str(field.default).lower()}`."]
        lines += _entry(field.name, [training.texts()[field.name], *default])
    return "\n".join(lines).rstrip() + "\n"


def _entry(key: str, facts: list[str]) -> list[str]:
    return [f"**`{key}`**", *_wrapped(" ".join(facts), 0), ""]


def _facts(option: Option, *, has_default: bool = True) -> list[str]:
    """Return what an option means and takes; `has_default` is false where its default stands elsewhere."""
    facts = [option.help]
    if has_default and option.default is not None:
        facts.append(f"Default: `{option.written(option.default)}`.")
    choices = ("true", "false") if has_default and "boolean" in option.types else option.choices
    if choices:
        facts.append(f"One of {', '.join(f'`{choice}`' for choice in choices)}.")
    if option.minimum is not None and option.maximum is not None:
        facts.append(f"From {option.written(option.minimum)} to {option.written(option.maximum)}.")
    if option.planners is not None:
        facts.append(f"Only {option.owners()}.")
    if option.source is not None:
        facts.append(f"Source: {option.source}.")
    return facts


def main() -> None:
    """Write the files."""
    for path, text in files().items():
        path.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
