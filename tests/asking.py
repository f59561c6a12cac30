"""Requests for plans."""

from treefold.checks import DEFAULT_SIZE_BYTES
from treefold.options import PlannerOptions
from treefold.plans import requested


def request(network, algorithm="auto", *, size_bytes=DEFAULT_SIZE_BYTES, collective="all-reduce", **options):
    """Returns what `treefold.plan` would ask of a planner."""
    what = {"size_bytes": size_bytes, "collective": collective, "root": 0, "simulator": "analytic"}
    return requested(network, algorithm, **what, options=PlannerOptions(**options))
