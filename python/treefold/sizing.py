"""Computes how large reduction tables must be, and how fast a switch inside, by equations (1) and (2) of a paper.

The paper is by Klenk, Jiang, Thorson and Dennison (ISCA 2020), sections IV-B, IV-C and IV-E; the equations apply
Little's law. Results are for one accelerator or for the whole network; divide them by the number of ports.
"""

import math
from typing import SupportsIndex

from treefold.errors import TreefoldError


def pull_table_bytes(
    bandwidth_Bps: float, ranks: int, *, hops: int, hop_latency_s: float, response_latency_s: float
) -> float:
    """Return how many table bytes an accelerator's first switches need to keep it busy with pulls: equation (1).

    Args:
        bandwidth_Bps: The rate at which the accelerator can receive.
        ranks: The number of accelerators that take part; each entry waits for the answers of all others.
        hops: The number of switches between the two accelerators that are farthest apart.
        hop_latency_s: The latency of a switch.
        response_latency_s: The time from a request's arrival at an accelerator to its answer.

    Raises:
        TreefoldError: If there are fewer than two ranks.

    """
    _check(ranks)
    _check_positive(bandwidth_Bps, hops, hop_latency_s, response_latency_s)
    return bandwidth_Bps / (ranks - 1) * (2 * hops * hop_latency_s + response_latency_s)


def push_table_bytes(bandwidth_Bps: float, *, hops: int, hop_latency_s: float) -> float:
    """Return how many table bytes the whole network needs to push at full rate: equation (2).

    Args:
        bandwidth_Bps: The rate at which an accelerator can send.
        hops: The number of switches between the two accelerators that are farthest apart.
        hop_latency_s: The latency of a switch.

    Raises:
        TreefoldError: If an argument is negative or not a number.

    """
    _check_positive(bandwidth_Bps, hops, hop_latency_s)
    return bandwidth_Bps * hops * hop_latency_s


def internal_speedup(ranks: int) -> float:
    """Return how many flits must cross a switch inside for each flit that leaves it: 2 (p - 1) / p.

    Raises:
        TreefoldError: If there are fewer than two ranks.

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
