"""The sources of models: a built-in name, a file of layers, or a PyTorch module."""

from collections.abc import Sequence
from pathlib import Path

from treefold import checks
from treefold.errors import TreefoldError
from treefold.training.files import read
from treefold.training.layers import Model
from treefold.training.models import MODELS, built_in
from treefold.training.modules import model_of_source


def load(source: str, inputs: Sequence[str] = ()) -> Model:
    """Return the model that `source` names.

    Args:
        source: A built-in model (`treefold.training.MODELS`), a file (.csv, .json), or `my_module:build`.
        inputs: The inputs of a PyTorch module for one sample, without the batch, each as `NAME=SHAPE` or
            `NAME=SHAPE:TYPE`, for example `x=3x224x224` or `tokens=128:int64`; without a type they are float32.

    Raises:
        TreefoldError: If there is no such model, or its description is wrong.

    Example:
        >>> from treefold.training import load
        >>> load("resnet50")
        Model('resnet50', layers=54, parameters=25_557_032)

    """
    path = Path(source)
    is_file = path.suffix in (".csv", ".json")
    if ":" in source and not is_file and not _is_variant(source):
        return model_of_source(source, inputs)
    if inputs:
        raise TreefoldError(f"inputs are for PyTorch modules, and {source} is not one; drop them")
    return read(path) if is_file else built_in(source)


def _is_variant(source: str) -> bool:
    """Return whether `NAME:SUFFIX` means a variant of a built-in model, perhaps misspelt, and not a function."""
    name, _, suffix = source.lower().partition(":")
    return suffix in ("", "paper") or (name in MODELS and checks.guess(suffix, ("paper",)) is not None)
