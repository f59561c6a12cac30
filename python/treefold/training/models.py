"""The table of built-in models; `NAME:paper` is the variant that the MultiTree paper trained."""

from collections.abc import Callable
from functools import partial

from treefold import checks
from treefold.errors import TreefoldError
from treefold.training import convolutional, published, sequences
from treefold.training.layers import Model

MODELS: dict[str, Callable[[], Model]] = {
    "alexnet": convolutional.alexnet,
    "alphagozero": convolutional.alphagozero,
    "fasterrcnn": convolutional.fasterrcnn,
    "googlenet": convolutional.googlenet,
    "ncf": sequences.ncf,
    "resnet50": convolutional.resnet50,
    "transformer": sequences.transformer,
    "bert-base": partial(sequences.bert, "bert-base", 768, 12, 12),
    "bert-large": partial(sequences.bert, "bert-large", 1024, 16, 24),
    "megatron-345m": partial(sequences.megatron, "megatron-345m", 1024, 16, 24),
    "megatron-1.2b": partial(sequences.megatron, "megatron-1.2b", 1536, 16, 40),
    "megatron-2.5b": partial(sequences.megatron, "megatron-2.5b", 1920, 20, 54),
    "megatron-4.2b": partial(sequences.megatron, "megatron-4.2b", 2304, 24, 64),
    "megatron-8.3b": partial(sequences.megatron, "megatron-8.3b", 3072, 32, 72),
    "llama-3-8b": partial(sequences.llama, "llama-3-8b", sequences.LlamaShape(4096, 32, 32, 14336)),
    "llama-3-70b": partial(sequences.llama, "llama-3-70b", sequences.LlamaShape(8192, 64, 80, 28672)),
    "llama-3-405b": partial(sequences.llama, "llama-3-405b", sequences.LlamaShape(16384, 128, 126, 53248)),
    "alexnet:paper": published.alexnet,
    "alphagozero:paper": published.alphagozero,
    "fasterrcnn:paper": published.fasterrcnn,
    "googlenet:paper": published.googlenet,
    "ncf:paper": published.ncf,
    "resnet50:paper": published.resnet50,
    "transformer:paper": published.transformer,
}
"""The functions that make the built-in models, by name."""


def built_in(name: str) -> Model:
    """Return the built-in model of a name.

    Raises:
        TreefoldError: If there is no model of this name; the message says which one was meant.

    """
    try:
        return MODELS[checks.name("model", name, MODELS)]()
    except TreefoldError as error:
        raise TreefoldError(
            f"{error}, a file of layers (.csv, .json), or my_module:build for your own PyTorch module"
        ) from None
