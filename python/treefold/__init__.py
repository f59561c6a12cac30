"""treefold: give it your network; get the fastest all-reduce for it, proof that it is right, a prediction of its time.

Three values (`Topology`, `Plan`, `Trace`), four verbs (`plan`, `check`, `simulate`, `run`).
"""

from __future__ import annotations

TYPE_CHECKING = False  # typing's, whose import takes longer than all else here
if TYPE_CHECKING:
    from typing import Any

    from treefold import planning, regions, runtime, sizing, training
    from treefold._core import Plan, Topology, Trace
    from treefold.errors import TreefoldError
    from treefold.exporters import save
    from treefold.files.plans import load_plan
    from treefold.machine import Machine
    from treefold.runtime import run
    from treefold.training import train
    from treefold.verbs import (
        LINK_MODELS,
        MODELS,
        Interrupted,
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
    "Interrupted",
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
    "load_plan",
    "plan",
    "planning",
    "regions",
    "replan",
    "run",
    "runtime",
    "save",
    "simulate",
    "sizing",
    "summarize",
    "tables",
    "topology",
    "trace",
    "train",
    "training",
]


_HOMES = {"TreefoldError": "errors", "load_plan": "files.plans", "save": "exporters"}
_HOMES |= {"run": "runtime", "train": "training"}
_MODULES = ("planning", "regions", "runtime", "sizing", "training", "verbs")


def __getattr__(name: str) -> Any:
    """Import when it is asked for: the command line heeds interrupts before anything is imported, and starts faster."""
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"treefold.{name}")
    if name == "__version__":
        from importlib.metadata import version

        return version("treefold")
    if name not in __all__:
        raise AttributeError(f"module 'treefold' has no attribute '{name}'")
    home = _HOMES.get(name, "verbs")
    return globals().setdefault(name, getattr(import_module(f"treefold.{home}"), name))


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, *_MODULES, "__version__"])
