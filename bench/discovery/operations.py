"""Lets operations run on a simulated network, and learns from them: `learnt` gives the rate of each."""

import numpy as np
from numpy.typing import NDArray

from bench.discovery.trials import optimum_Bps, probed
from bench.discovery.truth import Truth
from treefold.discovery import UNLIMITED, Knowledge, Learner, Observation, planned
from treefold.discovery.groups import caps
from treefold.discovery.observations import Evidence

_BACKLOGGED = 0.985
"""A pair always has data waiting if it crosses a cable that is used so much of what the fullest is."""


def operation(truth: Truth, plan: planned.Planned, random: np.random.Generator) -> tuple[Observation, float]:
    """Return what an operation shows, and its rate: that at which the fullest cable is just full."""
    used = truth.uses @ plan.loads_Bps / truth.capacity_Bps
    got = plan.loads_Bps / used.max() * (1 + truth.noise * random.standard_normal(len(plan.loads_Bps)))
    waits = truth.uses[used >= _BACKLOGGED * used.max()].any(axis=0)
    rates = {pair: float(rate) for pair, rate in zip(truth.pairs, got, strict=True) if rate > 0}
    offered = {pair: UNLIMITED if wait else rates.get(pair, 0.0) for pair, wait in zip(truth.pairs, waits, strict=True)}
    return Observation({pair: offered[pair] for pair in rates}, rates), plan.rate_Bps / float(used.max())


def learnt(truth: Truth, hint: str, seed: int, most: int = 40) -> list[float]:
    """Return the rate of each operation as part of the optimum: first the probe's plan, then what learning proposes."""
    random = np.random.default_rng([seed, 2])
    alone, observations = probed(truth, random)
    evidence = Evidence(alone)
    for each in observations:
        evidence.add(each)
    best_Bps = optimum_Bps(truth)
    seen, rate_Bps = operation(truth, planned.best(evidence, evidence.alone_Bps, caps(evidence)), random)
    latency_s = {pair: float(truth.latency_s[pair]) for pair in truth.pairs} if hint == "latency" else {}
    learner, rates = Learner(alone, rate_Bps, Knowledge(observations, latency_s=latency_s)), [rate_Bps / best_Bps]
    for _ in range(most):
        learner.see(seen, rate_Bps)
        carried = learner.proposal().carried_Bps
        capacity: NDArray[np.float64] = np.array([carried.get(pair, 0.0) for pair in truth.pairs])
        seen, rate_Bps = operation(truth, planned.best(evidence, capacity, []), random)
        rates.append(rate_Bps / best_Bps)
        if learner.done:
            break
    return rates
