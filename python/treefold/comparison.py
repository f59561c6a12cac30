"""Compares the predicted times of algorithms over several sizes."""

import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from treefold import _core, auto, checks, planning, progress
from treefold._core import Topology
from treefold.collectives import COLLECTIVES
from treefold.errors import MisfitError, TreefoldError
from treefold.networks import as_network, link_model_of, under
from treefold.options import Machine, PlannerOptions
from treefold.planning.request import Request, changed, has_option, limits, owners, read_options, without_foreign
from treefold.planning.sharing import limiting, warn_of_shared
from treefold.plans import explained_plan, requested
from treefold.results import Comparison, Prediction
from treefold.simulation import Simulator, fitted, simulate, simulator_of

if TYPE_CHECKING:
    from numpy.typing import ArrayLike
    from typing_extensions import Unpack

    from treefold.options import PlannerArguments

    class CompareOptions(PlannerArguments, total=False):
        """The further arguments of a comparison."""

        blocks: ArrayLike | str | None


class Interrupted(KeyboardInterrupt):
    """The user has interrupted a long call.

    It is a `KeyboardInterrupt`, and no `TreefoldError`. Its `rows` are the predictions, winners or iterations found
    before.

    Example:
        >>> try:
        ...     comparison = treefold.compare("torus:4x4", sizes_bytes=[1024, 1 << 20])
        ... except treefold.Interrupted as stop:
        ...     print(len(stop.rows), "predictions were made")

    """

    def __init__(self, rows: Sequence[Any]) -> None:
        super().__init__()
        self.rows = rows


def compare(
    network: Topology | str,
    algorithms: str | Sequence[str] | None = None,
    *,
    sizes_bytes: str | Sequence[int | str],
    simulator: str | Machine | None = None,
    link_model: str = "propagation",
    collective: str = "all-reduce",
    root: int = 0,
    **options: "Unpack[CompareOptions]",
) -> Comparison:
    """Predict the times of algorithms at several sizes, and mark the fastest of each size as `winner`.

    Args:
        network: A `Topology`, a spec, or the path of a file.
        algorithms: The names of algorithms, as a list or as a text with commas between them. By default all that fit
            the network and take seconds at most (`treefold.planning.is_quick`). Every algorithm makes a new plan for
            each size. A named algorithm that cannot plan is left out with a warning.
        sizes_bytes: A list of sizes, in bytes or as texts such as `1MiB`; or a range that doubles, such as `1KiB:4KiB`.
        simulator: The simulator: one of `treefold.SIMULATORS`, by default `analytic`; or a `treefold.Machine`, on which
            the packet simulator runs the plans. Each plan gets those options of the machine that it reads, and a
            warning names those that none reads.
        link_model: The meaning of a link's latency: `propagation` (it only delays a message) or `hockney` (it also
            occupies the link). Planners take it into account, too.
        collective: `all-reduce`, `reduce-scatter`, `all-gather`, `broadcast`, `reduce` or `all-to-all`.
        root: The rank that broadcasts or receives; other collectives ignore it, but it must be a rank.
        options: Fields of `treefold.PlannerOptions`, each for the algorithms that accept it; those that do not accept
            a limit (`trees`, `height`, `least_rate`, `steps`) are left out unless they are named. And `blocks`, as for
            `treefold.plan`: at each size, the largest vector has that size.

    Returns:
        The predictions, size by size; the rows of a size are in the order of the algorithms.

    Raises:
        MisfitError: If no algorithm can plan.
        TreefoldError: If an argument is unknown or not possible.
        Interrupted: When the user interrupts, with the rows so far.

    Warns:
        UserWarning: If an algorithm is left out, or limited by what it cannot heed, or nothing reads an option.

    Example:
        >>> comparison = treefold.compare("torus:4x4", "ring,multitree", sizes_bytes="1KiB:4KiB")
        >>> [each.algorithm for each in comparison.fastest()]
        ['multitree', 'multitree', 'multitree']

    """
    race = begun(
        as_network(network),
        algorithms,
        options,
        sizes_bytes=sizes_bytes,
        simulator=simulator,
        link_model=link_model,
        collective=collective,
        root=root,
    )
    rows = predictions(race)
    warn_of_unheeded([race])
    return Comparison(rows)


