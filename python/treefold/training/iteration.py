"""What an all-reduce is worth to a model: the time of a training iteration with each algorithm."""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from typing import Any, NamedTuple

from treefold import verbs
from treefold._core import Topology, TreefoldError
from treefold.machine import Machine
from treefold.training.costs import SMALL_BYTES, Prices, price
from treefold.training.gpu import GPUS, OPTIMIZERS
from treefold.training.layers import Model
from treefold.training.parallel import cut
from treefold.training.program import BUCKET_BYTES, Accelerator, Recipe, check, steps
from treefold.training.sources import load
from treefold.training.systolic import Systolic
from treefold.training.timeline import Send, Step, Timeline, play

BATCH = 16
"""Samples of an accelerator: one for each of the MultiTree paper's arrays."""

ACCELERATORS: Mapping[str, Accelerator] = {"systolic": Systolic(), **GPUS}
PARALLELISMS = ("data", "model")


class Trained(NamedTuple):
    """An algorithm's row, and how its iteration unfolds."""

    row: dict[str, Any]
    timeline: Timeline


class Network(NamedTuple):
    """Where collectives run, and what tells their time."""

    topology: Topology
    simulator: str
    link_model: str
    machine: Machine | None


def train(
    model: str | Model, network: Topology | str, algorithms: str | Sequence[str] | None = None, **how: Any
) -> list[dict[str, Any]]:
    """Predict the time of a training iteration: one row an algorithm, `winner` true for the fastest.

    Args:
        model: A built-in model (`treefold.training.MODELS`), a file of layers, `my_module:build`, or a `Model`.
        network: The network (or spec). Every rank is an accelerator that trains.
        algorithms: Names; when None all that fit, on large networks without those that need a solver.
        how: The arguments of `train_and_trace`.

    Returns:
        Rows with `model`, `algorithm`, `iteration_s` = `compute_s` + `local_aggregation_s` + `optimizer_s` +
        `stolen_s` + `exposed_communication_s`; `communication_s` = `exposed_communication_s` +
        `overlapped_communication_s`; `compute_cycles` where the accelerator has cycles; `speedup` over the first row.

    Raises:
        TreefoldError: If something is unknown, or does not fit.

    """
    return [each.row for each in train_and_trace(model, network, algorithms, **how)]


def train_and_trace(
    model: str | Model,
    network: Topology | str,
    algorithms: str | Sequence[str] | None = None,
    *,
    accelerator: str | Accelerator = "systolic",
    batch: int = BATCH,
    overlap: str = "none",
    bucket_bytes: int = BUCKET_BYTES,
    optimizer: str = "adam",
    sharded: bool = False,
    parallelism: str = "data",
    gradient_bytes: int | None = None,
    stolen: float | None = None,
    simulator: str | None = None,
    link_model: str = "propagation",
    machine: Machine | None = None,
    inputs: Sequence[str] = (),
    track: Callable[[Sequence[Any]], Iterable[Any]] = iter,
) -> list[Trained]:
    """Like `train`, with timelines.

    Args:
        model: See `train`.
        network: See `train`.
        algorithms: See `train`.
        accelerator: One of `treefold.training.ACCELERATORS`, or a `Systolic` or `Gpu` of your own.
        batch: Samples of each accelerator; with model parallelism, of all together.
        overlap: `none` (one all-reduce behind the backward pass), `layer` or `bucket`.
        bucket_bytes: Gradients that go together with `bucket`.
        optimizer: `none`, `sgd`, `momentum` or `adam`: what an update moves through memory.
        sharded: Whether each rank updates its share of the parameters only, and gathers the others' then.
        parallelism: `data`, or `model`: tensor parallelism over all ranks.
        gradient_bytes: Of each parameter; by default what the accelerator has.
        stolen: Part of the compute that an all-reduce in software takes while it runs; by default what the
            accelerator has. What switches reduce takes nothing.
        simulator: One of `treefold.MODELS`; by default `analytic`, or `packet` if a machine is given.
        link_model: One of `treefold.LINK_MODELS`.
        machine: What the packet model simulates.
        inputs: Of a PyTorch module: `NAME=SHAPE` of one sample, each.
        track: Wraps the sequence of algorithms, to show progress.

    """
    network = verbs.topology(network) if isinstance(network, str) else network
    simulator = verbs.model_of(simulator, machine)
    chip = _accelerator(accelerator)
    if optimizer not in OPTIMIZERS:
        raise TreefoldError(f"optimizer '{optimizer}' is unknown; known are {', '.join(OPTIMIZERS)}")
    if parallelism not in PARALLELISMS:
        raise TreefoldError(f"parallelism '{parallelism}' is unknown; known are {', '.join(PARALLELISMS)}")
    recipe = Recipe(
        chip,
        batch,
        chip.gradient_bytes if gradient_bytes is None else gradient_bytes,
        overlap,
        bucket_bytes,
        OPTIMIZERS[optimizer],
        network.ranks if sharded else 1,
        parallelism == "model",
    )
    check(recipe)
    share = _share(stolen, chip)
    loaded = load(model, inputs) if isinstance(model, str) else model
    part = cut(loaded, network.ranks) if recipe.is_model_parallel else loaded
    program = steps(part, recipe)
    names = verbs.contenders(network, algorithms)
    machine = verbs.common_machine(network, names, simulator, machine)
    where = Network(verbs.under(network, link_model), simulator, link_model, machine)
    done = []
    refused: TreefoldError | None = None
    for name in track(names):
        try:
            done.append(_run(name, where, program, share, chip.launch_s))
        except TreefoldError as error:
            if algorithms is not None:
                raise
            refused = error
    if not done and refused is not None:
        raise refused
    facts = {"model": loaded.name, "simulator": simulator, "accelerator": chip.name, "overlap": overlap, "batch": batch}
    facts |= {"parallelism": parallelism, "parameters": part.parameters, "compute_cycles": _cycles(part, recipe)}
    return _ranked(facts, done)


