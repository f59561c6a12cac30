"""Reads changed files of networks, caps and models in every format.

A network that is read must be writable, and equal after it is read again; small networks also get a plan.
"""

import json
import re
from pathlib import Path
from random import Random
from zlib import crc32

import treefold
from fuzz.cases import Case, Fault, check_refusal, judged_warnings
from fuzz.mutations import change_json, change_text
from treefold import exporters
from treefold.training import files as models

_ROOT = Path(__file__).resolve().parents[2]
_SPECS = ("ring:4", "torus:2x2", "bigraph:1x2", "dgx2:planes=1", "b4", "random:n=4,links=6,seed=1")
_MOST_LINKS = 300
"""Networks with more links are only read."""

_Corpus = dict[str, list[bytes]]


def corpus() -> _Corpus:
    """Return contents by suffix: examples of the documents, data of the tests, and files that treefold writes."""
    found: _Corpus = {}
    for suffix, content in [*_documented(), *_written()]:
        found.setdefault(suffix, []).append(content)
    for path in sorted((_ROOT / "tests" / "data").iterdir()):
        found.setdefault(path.suffix, []).append(path.read_bytes())
        with judged_warnings():
            treefold.topology(str(path), bandwidth_Bps=1e9)  # imports the readers, so that a child need not do it
    return found


def _documented() -> list[tuple[str, bytes]]:
    found = []
    for name, kind in (("files.md", ""), ("models.md", ".model")):
        text = (_ROOT / "docs" / name).read_text(encoding="utf-8")
        blocks = re.findall(r"^```(csv|json|dot|gml|graphml)( caps)?\n(.*?)^```$", text, re.DOTALL | re.MULTILINE)
        found += [(f"{'.caps' if caps else kind}.{suffix}", content.encode()) for suffix, caps, content in blocks]
    return found


def _written() -> list[tuple[str, bytes]]:
    from importlib import import_module

    documents = [json.loads(treefold.topology(spec).to_json()) for spec in _SPECS]
    writers = {".json": "own", ".graphml": "graphml", ".dot": "dot"}
    return [
        (suffix, import_module(f"treefold.exporters.{writer}").text(document).encode())
        for suffix, writer in writers.items()
        for document in documents
    ]


def make(random: Random, corpus: _Corpus) -> Case:
    """Return a file with some changes."""
    # Reading DOT takes twenty times as long as other formats.
    suffix = random.choices(list(corpus), [0.05 if suffix == ".dot" else 1 for suffix in corpus])[0]
    content = random.choice(corpus[suffix])
    if suffix.endswith("json") and random.random() < 0.5:
        value = json.loads(content)
        for _ in range(random.choice((1, 1, 2, 4))):
            change_json(value, random)
        content = json.dumps(value, ensure_ascii=random.random() < 0.8).encode(errors="surrogatepass")
    else:
        content = change_text(content, corpus[suffix], random)
    return Case(suffix, content)


def run(path: Path) -> None:
    """Read the file; write, read and plan for its network."""
    kind = path.name.split(".")[1]
    try:
        with judged_warnings(str(path)):
            if kind == "model":
                models.read(path)
                return
            source, cap = ("ring:3", str(path)) if kind == "caps" else (str(path), None)
            network = treefold.topology(source, bandwidth_Bps=1e9, node_cap=cap)
    except treefold.TreefoldError as error:
        check_refusal(error, str(path))
        return
    if network.num_links <= _MOST_LINKS:
        _use(network, path.parent, crc32(path.read_bytes()))


def _use(network: treefold.Topology, folder: Path, draw: int) -> None:
    suffix = ".dot" if draw % 64 == 0 and network.num_links < 30 else (".json", ".graphml")[draw % 2]
    copy = folder / f"copy{suffix}"
    try:
        exporters.write(json.loads(network.to_json()), copy)
    except treefold.TreefoldError as error:
        check_refusal(error, str(copy))
        return
    if treefold.topology(str(copy)) != network:
        raise Fault("wrong", f"a network is not the same after it is written as {suffix} and read")
    if draw % 8 == 0 and network.ranks <= 16:
        _plan(network)


def _plan(network: treefold.Topology) -> None:
    try:
        plan = treefold.plan(network, "multitree")
    except treefold.TreefoldError as error:
        check_refusal(error)
        return
    if not treefold.check(plan).correct:
        raise Fault("wrong", "a plan of multitree is not correct")
