"""What an all-reduce is worth to a model: the time of a training iteration with each algorithm."""

import os
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import lru_cache, partial
from typing import Any, NamedTuple

from treefold import checks, planning, verbs
from treefold._core import Topology
from treefold.errors import TreefoldError
from treefold.machine import Machine
from treefold.training.costs import SMALL_BYTES, Prices, price
from treefold.training.gpu import GPUS, OPTIMIZERS, Gpu
from treefold.training.layers import Model, check_model
from treefold.training.parallel import cut
from treefold.training.program import BUCKET_BYTES, OVERLAPS, Accelerator, Recipe, check, steps
from treefold.training.sources import load
from treefold.training.systolic import Systolic
from treefold.training.timeline import NETWORK, Send, Step, Timeline, play

BATCH = 16
"""Samples of an accelerator: one for each of the MultiTree paper's arrays."""

ACCELERATORS: Mapping[str, Accelerator] = {"systolic": Systolic(), **GPUS}
ASSUMED = "systolic"
"""The accelerator where none is named: the MultiTree paper's."""
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
        algorithms: Names; when None all that fit, on large networks without those that need a solver. What does not
            fit is left out with a warning.
        how: The arguments of `train_and_trace`.

    Returns:
        Rows with `model`, `algorithm`, `iteration_s` = `compute_s` + `local_aggregation_s` + `optimizer_s` +
        `stolen_s` + `exposed_communication_s`; `communication_s` = `exposed_communication_s` +
        `overlapped_communication_s`; `compute_cycles` where the accelerator has cycles; `speedup` over the first row.

    Raises:
        TreefoldError: If something is unknown, or no algorithm fits.

    """
    checks.arguments("train", how, train_and_trace.__kwdefaults__ or ())
    return [each.row for each in train_and_trace(model, network, algorithms, **how)]


def train_and_trace(
    model: str | Model,
    network: Topology | str,
    algorithms: str | Sequence[str] | None = None,
    *,
    accelerator: str | Accelerator = ASSUMED,
    batch: int = BATCH,
    overlap: str = "none",
    bucket_bytes: int | None = None,
    optimizer: str | None = None,
    sharded: bool = False,
    parallelism: str = "data",
    gradient_bytes: int | None = None,
    stolen: float | None = None,
    simulator: str | None = None,
    link_model: str = "propagation",
    machine: Machine | None = None,
    inputs: str | Sequence[str] = (),
) -> list[Trained]:
    """Like `train`, with timelines; an interrupt (`treefold.verbs.Interrupted`) brings those that are done.

    Args:
        model: See `train`.
        network: See `train`.
        algorithms: See `train`.
        accelerator: One of `treefold.training.ACCELERATORS`, or a `Systolic` or `Gpu` of your own.
        batch: Samples of each accelerator; with model parallelism, of all together.
        overlap: `none` (one all-reduce behind the backward pass), `layer` or `bucket`.
        bucket_bytes: Gradients that go together with `bucket`; by default 25 MiB, the first bucket 1 MiB, as in DDP.
        optimizer: `none`, `sgd`, `momentum` or `adam`, the default: what an update moves through memory.
        sharded: Whether each rank updates its share of the parameters only, and gathers the others' then.
        parallelism: `data`, or `model`: tensor parallelism over all ranks.
        gradient_bytes: Of each parameter; by default what the accelerator has.
        stolen: Part of the compute that an all-reduce in software takes while it runs; by default what the
            accelerator has. What switches reduce takes nothing.
        simulator: One of `treefold.MODELS`; by default `analytic`, or `packet` if a machine is given.
        link_model: One of `treefold.LINK_MODELS`.
        machine: What the packet model simulates.
        inputs: Of a PyTorch module: `NAME=SHAPE` of one sample, each.

    """
    network = network if isinstance(network, Topology) else verbs.topology(network)
    simulator, link_model = verbs.model_of(simulator, machine), verbs.link_model_of(link_model)
    chip = _accelerator(accelerator)
    names = verbs.contenders(network, algorithms)
    machine = verbs.common_machine(network, names, simulator, machine)
    where = Network(verbs.under(network, link_model), simulator, link_model, machine)
    overlap = checks.name("overlap", overlap, OVERLAPS)
    recipe = Recipe(
        chip,
        batch,
        network.ranks,
        chip.gradient_bytes if gradient_bytes is None else gradient_bytes,
        overlap,
        _bucket(bucket_bytes, overlap),
        _update_bytes(optimizer, chip),
        sharded,
        checks.name("parallelism", parallelism, PARALLELISMS) == "model",
    )
    check(recipe)
    share = _share(stolen, chip)
    loaded = _loaded(model, inputs)
    part = cut(loaded, network.ranks) if recipe.is_model_parallel else loaded
    facts = _facts(loaded, part, recipe, where)
    try:
        runs = _runs(names, where, steps(part, recipe), (share, chip.launch_s), is_told=algorithms is not None)
    except verbs.Interrupted as stop:
        raise verbs.Interrupted(_ranked(facts, stop.rows, is_over=False)) from None
    return _ranked(facts, runs)


def _accelerator(accelerator: str | Accelerator) -> Accelerator:
    if isinstance(accelerator, Systolic | Gpu):
        return accelerator
    return ACCELERATORS[checks.name("accelerator", accelerator, ACCELERATORS)]


def _bucket(bucket_bytes: int | None, overlap: str) -> int:
    if bucket_bytes is not None and overlap != "bucket":
        raise TreefoldError(
            f"a bucket of {checks.shown(bucket_bytes)} bytes goes with --overlap bucket, not {overlap}; drop one"
        )
    return BUCKET_BYTES if bucket_bytes is None else bucket_bytes


def _update_bytes(optimizer: str | None, accelerator: Accelerator) -> int:
    """Return what an update moves for each parameter; by default Adam's, where updates take time at all."""
    wanted = "adam" if optimizer is None else checks.name("optimizer", optimizer, OPTIMIZERS)
    if isinstance(accelerator, Systolic):
        if optimizer is not None and wanted != "none":
            raise TreefoldError(f"optimizer '{optimizer}': updates take no time on {accelerator.name}; drop it")
        return 0
    return OPTIMIZERS[wanted]


