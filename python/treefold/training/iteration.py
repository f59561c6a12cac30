"""The function `train`: the predicted time of a training iteration with each algorithm for its collectives."""

import time
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any, NamedTuple

from treefold import checks, progress
from treefold._core import Topology
from treefold.comparison import Interrupted, common_machine, contenders, fitting, options_of, without
from treefold.errors import MisfitError, TreefoldError
from treefold.networks import as_network, link_model_of, under
from treefold.options import Machine, PlannerOptions
from treefold.simulation import simulator_of
from treefold.training.accelerators import compute_cycles, memory_bytes
from treefold.training.collectives import CollectiveModel, times_of_collectives
from treefold.training.groups import groups_of
from treefold.training.layers import Model, check_model, gradients
from treefold.training.memory import memory_of
from treefold.training.options import TrainingOptions
from treefold.training.recipe import Recipe, recipe_of
from treefold.training.results import TrainingIteration, TrainingReport, TrainingSetup
from treefold.training.sources import load
from treefold.training.steps import steps_of
from treefold.training.tensor_parallel import cut
from treefold.training.timeline import COMPUTE, Send, Step, Timeline, build_timeline

_BASELINE = "nccl"
"""Where nobody names algorithms, speed-ups are over this one if it fits: it is what people run today."""


def train(
    model: str | Model,
    network: Topology | str,
    algorithms: str | Sequence[str] | None = None,
    *,
    simulator: str | Machine | None = None,
    link_model: str = "propagation",
    inputs: str | Sequence[str] = (),
    **options: Any,
) -> TrainingReport:
    """Predict the time of a training iteration with each algorithm.

    Args:
        model: The model to train: a built-in one (`treefold.training.MODELS`), a file of layers, `my_module:build` for
            your own PyTorch module, or a `Model`.
        network: A `Topology`, a spec, or the path of a file; every rank is an accelerator that trains.
        algorithms: The names of algorithms, as a list or as a text with commas between them; speed-ups are over the
            first. By default all that fit the network and take seconds at most (`treefold.planning.is_quick`).
        simulator: The simulator of the collectives: one of `treefold.SIMULATORS`, by default `analytic`; or a
            `treefold.Machine`, on which the packet simulator runs the plans.
        link_model: The meaning of a link's latency: `propagation` (it only delays a message) or `hockney` (it also
            occupies the link).
        inputs: The inputs of a PyTorch module for one sample, without the batch, each as `NAME=SHAPE` or
            `NAME=SHAPE:TYPE`, for example `x=3x224x224` or `tokens=128:int64`; without a type they are float32.
        options: The fields of `treefold.training.TrainingOptions`, for example `batch=32`, and those of
            `treefold.PlannerOptions`; each algorithm gets the planner options that it has.

    Returns:
        A report with one `treefold.training.TrainingIteration` for each algorithm.

    Raises:
        MisfitError: If no algorithm fits the network.
        TreefoldError: If an argument is unknown, or its value is not possible.
        Interrupted: If the user interrupts; its `rows` are the iterations that were predicted before.

    Warns:
        UserWarning: If a rank needs more memory than the accelerator has, or a named algorithm is left out.

    Example:
        >>> report = treefold.train("resnet50", "torus:4x4", "ring,multitree", batch=32, overlap="layer")
        >>> report.fastest().algorithm
        'multitree'

    """
    training, planning = _divided(options)
    network = as_network(network)
    names = contenders(network, algorithms)
    link_model, heeded = link_model_of(link_model), options_of(train, names, planning)
    common = common_machine(network, names, simulator_of(simulator))
    whole = _model(model, inputs)
    recipe = recipe_of(TrainingOptions(**training), network.ranks, whole.accelerator)
    collectives = CollectiveModel(groups_of(under(network, link_model), recipe.model_parallel), common, link_model)
    part = cut(whole, recipe.model_parallel) if recipe.model_parallel > 1 else whole
    setup = _setup(whole, part, recipe, network.name, common.name)
    _warn_of_memory(setup, whole)
    try:
        runs = _runs(heeded, collectives, steps_of(part, recipe), recipe, is_reported=algorithms is not None)
    except Interrupted as stop:
        raise Interrupted(_iterations(setup, stop.rows, is_named=algorithms is not None, is_complete=False)) from None
    return TrainingReport(_iterations(setup, runs, is_named=algorithms is not None))


