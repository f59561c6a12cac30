"""Holds what the figures of training time have in common in both papers: what is kept of a trial."""

from collections.abc import Mapping
from typing import Any

PACKAGES = ("planning", "training")
"""Results depend on the code of these packages of treefold."""

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
