"""The model of a network that nobody described: the rate of each pair alone, and groups of pairs that share a capacity.

A *group* is a set of pairs (source, target) that carry no more than its capacity together: those that cross one cable,
all that one worker sends, or what a provider lets through. What makes a set a group is conservation, not fairness: its
rates never sum to more than its capacity, and sum to it whenever one of its pairs falls short because of it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from treefold.discovery.observations import Pair

Document = dict[str, Any]


@dataclass(frozen=True)
class Group:
    """Pairs that share a capacity.

    Attributes:
        members: The pairs.
        capacity_Bps: What they carry together, in bytes per second.
        name: The name of the capacity in the network.
        support: In how many tests the group was full while one of its pairs fell short.
        confirmed: Whether its pairs were tested alone, or it was measured in the first place, as a node's cap is.

    """

    members: frozenset[Pair]
    capacity_Bps: float
    name: str = ""
    support: int = 0
    confirmed: bool = False


@dataclass(frozen=True)
class Model:
    """What is known of a network: the workers' names, the rate of each pair alone, and groups."""

    names: Sequence[str]
    alone_Bps: Mapping[Pair, float]
    groups: Sequence[Group]
    latency_s: Mapping[Pair, float]
