"""Discovers simulated networks, and measures how near the discovered plan comes to what known cables allow."""

import time
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from bench.discovery.truth import Pair, Truth, measured, reached_Bps
from treefold.discovery import UNLIMITED, Knowledge, Observation, Refinement, planned
from treefold.discovery.groups import Shared
from treefold.discovery.observations import Evidence


class Trial(NamedTuple):
    """What came out of the discovery of one network."""

    reached: float
    """The part of the optimum with known cables that the final plan really reaches."""
    promised: float
    """The rate that the model promises, as part of that optimum."""
    tests: int
    """How many tests there were beyond the probe's."""
    first: int | None
    """After how many tests the best plan first reached 90 %; None if it never did."""
    proven: bool
    seconds: float
    """The CPU time of the loop."""


def optimum_Bps(truth: Truth) -> float:
    """Return the rate of the best plan between the workers if all cables and routes are known."""
    evidence = Evidence(dict(zip(truth.pairs, truth.alone_Bps.tolist(), strict=True)))
    cables = [Shared(mask, float(rate)) for mask, rate in zip(truth.uses, truth.capacity_Bps, strict=True)]
    return planned.bound(evidence, evidence.alone_Bps, cables)[0]


def probed(truth: Truth, random: np.random.Generator) -> tuple[dict[Pair, float], list[Observation]]:
    """Return what a plain probe measures: pairs alone, all that each worker sends or receives, and all at once."""
    alone = {pair: measured(truth, {pair: UNLIMITED}, random)[pair] for pair in truth.pairs}
    stars = [[pair for pair in truth.pairs if pair[end] == rank] for end in (0, 1) for rank in range(truth.ranks)]
    offers = [dict.fromkeys(pairs, UNLIMITED) for pairs in [*stars, truth.pairs]]
    return alone, [Observation(offered, measured(truth, offered, random)) for offered in offers]


def discovered(truth: Truth, hint: str, seed: int, most_tests: int = 60) -> Trial:
    """Discover a network with the hint `none`, `latency` or `routers`."""
    random = np.random.default_rng([seed, 1])
    alone, observations = probed(truth, random)
    latency_s = {pair: float(truth.latency_s[pair]) for pair in truth.pairs} if hint == "latency" else {}
    hops = [np.array(truth.pairs)[mask].tolist() for mask in truth.uses] if hint == "routers" else []
    knowledge = Knowledge(
        observations, latency_s=latency_s, hops=[[(a, b) for a, b in hop] for hop in hops], noise=truth.noise
    )
    best_Bps, first, watched_s, last_Bps = optimum_Bps(truth), None, 0.0, 0.0
    begun_s = time.process_time()
    refinement = Refinement(alone, knowledge, most_tests)
    tests, observation = refinement.tests(), None
    while (test := _next(tests.send, observation)) is not None:
        observation = Observation(test.offered_Bps, measured(truth, test.offered_Bps, random))
        if first is None and refinement.rate_Bps > last_Bps:
            before_s, last_Bps = time.process_time(), refinement.rate_Bps
            first = refinement.made if _reached(truth, refinement) >= 0.9 * best_Bps else None
            watched_s += time.process_time() - before_s
    seconds = time.process_time() - begun_s - watched_s
    reached = _reached(truth, refinement) / best_Bps
    if first is None and reached >= 0.9:
        first = refinement.made
    return Trial(reached, refinement.rate_Bps / best_Bps, refinement.made, first, refinement.proven, seconds)


def _next(send: Callable[[Observation | None], object], observation: Observation | None):
    try:
        return send(observation)
    except StopIteration:
        return None


def _reached(truth: Truth, refinement: Refinement) -> float:
    """Return the rate that a plan on what was carried really has."""
    rates_Bps = refinement.model.carried_Bps
    carried: NDArray[np.float64] = np.array([rates_Bps.get(pair, 0.0) for pair in truth.pairs])
    evidence = Evidence(dict(zip(truth.pairs, truth.alone_Bps.tolist(), strict=True)))
    return reached_Bps(truth, *planned.best(evidence, carried, []))
