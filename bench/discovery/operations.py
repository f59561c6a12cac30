"""Lets operations run on a simulated network, and learns from them: `learnt` gives the rate of each.

In a real operation on a network that is not known well, no link waits for the others for long, as there is always
something that may be sent ahead. So every pair sends what the plan gives it as fast as its share of the cables allows,
and ends early or late. An operation is seen in windows, as the workers see it.
"""

import numpy as np
from numpy.typing import NDArray

from bench.discovery.trials import optimum_Bps, probed
from bench.discovery.truth import Truth, shares
from treefold.discovery import Knowledge, Learner, Observation, planned, running
from treefold.discovery.groups import caps
from treefold.discovery.observations import Evidence, Vector

_UNFAIR = 0.1
"""The standard deviation of the relative error of a fair share."""
_WINDOWS = 16
_WAITS = 0.9
"""Data always waits for a pair if it does so for this part of a window."""
_DONE = 1e-9
"""A pair has sent all if this part of the time that it had alone is left."""


def operation(
    truth: Truth, plan: planned.Planned, random: np.random.Generator
) -> tuple[list[Observation], dict[tuple[int, int], float], float]:
    """Return what the windows of an operation show, what each pair carried in the mean, and the rate."""
    volumes = plan.loads_Bps / plan.rate_Bps
    moments_s, sent = _course(truth, volumes, random)
    ends_s = np.linspace(0, moments_s[-1], _WINDOWS + 1)
    by = np.array([np.interp(ends_s, moments_s, column) for column in sent.T]).T
    got_Bps = np.diff(by, axis=0) / np.diff(ends_s)[:, None]
    waits = by[:-1] + (_WAITS * got_Bps.T * np.diff(ends_s)).T < (1 - _DONE) * volumes
    windows = range(1, _WINDOWS - 1)
    observations = [_observation(truth, got_Bps[window], waits[window], random) for window in windows]
    carried_Bps = dict(zip(truth.pairs, (volumes / moments_s[-1]).tolist(), strict=True))
    return observations, carried_Bps, 1 / float(moments_s[-1])


def _course(truth: Truth, volumes: Vector, random: np.random.Generator) -> tuple[NDArray[np.float64], Vector]:
    """Return when a pair has sent all, and what all have sent by then, until all have."""
    weights = np.exp(_UNFAIR * random.standard_normal(len(volumes)))
    left, moments_s, sent = volumes.copy(), [0.0], [np.zeros(len(volumes))]
    while (sends := left > _DONE * volumes).any():
        columns = np.flatnonzero(sends)
        unlimited = np.full(len(columns), np.inf)
        rates = shares(truth.uses[:, columns], truth.capacity_Bps, unlimited, weights[columns])
        step_s = float((left[columns] / rates).min())
        left[columns] -= step_s * rates
        moments_s.append(moments_s[-1] + step_s)
        sent.append(volumes - left)
    return np.array(moments_s), np.array(sent)


def _observation(truth: Truth, got_Bps: Vector, waits: NDArray[np.bool_], random: np.random.Generator) -> Observation:
    """Return what a window shows, with the noise of a measurement."""
    noisy = got_Bps * (1 + truth.noise * random.standard_normal(len(got_Bps)))
    waiting = {pair for pair, wait in zip(truth.pairs, waits, strict=True) if wait}
    return running(dict(zip(truth.pairs, noisy.tolist(), strict=True)), waiting)


def learnt(truth: Truth, hint: str, seed: int, most: int = 40) -> list[float]:
    """Return the rate of each operation as part of the optimum: first the probe's plan, then what learning proposes."""
    random = np.random.default_rng([seed, 2])
    alone, observations = probed(truth, random)
    evidence = Evidence(alone)
    for each in observations:
        evidence.add(each)
    best_Bps = optimum_Bps(truth)
    *seen, rate_Bps = operation(truth, planned.best(evidence, evidence.alone_Bps, caps(evidence)), random)
    latency_s = {pair: float(truth.latency_s[pair]) for pair in truth.pairs} if hint == "latency" else {}
    shared = [(each.got_Bps, sum(each.got_Bps.values())) for each in observations[:-1]]
    learner, rates = Learner(alone, rate_Bps, Knowledge(shared=shared, latency_s=latency_s)), [rate_Bps / best_Bps]
    for _ in range(most):
        learner.see(*seen, rate_Bps)
        carried = learner.proposal().carried_Bps
        capacity: NDArray[np.float64] = np.array([carried.get(pair, 0.0) for pair in truth.pairs])
        *seen, rate_Bps = operation(truth, planned.best(evidence, capacity, []), random)
        rates.append(rate_Bps / best_Bps)
        if learner.done:
            break
    return rates
