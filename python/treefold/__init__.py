"""treefold: give it your network; get the fastest all-reduce for it, proof that it is right, a prediction of its time.

Three values (`Topology`, `Plan`, `Trace`), four verbs (`plan`, `check`, `simulate`, `run`).
"""

from typing import Any

from treefold import sizing
from treefold._core import Plan, Topology, Trace, TreefoldError
from treefold.machine import Machine
from treefold.verbs import (
    LINK_MODELS,
    MODELS,
    Verdict,
    algorithms,
    bound,
    check,
    compare,
    describe,
    plan,
    replan,
    simulate,
    summarize,
    tables,
    topology,
    trace,
)

__all__ = [
    "LINK_MODELS",
    "MODELS",
    "Machine",
    "Plan",
    "Topology",
    "Trace",
    "TreefoldError",
    "Verdict",
    "algorithms",
    "bound",
    "check",
    "compare",
    "describe",
    "plan",
    "regions",
    "replan",
    "run",
    "simulate",
    "sizing",
    "summarize",
    "tables",
    "topology",
    "trace",
    "train",
    "training",
]


def __getattr__(name: str) -> Any:
    """Import what takes long only when it is asked for: the command line starts faster without."""
    if name == "run":
        from treefold.runtime import run

        return run
    if name in ("regions", "train", "training"):
        from importlib import import_module

        return import_module("treefold.training").train if name == "train" else import_module(f"treefold.{name}")
    if name == "__version__":
        from importlib.metadata import version

        return version("treefold")
    raise AttributeError(f"module 'treefold' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted([*globals(), "__version__", "regions", "run", "train", "training"])
