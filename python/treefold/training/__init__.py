"""Training time: models, accelerators, and an iteration with each all-reduce (`treefold train`)."""

from typing import Any

from treefold.training.gpu import GPUS, OPTIMIZERS, Gpu
from treefold.training.iteration import ACCELERATORS, BATCH, PARALLELISMS, Trained, train, train_and_trace
from treefold.training.layers import Layer, Model, convolution, linear
from treefold.training.models import MODELS
from treefold.training.program import BUCKET_BYTES, OVERLAPS, Accelerator
from treefold.training.sources import load
from treefold.training.systolic import Systolic
from treefold.training.timeline import Span, Timeline

__all__ = [
    "ACCELERATORS",
    "BATCH",
    "BUCKET_BYTES",
    "GPUS",
    "MODELS",
    "OPTIMIZERS",
    "OVERLAPS",
    "PARALLELISMS",
    "Accelerator",
    "Gpu",
    "Layer",
    "Model",
    "Span",
    "Systolic",
    "Timeline",
    "Trained",
    "convolution",
    "linear",
    "load",
    "trace",
    "train",
    "train_and_trace",
]


def __getattr__(name: str) -> Any:
    """Import what is only for PyTorch modules when it is asked for."""
    if name == "trace":
        from treefold.training.modules import trace

        return trace
    raise AttributeError(f"module 'treefold.training' has no attribute '{name}'")
