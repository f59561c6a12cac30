"""Explains why pairs fell short: finds few, small groups that no test refutes and that were full when they did.

A pair that got less than was offered to it, and less than it carries alone, has crossed something full. Candidates are
what a few workers send to all others or receive from them (`cuts`), and sets grown from each pair that fell short
(`growing`). A test in which a candidate was full explains each of its pairs that fell short. Of the candidates the
fewest are chosen that explain all, greedily as for a set cover (Chvatal 1979).

Work is limited by counts, never by time, so that the same tests always lead to the same groups.
"""

from collections.abc import Sequence
from itertools import combinations

import numpy as np

from treefold.discovery.groups import Shared, carried, full, unexplained
from treefold.discovery.growing import grown
from treefold.discovery.observations import Evidence, Mask

_MOST_CUT = 4
"""Cuts of so many workers are tried."""
_AGREEING = 4
"""So many tests must agree on the capacity of a cut."""
_SHORT = 0.6
"""In the tests in which a cut was full, this part of its pairs must have fallen short."""
WORTH = 1.5
"""A pair that fell short in a test is worth so many members of the group that explains it."""


def explain(evidence: Evidence, known: Sequence[Shared], worth: float = WORTH) -> list[Shared]:
    """Return groups that explain what the known ones do not, those that explain most first.

    Args:
        evidence: All tests.
        known: The groups that are known.
        worth: A pair that fell short in a test is worth so many members of the group that explains it.

    """
    still_open = unexplained(evidence, known)
    if not still_open.any():
        return []
    candidates = [*cuts(evidence), *grown(evidence, still_open)]
    highest = carried(evidence, candidates).max(axis=0, initial=0.0)
    consistent = [each for each, part in zip(candidates, highest, strict=True) if part <= 1 + evidence.refuting]
    return _chosen(evidence, still_open, consistent, worth)


def cuts(evidence: Evidence) -> list[Shared]:
    """Return what few workers send to all others, or get from them, where several tests agree on a capacity."""
    inside = _sets(evidence.ranks)
    leaves, enters = inside[:, evidence.source], inside[:, evidence.target]
    masks = np.vstack([leaves & ~enters, enters & ~leaves])
    sums, short = evidence.got_Bps @ masks.T.astype(float), evidence.short
    found = []
    for mask, rates in zip(masks, sums.T, strict=True):
        fullest = np.argsort(-rates, kind="stable")[:_AGREEING]
        if len(fullest) < _AGREEING or rates[fullest[-1]] < (1 - 2 * evidence.slack) * rates[fullest[0]]:
            continue
        active = mask & (evidence.got_Bps[fullest] > 0)
        if (short[fullest] & active).sum() >= _SHORT * active.sum() > 0:
            found.append(Shared(mask, float(rates[fullest].mean())))
    return found


def _sets(ranks: int) -> Mask:
    """Return the sets of few workers, as rows that say whether each worker is inside."""
    sizes = range(1, min(_MOST_CUT, ranks // 2) + 1)
    sets = [each for size in sizes for each in combinations(range(ranks), size)]
    inside = np.zeros((len(sets), ranks), bool)
    for row, each in enumerate(sets):
        inside[row, list(each)] = True
    return inside


def _chosen(evidence: Evidence, still_open: Mask, candidates: Sequence[Shared], value: float) -> list[Shared]:
    """Return the few candidates that explain most with fewest pairs."""
    if not candidates:
        return []
    masks, was_full = np.array([each.mask for each in candidates], float), full(evidence, candidates).astype(float)
    sizes, left, found = masks.sum(axis=1), still_open.copy(), []
    while left.any():
        explained = np.einsum("tk,te,ke->k", was_full, left.astype(float), masks, optimize=True)
        worth = np.where(value * explained > sizes, explained / (sizes + 1), 0.0)
        best = int(worth.argmax())
        if worth[best] <= 0:
            break
        found.append(candidates[best])
        left &= ~((was_full[:, best, None] > 0) & candidates[best].mask)
    return found
