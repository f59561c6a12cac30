"""A page for each algorithm: its idea and cost from the head of its module, a picture of a tree, and its options."""

import re
from itertools import takewhile
from pathlib import Path

import treefold
from tools.manual import pictures
from treefold import declared, planning
from treefold.planning.request import planners_with

CORE = Path(__file__).resolve().parents[2] / "crates" / "treefold" / "src" / "planners"
MODULES = {"innet-pull": "in_network", "innet-push": "in_network"}
"""The modules of the algorithms whose module has another name."""
NETWORKS = {
    "hdrm": "bigraph:2x4",
    "innet": "dgx2:planes=6",
    "innet-pull": "dgx2:planes=6",
    "innet-push": "dgx2:planes=6",
}
"""The networks on which pictures show the algorithms that do not fit a torus."""

HEAD = """# Algorithms

`auto`, the default, plans with each algorithm that fits and takes the fastest plan. Some plan all-reduces only. Most
plan all collectives: a reduce-scatter or a broadcast is a part of their all-reduce, and blocks travel along the same
trees. `forest` plans each in its own way, at the best rate.

| name | collectives | what it is |
|---|---|---|"""


def write(pages: Path) -> list[tuple[str, str]]:
    """Write the pages, and return their titles and paths."""
    folder = pages / "algorithms"
    folder.mkdir()
    listed = treefold.algorithms()
    rows = [f"| [`{name}`]({name}.md) | {planning.collectives(name)} | {listed[name]} |" for name in listed]
    (folder / "index.md").write_text("\n".join([HEAD, *rows, ""]), encoding="utf-8")
    for name, summary in listed.items():
        (folder / f"{name}.md").write_text(_page(name, summary, folder), encoding="utf-8")
    return [("All algorithms", "algorithms/index.md"), *((name, f"algorithms/{name}.md") for name in listed)]


def _page(name: str, summary: str, folder: Path) -> str:
    network = NETWORKS.get(name, "torus:4x4")
    plan = treefold.plan(network, name)
    (folder / f"{name}.svg").write_bytes(pictures.tree(plan, treefold.topology(network)))
    parts = [
        f"# {name}\n\n*{summary[0].upper()}{summary[1:]}.*",
        _head(name),
        f"## A tree of it\n\n{pictures.caption(plan, network)}\n\n![A tree of {name} on {network}]({name}.svg)",
        f"## Try it\n\n```sh\ntreefold plan {network} -a {name}\n```",
        _options(name),
    ]
    return "\n\n".join(part for part in parts if part) + "\n"


def _head(name: str) -> str:
    """Return the head of the algorithm's module as Markdown, which says what it costs and what it fits."""
    text = _documentation(name)
    assert "Cost:" in text and "Fits:" in text, f"the module of {name} does not say what it costs, or what it fits"
    return re.sub(r"\b(Cost|Fits):", r"**\1:**", text)


def _documentation(name: str) -> str:
    module = MODULES.get(name, name.replace("-", "_"))
    source = (CORE / f"{module}.rs").read_text(encoding="utf-8")
    lines = [line[4:] for line in takewhile(lambda line: line.startswith("//!"), source.splitlines())]
    return re.sub(r"\[(`[^`]*`)\](\([^)]*\))?", r"\1", "\n".join(lines))


def _options(name: str) -> str:
    """Return a list of the options that the algorithm has beside those of all planners."""
    options = [each for each in declared.options("planner") if name in (planners_with(each) or ())]
    if not options:
        return ""
    listed = ", ".join(f"[`{each}`](../options.md)" for each in options)
    return f"## Options\n\nThis algorithm has the options {listed}."
