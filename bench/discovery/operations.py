"""Lets operations run on a simulated network, and learns from them: `learnt` gives the rate of each.

On a full cable all that send have the same share. So only the pairs with most to carry always have data waiting; others
wait now and then, and carry what is a fair share while they do.
"""

import numpy as np
from numpy.typing import NDArray

from bench.discovery.trials import optimum_Bps, probed
from bench.discovery.truth import Pair, Truth, shares
from treefold.discovery import UNLIMITED, Knowledge, Learner, Observation, planned
from treefold.discovery.groups import caps
from treefold.discovery.observations import Evidence

_FULL = 0.985
"""A cable is full that is used so much of what the fullest is."""
_MOST = 0.9
"""A pair always has data waiting if it carries so much of what the busiest pair of a full cable does."""
_UNFAIR = 0.1
"""The standard deviation of the relative error of a fair share."""
_LEAST = 0.01
"""The rate of a pair while it waits is known if it waits for more than this part of the time."""


def operation(truth: Truth, plan: planned.Planned, random: np.random.Generator) -> tuple[Observation, float]:
    """Return what an operation shows, and its rate: that at which the fullest cable is just full."""
    used = truth.uses @ plan.loads_Bps / truth.capacity_Bps
    carried = plan.loads_Bps / used.max()
    got = carried * (1 + truth.noise * random.standard_normal(len(carried)))
    full = truth.uses[used >= _FULL * used.max()] * carried
    waits = (full >= _MOST * full.max(axis=1, keepdims=True)).any(axis=0) & (carried > 0)
    rates = {pair: float(rate) for pair, rate in zip(truth.pairs, got, strict=True) if rate > 0}
    offered = {pair: UNLIMITED if wait else rates.get(pair, 0.0) for pair, wait in zip(truth.pairs, waits, strict=True)}
    busy = _busy(truth, carried, waits, random)
    return Observation({pair: offered[pair] for pair in rates}, rates, busy), plan.rate_Bps / float(used.max())


def _busy(
    truth: Truth, carried: NDArray[np.float64], waits: NDArray[np.bool_], random: np.random.Generator
) -> dict[Pair, float]:
    """Return what each pair carries while data waits for it, beside the pairs that always wait."""
    used = np.flatnonzero(carried > 0)
    rates = {}
    for place, column in enumerate(used):
        offered = np.where(waits, np.inf, carried)
        offered[column] = np.inf
        fair = shares(truth.uses[:, used], truth.capacity_Bps, offered[used], np.ones(len(used)))[place]
        rate = max(fair * np.exp(_UNFAIR * random.standard_normal()), carried[column])
        if carried[column] > _LEAST * rate:
            rates[truth.pairs[column]] = float(rate)
    return rates


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
    shared = [(each.got_Bps, sum(each.got_Bps.values())) for each in observations[:-1]]
    learner, rates = Learner(alone, rate_Bps, Knowledge(shared=shared, latency_s=latency_s)), [rate_Bps / best_Bps]
    for _ in range(most):
        learner.see(seen, rate_Bps)
        carried = learner.proposal().carried_Bps
        capacity: NDArray[np.float64] = np.array([carried.get(pair, 0.0) for pair in truth.pairs])
        seen, rate_Bps = operation(truth, planned.best(evidence, capacity, []), random)
        rates.append(rate_Bps / best_Bps)
        if learner.done:
            break
    return rates
