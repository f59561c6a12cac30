"""treefold: give it your network; get the fastest collective, proof that it is right, and a prediction of its time.

The main values are networks (`Topology`), plans (`Plan`) and traces (`Trace`). The functions are:

- networks: `topology` makes one, `without_relays` has idle accelerators relay nothing, `describe` counts its parts, and
  `bound` says which rates and latency no all-reduce on it can beat, and `bound_at` that of any collective at a size.
  `explain` says what each cable is worth, and what failures cost.
- plans: `plan` makes one, by one of `algorithms`; `check` proves it, `summarize` describes it, `tables` lists what each
  network interface does, and `replan` adapts it to a network that has changed.
- times: `simulate` predicts the time of a plan, `trace` also records each transfer, `simulate_together` predicts the
  times of several plans at once, `compare` compares algorithms over sizes, `winners` finds the fastest on several
  networks, and `train` predicts the time of a training iteration.
- runs: `run` runs a plan on arrays.
- pictures: `view` makes a page that shows plans as they move, for browsers and notebooks, and `draw` draws a network,
  or what a plan sends over it, for papers.
- files: `save` writes a network, a plan or a trace; `topology`, `load_plan` and `load_trace` read them.

The modules `planning`, `regions`, `results`, `runtime`, `sizing` and `training` come with the package. Import these
yourself: `treefold.probe` (measures a network), `treefold.report` (tables and pictures), `treefold.schedule_tables`
(the result of `tables`), `treefold.job_results` (the results of `simulate_together`), `treefold.winner_results`
(those of `winners`), `treefold.explanation_results` (those of `explain`), `treefold.importers` (its
`TopologyWarning`), `treefold.torch` (PyTorch).
"""

from __future__ import annotations

import sys

if sys.version_info < (3, 10):  # noqa: UP036  pip does not ask in a checkout
    raise SystemExit(f"error: treefold needs Python 3.10 or newer, and this is Python {sys.version.split()[0]}")

TYPE_CHECKING = False  # importing it from typing would take longer than everything else here
if TYPE_CHECKING:
    from typing import Any

    from treefold import planning, regions, results, runtime, sizing, training
    from treefold._core import Plan, Topology, Trace
    from treefold.auto import algorithms
    from treefold.bounds import bound, bound_at
    from treefold.comparison import Interrupted, compare
    from treefold.drawing import draw
    from treefold.errors import DeadlineError, MisfitError, OutsideError, PeerError, TreefoldError
    from treefold.explaining import explain
    from treefold.exporters import save
    from treefold.files.plans import load_plan
    from treefold.files.traces import load_trace
    from treefold.networks import LINK_MODELS, describe, topology, without_relays
    from treefold.options import Machine, PlannerOptions
    from treefold.plans import check, plan, replan, summarize
    from treefold.runtime import run
    from treefold.simulation import SIMULATORS, simulate, tables, trace
    from treefold.together import simulate_together
    from treefold.training import train
    from treefold.viewing import view
    from treefold.winning import winners

_HOMES = {
    "_core": ("Plan", "Topology", "Trace"),
    "auto": ("algorithms",),
    "bounds": ("bound", "bound_at"),
    "comparison": ("Interrupted", "compare"),
    "drawing": ("draw",),
    "errors": ("DeadlineError", "MisfitError", "OutsideError", "PeerError", "TreefoldError"),
    "explaining": ("explain",),
    "exporters": ("save",),
    "files.plans": ("load_plan",),
    "files.traces": ("load_trace",),
    "networks": ("LINK_MODELS", "describe", "topology", "without_relays"),
    "options": ("Machine", "PlannerOptions"),
    "plans": ("check", "plan", "replan", "summarize"),
    "runtime": ("run",),
    "simulation": ("SIMULATORS", "simulate", "tables", "trace"),
    "together": ("simulate_together",),
    "training": ("train",),
    "viewing": ("view",),
    "winning": ("winners",),
}
"""The module of each public name."""
_MODULES = ("planning", "regions", "results", "runtime", "sizing", "training")

__all__ = [
    "LINK_MODELS",
    "SIMULATORS",
    "DeadlineError",
    "Interrupted",
    "Machine",
    "MisfitError",
    "OutsideError",
    "PeerError",
    "Plan",
    "PlannerOptions",
    "Topology",
    "Trace",
    "TreefoldError",
    "algorithms",
    "bound",
    "bound_at",
    "check",
    "compare",
    "describe",
    "draw",
    "explain",
    "load_plan",
    "load_trace",
    "plan",
    "planning",
    "regions",
    "replan",
    "results",
    "run",
    "runtime",
    "save",
    "simulate",
    "simulate_together",
    "sizing",
    "summarize",
    "tables",
    "topology",
    "trace",
    "train",
    "training",
    "view",
    "winners",
    "without_relays",
]


def __getattr__(name: str) -> Any:
    """Import a public name on first use, so that the command line starts fast and can handle interrupts first."""
    from importlib import import_module

    if name in _MODULES:
        return import_module(f"treefold.{name}")
    if name == "__version__":
        from importlib.metadata import version

        return version("treefold")
    for home, names in _HOMES.items():
        if name in names:
            return globals().setdefault(name, getattr(_imported(home), name))
    raise AttributeError(f"module 'treefold' has no attribute '{name}'")


def _imported(home: str) -> Any:
    """Import a module of the package; if the compiled core is to blame for an error, say what helps."""
    from importlib import import_module

    checkout = import_module("treefold.checkout")
    try:
        checkout.check_core()
        return import_module(f"treefold.{home}")
    except ImportError as error:
        problem = checkout.core_problem(error)
        if problem is None:
            raise
        raise ImportError(problem, name=error.name) from None


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__, "__version__"])
