"""Reads forged plan files: real plans with changes that are hard to see.

A plan that `check` calls correct must be so: its schedule is correct, its times are possible, and its sums are NumPy's.
"""

import json
from functools import partial
from pathlib import Path
from random import Random
from typing import Any
from zlib import crc32

import treefold
from fuzz import promises
from fuzz.cases import Case, check_message, check_refusal
from fuzz.forgeries import change_plan
from fuzz.mutations import change_text
from treefold.collectives import COLLECTIVES
from treefold.files.plans import load_plan

_NETWORKS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("ring:1", {}),
    ("ring:2", {}),
    ("full:3", {"bandwidth_Bps": 3e9}),
    ("line:3", {"latency_s": 0.0}),
    ("ring:4", {}),
    ("ring:4", {"ranks": "0,3,1"}),
    ("torus:2x2", {}),
    ("mesh:2x3", {}),
    ("bigraph:1x2", {}),
    ("random:n=4,links=5,seed=3", {}),
)
_PROMISES = (
    promises.check_file,
    promises.check_schedule,
    partial(promises.check_times, least=1e-3, most=1e3),
    promises.check_sums,
    treefold.summarize,
)
_SLOW_PROMISES = (partial(treefold.tables, size_bytes=promises.SIZE_BYTES), promises.check_derived)
_SLOW_OF = 16
"""One of so many correct plans also gets the slow checks: schedule tables, derived collectives."""

_Corpus = list[list[bytes]]


def corpus() -> _Corpus:
    """Return a list of plan files for each network, of every algorithm and collective."""
    return [_plans(treefold.topology(spec, **options)) for spec, options in _NETWORKS]


def _plans(network: treefold.Topology) -> list[bytes]:
    found = []
    for algorithm in treefold.algorithms():
        for collective in COLLECTIVES:
            try:
                plan = treefold.plan(network, algorithm, collective=collective, root=network.ranks - 1)
            except treefold.TreefoldError:
                continue
            found.append(plan.to_json().encode())
    return found


def make(random: Random, corpus: _Corpus) -> Case:
    """Return a plan file with some changes, or rarely any text."""
    plans = random.choice(corpus)
    content = random.choice(plans)
    if random.random() < 0.03:
        return Case(".json", change_text(content, plans, random))
    plan = json.loads(content)
    for _ in range(random.choice((1, 1, 1, 2, 2, 3, 5))):
        change_plan(plan, plans, random)
    return Case(".json", json.dumps(plan).encode())


def run(path: Path) -> None:
    """Read and check the plan; a correct plan must keep its promises."""
    try:
        plan = load_plan(path)
    except treefold.TreefoldError as error:
        check_refusal(error, str(path))
        return
    verdict = treefold.check(plan)
    if not verdict.correct:
        check_message(verdict.reason)
        return
    slow = () if crc32(path.read_bytes()) % _SLOW_OF else _SLOW_PROMISES
    for promise in (*_PROMISES, *slow):
        try:
            promise(plan)
        except treefold.TreefoldError as error:
            check_refusal(error)
