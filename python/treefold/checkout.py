"""Finds the checkout of treefold, which holds the figures of papers, and tells when its compiled core is stale."""

import sys
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


def core_problem(error: ImportError | AttributeError) -> str | None:
    """Return what to do if an error comes from the compiled core, which is missing or older than this code."""
    is_missing = isinstance(error, ImportError) and "_core" in str(error)
    is_stale = isinstance(error, AttributeError) and getattr(error.obj, "__name__", "") == "treefold._core"
    if not is_missing and not is_stale:
        return None
    what = "treefold's compiled core is missing, or older than its Python code"
    return f"{what}; run `make setup` in a checkout (it needs Rust), or install treefold again"
