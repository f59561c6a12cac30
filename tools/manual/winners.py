"""The map of winners: the times of all algorithms on 13 networks at 5 sizes, and what the manual says of them.

`python -m tools.manual.winners` computes them anew, in two processes and some minutes, and writes `docs/winners.csv`,
the picture `docs/winners.svg`, and the table of the README. Pages of algorithms are made from the data.
"""

import csv
import io
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from itertools import chain
from pathlib import Path
from typing import Any

import treefold
from treefold._core import format_size
from treefold.report import plot_winners
from treefold.winner_results import Winner, WinnerMap, winner_of

ROOT = Path(__file__).resolve().parents[2]
DATA, PICTURE, README = ROOT / "docs" / "winners.csv", ROOT / "docs" / "winners.svg", ROOT / "README.md"
MARKS = ("<!-- winners: written by python -m tools.manual.winners -->\n", "\n<!-- end of winners -->")

KINDS = {
    "tori and meshes": ("torus:4x4", "torus:8x8", "mesh:5x5", "mesh:8x8"),
    "switches": ("fattree:8,2", "bigraph:4x8", "dragonfly:groups=9,routers=4"),
    "GPU servers": (
        "dgx1",
        "dgx2:planes=6",
        "cluster:nodes=4,gpus=8,rails=8",
        "cluster:nodes=16,gpus=8,rails=8",
    ),
    "wide area": ("b4", "random:n=20,links=60,seed=1"),
}
NETWORKS = tuple(chain.from_iterable(KINDS.values()))
SIZES = (1 << 10, 1 << 15, 1 << 20, 1 << 24, 1 << 28)
REASONS = {
    "1 KiB": ((1 << 10,), "few messages one after another"),
    "32 KiB": ((1 << 15,), "few messages, on all links"),
    "1 MiB": ((1 << 20,), "all links, and messages in a good order"),
    "16 MiB and more": ((1 << 24, 1 << 28), "no link carries more than it must"),
}
"""The columns of the README's table: sizes, and what counts there."""
WHAT: dict[str, Any] = {"collective": "all-reduce", "simulator": "flow", "link_model": "propagation"}
_NEAR = 1.1
_MOST_NAMES = 3


def main(networks: Sequence[str] = NETWORKS) -> None:
    """Compute the times, and write all files."""
    DATA.write_text(data(computed(networks)), encoding="utf-8")
    found = read()
    PICTURE.write_bytes(picture(found))
    README.write_text(with_table(README.read_text(encoding="utf-8"), found), encoding="utf-8")


def computed(networks: Sequence[str]) -> list[Winner]:
    """Compute the winners on networks, and print what is done."""
    began, found = time.monotonic(), {}
    with ProcessPoolExecutor(2) as pool:
        tasks = {pool.submit(_computed, network): network for network in networks}
        for task in as_completed(tasks):
            found[tasks[task]] = task.result()
            passed = time.monotonic() - began
            print(f"{passed:5.0f} s: {len(found)} of {len(networks)} networks, {tasks[task]}", flush=True)
    return [row for network in networks for row in found[network]]


def _computed(network: str) -> list[Winner]:
    return [*treefold.winners(network, sizes_bytes=SIZES, **WHAT)]


