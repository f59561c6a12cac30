"""Finds the checkout of treefold, which holds the figures of papers, and tells when its compiled core is stale."""

import sys
from functools import cache
from importlib import import_module
from pathlib import Path
from types import ModuleType

from treefold.errors import TreefoldError

_HERE = Path(__file__).resolve().parents[2]
"""The checkout, if treefold runs from its source or from an editable install."""


def import_reproduction() -> ModuleType:
    """Import the package `reproduction` from beside treefold's source, or else from the working directory.

    Raises:
        TreefoldError: If neither is a checkout.

    """
    for folder in (_HERE, Path()):
        if (folder / "reproduction" / "__init__.py").is_file() and (folder / "python" / "treefold").is_dir():
            _add_to_path(folder.resolve())
            return import_module("reproduction")
    raise TreefoldError(
        "an installed treefold does not contain the figures of papers; "
        "clone treefold's repository and run `treefold reproduce` in the clone"
    )


def _add_to_path(folder: Path) -> None:
    """Let this process, and the processes of trials that it starts, import from a folder."""
    if str(folder) not in sys.path:
        sys.path.append(str(folder))


def core_problem(error: Exception) -> str | None:
    """Return what to do if an error comes from the compiled core, which is missing or older than this code."""
    if not isinstance(error, ImportError) or "_core" not in str(error):
        return None
    what = "treefold's compiled core is missing, or older than its Python code"
    return f"{what}; run `make setup` in a checkout (it needs Rust), or install treefold again"


@cache
def check_core() -> None:
    """Compare the interface for which the core was built with the one that this code expects.

    Raises:
        ImportError: If the core is missing, or was built for another interface.

    """
    from treefold import _core

    stub = Path(__file__).with_name("_core.pyi")
    if stub.is_file() and getattr(_core, "INTERFACE", None) != stub.read_text(encoding="utf-8"):
        raise ImportError("treefold._core was built for another interface")
