"""Groups of pairs that share a capacity, held against what was measured.

What makes a set of pairs a group is conservation, not fairness: its rates never sum to more than its capacity, and sum
to it whenever one of its pairs falls short because of it. So a test refutes a group that carried more, and explains the
pairs that fell short in a group that was full.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from treefold.discovery.observations import Evidence, Mask

CAPPED = 0.9
"""A worker has a cap if it never carried more than this part of what its pairs carry alone."""
_NEEDED = 3
"""Groups that were full in fewer tests are dropped where something is unexplained."""


@dataclass(frozen=True, eq=False)
class Shared:
    """Pairs that carry no more than a capacity together.

    Attributes:
        mask: The pairs, as columns of the evidence.
        capacity_Bps: What they carry together.
        confirmed: Whether a test of these pairs alone bore the capacity out, or it was measured in the first place.
        fixed: Whether it is known that the pairs share a hop, so that a test that they exceed only raises the capacity.

    """

    mask: Mask
    capacity_Bps: float
    confirmed: bool = False
    fixed: bool = False


def caps(evidence: Evidence) -> list[Shared]:
    """Return what each worker sends and receives at most, where that is less than its pairs carry alone."""
    found = []
    for end in (evidence.source, evidence.target):
        for rank in range(evidence.ranks):
            mask = end == rank
            most_Bps = float((evidence.got_Bps @ mask).max(initial=evidence.alone_Bps[mask].max(initial=0.0)))
            was_tested = np.isinf(evidence.offered_Bps[:, mask]).all(axis=1).any()
            if mask.sum() > 1 and was_tested and most_Bps < CAPPED * evidence.alone_Bps[mask].sum():
                found.append(Shared(mask, most_Bps, confirmed=True))
    return found


def carried(evidence: Evidence, groups: Sequence[Shared]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return what each group carried in each test, as part of its capacity: a row for each test."""
    if not groups:
        return np.zeros((len(evidence.got_Bps), 0))
    masks = np.array([group.mask for group in groups], float)
    return np.asarray(evidence.got_Bps @ masks.T / [group.capacity_Bps for group in groups])


def full(evidence: Evidence, groups: Sequence[Shared]) -> Mask:
    """Return whether each group was full in each test: a row for each test."""
    return np.asarray(carried(evidence, groups) >= 1 - evidence.slack)


def unexplained(evidence: Evidence, groups: Sequence[Shared]) -> Mask:
    """Return which pairs fell short in which test while no group through them was full."""
    short = evidence.short
    if not groups:
        return short
    masks = np.array([group.mask for group in groups], float)
    return np.asarray(short & (full(evidence, groups) @ masks == 0))


def support(evidence: Evidence, group: Shared) -> int:
    """Return in how many tests a group was full while one of its pairs fell short."""
    return int((full(evidence, [group])[:, 0] & (evidence.short & group.mask).any(axis=1)).sum())


def supported(evidence: Evidence, groups: Sequence[Shared]) -> list[Shared]:
    """Return the groups without those for which little speaks."""
    return [each for each in groups if each.confirmed or each.fixed or support(evidence, each) >= _NEEDED]


def settled(evidence: Evidence, groups: Sequence[Shared]) -> list[Shared]:
    """Return the groups that no test refutes; a small excess raises a capacity, any excess that of a fixed group."""
    parts = carried(evidence, groups).max(axis=0, initial=0.0)
    kept = []
    for group, part in zip(groups, parts, strict=True):
        if part > 1 + evidence.refuting and not group.fixed:
            continue
        raised = part > 1 + evidence.slack / 2
        kept.append(replace(group, capacity_Bps=group.capacity_Bps * part) if raised else group)
    return kept


def other_than(groups: Iterable[Shared], known: Sequence[Shared]) -> list[Shared]:
    """Return the groups whose pairs none of the known ones has."""
    return [each for each in groups if not any(same(each, other) for other in known)]


def same(one: Shared, other: Shared) -> bool:
    """Return whether two groups have the same pairs."""
    return bool(np.array_equal(one.mask, other.mask))
