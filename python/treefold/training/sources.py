"""Where models come from: a built-in name, a file of layers, a PyTorch module."""

from collections.abc import Sequence
from pathlib import Path

from treefold.errors import TreefoldError
from treefold.training.layers import Model
from treefold.training.models import MODELS, built_in


def load(source: str, inputs: Sequence[str] = ()) -> Model:
    """Return the model that `source` names.

    Args:
        source: A built-in model, a file (.csv, .json), or `my_module:build`.
        inputs: `NAME=SHAPE` of a PyTorch module's inputs, for one sample.

    Raises:
        TreefoldError: If there is no such model, or its description is wrong.

    """
    path = Path(source)
    is_file = path.suffix in (".csv", ".json")
    if source not in MODELS and not is_file and ":" in source and not source.lower().endswith(":paper"):
        from treefold.training.modules import trace_named

        return trace_named(source, inputs)
    if inputs:
        raise TreefoldError(f"--input is for PyTorch modules, and {source} is none; drop it")
    if is_file:
        from treefold.training.files import read

        return read(path)
    return built_in(source)
