"""Groups that something else than a test of them suggests: latencies, routers on the way, and addresses.

Hints cost no test. What latencies and addresses suggest is dropped as soon as a test refutes it. Pairs that cross the
same router share what it carries for certain: only how much that is has to be measured, so their capacity begins with
the most that they ever carried and grows with what tests show.
"""

from collections.abc import Iterable, Mapping
from dataclasses import replace
from ipaddress import ip_address, ip_network

import numpy as np

from treefold.discovery.groups import Shared
from treefold.discovery.observations import Evidence, Mask, Pair, Vector

_SAME = 0.02
"""Latencies that differ by no more than this part are equal."""
_PREFIX = {4: 24, 6: 64}
"""Addresses whose first bits, so many of each version, agree are one subnet."""


def of_latencies(evidence: Evidence, latency_s: Mapping[Pair, float]) -> list[Shared]:
    """Return a group for each pair that leads over no other worker, of all pairs that lead over it.

    Where d(u, w) = d(u, v) + d(v, w), the way from u to w leads over v. A pair that leads over nobody has a cable of
    its own, whose capacity is the rate of the pair alone.

    Args:
        evidence: The tests so far.
        latency_s: The latency of each pair, one way, in seconds. Pairs without one are left alone.

    """
    distance_s = _distances(evidence, latency_s)
    over = distance_s[:, :, None] + distance_s[None, :, :] <= (1 + _SAME) * distance_s[:, None, :]
    ranks = range(evidence.ranks)
    over[ranks, ranks, :] = over[:, ranks, ranks] = False
    found = []
    for column, (source, target) in enumerate(evidence.pairs):
        if not np.isfinite(distance_s[source, target]) or over[source, :, target].any():
            continue
        through_s = distance_s[:, source, None] + distance_s[source, target] + distance_s[None, target, :]
        leads = np.isfinite(distance_s) & (through_s <= (1 + _SAME) * distance_s)
        mask = leads[evidence.source, evidence.target]
        mask[column] = True
        if mask.sum() > 1:
            found.append(Shared(mask, float(evidence.alone_Bps[column])))
    return found


def _distances(evidence: Evidence, latency_s: Mapping[Pair, float]) -> Vector:
    """Return the latency between all workers; infinite where it is not known."""
    distance_s = np.full((evidence.ranks, evidence.ranks), np.inf)
    for pair in evidence.pairs:
        if latency_s.get(pair, 0.0) > 0:
            distance_s[pair] = latency_s[pair]
    np.fill_diagonal(distance_s, 0.0)
    return distance_s


def of_hops(evidence: Evidence, hops: Iterable[Iterable[Pair]]) -> list[Shared]:
    """Return a group for each set of pairs that cross the same hop.

    Args:
        evidence: The tests so far.
        hops: The pairs that cross each hop, in one direction of it. Sets of less than two pairs, and those that occur
            twice, are left out.

    """
    masks = {mask.tobytes(): mask for mask in map(evidence.mask, hops) if mask.sum() > 1}
    return [Shared(mask, _seen_Bps(evidence, mask), fixed=True) for mask in masks.values()]


def _seen_Bps(evidence: Evidence, mask: Mask) -> float:
    """Return the most that some pairs ever carried together."""
    return max(float((evidence.got_Bps @ mask).max(initial=0.0)), float(evidence.alone_Bps[mask].max()))


def of_subnets(evidence: Evidence, addresses: Mapping[int, str]) -> list[Shared]:
    """Return groups for workers in one subnet: what they send to all others, and what they receive.

    A subnet may have one access line, or be a cloud's in which each worker has its own, or occur at several sites.

    Args:
        evidence: The tests so far.
        addresses: The address of each worker, by rank; those that are none are left out.

    """
    subnets: dict[str, set[int]] = {}
    for rank, address in sorted(addresses.items()):
        if (subnet := _subnet(address)) is not None:
            subnets.setdefault(subnet, set()).add(rank)
    sites = [ranks for ranks in subnets.values() if 1 < len(ranks) < evidence.ranks]
    leaving = [[pair for pair in evidence.pairs if pair[0] in site and pair[1] not in site] for site in sites]
    entering = [[pair for pair in evidence.pairs if pair[1] in site and pair[0] not in site] for site in sites]
    return [replace(group, fixed=False) for group in of_hops(evidence, [*leaving, *entering])]


def _subnet(address: str) -> str | None:
    try:
        version = ip_address(address).version
    except ValueError:
        return None
    return str(ip_network(f"{address}/{_PREFIX[version]}", strict=False))
