"""Prints how well networks are discovered that nobody described: `python -m bench.discovery [SEEDS] [FIRST SEED]`.

For each kind of network and each hint: the part of the optimum with known cables that the final plan really reaches
(least and median), how many plans reach 90 %, the tests beyond those of a plain probe, and CPU time.
"""

import statistics
import sys
from collections.abc import Callable
from functools import partial
from multiprocessing import Pool
from typing import Any

from bench.discovery import networks
from bench.discovery.trials import Trial, discovered

_COLUMNS = [
    "networks",
    "hint",
    "reached: least, median",
    "at least 90 %",
    "tests: median, most",
    "90 % after: median",
    "CPU s: most",
]
_VARIANTS: list[tuple[str, list[Callable[..., Any]], list[str], dict[str, float]]] = [
    ("", networks.KINDS, ["none", "latency", "routers"], {}),
    ("4 % noise", [networks.sparse, networks.meshed, networks.cloud], ["none", "latency"], {"noise": 0.04}),
    ("8 % cross traffic", [networks.sparse, networks.meshed, networks.cloud], ["none", "latency"], {"cross": 0.08}),
    ("unfair by RTT", [networks.sparse, networks.meshed, networks.cloud], ["none", "latency"], {"unfair": 1.0}),
]


def _trial(kind: Callable[..., Any], hint: str, changes: dict[str, float], seed: int) -> Trial:
    return discovered(networks.drawn(kind, seed, **changes), hint, seed)


def main(seeds: int, first: int) -> None:
    """Print a row for each kind of network, variant and hint."""
    print(f"| {' | '.join(_COLUMNS)} |\n|{'---|' * len(_COLUMNS)}")
    with Pool() as pool:
        for variant, kinds, hints, changes in _VARIANTS:
            for kind in kinds:
                for hint in hints:
                    trials = pool.map(partial(_trial, kind, hint, changes), range(first, first + seeds), chunksize=1)
                    name = kind.__name__.replace("_", " ") + (f", {variant}" if variant else "")
                    print(_row(name, hint, trials), flush=True)


def _row(name: str, hint: str, trials: list[Trial]) -> str:
    reached = sorted(each.reached for each in trials)
    good = sum(each >= 0.9 for each in reached)
    tests = sorted(each.tests for each in trials)
    firsts = [each.first for each in trials if each.first is not None]
    wrong = sum(each.proven and each.reached < 0.9 for each in trials)
    cells = [
        name,
        hint,
        f"{reached[0]:.2f}, {statistics.median(reached):.2f}",
        f"{good} of {len(trials)}" + (f" ({wrong} stopped wrongly)" if wrong else ""),
        f"{statistics.median(tests):.0f}, {tests[-1]}",
        f"{statistics.median(firsts):.0f}" if firsts else "-",
        f"{max(each.seconds for each in trials):.1f}",
    ]
    return f"| {' | '.join(cells)} |"


if __name__ == "__main__":
    main(*(int(each) for each in [*sys.argv[1:], *["10", "1000"][len(sys.argv) - 1 :]]))