def _accelerator(accelerator: str | Accelerator) -> Accelerator:
    if not isinstance(accelerator, str):
        return accelerator
    if accelerator not in ACCELERATORS:
        raise TreefoldError(f"accelerator '{accelerator}' is unknown; known are {', '.join(ACCELERATORS)}")
    return ACCELERATORS[accelerator]


def _share(stolen: float | None, accelerator: Accelerator) -> float:
    share = accelerator.stolen if stolen is None else stolen
    if not 0 <= share < 1:
        raise TreefoldError(f"an all-reduce cannot take {share} of the compute: must be at least 0 and below 1")
    return share


class _Run(NamedTuple):
    """An algorithm's iteration, before the others are known."""

    algorithm: dict[str, Any]
    timeline: Timeline
    error: float | None
    wall_s: float


def _run(name: str, where: Network, program: Sequence[Step], share: float, launch_s: float) -> _Run:
    """Let a program unfold with an algorithm; each collective is a launch, too."""
    start = time.perf_counter()
    sends = [step for step in program if isinstance(step, Send)]
    used: set[str] = set()
    prices: dict[tuple[str, int], float] = {}
    errors = []
    for collective in dict.fromkeys(send.collective for send in sends):
        sizes = [send.size_bytes for send in sends if send.collective == collective]
        found = _prices(name, where, collective, sizes, used)
        prices |= {(collective, size): launch_s + seconds for size, seconds in found.seconds.items()}
        errors += [] if found.error is None else [found.error]
    # What switches reduce is streamed past the accelerators' cores.
    is_software = not all(each.startswith("innet") for each in used)
    timeline = play(program, prices, share if is_software else 0.0)
    algorithm = {"algorithm": name} | ({"chosen": ", ".join(sorted(used))} if name == "auto" else {})
    return _Run(algorithm, timeline, max(errors, default=None), time.perf_counter() - start)


def _prices(name: str, where: Network, collective: str, sizes: Sequence[int], used: set[str]) -> Prices:
    """Price sizes of a collective, noting which algorithms it takes."""

    def simulate(size: int) -> float:
        seconds, algorithm = _seconds(name, where, collective, size)
        used.add(algorithm)
        return seconds

    def simulate_all(many: Sequence[int]) -> dict[int, float]:
        if where.simulator != "packet":
            return {size: simulate(size) for size in many}
        # The simulator does not hold the interpreter's lock. The largest first: they take longest.
        ordered = sorted(many, reverse=True)
        pool = ThreadPoolExecutor(os.cpu_count())
        try:
            return dict(zip(ordered, pool.map(simulate, ordered), strict=True))
        finally:
            pool.shutdown(cancel_futures=True)

    return price(sizes, simulate_all, SMALL_BYTES * where.topology.ranks if where.simulator == "packet" else None)


@lru_cache(maxsize=4096)
def _seconds(name: str, where: Network, collective: str, size: int) -> tuple[float, str]:
    """Simulate a size once, for however many models; return the algorithm, too, which `auto` chooses."""
    planned, _ = verbs.plan_and_facts(where.topology, name, size, collective, 0, where.simulator)
    row = verbs.simulate(
        planned, size_bytes=size, model=where.simulator, link_model=where.link_model, machine=where.machine
    )
    return float(row["time_s"]), planned.algorithm


def _cycles(model: Model, recipe: Recipe) -> int | None:
    chip = recipe.accelerator
    if not isinstance(chip, Systolic):
        return None
    return sum(sum(chip.cycles(layer, recipe.batch)) for layer in model.layers)


def _ranked(facts: Mapping[str, Any], runs: Sequence[_Run]) -> list[Trained]:
    fastest = min(runs, key=lambda run: run.timeline.iteration_s)
    first = runs[0].timeline.iteration_s
    return [Trained(_row(facts, run, first) | {"winner": run is fastest}, run.timeline) for run in runs]


def _row(facts: Mapping[str, Any], run: _Run, first_s: float) -> dict[str, Any]:
    seen = run.timeline
    return {
        **facts,
        **run.algorithm,
        "iteration_s": seen.iteration_s,
        "compute_s": seen.busy_s.get("forward", 0.0) + seen.busy_s.get("backward", 0.0),
        "local_aggregation_s": seen.busy_s.get("aggregation", 0.0),
        "optimizer_s": seen.busy_s.get("optimizer", 0.0),
        "stolen_s": seen.stolen_s,
        "communication_s": seen.communication_s,
        "exposed_communication_s": seen.exposed_s,
        "overlapped_communication_s": max(0.0, seen.communication_s - seen.exposed_s),
        "messages": sum(span.lane == "network" for span in seen.spans),
        "interpolation_error": run.error,
        "speedup": first_s / seen.iteration_s if seen.iteration_s else 1.0,
        "wall_s": run.wall_s,
    }
