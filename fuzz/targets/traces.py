"""Reads damaged trace files: traces of both simulators, in the format of runs, with changes that are hard to see.

A trace that is read must be usable: it is written and read back, and what is derived from it is possible.
"""

import json
import math
from contextlib import suppress
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

import numpy as np

import treefold
from fuzz.cases import Case, Fault, check_refusal
from fuzz.mutations import NUMBERS, WORDS, change_json, change_text
from treefold.files.traces import load_trace

_PLANS: tuple[tuple[str, str, str], ...] = (
    ("ring:1", "ring", "all-reduce"),
    ("ring:3", "ring", "all-reduce"),
    ("line:3", "dbtree", "all-reduce"),
    ("torus:2x2", "multitree", "reduce-scatter"),
    ("full:3", "forest", "all-to-all"),
    ("bigraph:1x2", "multitree", "broadcast"),
)
_SIZE_BYTES = 4096
_PLAN, _TRACE = "plan", "trace"


class _Traced(NamedTuple):
    """A plan and the texts of traces of it."""

    plan: str
    traces: list[bytes]


def corpus() -> list[_Traced]:
    """Return plans with their traces by both simulators that tell transfers."""
    return [_traced(treefold.plan(network, name, collective=what)) for network, name, what in _PLANS]


def _traced(plan: treefold.Plan) -> _Traced:
    simulators = ("flow", "packet")
    found = [treefold.trace(plan, size_bytes=_SIZE_BYTES, simulator=each).to_json().encode() for each in simulators]
    return _Traced(plan.to_json(), found)


def make(random: Random, corpus: list[_Traced]) -> Case:
    """Return a plan and the file of a trace with some changes, or rarely any text, or the trace of another plan."""
    chosen = random.choice(corpus)
    others = chosen.traces if random.random() < 0.95 else random.choice(corpus).traces
    content = random.choice(others)
    if random.random() < 0.1:
        content = change_text(content, others, random)
    elif random.random() < 0.95:
        trace = json.loads(content)
        for _ in range(random.choice((1, 1, 1, 2, 2, 3))):
            _change(trace, random)
        content = json.dumps(trace).encode()
    return Case.of({_PLAN: chosen.plan, _TRACE: content.decode("latin-1")})


def _change(trace: dict[str, Any], random: Random) -> None:
    """Change a trace in one way: an item of a column, the lengths of columns, the order of items, or any part."""
    with suppress(LookupError, TypeError, ValueError, AttributeError):  # an earlier change removed what this one needs
        columns = random.choice((trace["transfers"], trace["transfers"], trace["links"]))
        column = columns[random.choice(list(columns))]
        at = random.randrange(len(column))
        match random.randrange(6):
            case 0 | 1:
                column[at] = random.choice((*column, *NUMBERS, *WORDS, None, True))
            case 2:
                for each in columns.values():
                    each.append(each[at])
            case 3:
                for each in columns.values():
                    del each[at]
            case 4:
                trace[random.choice(("time_s", "clock_uncertainty_s", "size_bytes", "ranks"))] = random.choice(NUMBERS)
            case _:
                change_json(trace, random)


def run(path: Path) -> None:
    """Read the trace; one that is read must be usable."""
    try:
        case = json.loads(path.read_text(encoding="utf-8"))
        plan = treefold.Plan.from_json(case[_PLAN])
        content = case[_TRACE].encode("latin-1")
    except (ValueError, LookupError, TypeError, AttributeError):
        return  # the case was made so small that it is none
    file = path.with_name("trace.json")
    file.write_bytes(content)
    try:
        trace = load_trace(file, plan)
    except treefold.TreefoldError as error:
        check_refusal(error, str(file))
        return
    _check(trace, plan)


def _check(trace: treefold.Trace, plan: treefold.Plan) -> None:
    again = treefold.Trace.from_json(trace.to_json(), plan)
    if again.to_json() != trace.to_json():
        raise Fault("wrong", "a trace is not the same after it is written and read", "trace file")
    columns = trace.transfers()
    ordered = np.diff(np.stack([columns[name] for name in ("start_s", "sent_s", "received_s")]), axis=0)
    if (ordered < 0).any() or not math.isfinite(trace.time_s) or (columns["received_s"] > trace.time_s).any():
        raise Fault("wrong", "a trace has times that cannot be", "times")
    try:
        json.loads(trace.to_chrome())
        for derived in (trace.critical_path, trace.path_summary, trace.columns, trace._repr_html_):
            derived()
        shares = trace.busy(7)
    except treefold.TreefoldError as error:
        check_refusal(error)
        return
    if not (np.isfinite(shares).all() and all(math.isfinite(use.busy_s) for use in trace.links())):
        raise Fault("wrong", "a link is busy for no time that there is", "links")
