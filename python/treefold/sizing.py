"""How large reduction tables must be, and how fast a switch inside: equations (1) and (2) of the in-network paper.

Klenk, Jiang, Thorson and Dennison (ISCA 2020), sections IV-B, IV-C and IV-E: Little's law. All bytes are those of one
accelerator or of the whole network; divide by its ports.
"""

import math
from typing import SupportsIndex

from treefold.errors import TreefoldError


def pull_table_bytes(
    bandwidth_Bps: float, ranks: int, *, hops: int, hop_latency_s: float, response_latency_s: float
) -> float:
    """Return the table bytes at an accelerator's first switches that keep it busy with pulls: equation (1).

    Args:
        bandwidth_Bps: What the accelerator can take in.
        ranks: Accelerators that take part; each entry waits for the answers of all others.
        hops: Switches between the farthest two accelerators.
        hop_latency_s: Of a switch.
        response_latency_s: From a request's arrival at an accelerator to its answer.

    Raises:
        TreefoldError: If there are fewer than two ranks.

    """
    _check(ranks)
    _check_positive(bandwidth_Bps, hops, hop_latency_s, response_latency_s)
    return bandwidth_Bps / (ranks - 1) * (2 * hops * hop_latency_s + response_latency_s)


def push_table_bytes(bandwidth_Bps: float, *, hops: int, hop_latency_s: float) -> float:
    """Return the table bytes of the whole network that keep pushes at full rate: equation (2).

    Args:
        bandwidth_Bps: What an accelerator can put out.
        hops: Switches between the farthest two accelerators.
        hop_latency_s: Of a switch.

    Raises:
        TreefoldError: If something is negative, or no number.

    """
    _check_positive(bandwidth_Bps, hops, hop_latency_s)
    return bandwidth_Bps * hops * hop_latency_s


def internal_speedup(ranks: int) -> float:
    """Return how many times what leaves a switch must cross it: 2 (p - 1) / p.

    Raises:
        TreefoldError: If there are fewer than two ranks.

    """
    _check(ranks)
    return 2 * (ranks - 1) / ranks


def _check(ranks: int) -> None:
    if not isinstance(ranks, SupportsIndex) or ranks.__index__() < 2:
        raise TreefoldError(f"a reduction needs at least two ranks, a whole number, got {ranks}")


def _check_positive(*values: float) -> None:
    for value in values:
        if not isinstance(value, int | float) or not 0 <= value < math.inf:
            raise TreefoldError(f"bandwidths, hops and latencies are numbers from 0 on, got {value!r}")
