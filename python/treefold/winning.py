"""Finds the fastest algorithm on each of several networks at several sizes."""

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from treefold import checks, progress
from treefold._core import Topology
from treefold.comparison import Interrupted, Race, begun, fitting, predictions, warn_of_unheeded, without
from treefold.errors import MisfitError, TreefoldError
from treefold.networks import as_network
from treefold.options import Machine
from treefold.planning.request import read_options
from treefold.results import Comparison, Prediction
from treefold.text import message
from treefold.winner_results import Winner, WinnerMap, winner_of

if TYPE_CHECKING:
    from typing_extensions import Unpack

    from treefold.comparison import CompareOptions


def winners(
    networks: Topology | str | Sequence[Topology | str],
    algorithms: str | Sequence[str] | None = None,
    *,
    sizes_bytes: str | Sequence[int | str],
    simulator: str | Machine | None = None,
    link_model: str = "propagation",
    collective: str = "all-reduce",
    root: int = 0,
    **options: "Unpack[CompareOptions]",
) -> WinnerMap:
    """Find the fastest algorithm on each network at each size, how near to the bound it is, and what it is worth.

    Everything is checked before the first plan is made.

    Args:
        networks: A network, or a list of them: each a `Topology`, a spec, or the path of a file.
        algorithms: The algorithms that contend, as `treefold.compare` takes them. By default all that fit a network and
            take seconds at most, without `auto`, which wins by definition.
        sizes_bytes: A list of sizes, or a range that doubles, as for `treefold.compare`.
        simulator: The simulator: one of `treefold.SIMULATORS`, by default `analytic`; or a `treefold.Machine`.
        link_model: The meaning of a link's latency: `propagation` or `hockney`.
        collective: `all-reduce`, `reduce-scatter`, `all-gather`, `broadcast`, `reduce` or `all-to-all`.
        root: The rank that broadcasts or receives; other collectives ignore it, but every network must have it.
        options: Fields of `treefold.PlannerOptions`, and `blocks`, as for `treefold.compare`.

    Returns:
        The winners, network by network. A network that no algorithm fits is left out with a warning.

    Raises:
        MisfitError: If no algorithm fits any of the networks.
        TreefoldError: If an argument is unknown or not possible, or two networks have the same name.
        Interrupted: When the user interrupts, with the winners so far.

    Warns:
        UserWarning: If a network or a named algorithm is left out, or as `treefold.compare` does.

    Example:
        >>> found = treefold.winners(["torus:4x4", "b4"], "ring,swing,packing", sizes_bytes=["64KiB", "64MiB"])
        >>> [(each.network, each.algorithm, f"{each.over.ring:.2f} x") for each in found]
        [('torus:4x4', 'swing', '3.90 x'), ('torus:4x4', 'swing', '4.00 x'), ('b4', 'packing', '6.53 x'), ...]

    """
    loaded = _distinct(networks)
    read_options(winners, {name: value for name, value in options.items() if name != "blocks"})
    what: dict[str, Any] = {"simulator": simulator, "link_model": link_model, "collective": collective, "root": root}
    misfits: dict[str, MisfitError] = {}
    races: dict[str, Race] = {}
    for network in loaded:
        checks.root(root, network.ranks, f"ranks in {network.name}")
        with fitting(network.name, misfits):
            races[network.name] = begun(network, algorithms, options, sizes_bytes=sizes_bytes, **what)
    found = _run(races, misfits)
    warn_of_unheeded([*races.values()])
    return WinnerMap(found)


def _distinct(networks: Topology | str | Sequence[Topology | str]) -> list[Topology]:
    """Return the networks, whose names tell them apart."""
    if isinstance(networks, Topology | str):
        return [as_network(networks)]
    if not isinstance(networks, Iterable):
        raise TreefoldError(f"networks {checks.shown(networks)} are not a list; write for example ['torus:8x8', 'b4']")
    loaded: dict[str, Topology] = {}
    for network in map(as_network, networks):
        if network.name in loaded:
            is_same = network == loaded[network.name]
            remedy = "give it once" if is_same else "the two differ, so give one of them another name"
            raise TreefoldError(f"network '{network.name}' is given twice; {remedy}")
        loaded[network.name] = network
    if not loaded:
        raise TreefoldError("networks is empty; name at least one network, for example ['torus:8x8']")
    return [*loaded.values()]


def _run(races: Mapping[str, Race], misfits: dict[str, MisfitError]) -> list[Winner]:
    """Run the races, and return the winners; warn of the networks that no algorithm fits."""
    found: list[Winner] = []
    try:
        for number, (name, race) in enumerate(races.items()):
            task = f"{name} ({number + 1} of {len(races)})"
            named, fits = _under_its_name(name), fitting(name, misfits)
            with progress.working_on(task, number / len(races), 1 / len(races)), fits, named:
                found += _winners(predictions(race))
    except KeyboardInterrupt as stop:
        raise Interrupted(found + _winners(getattr(stop, "rows", []))) from None
    without(misfits, [*races, *misfits], is_reported=True)
    return found


@contextmanager
def _under_its_name(network: str) -> Iterator[None]:
    """Put the name of a network before the warnings from inside this context."""
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        yield
    for each in told:
        warnings.warn(message(network, str(each.message)), each.category, stacklevel=5)


def _winners(rows: Sequence[Prediction]) -> list[Winner]:
    """Return the winner of each size; a size whose rows have none yet, as it was interrupted, is left out."""
    comparison = Comparison(rows)
    at_sizes = [comparison.at(size) for size in comparison.sizes()]
    return [_winner(at_size) for at_size in at_sizes if any(row.winner or row.time_s == 0 for row in at_size)]


def _winner(rows: Sequence[Prediction]) -> Winner:
    first = rows[0]
    shared: dict[str, Any] = {
        name: getattr(first, name) for name in ("network", "collective", "simulator", "link_model", "size_bytes")
    }
    return winner_of({row.algorithm: row.time_s for row in rows}, first.bound_s, **shared)
