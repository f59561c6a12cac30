"""Computes bounds: the rates and times that no all-reduce on a network can beat."""

from functools import lru_cache

from treefold._core import Bounds, Topology
from treefold.networks import as_network
from treefold.results import Bound, BoundReport


def bound(network: Topology | str) -> BoundReport:
    """Return bounds that no all-reduce can beat: rates for large vectors, and a latency for small ones.

    Other collectives, such as a broadcast, may be faster. The bounds of a network are computed once and kept.

    Args:
        network: A `Topology`, a spec, or the path of a file.

    Raises:
        TreefoldError: If a spec or file does not describe a network.

    Example:
        >>> treefold.bound("ring:4").all_reduce.rate_Bps
        21333333333.333332

    """
    bounds = bounds_of(as_network(network))
    proven = {each.name: Bound(each.rate_Bps, each.is_exact, each.method) for each in bounds.rates}
    return BoundReport(latency_s=bounds.latency_s, **proven)


@lru_cache(maxsize=16)
def bounds_of(network: Topology) -> Bounds:
    """Return a network's bounds; they are computed once and serve every size."""
    bounds = network.bounds()
    if all(each.is_exact for each in bounds.rates):
        return bounds
    from treefold.planning.bound_program import tighten

    return tighten(network, bounds)
