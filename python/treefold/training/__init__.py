"""Training time: models, accelerators, and the time of an iteration with each algorithm for its collectives.

Example:
    >>> from treefold import training
    >>> training.load("resnet50").parameters
    25557032

"""

from treefold.training.accelerators import ACCELERATORS, OPTIMIZERS, Accelerator
from treefold.training.data_sheets import GPUS
from treefold.training.gpu import NUMBERS, Gpu
from treefold.training.iteration import train
from treefold.training.layers import Elementwise, Layer, Model, Window, convolution, linear
from treefold.training.models import MODELS
from treefold.training.modules import from_torch
from treefold.training.options import OVERLAPS, SHARDINGS, TrainingOptions
from treefold.training.results import TrainingIteration, TrainingReport, TrainingSetup
from treefold.training.sources import load
from treefold.training.systolic import Systolic
from treefold.training.timeline import Activity, Timeline

__all__ = [
    "ACCELERATORS",
    "GPUS",
    "MODELS",
    "NUMBERS",
    "OPTIMIZERS",
    "OVERLAPS",
    "SHARDINGS",
    "Accelerator",
    "Activity",
    "Elementwise",
    "Gpu",
    "Layer",
    "Model",
    "Systolic",
    "Timeline",
    "TrainingIteration",
    "TrainingOptions",
    "TrainingReport",
    "TrainingSetup",
    "Window",
    "convolution",
    "from_torch",
    "linear",
    "load",
    "train",
]
