"""Explains why pairs fell short: finds few, small groups that no test contradicts and that were full when they did.

A pair that got less than was offered to it, and than it carries alone, has crossed something full. Candidates come from
four places: what a few workers send to all others or receive from them; the pairs that fell short, with what fills up
the missing rest in the tests where they did; known groups and a few pairs more; and a local search. Each candidate is
held against all tests: rates that sum to more than its capacity contradict it, and a test in which they sum to it
explains each of its pairs that fell short. Of what is left the fewest are chosen greedily, as for a set cover.

Work is limited by counts, never by time, so that the same tests always lead to the same groups.
"""

from itertools import combinations
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from treefold.discovery.observations import Evidence, Mask, Vector

_STARTS = 40
_MOST_MEMBERS = 60
_EVENT_WORTH = 1.5


class Candidate(NamedTuple):
    """A set of pairs and what they carry together."""

    mask: Mask
    capacity_Bps: float


class Tests(NamedTuple):
    """The tests, as explanations use them."""

    got: Vector
    """The rate of each pair, in each test."""
    short: NDArray[np.bool_]
    open: NDArray[np.bool_]
    """Which pairs fell short in which test without a known reason."""
    slack: float
    """The part by which sums may differ."""


def full(got: Vector, candidates: list[Candidate], slack: float) -> NDArray[np.bool_]:
    """Return whether each candidate was full in each test: a row for each test."""
    if not candidates:
        return np.zeros((len(got), 0), bool)
    masks = np.array([each.mask for each in candidates])
    capacity = np.array([each.capacity_Bps for each in candidates])
    return np.asarray(got @ masks.T.astype(float) >= (1 - slack) * capacity)


def unexplained(evidence: Evidence, known: list[Candidate], slack: float) -> NDArray[np.bool_]:
    """Return which pairs fell short in which test while no known group through them was full."""
    short = evidence.short
    if not known:
        return short
    was_full = full(evidence.got_Bps, known, slack)
    masks = np.array([each.mask for each in known])
    return np.asarray(short & ~(was_full.astype(float) @ masks > 0))


def explain(evidence: Evidence, known: list[Candidate], slack: float) -> list[Candidate]:
    """Return groups that explain what the known ones do not, the most telling first."""
    still_open = unexplained(evidence, known, slack)
    if not still_open.any():
        return []
    tests = Tests(evidence.got_Bps, evidence.short, still_open, slack)
    candidates = cuts(evidence, tests)
    candidates += grown(evidence, tests)
    return chosen(tests, candidates)


def cuts(evidence: Evidence, tests: Tests) -> list[Candidate]:
    """Return what few workers send to all others, or get from them, where several tests agree on a capacity."""
    ranks = range(evidence.ranks)
    sets = [each for size in range(1, min(4, evidence.ranks // 2) + 1) for each in combinations(ranks, size)]
    inside = np.zeros((len(sets), evidence.ranks), bool)
    for row, each in enumerate(sets):
        inside[row, list(each)] = True
    out = inside[:, evidence.source] & ~inside[:, evidence.target]
    into = ~inside[:, evidence.source] & inside[:, evidence.target]
    found = []
    masks = np.vstack([out, into])
    sums = tests.got @ masks.T.astype(float)
    for mask, carried in zip(masks, sums.T, strict=True):
        best = np.argsort(-carried, kind="stable")[:4]
        if len(best) < 3 or carried[best[-1]] < (1 - 2 * tests.slack) * carried[best[0]]:
            continue
        active = mask & (tests.got[best] > 0)
        if (tests.short[best] & active).sum() >= 0.6 * active.sum():
            found.append(Candidate(mask, float(carried[best].mean())))
    return found


def grown(evidence: Evidence, tests: Tests) -> list[Candidate]:
    """Return candidates grown from each pair that fell short without a reason."""
    order = np.argsort(-tests.open.sum(axis=0), kind="stable")[:_STARTS]
    found = []
    for start in order[tests.open.any(axis=0)[order]]:
        for capacity in capacities(evidence, tests, int(start)):
            for style in (0, 1, 2):
                if (candidate := _grow(evidence, tests, int(start), capacity, style)) is not None:
                    found.append(candidate)
    return found


def capacities(evidence: Evidence, tests: Tests, start: int) -> list[float]:
    """Return capacities that a group through a pair may have: what the pair, or one beside it, carries alone."""
    own = evidence.alone_Bps[start]
    active = tests.got[tests.open[:, start]].sum(axis=1)
    others = evidence.alone_Bps[(evidence.alone_Bps > own * (1 + 2 * tests.slack))]
    wide = [float(each) for each in np.unique(np.round(others / own, 1))[:3] * own if each <= active.min()]
    return [float(own), *wide]


def _grow(evidence: Evidence, tests: Tests, start: int, capacity: float, style: int) -> Candidate | None:
    """Add pairs to one that fill what is missing where it fell short, and fit in all tests; None if they do not."""
    mask = np.zeros(len(evidence.pairs), bool)
    mask[start] = True
    where = tests.open[:, start]
    most, least = (1 + tests.slack) * capacity, (1 - tests.slack) * capacity
    sums = tests.got[:, start].copy()
    if (sums > most).any():
        return None
    near = (evidence.source == evidence.source[start]) | (evidence.target == evidence.target[start])
    slower = (tests.got[where] <= 1.15 * tests.got[where, start][:, None]).all(axis=0)
    prior = np.ones(len(mask)) * np.where(near, 1.5, 1.0)
    if style == 0:
        prior *= np.where(slower, 1.0, 0.2)
    total = tests.got.sum(axis=0)
    for _ in range(_MOST_MEMBERS):
        missing = np.maximum(capacity - sums, 0.0) * where
        if (sums[where] >= least).all():
            break
        fits = ((sums[:, None] + tests.got) <= most).all(axis=0) & ~mask
        fill = np.minimum(tests.got[where], missing[where][:, None]).sum(axis=0)
        if style == 2:
            fill = fill * fill / np.maximum(total, 1e-9)
        value = np.where(fits, fill * prior * (1 + tests.open[where].mean(axis=0)), 0.0)
        best = int(value.argmax())
        if value[best] <= 0.002 * capacity:
            break
        mask[best] = True
        sums += tests.got[:, best]
    is_full = sums >= least
    if not (is_full & where).any():
        return None
    return Candidate(mask, float(capacity))


def chosen(tests: Tests, candidates: list[Candidate]) -> list[Candidate]:
    """Return the few candidates that explain most with fewest pairs (greedy set cover)."""
    if not candidates:
        return []
    masks = np.array([each.mask for each in candidates])
    was_full = full(tests.got, candidates, tests.slack)
    left, found = tests.open.copy(), []
    sizes = masks.sum(axis=1)
    while left.any():
        events = np.array([(left[was_full[:, k]] & masks[k]).sum() for k in range(len(masks))])
        value = _EVENT_WORTH * events - sizes
        ratio = events / (sizes + 1.0)
        best = int(np.where(value > 0, ratio, -1).argmax())
        if value[best] <= 0:
            break
        found.append(candidates[best])
        left &= ~(was_full[:, best][:, None] & masks[best])
    return found
