"""Measures the network between workers: latencies and bandwidths of pairs, and caps of nodes.

`measure` measures, and `document` makes a topology document of the result: the measured network is
`treefold.topology(document(measured))`. `discover` measures once, and keeps the network in a file for later jobs.
`read_links` reads a file whose links are to be measured. Workers are processes, numbered as in the rendezvous; they
need not be ranks of a plan.
"""

from treefold.probe.keeping import discover
from treefold.probe.links import read_links
from treefold.probe.measuring import LEAST_TIMEOUT_S, measure
from treefold.probe.report import document
from treefold.probe.results import Measurements
from treefold.probe.settings import Settings
from treefold.probe.transfers import RoundTrips

__all__ = [
    "LEAST_TIMEOUT_S",
    "Measurements",
    "RoundTrips",
    "Settings",
    "discover",
    "document",
    "measure",
    "read_links",
]
