"""Measures the network between workers: latencies and bandwidths of pairs, and caps of nodes.

`measure` does it, and `report` turns the measurements into a network document.
"""

from treefold.probe.measuring import LEAST_TIMEOUT_S, measure
from treefold.probe.results import Measurements
from treefold.probe.settings import Settings

__all__ = ["LEAST_TIMEOUT_S", "Measurements", "Settings", "measure"]