def _divided(options: Mapping[str, Any]) -> tuple[dict[str, Any], dict[str, Any]]:
    """Return the options of the training, and those of planners; refuse all others."""
    of_training = [field.name for field in fields(TrainingOptions)]
    of_planners = [field.name for field in fields(PlannerOptions)]
    checks.arguments("train", options, [*checks.names_of(train), *of_training, *of_planners])
    training = {name: value for name, value in options.items() if name in of_training}
    return training, {name: value for name, value in options.items() if name in of_planners}


def _model(model: str | Model, inputs: str | Sequence[str]) -> Model:
    loaded = load(model, [inputs] if isinstance(inputs, str) else inputs) if isinstance(model, str) else model
    if not isinstance(loaded, Model):
        raise TreefoldError(
            f"model is of type {type(loaded).__name__}; "
            "give a name, a Model, or treefold.training.from_torch(module, input)"
        )
    check_model(loaded)
    if not loaded.parameters:
        raise TreefoldError(f"model {loaded.name} has no parameters, so there is nothing to train")
    return loaded


class _AlgorithmRun(NamedTuple):
    """The iteration with one algorithm, before it is compared with the others."""

    algorithm: str
    chosen: str | None
    """The algorithms that `auto` chose."""
    timeline: Timeline
    interpolation_error: float | None
    buffer_cover: float | None
    wall_s: float


def _runs(
    planners: Mapping[str, PlannerOptions],
    collectives: CollectiveModel,
    steps: Sequence[Step],
    recipe: Recipe,
    *,
    is_reported: bool,
) -> list[_AlgorithmRun]:
    """Return the iteration with each planner, given with its options, that fits; report those that do not if asked."""
    done: list[_AlgorithmRun] = []
    misfits: dict[str, MisfitError] = {}
    try:
        for place, (name, options) in enumerate(planners.items()):
            task, count = f"{name} ({place + 1} of {len(planners)})", len(planners)
            own = replace(collectives, options=options)
            with progress.working_on(task, place / count, 1 / count), fitting(name, misfits):
                done.append(_run(name, own, steps, recipe))
    except KeyboardInterrupt:
        raise Interrupted(done) from None
    without(misfits, list(planners), is_reported=is_reported)
    return done


def _run(name: str, collectives: CollectiveModel, steps: Sequence[Step], recipe: Recipe) -> _AlgorithmRun:
    """Return the iteration with one algorithm; each collective begins with a launch."""
    start = time.perf_counter()
    times = times_of_collectives(name, collectives, [step for step in steps if isinstance(step, Send)])
    launched = {key: recipe.accelerator.launch_s + seconds for key, seconds in times.seconds.items()}
    overhead = recipe.compute_overhead if times.is_in_software else 0.0
    timeline = build_timeline(steps, launched, overhead, are_apart=times.are_apart)
    chosen = ", ".join(sorted(times.used)) if name == "auto" else None
    return _AlgorithmRun(name, chosen, timeline, times.error, times.buffer_cover, time.perf_counter() - start)


def _setup(whole: Model, part: Model, recipe: Recipe, topology: str, simulator: str) -> TrainingSetup:
    memory = memory_of(part, recipe)
    return TrainingSetup(
        model=whole.name,
        topology=topology,
        ranks=recipe.ranks,
        simulator=simulator,
        accelerator=recipe.accelerator.name,
        batch=recipe.batch,
        accumulate=recipe.accumulate,
        overlap=recipe.overlap,
        sharding=recipe.sharding,
        model_parallel=recipe.model_parallel,
        parameters=whole.parameters,
        parameters_per_rank=part.parameters,
        compute_cycles=_cycles(part, recipe),
        samples=recipe.samples,
        tokens=whole.tokens * recipe.samples or None,
        flops=_flops(whole) * recipe.samples,
        peak_flops=recipe.accelerator.peak_flops * recipe.ranks,
        memory_bytes=sum(memory),
        **memory._asdict(),
        accelerator_memory_bytes=memory_bytes(recipe.accelerator),
    )