def data(rows: Sequence[Winner]) -> str:
    """Return comma-separated values: a row for each network and size, with the bound and each algorithm's seconds."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    names = list(treefold.algorithms())
    writer.writerow(["network", "size_bytes", "bound_s", *names])
    for row in rows:
        times = dict(row.times_s)
        seconds = [f"{times[name]:.6g}" if name in times else "" for name in names]
        writer.writerow([row.network, row.size_bytes, f"{row.bound_s:.6g}", *seconds])
    return text.getvalue()


def read() -> WinnerMap:
    """Return the winners of the file of data."""
    with DATA.open(encoding="utf-8", newline="") as file:
        return WinnerMap([_read(row) for row in csv.DictReader(file)])


def _read(row: dict[str, str]) -> Winner:
    network, size_bytes, bound_s = row.pop("network"), int(row.pop("size_bytes")), float(row.pop("bound_s"))
    times_s = {name: float(text) for name, text in row.items() if text}
    return winner_of(times_s, bound_s, network=network, size_bytes=size_bytes, **WHAT)


def picture(found: WinnerMap) -> bytes:
    """Return the SVG of the map."""
    return plot_winners(found, title="Which algorithm is the fastest where")


def with_table(readme: str, found: WinnerMap) -> str:
    """Return the text of the README with the table of the winners."""
    before, begin, rest = readme.partition(MARKS[0])
    _, end, after = rest.partition(MARKS[1])
    return before + begin + table(found) + end + after


def table(found: WinnerMap) -> str:
    """Return a table of the kinds of networks and the classes of sizes: who wins there, the most frequent first."""
    kinds = {kind: [name for name in names if name in found.networks()] for kind, names in KINDS.items()}
    rows = [
        [kind, *(_most_frequent(found, names, sizes) for sizes, _ in REASONS.values())] for kind, names in kinds.items()
    ]
    rows.append(["what counts", *(reason for _, reason in REASONS.values())])
    head, *body = (f"| {' | '.join(cells)} |" for cells in [["", *REASONS], *rows])
    return "\n".join([head.replace("|  |", "| |"), "|---" * (1 + len(REASONS)) + "|", *body])


def _most_frequent(found: WinnerMap, networks: Sequence[str], sizes: Sequence[int]) -> str:
    cells = [row for row in found if row.network in networks and row.size_bytes in sizes]
    counted = Counter(row.algorithm for row in cells)
    return ", ".join(f"`{name}`" for name, _ in counted.most_common(_MOST_NAMES)) or "-"


def section(algorithm: str, found: WinnerMap) -> str:
    """Return what the page of an algorithm says of where it wins."""
    compared = {row: dict(row.times_s)[algorithm] / row.time_s for row in found if algorithm in dict(row.times_s)}
    names = found.networks()
    count = len({row.network for row in compared})
    text = (
        f"The [map of winners](index.md#which-one-when) compares the algorithms on {len(names)} networks at "
        f"{len(found.sizes())} sizes, from {format_size(found.sizes()[0])} to {format_size(found.sizes()[-1])}, by the "
        "flow simulator."
    )
    if not compared:
        return f"{text} `{algorithm}` fits none of them, or takes long."
    if count < len(names):
        text += f" `{algorithm}` is on it for {count}: it does not fit the others, or takes long."
    return "\n\n".join([text, _standing(algorithm, compared, found.sizes())])


def _standing(algorithm: str, compared: Mapping[Winner, float], sizes: Sequence[int]) -> str:
    """Return a list of where an algorithm is the fastest, nearly so, and neither."""
    groups = {
        "The fastest": [row for row in compared if row.algorithm == algorithm],
        "Within 1 % of the fastest": [row for row in compared if algorithm in row.ties],
    }
    taken = [row for rows in groups.values() for row in rows]
    groups["Within 10 %"] = [row for row, factor in compared.items() if row not in taken and factor <= _NEAR]
    lines = [f"- **{title}:** {_places(rows, sizes)}." for title, rows in groups.items() if rows]
    others = {row: factor for row, factor in compared.items() if factor > _NEAR}
    if others:
        lines.append(f"- **{'Elsewhere' if lines else 'Nowhere within 10 %'}:** {_beaten(others)}.")
    return "\n".join(lines)


def _beaten(others: Mapping[Winner, float]) -> str:
    """Say which algorithms win, the most frequent first, and by how much."""
    named = [f"`{name}`" for name, _ in Counter(row.algorithm for row in others).most_common()]
    least, most = min(others.values()), max(others.values())
    by = f"{least:.2f} times" if f"{least:.2f}" == f"{most:.2f}" else f"{least:.2f} to {most:.2f} times"
    return f"it takes {by} as long as {_listed(named, 'or')}"


def _places(rows: Sequence[Winner], sizes: Sequence[int]) -> str:
    """Return networks and sizes; networks with the same sizes stand together."""
    at: dict[str, list[int]] = {}
    for row in rows:
        at.setdefault(row.network, []).append(row.size_bytes)
    together: dict[tuple[int, ...], list[str]] = {}
    for network, found in at.items():
        together.setdefault(tuple(found), []).append(f"`{network}`")
    return "; ".join(f"{_listed(names)} {_sizes(found, sizes)}" for found, names in together.items())


def _sizes(found: Sequence[int], sizes: Sequence[int]) -> str:
    names = [format_size(size) for size in found]
    if len(found) == len(sizes):
        return "at all sizes"
    first = sizes.index(found[0])
    if len(found) > 1 and tuple(found) == tuple(sizes[first:]):
        return f"from {names[0]} on"
    if len(found) > 2 and tuple(found) == tuple(sizes[first : first + len(found)]):
        return f"from {names[0]} to {names[-1]}"
    return f"at {_listed(names)}"


def _listed(words: Sequence[str], last: str = "and") -> str:
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} {last} {words[-1]}"


if __name__ == "__main__":
    main()