def _share(stolen: float | None, accelerator: Accelerator) -> float:
    share = accelerator.stolen if stolen is None else checks.number("stolen", stolen, "parts of 1")
    if not 0 <= share < 1:
        raise TreefoldError(f"an all-reduce cannot take {share} of the compute: must be at least 0 and below 1")
    return share


def _loaded(model: str | Model, inputs: str | Sequence[str]) -> Model:
    loaded = load(model, [inputs] if isinstance(inputs, str) else inputs) if isinstance(model, str) else model
    if not isinstance(loaded, Model):
        raise TreefoldError(
            f"model is a {type(loaded).__name__}; give a name, a Model, or treefold.training.trace(module, input)"
        )
    check_model(loaded)
    if not loaded.parameters:
        raise TreefoldError(f"model {loaded.name} has no parameters, so there is nothing to train")
    return loaded


class _Run(NamedTuple):
    """An algorithm's iteration, before the others are known."""

    algorithm: dict[str, Any]
    timeline: Timeline
    error: float | None
    cover: float | None
    """What part of a link's round trip buffers cover, where that limits packets."""
    wall_s: float


def _runs(
    names: Sequence[str], where: Network, program: Sequence[Step], costs: tuple[float, float], *, is_told: bool
) -> list[_Run]:
    """Let a program unfold with each algorithm that fits."""
    done: list[_Run] = []
    misfits: dict[str, TreefoldError] = {}
    try:
        for turn, name in enumerate(names, 1):
            with planning.at(f"{name} ({turn} of {len(names)})"), verbs.fitting(name, misfits):
                done.append(_run(name, where, program, *costs))
    except KeyboardInterrupt:
        raise verbs.Interrupted(done) from None
    verbs.without(misfits, names, is_told=is_told)
    return done


def _run(name: str, where: Network, program: Sequence[Step], share: float, launch_s: float) -> _Run:
    """Let a program unfold with an algorithm; each collective is a launch, too."""
    start = time.perf_counter()
    sends = [step for step in program if isinstance(step, Send)]
    prices: dict[tuple[str, int], float] = {}
    used: set[str] = set()
    errors, covers = [], []
    for collective in dict.fromkeys(send.collective for send in sends):
        sizes = {send.size_bytes for send in sends if send.collective == collective}
        seen: dict[int, _Seen] = {}
        found = _prices(name, where, collective, sizes, seen)
        prices |= {(collective, size): launch_s + seconds for size, seconds in found.seconds.items()}
        # Knots are not sent: the largest tells of all that is sent and was not simulated.
        sent = (sizes & seen.keys()) | ({max(seen)} if sizes - seen.keys() else set())
        used |= {seen[size].algorithm for size in sent}
        errors += [] if found.error is None else [found.error]
        covers += [each.cover for each in seen.values()]
    # What switches reduce is streamed past the accelerators' cores.
    is_software = not all(map(planning.is_in_network, used))
    timeline = play(program, prices, share if is_software else 0.0)
    algorithm = {"algorithm": name} | ({"chosen": ", ".join(sorted(used))} if name == "auto" else {})
    wall_s = time.perf_counter() - start
    return _Run(algorithm, timeline, max(errors, default=None), min(covers, default=None), wall_s)


