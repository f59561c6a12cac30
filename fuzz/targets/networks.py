"""Plans with every planner for random small networks, simulates the plans, and checks their promises."""

import json
import math
from pathlib import Path
from random import Random
from typing import Any

import treefold
from fuzz import promises
from fuzz.cases import Case, Fault, check_refusal
from fuzz.words import spec
from networks import ALL_REDUCES, ALWAYS, network
from treefold.collectives import COLLECTIVES

_FLOW_OF_ANALYTIC = (0.1, 2.0)
_PACKET_BYTES = 4096
_MOST_RANKS = 12
_SOFT = 1 + 1e-9
"""The factor by which rounding may lift a rate above its bound."""


def corpus() -> None:
    """Return nothing, as networks are drawn at random."""


def make(random: Random, _: None) -> Case:
    """Return a network, a collective and a root."""
    document: Any = network(random)
    if random.random() < 0.2:
        document = spec(random, 3)
    elif random.random() < 0.3:
        for link in document["links"]:
            link["overhead_s"] = random.choice((0, 0, 1e-6, 1e-3))
    collective = random.choice(("all-reduce", *COLLECTIVES))
    return Case.of({"network": document, "collective": collective, "root": random.randrange(100)})


def run(path: Path) -> None:
    """Plan with every algorithm that fits, and check the promises of every plan."""
    value = json.loads(path.read_bytes())
    try:
        topology = treefold.topology(value["network"])
    except treefold.TreefoldError as error:
        check_refusal(error)
        return
    if topology.ranks > _MOST_RANKS or topology.num_links > 200:
        return
    for algorithm in treefold.algorithms():
        try:
            root = value["root"] % topology.ranks
            plan = treefold.plan(topology, algorithm, collective=value["collective"], root=root)
        except treefold.TreefoldError as error:
            check_refusal(error)
            _check_fits(algorithm, value["collective"])
        else:
            _check_plan(plan)


def _check_fits(algorithm: str, collective: str) -> None:
    if algorithm in ALWAYS and not (algorithm in ALL_REDUCES and collective != "all-reduce"):
        raise Fault("wrong", f"{algorithm} does not fit", f"{algorithm} for {collective}")


def _check_plan(plan: treefold.Plan) -> None:
    verdict = treefold.check(plan)
    if not verdict.correct:
        raise Fault("wrong", f"{plan.algorithm} for {plan.collective}: {verdict.reason}", f"planner {plan.algorithm}")
    promises.check_file(plan)
    promises.check_schedule(plan)
    promises.check_times(plan, *_FLOW_OF_ANALYTIC)
    _check_rate(plan)
    if not plan.algorithm.startswith("innet"):
        promises.check_sums(plan)
    _check_packets(plan)


def _check_rate(plan: treefold.Plan) -> None:
    """Check that the plan's rate is within the bound."""
    if plan.collective != "all-reduce" or plan.rate is None:
        return
    report = treefold.bound(plan.topology)
    most = (report.in_network or report.all_reduce).rate_Bps
    if most is not None and plan.rate > most * _SOFT:
        raise Fault("wrong", f"{plan.algorithm} has the rate {plan.rate}, the bound is {most}", "bound")


def _check_packets(plan: treefold.Plan) -> None:
    """Check that the packet simulator ends, or refuses the plan with a reason."""
    try:
        time_s = treefold.simulate(plan, size_bytes=_PACKET_BYTES, simulator="packet").time_s
    except treefold.TreefoldError as error:
        check_refusal(error)
        return
    if not math.isfinite(time_s) or (time_s > 0) != (plan.topology.ranks > 1):
        raise Fault("wrong", f"packet times a correct plan at {time_s} s", "packet")
