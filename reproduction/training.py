"""Holds what the figures of training time have in common in both papers: what is kept of a trial, and tolerances."""

from collections.abc import Mapping
from typing import Any

PACKAGES = ("planning", "training")
"""Results depend on the code of these packages of treefold."""

GAIN_TOLERANCE = 0.25
"""A measured gain may be off by this part of the published one."""
GAIN = f"{GAIN_TOLERANCE:.0%} of the gain"
POINTS = 0.05
"""A measured part of a whole may be off by this much."""

_KEPT = (
    "iteration_s",
    "compute_s",
    "local_aggregation_s",
    "optimizer_s",
    "stolen_s",
    "communication_s",
    "exposed_communication_s",
    "interpolation_error",
)


def kept(row: Mapping[str, Any]) -> dict[str, Any]:
    """Return what a trial keeps of a row of `treefold.train`."""
    return {key: row[key] for key in _KEPT}


def is_gain(measured: float, published: float) -> bool:
    """Return whether two gains, each a ratio less one, agree."""
    return abs(measured / published - 1) <= GAIN_TOLERANCE
