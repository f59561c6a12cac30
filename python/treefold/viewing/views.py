"""Makes pages of plans and networks."""

import os
from collections import Counter
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

Shown = Plan | Trace | Topology | str


def view(
    *sources: Shown | Explanation,
    algorithm: str | Sequence[str] = "auto",
    size_bytes: int | str | Sequence[int | str] | None = None,
    simulator: str | Machine = "flow",
    link_model: str = "propagation",
    title: str | None = None,
    names: Sequence[str] | None = None,
    **asked: Any,
) -> Page:
    """Return a page that shows plans as they move, for any browser and for notebooks.

    Args:
        sources: Plans; traces, such as those of `treefold.load_trace`; or networks (a `Topology`, a spec, or the path
            of a file) that are planned for. Beside them may stand what `treefold.explain` found out about the network.
        algorithm: The algorithms that plan for the networks, for example `ring,multitree`; by default `auto`.
        size_bytes: The size of the vector, in bytes or as a text with a unit such as `1MiB`, or several: a list, or
            `32KiB:64MiB`, where each is twice the one before. By default that of each plan. A page with several
            algorithms and sizes has a chart of them, too.
        simulator: The simulator: `flow` or `packet`, or a `treefold.Machine`.
        link_model: The meaning of a link's latency, as for `treefold.trace`.
        title: The title of the page; by default the networks and algorithms.
        names: A name for each source, which is shown where algorithm, size and network do not tell plans apart. By
            default such plans are numbered.
        asked: What else `treefold.plan` is asked for the networks, such as `collective`.

    Raises:
        TreefoldError: If nothing is given to show, a network or a size is none, the simulator has no trace, or there
            are not as many names as sources.

    Example:
        >>> treefold.view("torus:4x4", algorithm="ring,multitree", size_bytes="1MiB")
        Page(torus:4x4: ring, multitree)

    """
    shown = [source for source in sources if not isinstance(source, Explanation)]
    explained = [source for source in sources if isinstance(source, Explanation)]
    if not shown:
        raise TreefoldError("there is nothing to view; give a plan, or a network such as torus:8x8")
    _check_sources(shown)
    algorithms, used, sizes = _names(algorithm), simulator_of(simulator, "flow"), _sizes(size_bytes)
    named = _named(shown, names)
    if asked and all(isinstance(source, Plan | Trace) for source in shown):
        raise TreefoldError(f"{next(iter(asked))} is asked of a network, and these are plans; drop it")
    scenes: list[tuple[str, Scene]] = []
    planned = [(name, source, size) for size in sizes for name, source in named if not isinstance(source, Trace)]
    for number, (name, source, size) in enumerate(planned):
        with progress.working_on(f"plan {number + 1} of {len(planned)}", number / len(planned), 1 / len(planned)):
            for plan in _planned(source, algorithms, {"size_bytes": size, "simulator": used.name, **asked}):
                scenes.append((name, _simulated(plan, size, used, link_model)))
    scenes += [(name, _of_trace(source)) for name, source in named if isinstance(source, Trace)]
    scenes = [(name, _explained(scene, explained)) for name, scene in scenes]
    return Page(_title([scene for _, scene in scenes]) if title is None else str(title), _labelled(scenes))


def _check_sources(sources: Sequence[Shown]) -> None:
    """Refuse the name of an algorithm where a network is wanted."""
    for source in sources:
        if isinstance(source, str) and source in auto.names() and not os.path.exists(source):
            raise TreefoldError(
                f'{source} is an algorithm, and no network; name a network, and write algorithm="{source}"'
            )


def _names(algorithm: str | Sequence[str]) -> list[str]:
    listed = algorithm if isinstance(algorithm, list | tuple) else [algorithm]
    given = [part for each in listed for part in (each.split(",") if isinstance(each, str) else [each])]
    if not given:
        raise TreefoldError("no algorithm is named; name at least one, such as multitree")
    return list(dict.fromkeys(checks.name("algorithm", each, auto.names()) for each in given))


def _named(sources: Sequence[Shown], names: Sequence[str] | None) -> list[tuple[str, Shown]]:
    if names is None:
        return [("", source) for source in sources]
    if isinstance(names, str) or len(names) != len(sources):
        given = "a text" if isinstance(names, str) else f"of length {len(names)}"
        raise TreefoldError(f"names is {given}; give a list with a name for each of the {len(sources)} sources")
    return [(str(name), source) for name, source in zip(names, sources, strict=True)]


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


def _explained(scene: Scene, found: Sequence[Explanation]) -> Scene:
    """Return a scene with the explanation of its network, if there is one; none may be of another network."""
    for each in found:
        check_explains(each, scene.plan, scene.trace.size_bytes)
    return replace(scene, explained=found[0]) if found else scene


def _labelled(named: Sequence[tuple[str, Scene]]) -> tuple[Scene, ...]:
    """Return the scenes with labels that also say what differs: network, what was measured, name, or a number."""
    scenes = [scene for _, scene in named]
    is_mixed = any(scene.prediction is None for scene in scenes)
    has_networks = len({scene.plan.topology.name for scene in scenes}) > 1
    labels = [
        (_KINDS.get(scene.source, "predicted: ") if is_mixed else "")
        + scene.label
        + (f", {scene.plan.topology.name}" if has_networks else "")
        for scene in scenes
    ]
    told_apart = _told_apart(_told_apart(labels, [name for name, _ in named]))
    return tuple(replace(scene, label=label) for scene, label in zip(scenes, told_apart, strict=True))


_KINDS = {"measured": "measured: ", "trace": "trace: "}


def _told_apart(labels: Sequence[str], by: Sequence[str] | None = None) -> list[str]:
    """Return labels in which those that are equal end in a name, if there is one, or in numbers if none are given."""
    seen: Counter[str] = Counter()
    counts = Counter(labels)
    endings = []
    for label in labels:
        seen[label] += 1
        endings.append(str(seen[label]))
    return [
        f"{label} ({end})" if counts[label] > 1 and end else label
        for label, end in zip(labels, endings if by is None else by, strict=True)
    ]


def _title(scenes: Sequence[Scene]) -> str:
    networks = ", ".join(dict.fromkeys(scene.plan.topology.name for scene in scenes))
    return f"{networks}: {', '.join(dict.fromkeys(scene.plan.algorithm for scene in scenes))}"
