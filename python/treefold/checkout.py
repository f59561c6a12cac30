"""Finds the checkout of treefold; it holds the figures of papers, which a wheel leaves out."""

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