def _cycles(part: Model, recipe: Recipe) -> int | None:
    cycles = compute_cycles(recipe.accelerator, part.layers, recipe.batch)
    return None if cycles is None else cycles * recipe.accumulate


def _flops(model: Model) -> int:
    """Return the floating-point operations that the products of a sample need in both passes."""
    total, needs_input_gradient = 0, False
    for layer in model.layers:
        total += 2 * layer.macs * (1 + sum(gradients(layer, needs_input_gradient=needs_input_gradient)))
        needs_input_gradient = needs_input_gradient or layer.parameters > 0
    return total


def _warn_of_memory(setup: TrainingSetup, model: Model) -> None:
    size = setup.accelerator_memory_bytes
    if size is None or setup.memory_bytes <= size:
        return
    can_divide = setup.ranks > setup.model_parallel
    remedies = {
        "a smaller batch that is accumulated": setup.batch > 1,
        "sharding='fsdp'": setup.sharding != "fsdp" and can_divide,
        "a larger model_parallel": can_divide and any(layer.split for layer in model.layers),
        "more ranks": setup.sharding != "none",
    }
    listed = ", ".join(remedy for remedy, helps in remedies.items() if helps)
    warnings.warn(
        f"{setup.model} does not fit: a rank needs {setup.memory_bytes / 1e9:,.1f} GB, and {setup.accelerator} has "
        f"{size / 1e9:,.0f} GB" + (f"; these reduce it: {listed}" if listed else ""),
        stacklevel=3,
    )


def _iterations(
    setup: TrainingSetup, runs: Sequence[_AlgorithmRun], *, is_named: bool, is_complete: bool = True
) -> list[TrainingIteration]:
    """Return the iterations compared with the baseline's; the fastest wins once all are complete."""
    if not runs:
        return []
    fastest = min(runs, key=lambda run: run.timeline.iteration_s)
    if not fastest.timeline.iteration_s:
        raise TreefoldError(f"model {setup.model}: nothing in an iteration takes time; give layers with work to do")
    baseline = _baseline(runs, is_named=is_named)
    return [_iteration(setup, run, baseline, is_winner=is_complete and run is fastest) for run in runs]


def _baseline(runs: Sequence[_AlgorithmRun], *, is_named: bool) -> _AlgorithmRun:
    """Return the run that speed-ups are over: the first one, unless nobody named algorithms."""
    usual = [] if is_named else [run for run in runs if run.algorithm == _BASELINE]
    return (usual or runs)[0]


def _iteration(
    setup: TrainingSetup, run: _AlgorithmRun, baseline: _AlgorithmRun, *, is_winner: bool
) -> TrainingIteration:
    timeline, busy_s = run.timeline, run.timeline.busy_s
    return TrainingIteration(
        **vars(setup),
        algorithm=run.algorithm,
        chosen=run.chosen,
        iteration_s=timeline.iteration_s,
        samples_per_s=setup.samples / timeline.iteration_s,
        tokens_per_s=None if setup.tokens is None else setup.tokens / timeline.iteration_s,
        mfu=setup.flops / (setup.peak_flops * timeline.iteration_s),
        compute_s=busy_s.get("forward", 0.0) + busy_s.get("backward", 0.0),
        local_aggregation_s=busy_s.get("aggregation", 0.0),
        optimizer_s=busy_s.get("optimizer", 0.0),
        compute_overhead_s=timeline.compute_overhead_s,
        communication_s=timeline.exposed_s + timeline.overlapped_s,
        exposed_communication_s=timeline.exposed_s,
        overlapped_communication_s=timeline.overlapped_s,
        collectives=sum(activity.lane != COMPUTE for activity in timeline.activities),
        interpolation_error=run.interpolation_error,
        buffer_cover=run.buffer_cover,
        speedup=baseline.timeline.iteration_s / timeline.iteration_s,
        baseline=baseline.algorithm,
        wall_s=run.wall_s,
        winner=is_winner,
        timeline=timeline,
    )