def begun(
    network: Topology,
    algorithms: str | Sequence[str] | None,
    given: Mapping[str, Any],
    *,
    sizes_bytes: str | Sequence[int | str],
    simulator: str | Machine | None,
    link_model: str,
    collective: str,
    root: int,
) -> "Race":
    """Check the arguments of a comparison, whose further ones are `given`; nothing is planned yet.

    Raises:
        MisfitError: If no plan for the network runs on the machine.
        TreefoldError: If an argument is unknown or not possible.

    """
    options = {name: value for name, value in given.items() if name != "blocks"}
    names, sizes = contenders(network, algorithms), _sizes(sizes_bytes)
    common, link_model = simulator_of(simulator), link_model_of(link_model)
    collective = checks.name("collective", collective, COLLECTIVES)
    what: dict[str, Any] = {"root": root, "blocks": given.get("blocks"), "simulator": common.name}
    # Its algorithm, size and options are placeholders.
    placeholders: dict[str, Any] = {"size_bytes": sizes[0], "options": PlannerOptions()}
    first = requested(under(network, link_model), "auto", collective=collective, **what, **placeholders)
    asked = options_of(compare, names, options)
    names = _keeping(names, set_limits := limits(read_options(compare, options)), are_named=algorithms is not None)
    return Race(
        request=first,
        names=names,
        sizes=sizes,
        simulator=common_machine(network, names, common),
        link_model=link_model,
        options=asked,
        is_reported=algorithms is not None or bool(set_limits),
    )


def _keeping(names: Sequence[str], set_limits: Sequence[str], *, are_named: bool) -> list[str]:
    """Return the algorithms that are compared where limits are set, and warn of those that cannot keep them."""
    free = [name for name in names if not all(has_option(name, limit) for limit in set_limits)]
    if not free:
        return list(names)
    so = "it is" if len(free) == 1 else "they are"
    how = "compared without that limit" if are_named else "left out"
    warnings.warn(f"{', '.join(free)} cannot keep {' and '.join(set_limits)}, so {so} {how}", stacklevel=4)
    return list(names) if are_named else [name for name in names if name not in free]


def _given(simulator: Simulator) -> set[str]:
    """Return the options of a simulator's machine that are not at their defaults."""
    default, machine = vars(Machine()), simulator.machine or Machine()
    return {name for name, value in vars(machine).items() if value != default[name]}


@dataclass(frozen=True, kw_only=True)
class Race:
    """A comparison on one network: everything that its predictions share, and each algorithm's options."""

    request: Request
    """What all plans share; the algorithm, the size and the options differ."""
    names: Sequence[str]
    """The algorithms."""
    sizes: Sequence[int]
    simulator: Simulator
    link_model: str
    options: Mapping[str, PlannerOptions]
    is_reported: bool
    """Whether the algorithms that do not fit are worth a warning."""
    read: set[str] = field(default_factory=set)
    """The options of the machine that some plan has read."""
    limited: dict[str, str | None] = field(default_factory=dict)
    """The shared capacity that limits a plan of each algorithm that does not plan around it."""

    def predict(self, name: str, size: int) -> Prediction:
        """Plan for a size with one algorithm, and simulate the plan."""
        request = replace(self.request, algorithm=name, size_bytes=size, options=self.options[name])
        plan, _, choice = explained_plan(request)
        if self.is_reported and choice is None:
            self.limited[name] = self.limited.get(name) or limiting(plan)
        used = fitted(plan, self.simulator)
        self.read.update(_given(used))
        row = simulate(plan, size_bytes=size, simulator=used.named, link_model=self.link_model)
        return replace(row, algorithm=name, chosen=None if choice is None else choice.fastest().algorithm)


def predictions(race: Race) -> list[Prediction]:
    """Predict each algorithm at each size, and mark the fastest of each size."""
    rows: list[Prediction] = []
    names, sizes = race.names, race.sizes
    for number, size in enumerate(sizes):
        misfits: dict[str, MisfitError] = {}
        at_size: list[Prediction] = []
        try:
            for place, name in enumerate(names):
                task = f"{_core.format_size(size)} ({number + 1} of {len(sizes)}): {name}"
                done, part = (number + place / len(names)) / len(sizes), 1 / len(names) / len(sizes)
                with progress.working_on(task, done, part), fitting(name, misfits):
                    at_size.append(race.predict(name, size))
        except KeyboardInterrupt:
            raise Interrupted(rows + [replace(row, winner=False) for row in at_size]) from None
        names = without(misfits, names, is_reported=race.is_reported)
        rows += _with_winner(at_size)
    return rows