class _Seen(NamedTuple):
    """A collective, simulated."""

    seconds: float
    algorithm: str
    """Which `auto` chooses."""
    cover: float


def _prices(name: str, where: Network, collective: str, sizes: Iterable[int], seen: dict[int, _Seen]) -> Prices:
    """Price sizes of a collective, and keep what was simulated for that."""

    def simulate(many: Sequence[int]) -> dict[int, float]:
        of_size = partial(_simulate, name, where, collective)
        seen.update(_side_by_side(of_size, many) if is_long else {size: of_size(size) for size in many})
        return {size: seen[size].seconds for size in many}

    is_long = where.simulator == "packet"
    return price(sizes, simulate, SMALL_BYTES * where.topology.ranks if is_long else None)


def _side_by_side(of_size: Callable[[int], _Seen], sizes: Sequence[int]) -> dict[int, _Seen]:
    """Simulate sizes in threads: the simulator does not hold the interpreter's lock."""
    from concurrent.futures import ThreadPoolExecutor

    # The largest first: they take longest.
    ordered = sorted(sizes, reverse=True)
    pool = ThreadPoolExecutor(os.cpu_count())
    try:
        return dict(zip(ordered, pool.map(of_size, ordered), strict=True))
    finally:
        # Whoever interrupts does not wait for what is under way.
        pool.shutdown(wait=False, cancel_futures=True)


@lru_cache(maxsize=4096)
def _simulate(name: str, where: Network, collective: str, size: int) -> _Seen:
    """Simulate a size once, for however many models."""
    planned, _ = verbs.plan_and_facts(where.topology, name, size, collective, 0, where.simulator)
    row = verbs.simulate(
        planned, size_bytes=size, model=where.simulator, link_model=where.link_model, machine=where.machine
    )
    return _Seen(float(row["time_s"]), planned.algorithm, row.get("buffer_cover") or 1.0)


def _facts(loaded: Model, part: Model, recipe: Recipe, where: Network) -> dict[str, Any]:
    """Return what all rows have in common."""
    chip = recipe.accelerator
    cycles = sum(sum(chip.cycles(layer, recipe.batch)) for layer in part.layers) if isinstance(chip, Systolic) else None
    return {
        "model": loaded.name,
        "topology": where.topology.name,
        "ranks": recipe.ranks,
        "simulator": where.simulator,
        "accelerator": chip.name,
        "batch": recipe.batch,
        "overlap": recipe.overlap,
        "parallelism": "model" if recipe.is_model_parallel else "data",
        "sharded": recipe.is_sharded,
        "parameters": loaded.parameters,
        "parameters_per_rank": part.parameters,
        "compute_cycles": cycles,
        "samples": recipe.batch * (1 if recipe.is_model_parallel else recipe.ranks),
    }


def _ranked(facts: Mapping[str, Any], runs: Sequence[_Run], *, is_over: bool = True) -> list[Trained]:
    """Return what all need to know of each other; the fastest wins once all are done."""
    if not runs:
        return []
    fastest = min(runs, key=lambda run: run.timeline.iteration_s)
    if not fastest.timeline.iteration_s:
        raise TreefoldError(f"model {facts['model']}: nothing in an iteration takes time; give layers with work to do")
    first = runs[0].timeline.iteration_s
    return [Trained(_row(facts, run, first) | {"winner": is_over and run is fastest}, run.timeline) for run in runs]


def _row(facts: Mapping[str, Any], run: _Run, first_s: float) -> dict[str, Any]:
    seen = run.timeline
    return {
        **facts,
        **run.algorithm,
        "iteration_s": seen.iteration_s,
        "samples_per_s": facts["samples"] / seen.iteration_s,
        "compute_s": seen.busy_s.get("forward", 0.0) + seen.busy_s.get("backward", 0.0),
        "local_aggregation_s": seen.busy_s.get("aggregation", 0.0),
        "optimizer_s": seen.busy_s.get("optimizer", 0.0),
        "stolen_s": seen.stolen_s,
        "communication_s": seen.exposed_s + seen.overlapped_s,
        "exposed_communication_s": seen.exposed_s,
        "overlapped_communication_s": seen.overlapped_s,
        "messages": sum(span.lane == NETWORK for span in seen.spans),
        "interpolation_error": run.error,
        "buffer_cover": run.cover,
        "speedup": first_s / seen.iteration_s,
        "wall_s": run.wall_s,
    }
