"""Makes pages of plans and networks."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from treefold import auto, checks, plans, progress
from treefold._core import Plan, Topology, Trace, format_size
from treefold.errors import TreefoldError
from treefold.explanation_results import Explanation
from treefold.networks import as_network
from treefold.options import Machine
from treefold.simulation import Simulator, simulate_and_trace, simulator_of
from treefold.viewing.explained import check_explains
from treefold.viewing.pages import Page
from treefold.viewing.scenes import Scene

Source = Plan | Trace | Topology | str


def view(
    *sources: Source,
    algorithm: str | Sequence[str] = "auto",
    size_bytes: int | str | Sequence[int | str] | None = None,
    simulator: str | Machine = "flow",
    link_model: str = "propagation",
    title: str | None = None,
    explained: Explanation | None = None,
    **asked: Any,
) -> Page:
    """Return a page that shows plans as they move, for any browser and for notebooks.

    Args:
        sources: Plans; traces, such as those of `treefold.load_trace`; or networks (a `Topology`, a spec, or the path
            of a file) that are planned for.
        algorithm: The algorithms that plan for the networks, for example `ring,multitree`; by default `auto`.
        size_bytes: The size of the vector, in bytes or as a text with a unit such as `1MiB`, or several: a list, or
            `32KiB:64MiB`, where each is twice the one before. By default that of each plan. A page with several
            algorithms and sizes has a chart of them, too.
        simulator: The simulator: `flow` or `packet`, or a `treefold.Machine`.
        link_model: The meaning of a link's latency, as for `treefold.trace`.
        title: The title of the page; by default the networks and algorithms.
        explained: What `treefold.explain` found out about the network, which the page shows, too.
        asked: What else `treefold.plan` is asked for the networks, such as `collective`.

    Raises:
        TreefoldError: If nothing is given to show, a network or a size is none, or the simulator has no trace.

    Example:
        >>> treefold.view("torus:4x4", algorithm="ring,multitree", size_bytes="1MiB")
        Page(torus:4x4: ring, multitree)

    """
    if not sources:
        raise TreefoldError("there is nothing to view; give a plan, or a network such as torus:8x8")
    names, used, sizes = _names(algorithm), simulator_of(simulator, "flow"), _sizes(size_bytes)
    if asked and all(isinstance(source, Plan | Trace) for source in sources):
        raise TreefoldError(f"{next(iter(asked))} is asked of a network, and these are plans; drop it")
    scenes: list[Scene] = []
    planned = [(source, size) for size in sizes for source in sources if not isinstance(source, Trace)]
    for number, (source, size) in enumerate(planned):
        with progress.working_on(f"plan {number + 1} of {len(planned)}", number / len(planned), 1 / len(planned)):
            for plan in _planned(source, names, {"size_bytes": size, "simulator": used.name, **asked}):
                scenes.append(_simulated(plan, size, used, link_model))
    scenes += [_of_trace(source) for source in sources if isinstance(source, Trace)]
    if explained is not None:
        for scene in scenes:
            check_explains(explained, scene.plan.topology)
        scenes = [replace(scene, explained=explained) for scene in scenes]
    return Page(_title(scenes) if title is None else str(title), _labelled(scenes))


def _names(algorithm: str | Sequence[str]) -> list[str]:
    listed = algorithm if isinstance(algorithm, list | tuple) else [algorithm]
    given = [part for each in listed for part in (each.split(",") if isinstance(each, str) else [each])]
    if not given:
        raise TreefoldError("no algorithm is named; name at least one, such as multitree")
    return list(dict.fromkeys(checks.name("algorithm", each, auto.names()) for each in given))


def _sizes(given: int | str | Sequence[int | str] | None) -> Sequence[int | None]:
    if given is None:
        return [None]
    if isinstance(given, str):
        sizes = checks.sizes(given)
    else:
        sizes = [checks.size(each) for each in (given if isinstance(given, list | tuple) else [given])]
    if not sizes:
        raise TreefoldError("no size is given; give at least one, such as 1MiB")
    return list(dict.fromkeys(sizes))


def _planned(source: Plan | Topology | str, names: Sequence[str], asked: dict[str, Any]) -> Iterator[Plan]:
    if isinstance(source, Plan):
        yield source
        return
    network = as_network(source)
    for name in names:
        yield plans.plan(network, name, **asked)


def _simulated(plan: Plan, size_bytes: int | None, simulator: Simulator, link_model: str) -> Scene:
    prediction, trace = simulate_and_trace(plan, size_bytes, simulator.named, link_model)
    return Scene(f"{plan.algorithm}, {format_size(prediction.size_bytes)}", plan, trace, prediction)


def _of_trace(trace: Trace) -> Scene:
    return Scene(f"{trace.plan.algorithm}, {format_size(trace.size_bytes)}", trace.plan, trace, None)


def _labelled(scenes: Sequence[Scene]) -> tuple[Scene, ...]:
    """Return the scenes with labels that also say the network, and what is predicted, where that differs."""
    has_measured = any(scene.prediction is None for scene in scenes)
    before = {True: "predicted: " if has_measured else "", False: "measured: "}
    has_networks = len({scene.plan.topology.name for scene in scenes}) > 1
    after = {scene: f", {scene.plan.topology.name}" if has_networks else "" for scene in scenes}
    return tuple(
        replace(scene, label=f"{before[scene.prediction is not None]}{scene.label}{after[scene]}") for scene in scenes
    )


def _title(scenes: Sequence[Scene]) -> str:
    networks = ", ".join(dict.fromkeys(scene.plan.topology.name for scene in scenes))
    return f"{networks}: {', '.join(dict.fromkeys(scene.plan.algorithm for scene in scenes))}"
