"""Explains why pairs fell short: finds few, small groups that no test refutes and that were full when they did.

A pair that got less than was offered to it, and less than it carries alone, has crossed something full. Candidates are
what a few workers send to all others or receive from them (`cuts`), and sets grown from each pair that fell short
(`growing`). A test in which a candidate was full explains each of its pairs that fell short. Of the candidates the
fewest are chosen that explain all, greedily as for a set cover (Chvatal 1979).

Work is limited by counts, never by time, so that the same tests always lead to the same groups.
"""

from collections.abc import Iterator, Sequence
from itertools import combinations, islice
from math import comb

import numpy as np
from numpy.typing import NDArray

from treefold.discovery.groups import Shared, carried, full, unexplained
from treefold.discovery.growing import grown
from treefold.discovery.observations import Evidence, Mask, Vector

Cube = NDArray[np.float64]
"""What each worker sent to each, in each test."""

_MOST_CUT = 4
"""Cuts of so many workers are tried."""
_MOST_WORK = 6_000_000_000
"""Sets so large are tried only if their number, times tests, times workers squared, is no more than this.

That takes about a second. Sets of four are tried up to about 30 workers.
"""
_PART = 1 << 20
"""So many sets times tests are looked at at once, to save memory."""
_MOST_FOUND = 2000
"""No more cuts than these are candidates, those of fewest workers first."""
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
    """Return what few workers send to all others, or get from them, where several tests agree on a capacity.

    With n workers, a set costs O(n^2 x tests).
    """
    if len(evidence.got_Bps) < _AGREEING:
        return []
    got_Bps = _squares(evidence)
    found: list[Shared] = []
    for inside in _sets(evidence.ranks, len(evidence.got_Bps)):
        found += _agreeing(evidence, got_Bps, inside, evidence.source, evidence.target)
        found += _agreeing(evidence, got_Bps.transpose(0, 2, 1), inside, evidence.target, evidence.source)
        if len(found) >= _MOST_FOUND:
            break
    return found[:_MOST_FOUND]


def _agreeing(
    evidence: Evidence, sent_Bps: Cube, inside: Mask, source: NDArray[np.intp], target: NDArray[np.intp]
) -> list[Shared]:
    """Return what sets of workers send to all others, where the fullest tests agree and many pairs fell short."""
    rates_Bps, short, found = _leaving(sent_Bps, inside), evidence.short, []
    fullest_Bps = np.sort(rates_Bps, axis=0)[-_AGREEING:]
    agree = (fullest_Bps[-1] > 0) & (fullest_Bps[0] >= (1 - 2 * evidence.slack) * fullest_Bps[-1])
    for place in np.flatnonzero(agree)[:_MOST_FOUND]:
        mask = inside[place, source] & ~inside[place, target]
        tests = np.argsort(-rates_Bps[:, place], kind="stable")[:_AGREEING]
        active = mask & (evidence.got_Bps[tests] > 0)
        if (short[tests] & active).sum() >= _SHORT * active.sum() > 0:
            found.append(Shared(mask, float(rates_Bps[tests, place].mean())))
    return found


def _squares(evidence: Evidence) -> Cube:
    """Return for each test what each worker sent to each."""
    squares = np.zeros((len(evidence.got_Bps), evidence.ranks, evidence.ranks))
    squares[:, evidence.source, evidence.target] = evidence.got_Bps
    return squares


def _leaving(sent_Bps: Cube, inside: Mask) -> Vector:
    """Return what the workers inside each set send to all others in each test: all that they send, less what stays."""
    is_inside = inside.astype(float)
    all_Bps = sent_Bps.sum(axis=2) @ is_inside.T
    staying_Bps = [np.einsum("si,si->s", is_inside @ each, is_inside) for each in sent_Bps]
    return np.asarray(all_Bps - np.array(staying_Bps))


def _sets(ranks: int, tests: int) -> Iterator[Mask]:
    """Return the sets of few workers, as rows that say whether each worker is inside, in parts.

    The more workers and tests there are, the smaller are the largest sets.
    """
    for size in range(1, min(_MOST_CUT, ranks // 2) + 1):
        if size > 1 and comb(ranks, size) * ranks**2 * tests > _MOST_WORK:
            return
        sets = combinations(range(ranks), size)
        while part := list(islice(sets, max(1, _PART // tests))):
            inside = np.zeros((len(part), ranks), bool)
            inside[np.arange(len(part))[:, None], np.array(part)] = True
            yield inside


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
