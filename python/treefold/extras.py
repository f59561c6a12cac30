"""The packages that treefold can do without. Each belongs to an extra, which errors name when it is missing."""

from importlib.util import find_spec
from typing import NamedTuple

from treefold.errors import TreefoldError


class Extra(NamedTuple):
    """A package that an extra installs: its name for people, and the module to import."""

    package: str
    module: str


EXTRAS = {
    "plot": Extra("matplotlib", "matplotlib"),
    "pandas": Extra("pandas", "pandas"),
    "mpi": Extra("mpi4py", "mpi4py"),
    "torch": Extra("PyTorch", "torch"),
    "torchft": Extra("torchft", "torchft"),
    "widget": Extra("anywidget", "anywidget"),
    "tls": Extra("cryptography", "cryptography"),
}
"""The packages by the names of their extras."""


def missing(needed_by: str, extra: str) -> TreefoldError:
    """Return the error that the package of an extra is missing, which `needed_by` needs.

    Example:
        >>> from treefold import extras
        >>> print(extras.missing("a picture", "plot"))
        a picture needs matplotlib; install it: pip install 'treefold[plot]'

    """
    return TreefoldError(f"{needed_by} needs {EXTRAS[extra].package}; install it: pip install 'treefold[{extra}]'")


def is_installed(extra: str) -> bool:
    """Tell whether the package of an extra is installed; it is not imported."""
    return find_spec(EXTRAS[extra].module) is not None
