"""What several commands read from the command line: networks, sizes, the packet machine."""

import inspect
from collections.abc import Callable, Iterable
from dataclasses import Field, fields
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer

from treefold import _core, verbs
from treefold._core import Plan, Topology
from treefold.errors import TreefoldError
from treefold.files.writing import check_writable
from treefold.machine import Machine
from treefold.regions import Region
from treefold.report import plot_format
from treefold.text import message


def completing(names: Iterable[str]) -> Callable[[str], list[str]]:
    """Return what completes one of these names in a shell."""
    listed = list(names)
    return lambda incomplete: [name for name in listed if name.startswith(incomplete)]


Bandwidth = Annotated[
    str | None,
    typer.Option(help="The bandwidth of a spec's links, or of a file's links that have none: 16GB/s, 100Gbit/s."),
]
Latency = Annotated[str | None, typer.Option(help="The latency of the same links, one way: 150ns, 5ms.")]
NodeCap = Annotated[
    str | None,
    typer.Option(help="What each accelerator sends and receives at most: 5Gbit/s, or a file of caps by name."),
]
Ranks = Annotated[
    str | None, typer.Option(help="Which accelerators are ranks, by position or name: 0-7,12. The others only relay.")
]
_COLLECTIVE = typer.Option(
    help=f"The collective: {', '.join(_core.collectives())}.", autocompletion=completing(_core.collectives())
)
Collective = Annotated[str, _COLLECTIVE]
MaybeCollective = Annotated[str | None, _COLLECTIVE]
_ALGORITHMS = ["auto", *verbs.algorithms()]
Algorithm = Annotated[
    str | None,
    typer.Option(
        "--algorithm",
        "-a",
        help=f"The algorithm: auto (the default, the fastest of all), {', '.join(verbs.algorithms())}.",
        autocompletion=completing(_ALGORITHMS),
    ),
]
Algorithms = Annotated[
    list[str] | None,
    typer.Option(
        "--algorithm",
        "-a",
        help=f"The algorithms, with commas between or given again: {', '.join(_ALGORITHMS)}. By default all that fit.",
        autocompletion=completing(_ALGORITHMS),
    ),
]
Simulator = Annotated[
    str | None,
    typer.Option(
        help=f"The simulator: {', '.join(verbs.MODELS)}; by default the first that can.",
        autocompletion=completing(verbs.MODELS),
    ),
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON value and nothing else.")]
Interface = Annotated[
    str | None,
    typer.Option(help="The interface to listen on, by name or address; by default the one that leads to MASTER_ADDR."),
]
Timeout = Annotated[float, typer.Option(help="How many seconds to wait for other workers.")]
RankOrder = Annotated[str | None, typer.Option(help="The order of the ranks, by position or name: 0,2,1,3.")]


def quantity(option: str, parse: Callable[[str], float], text: str | None) -> float | None:
    """Return what an option says, None if it is not given; errors name the option."""
    try:
        return None if text is None else parse(text)
    except TreefoldError as error:
        raise TreefoldError(message(option, str(error))) from None


def load(
    network: str,
    bandwidth: str | None,
    latency: str | None,
    node_cap: str | None,
    ranks: str | None,
    rank_order: str | None,
) -> Topology:
    """Return the network of a file or a spec, as the options say."""
    return verbs.topology(
        network,
        bandwidth_Bps=quantity("--bandwidth", _core.parse_bandwidth, bandwidth),
        latency_s=quantity("--latency", _core.parse_time, latency),
        node_cap=node_cap,
        ranks=ranks,
        rank_order=rank_order,
    )


def own_size(plan: Plan) -> str:
    """Say that the size is the plan's own, below a table; with a `#`, as nccl-tests marks what is no row."""
    return "" if plan.size_bytes is None else "\n# size: what the plan was made for; --size sets another"


def parse_sizes(text: str) -> list[int]:
    """Return the sizes, in bytes, of a range that doubles, or of a list."""
    if ":" not in text:
        return [_core.parse_size(part) for part in text.split(",")]
    first, last = (_core.parse_size(part) for part in text.split(":", 1))
    if not 0 < first <= last:
        raise TreefoldError(f"sizes '{text}': the range must rise from at least 1B; write for example 32KiB:64MiB")
    found = [first]
    while found[-1] * 2 <= last:
        found.append(found[-1] * 2)
    return found


def parse_region(text: str) -> Region:
    """Return the multicast region of `0x0:1MiB:0-7`."""
    start, _, rest = text.partition(":")
    size, _, members = rest.partition(":")
    try:
        address = int(start, 0)
    except ValueError:
        raise TreefoldError(f"region '{text}': '{start}' is no address; write START:SIZE:RANKS, 0x0:1MiB:0-7") from None
    if not size:
        raise TreefoldError(f"region '{text}' has no size; write START:SIZE:RANKS, 0x0:1MiB:0-7")
    return Region(address, _core.parse_size(size), members or None)


def check_plot(path: Path) -> None:
    """Refuse before anything long is computed what could not be drawn or written after it."""
    plot_format(path)
    check_writable(path)


def with_machine(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command an option for each field of `Machine`; it gets them as `machine`, None if none is given."""

    @wraps(command)
    def called(**given: Any) -> None:
        own = {each.name: given.pop(each.name) for each in fields(Machine)}
        chosen = {name: _read_field(name, value) for name, value in own.items() if value is not None}
        command(**given, machine=Machine(**chosen) if chosen else None)

    signature = inspect.signature(command)
    kept = [parameter for name, parameter in signature.parameters.items() if name != "machine"]
    options = [_option(each) for each in fields(Machine)]
    called.__signature__ = signature.replace(parameters=[*kept, *options])  # type: ignore[attr-defined]
    return called


def _option(of: "Field[Any]") -> inspect.Parameter:
    flag = of.metadata["flag"] or f"--{of.name.replace('_', '-')}"
    if of.type == bool | None:
        flag += f"/--no-{of.name}"
    default = "" if of.default is None else f" Default: {of.default}."
    option = typer.Option(flag, help=f"packet: {of.metadata['help']}{default}", show_default=False)
    # What has a unit is read as text.
    kind = str | None if _unit_of(of.name) in _READERS else of.type | None  # type: ignore[operator]
    parameter = inspect.Parameter(of.name, inspect.Parameter.KEYWORD_ONLY, default=None)
    return parameter.replace(annotation=Annotated[kind, option])


def _unit_of(name: str) -> str:
    return name.rpartition("_")[2]


def _read_field(name: str, value: Any) -> Any:
    return _READERS[_unit_of(name)](value) if _unit_of(name) in _READERS else value


def _read_clock(text: str) -> float:
    for unit, factor in (("GHz", 1e9), ("MHz", 1e6), ("kHz", 1e3), ("Hz", 1.0)):
        number = text.removesuffix(unit)
        if number != text:
            try:
                return float(number) * factor
            except ValueError:
                break
    raise TreefoldError(f"clock '{text}': must be a number and Hz, kHz, MHz or GHz; write for example 1.5GHz")


_READERS = {"bytes": _core.parse_size, "s": _core.parse_time, "hz": _read_clock}
"""By unit, the end of a field's name."""
