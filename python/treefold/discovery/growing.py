"""Grows groups from pairs that fell short: adds pairs that fill what is missing, and that no test speaks against.

A pair that fell short in some tests is in a group that was full in each of them. If nothing narrower is on its way, the
capacity of that group is the rate of the pair alone. So other pairs are added, that which fills most of what is missing
in those tests first, as long as no test carried more than the capacity, and no pair alone. Likelier are pairs that
share an end with the first, that fell short themselves, and that got no more than the first (in a fair share of
something full, nobody gets more than one who gets too little). As none of this is certain, each start is tried in
several manners.

A start costs O(members x tests x pairs).
"""

import numpy as np

from treefold.discovery.groups import Shared
from treefold.discovery.observations import Evidence, Mask, Vector

_STARTS = 40
"""Only so many pairs are starts, those first that fell short most often without a reason."""
_MOST_MEMBERS = 60
_SHARED_END = 1.5
"""The worth of a pair that shares an end with the first, as against others."""
_FASTER = 0.2
"""The worth of a pair that got more than the first while that fell short, as against others."""
_MORE = 1.15
"""A pair got more than another if it got so many times as much."""
_LEAST_FILL = 0.002
_WIDER = 3
"""So many capacities above the rate of the first pair are tried, too."""
_MANNERS = ("fair", "plain", "pure")
"""The manners of growing: shares are taken to be fair, or not, or pairs that were idle elsewhere come first."""


def grown(evidence: Evidence, still_open: Mask) -> list[Shared]:
    """Return candidates grown from the pairs that fell short in some tests without a known reason."""
    counts = still_open.sum(axis=0)
    starts = [int(each) for each in np.argsort(-counts, kind="stable")[:_STARTS] if counts[each]]
    tried = [
        _grow(evidence, still_open, start, capacity_Bps, manner)
        for start in starts
        for capacity_Bps in _capacities(evidence, still_open, start)
        for manner in _MANNERS
    ]
    return [each for each in tried if each is not None]


def _capacities(evidence: Evidence, still_open: Mask, start: int) -> list[float]:
    """Return capacities that a group through a pair may have: the rate of the pair alone, or of a wider pair."""
    own_Bps = float(evidence.alone_Bps[start])
    most_Bps = evidence.got_Bps[still_open[:, start]].sum(axis=1).min()
    wider = evidence.alone_Bps[evidence.alone_Bps > own_Bps * (1 + 2 * evidence.slack)]
    distinct = np.unique(np.round(wider / own_Bps, 1))[:_WIDER] * own_Bps
    return [own_Bps, *(float(each) for each in distinct if each <= most_Bps)]


def _grow(evidence: Evidence, still_open: Mask, start: int, capacity_Bps: float, manner: str) -> Shared | None:
    """Add pairs to one until they fill the capacity in the tests where it fell short; None if they fill it in none."""
    got, where = evidence.got_Bps, still_open[:, start]
    most_Bps, least_Bps = (1 + evidence.slack) * capacity_Bps, (1 - evidence.slack) * capacity_Bps
    mask = np.zeros(len(evidence.pairs), bool)
    mask[start] = True
    sums = got[:, start].copy()
    if (sums > most_Bps).any():
        return None
    worth = _worth(evidence, still_open, start, manner)
    is_narrow = evidence.alone_Bps <= (1 + evidence.refuting) * capacity_Bps
    for _ in range(_MOST_MEMBERS):
        missing_Bps = np.maximum(capacity_Bps - sums[where], 0.0)
        if (sums[where] >= least_Bps).all():
            break
        fits = (sums[:, None] + got <= most_Bps).all(axis=0) & is_narrow & ~mask
        fill = np.minimum(got[where], missing_Bps[:, None]).sum(axis=0)
        value = np.where(fits, fill * worth * (fill if manner == "pure" else 1.0), 0.0)
        best = int(value.argmax())
        if not value[best] or fill[best] <= _LEAST_FILL * capacity_Bps:
            break
        mask[best] = True
        sums += got[:, best]
    return Shared(mask, capacity_Bps) if (sums[where] >= least_Bps).any() else None


def _worth(evidence: Evidence, still_open: Mask, start: int, manner: str) -> Vector:
    """Return how likely each pair shares something with the first, beyond what it fills."""
    got, where = evidence.got_Bps, still_open[:, start]
    near = (evidence.source == evidence.source[start]) | (evidence.target == evidence.target[start])
    worth = np.where(near, _SHARED_END, 1.0) * (1 + still_open[where].mean(axis=0))
    if manner == "fair":
        faster = (got[where] > _MORE * got[where, start][:, None]).any(axis=0)
        worth = np.where(faster, _FASTER * worth, worth)
    if manner == "pure":
        worth = worth / np.maximum(got.sum(axis=0), 1e-9)
    return np.asarray(worth)
