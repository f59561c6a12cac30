"""Refines a model of a network by counterexamples: the network's cables need not be known.

`Refinement` is the loop for tests: it yields what to offer to pairs of workers, and is sent what they got. Nothing here
measures, waits or writes.
"""

from treefold.discovery.beliefs import Knowledge
from treefold.discovery.learning import Learner
from treefold.discovery.model import Group, Model, shared
from treefold.discovery.observations import UNLIMITED, Observation, Pair, Test, running
from treefold.discovery.planned import loads_of
from treefold.discovery.refining import Refinement, Round

__all__ = [
    "UNLIMITED",
    "Group",
    "Knowledge",
    "Learner",
    "Model",
    "Observation",
    "Pair",
    "Refinement",
    "Round",
    "Test",
    "loads_of",
    "running",
    "shared",
]
