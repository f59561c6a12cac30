"""Makes pages of plans and networks."""

from collections.abc import Sequence

from treefold import plans
from treefold._core import Plan, Topology, format_size
from treefold.errors import TreefoldError
from treefold.networks import as_network
from treefold.simulation import simulate_and_trace
from treefold.viewing.pages import Page
from treefold.viewing.scenes import Scene


def view(
    *sources: Plan | Topology | str,
    algorithm: str | Sequence[str] = "auto",
    size_bytes: int | str | Sequence[int | str] | None = None,
    simulator: str = "flow",
    title: str | None = None,
) -> Page:
    """Return a page that shows plans as they move, for any browser and for notebooks.

    Args:
        sources: Plans, or networks (a `Topology`, a spec, or the path of a file) that are planned for.
        algorithm: The algorithms that plan for the networks, for example `ring,multitree`; by default `auto`.
        size_bytes: The size of the vector, in bytes or as a text with a unit such as `1MiB`, or several; by default
            that of each plan. A page with several algorithms and sizes has a chart of them, too.
        simulator: The simulator: `flow` or `packet`.
        title: The title of the page; by default the networks and algorithms.

    Raises:
        TreefoldError: If nothing is given to show, a network or a size is none, or the simulator has no trace.

    Example:
        >>> treefold.view("torus:4x4", algorithm="ring,multitree", size_bytes="1MiB")
        Page(torus:4x4: ring, multitree)

    """
    if not sources:
        raise TreefoldError("there is nothing to view; give a plan, or a network such as torus:8x8")
    names = algorithm.split(",") if isinstance(algorithm, str) else [*algorithm]
    sizes = [*size_bytes] if isinstance(size_bytes, list | tuple) else [size_bytes]
    scenes = []
    for size in sizes:
        for planned in _planned(sources, names, size, simulator):
            scenes.append(scene_of(planned, size, simulator))
    return page_of(scenes, title)


def _planned(
    sources: Sequence[Plan | Topology | str], names: Sequence[str], size: int | str | None, simulator: str
) -> list[Plan]:
    found = []
    for source in sources:
        if isinstance(source, Plan):
            found.append(source)
        else:
            network = as_network(source)
            found += [plans.plan(network, name.strip(), size_bytes=size, simulator=simulator) for name in names]
    return found


def scene_of(planned: Plan, size_bytes: int | str | None, simulator: str, link_model: str = "propagation") -> Scene:
    """Return what a page shows of a plan at a size."""
    prediction, trace = simulate_and_trace(planned, size_bytes, simulator, link_model)
    size = format_size(prediction.size_bytes)
    return Scene(f"{planned.algorithm}, {size}, {planned.topology.name}", planned, trace, prediction)


def page_of(scenes: Sequence[Scene], title: str | None) -> Page:
    """Return the page of scenes, with a title of its own if none is given."""
    if title is None:
        networks = ", ".join(dict.fromkeys(scene.plan.topology.name for scene in scenes))
        title = f"{networks}: {', '.join(dict.fromkeys(scene.plan.algorithm for scene in scenes))}"
    return Page(title, tuple(scenes))


