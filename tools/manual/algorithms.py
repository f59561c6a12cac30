"""A page for each algorithm: its entry in the core's table, the head of its module, and a picture of a tree."""

import re
from collections.abc import Sequence
from itertools import takewhile
from pathlib import Path

import treefold
from tools.manual import pictures, winners
from treefold.results import Algorithm
from treefold.winner_results import WinnerMap

CORE = Path(__file__).resolve().parents[2] / "crates" / "treefold" / "src" / "planners"
MODULES = {"innet-pull": "in_network", "innet-push": "in_network"}
"""The modules of the algorithms whose module has another name."""
NETWORKS = {
    "hdrm": "bigraph:2x4",
    "hierarchical": "cluster:nodes=4,gpus=8,rails=8",
    "innet": "dgx2:planes=6",
    "innet-pull": "dgx2:planes=6",
    "innet-push": "dgx2:planes=6",
}
"""The networks on which pictures show the algorithms that do not fit a torus."""

WHEN = """## Which one when

`auto` finds out for your network and size. On the networks of this map, by the flow
simulator, these are the fastest:

{table}

![The fastest algorithm on 13 networks at 5 sizes](../winners.svg)

The [times of all algorithms](../winners.csv) are in seconds; `treefold compare NETWORK... --map FILE.svg` draws such a
map of other networks.
"""

HEAD = """# Algorithms

`auto`, the default, plans with each algorithm that fits and takes the fastest plan. Some plan all-reduces only. Most
plan all collectives: a reduce-scatter or a broadcast is a part of their all-reduce, and blocks travel along the same
trees. `forest` plans each in its own way, at the best rate. `swing` and `bine` plan each by itself, too, because small
all-reduces have a form from which nothing follows.

| name | collectives | what it is |
|---|---|---|"""


def write(pages: Path) -> list[tuple[str, str]]:
    """Write the pages, and return their titles and paths."""
    folder = pages / "algorithms"
    folder.mkdir()
    listed = treefold.algorithms()
    rows = [f"| [`{name}`]({name}.md) | {each.collectives} | {each.summary} |" for name, each in listed.items()]
    found = winners.read()
    when = WHEN.format(table=winners.table(found))
    (folder / "index.md").write_text("\n".join([HEAD, *rows, "", when]), encoding="utf-8")
    for name, each in listed.items():
        (folder / f"{name}.md").write_text(_page(each, folder, found), encoding="utf-8")
    return [("All algorithms", "algorithms/index.md"), *((name, f"algorithms/{name}.md") for name in listed)]


def _page(algorithm: Algorithm, folder: Path, found: WinnerMap) -> str:
    name, summary = algorithm.name, algorithm.summary
    network = NETWORKS.get(name, "torus:4x4")
    plan = treefold.plan(network, name)
    (folder / f"{name}.svg").write_bytes(pictures.tree(plan, treefold.topology(network)))
    parts = [
        f"# {name}\n\n*{summary[0].upper()}{summary[1:]}.*",
        _facts(algorithm),
        f"## How it works\n\n{_head(name)}",
        f"## A tree of it\n\n{pictures.caption(plan, network)}\n\n![A tree of {name} on {network}]({name}.svg)",
        f"## When it wins\n\n{winners.section(name, found)}",
        f"## Try it\n\n```sh\ntreefold plan {network} -a {name}\n```",
    ]
    return "\n\n".join(parts) + "\n"


def _facts(algorithm: Algorithm) -> str:
    """Return the entry of the table as a list."""
    most = algorithm.most_work
    others = [each for each in algorithm.options if each not in algorithm.limits]
    facts = {
        "Source": algorithm.source,
        "Collectives": algorithm.collectives,
        "Fits": algorithm.fits,
        "Cost": algorithm.cost,
        "Takes long": "" if most is None else f"where ranks times links exceed {most:,}; `auto` leaves it out there",
        "Shared capacities": "planned around" if algorithm.keeps_shared else "not planned around",
        "Limits": _linked(algorithm.limits) or "none",
        "Further options": _linked(others),
    }
    return "\n".join(f"- **{fact}:** {text}" for fact, text in facts.items() if text)


def _linked(options: Sequence[str]) -> str:
    return ", ".join(f"[`{each}`](../options.md)" for each in options)


def _head(name: str) -> str:
    """Return the head of the algorithm's module as Markdown, which says what it costs."""
    text = _documentation(name)
    assert "Cost:" in text, f"the module of {name} does not say what it costs"
    return re.sub(r"\bCost:", "**Cost:**", text)


def _documentation(name: str) -> str:
    module = MODULES.get(name, name.replace("-", "_"))
    source = (CORE / f"{module}.rs").read_text(encoding="utf-8")
    lines = [line[4:] for line in takewhile(lambda line: line.startswith("//!"), source.splitlines())]
    return re.sub(r"\[(`[^`]*`)\](\([^)]*\))?", r"\1", "\n".join(lines))
