"""Computes how large reduction tables must be, and the internal speed-up that a switch needs.

The equations are (1) and (2) of the in-network paper (Klenk, Jiang, Thorson and Dennison, ISCA 2020, sections IV-B,
IV-C and IV-E), which apply Little's law.
"""

import math
from typing import SupportsIndex

from treefold.errors import TreefoldError


def pull_table_bytes(
    bandwidth_Bps: float, ranks: int, *, hops: int, hop_latency_s: float, response_latency_s: float
) -> float:
    """Return how many bytes of reduction tables one accelerator needs to be kept busy with pulls: equation (1).

    The ports at which the accelerator enters the network share these bytes: divided by the number of its links, they
    are the table of one port.

    Args:
        bandwidth_Bps: The rate at which the accelerator can receive, in bytes per second.
        ranks: The number of accelerators that take part; each entry waits for the answers of all others.
        hops: The number of switches between the two accelerators that are farthest apart.
        hop_latency_s: The latency of a switch, in seconds.
        response_latency_s: The seconds from a request's arrival at an accelerator to its answer.

    Raises:
        TreefoldError: If there are fewer than two ranks, or another argument is negative or not a finite number.

    Example:
        >>> table_bytes = treefold.sizing.pull_table_bytes(
        ...     150e9, 16, hops=1, hop_latency_s=300e-9, response_latency_s=400e-9
        ... )
        >>> round(table_bytes)
        10000

    """
    _check(ranks)
    _check_positive(bandwidth_Bps, hops, hop_latency_s, response_latency_s)
    return bandwidth_Bps / (ranks - 1) * (2 * hops * hop_latency_s + response_latency_s)


def push_table_bytes(bandwidth_Bps: float, *, hops: int, hop_latency_s: float) -> float:
    """Return how many bytes of reduction tables the whole network needs to push at full rate: equation (2).

    All ports of all switches share them: divided by the number of ports of the network, they are the table of one port.

    Args:
        bandwidth_Bps: The rate at which an accelerator can send, in bytes per second.
        hops: The number of switches between the two accelerators that are farthest apart.
        hop_latency_s: The latency of a switch, in seconds.

    Raises:
        TreefoldError: If an argument is negative or not a finite number.

    Example:
        >>> round(treefold.sizing.push_table_bytes(150e9, hops=1, hop_latency_s=300e-9))
        45000

    """
    _check_positive(bandwidth_Bps, hops, hop_latency_s)
    return bandwidth_Bps * hops * hop_latency_s


def internal_speedup(ranks: int) -> float:
    """Return how many flits must cross a switch inside for each flit that leaves it: 2 (ranks - 1) / ranks.

    Args:
        ranks: The number of accelerators that take part.

    Raises:
        TreefoldError: If `ranks` is not a whole number of at least 2.

    Example:
        >>> treefold.sizing.internal_speedup(16)
        1.875

    """
    _check(ranks)
    return 2 * (ranks - 1) / ranks


def _check(ranks: int) -> None:
    if not isinstance(ranks, SupportsIndex) or ranks.__index__() < 2:
        raise TreefoldError(f"ranks must be a whole number of at least 2, got {ranks}")


def _check_positive(*values: float) -> None:
    for value in values:
        if not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise TreefoldError(f"bandwidths, hops and latencies must be numbers of at least 0, got {value!r}")