def warn_of_unheeded(races: Sequence[Race]) -> None:
    """Warn of options of the machine that no plan of any race has read, and of plans that heed no shared capacities."""
    given: set[str] = set().union(*(_given(race.simulator) for race in races))
    for option in sorted(given.difference(*(race.read for race in races))):
        warnings.warn(f"{option} has no effect: none of the plans reads it", stacklevel=3)
    warn_of_shared({name: limit for race in races for name, limit in race.limited.items()}, 3)


def _sizes(sizes_bytes: str | Sequence[int | str]) -> list[int]:
    if isinstance(sizes_bytes, str):
        return checks.sizes(sizes_bytes)
    if not isinstance(sizes_bytes, Iterable):
        raise TreefoldError(f"sizes {checks.shown(sizes_bytes)} are not a list; write for example ['1KiB', 1048576]")
    sizes = list(map(checks.size, sizes_bytes))
    if not sizes:
        raise TreefoldError("sizes_bytes is empty; name at least one size, for example [1 << 20]")
    return sizes


def options_of(
    function: Callable[..., Any], names: Sequence[str], given: Mapping[str, Any]
) -> dict[str, PlannerOptions]:
    """Return the options of each algorithm: those that it has, of the ones that a caller of `function` gave.

    Raises:
        TreefoldError: If an option is unknown, or none of the algorithms has it.

    """
    known = read_options(function, given)
    for option in changed(known):
        if not any(has_option(name, option) for name in names):
            raise TreefoldError(f"none of {', '.join(names)} has the option {option}; {owners(option)}")
    return {name: without_foreign(known, name) for name in names}


def _with_winner(rows: Sequence[Prediction]) -> list[Prediction]:
    """Mark the fastest row as the winner, unless nothing takes time."""
    winner = min(rows, key=lambda row: row.time_s)
    return [replace(row, winner=row is winner and row.time_s > 0) for row in rows]


@contextmanager
def fitting(name: str, misfits: dict[str, MisfitError]) -> Iterator[None]:
    """Record the error of an algorithm that does not fit, and go on; let every other error pass."""
    try:
        yield
    except MisfitError as error:
        misfits[name] = error


def without(misfits: Mapping[str, MisfitError], names: Sequence[str], *, is_reported: bool) -> list[str]:
    """Return the names of the algorithms that fit; if `is_reported`, warn of the others.

    Raises:
        MisfitError: If none fits.

    """
    left = [name for name in names if name not in misfits]
    if not left:
        raise MisfitError("; ".join(dict.fromkeys(map(str, misfits.values()))))
    for name, error in misfits.items() if is_reported else ():
        warnings.warn(f"{name} is left out: {error}", stacklevel=4)
    return left


def contenders(network: Topology, algorithms: str | Sequence[str] | None) -> list[str]:
    """Return the algorithms that were named, or else all that take seconds at most."""
    if algorithms is None:
        return [name for name in auto.algorithms() if planning.is_quick(network, name)]
    is_list = isinstance(algorithms, Sequence) and not isinstance(algorithms, str)
    listed: Sequence[Any] = algorithms if is_list else [algorithms]
    given = [part for each in listed for part in (each.split(",") if isinstance(each, str) else [each])]
    if not given:
        raise TreefoldError("nothing to compare; name at least one algorithm")
    return list(dict.fromkeys(checks.name("algorithm", each, auto.names()) for each in given))


def common_machine(network: Topology, names: Sequence[str], simulator: Simulator) -> Simulator:
    """Return one simulator for all algorithms; its machine has a fabric if one of them needs it.

    Raises:
        TreefoldError: If no plan for the network runs on the machine.

    """
    if simulator.name != "packet":
        return simulator
    machine = simulator.machine or Machine()
    if any(map(planning.is_in_network, names)) and planning.is_fabric(network):
        machine = replace(machine, switches=machine.switches or "fabric")
    _core.check_machine(network, machine)
    return Simulator("packet", machine)
