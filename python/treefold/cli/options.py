"""The groups of options that commands share: the network, the planner, and the simulator with its machine."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, make_dataclass
from math import isclose
from pathlib import Path
from typing import Annotated, Any

import typer

from treefold import _core, auto, checks, declared, networks, planning, simulation
from treefold._core import Topology
from treefold.cli.groups import completing, quantity
from treefold.collectives import COLLECTIVES, check_has_root
from treefold.errors import TreefoldError
from treefold.files.problems import warn
from treefold.files.reading import read_toml
from treefold.options import Machine
from treefold.text import message

_NETWORK, _PLANNER, _SIMULATOR = "Network", "Planner", "Simulator"
_METAVARS = {"integer": "N", "number": "X", "bytes": "SIZE", "bytes/second": "RATE"}
"""What stands for a value of a planner option in help, by its unit or else by its type."""

Network = Annotated[str, typer.Argument(metavar="NETWORK", help="The network: a file, or a spec such as torus:8x8.")]
Networks = Annotated[
    list[str], typer.Argument(metavar="NETWORK...", help="Networks: files, or specs such as torus:8x8.")
]
NetworkFile = Annotated[
    Path | None, typer.Option("--output", "-o", help="Write the network to this file: .json, .graphml, .dot or .gv.")
]
Json = Annotated[bool, typer.Option("--json", help="Print one JSON value and nothing else.")]
_complete_algorithm = completing(auto.names())
Algorithm = Annotated[
    str | None,
    typer.Option(
        "--algorithm",
        "-a",
        help="The algorithm; by default auto, the fastest by prediction. 'treefold algorithms' lists all.",
        autocompletion=_complete_algorithm,
    ),
]


def _most_work() -> str:
    """Return the most work of each algorithm that may take long."""
    limited = [each for each in planning.PLANNERS.values() if each.most_work is not None]
    return ", ".join(f"{each.name} {each.most_work:,}" for each in limited)


Algorithms = Annotated[
    list[str] | None,
    typer.Option(
        "--algorithm",
        "-a",
        help="The algorithms, separated by commas; by default all that fit the network, but those that take long on "
        f"large networks only if the number of ranks times the number of links is at most so large: {_most_work()}. "
        "'treefold algorithms' lists all.",
        autocompletion=_complete_algorithm,
    ),
]
MaybeSize = Annotated[
    str | None,
    typer.Option(
        metavar="SIZE", help="The size of the vector; by default the size that the plan was made for, or 64MiB."
    ),
]
SIZES_HELP = (
    "The sizes of the vector: a range in which each size is twice the one before, such as 32KiB:64MiB, or a list such "
    "as 1MiB,3MiB"
)
Sizes = Annotated[str, typer.Option(metavar="SIZES", help=f"{SIZES_HELP}.")]


def _network(metavar: str, help_text: str) -> Any:
    return typer.Option(metavar=metavar, help=help_text, rich_help_panel=_NETWORK)


@dataclass(frozen=True, kw_only=True)
class NetworkOptions:
    """The options of networks: missing values, caps, and the accelerators that are ranks."""

    bandwidth: Annotated[
        str | None,
        _network(
            "RATE",
            "The bandwidth of a spec's links, such as 100Gbit/s; in a file, of those without one; needed if there are "
            "any.",
        ),
    ] = None
    latency: Annotated[
        str | None,
        _network(
            "TIME",
            "The one-way latency of all links of a spec, for example 5ms; in a file, that of the links without one, "
            "by default that of light in between, or their median.",
        ),
    ] = None
    node_cap: Annotated[
        str | None,
        _network(
            "RATE|FILE",
            "Limit the rate at which each accelerator sends, and that at which it receives, to one rate or to those "
            "of a file by name; none leaves out a network's caps.",
        ),
    ] = None
    ranks: Annotated[
        str | None,
        _network(
            "LIST",
            "Use these accelerators as ranks, in this order: names, or indices from 0, such as 0-7,12.",
        ),
    ] = None
    rank_order: Annotated[
        str | None,
        _network(
            "LIST",
            "Reorder the ranks: list each once, as in --ranks; the first is rank 0. ring visits them in this order.",
        ),
    ] = None

    relays: Annotated[
        str | None,
        _network("all|none", "Let all idle accelerators relay, or none."),
    ] = None

    def load(self, source: str) -> Topology:
        """Load a network from a file or a spec, with these options; warn of a value that no link takes.

        Raises:
            TreefoldError: If there is no such network, or its ranks do not all reach each other.

        """
        network, problem, _ = self.described(source)
        if problem is not None:
            raise TreefoldError(problem)
        return self.relayed(network)

    def relayed(self, network: Topology) -> Topology:
        """Return the network, without the links of idle accelerators if none of them may relay."""
        return networks.without_relays(network) if self.may_relay() == "none" else network

    def described(self, source: str) -> networks.Described:
        """Load a network as `load` does, to describe it: its ranks may not reach each other, and its relays stay."""
        bandwidth_Bps = quantity("--bandwidth", _core.parse_bandwidth, self.bandwidth)
        latency_s = quantity("--latency", _core.parse_time, self.latency)
        found = networks.described(
            source,
            bandwidth_Bps=bandwidth_Bps,
            latency_s=latency_s,
            node_cap=self.node_cap,
            ranks=self.ranks,
            rank_order=self.rank_order,
        )
        for name, value in (("bandwidth_Bps", bandwidth_Bps), ("latency_s", latency_s)):
            if value is not None and not any(isclose(getattr(link, name), value) for link in found.cables.links()):
                what = name.partition("_")[0]
                warn(source, f"--{what} has no effect: all links have a {what}")
        return found

    def may_relay(self) -> str | None:
        """Return which idle accelerators may relay, `all` or `none`, if that was said."""
        return self.relays and checks.name("relays", self.relays, ("all", "none"))


Collective = Annotated[
    str | None,
    typer.Option(
        help=f"The collective: {', '.join(COLLECTIVES)}; by default all-reduce.",
        autocompletion=completing(COLLECTIVES),
    ),
]
Root = Annotated[
    int | None,
    typer.Option(help="The root of a broadcast or a reduce; by default 0."),
]
BlocksFile = Annotated[
    Path | None,
    typer.Option(
        metavar="FILE",
        help="A matrix of an all-to-all's blocks, .csv or .json.",
    ),
]


@dataclass(frozen=True, kw_only=True)
class CollectiveOptions:
    """The collective, its root and its blocks; None if they are not given."""

    collective: Collective = None
    root: Root = None
    blocks: BlocksFile = None

    def asked(self) -> dict[str, Any]:
        """Return the keyword arguments of functions that plan."""
        collective = _core.parse_collective("all-reduce" if self.collective is None else self.collective)
        check_has_root(collective, self.root or 0)
        if self.blocks is not None and self.collective is None:
            raise TreefoldError(f"--blocks {self.blocks}: an all-reduce has no blocks; add --collective all-to-all")
        return {"collective": collective, "root": self.root or 0, "blocks": self.blocks}


def one_algorithm(given: str | None) -> str | None:
    """Return the algorithm that is given; refuse a list of several."""
    if given is not None and "," in given:
        raise TreefoldError(
            f"--algorithm {given}: this command takes one algorithm; 'treefold compare' and 'treefold train' take "
            "several"
        )
    return given


@dataclass(frozen=True, kw_only=True)
class PlanOptions:
    """The algorithm, the collective, its root and its blocks; None if they are not given."""

    algorithm: Algorithm = None
    collective: Collective = None
    root: Root = None
    blocks: BlocksFile = None

    def asked(self) -> dict[str, Any]:
        """Return the keyword arguments of functions that plan."""
        what = CollectiveOptions(collective=self.collective, root=self.root, blocks=self.blocks)
        return {"algorithm": one_algorithm(self.algorithm) or "auto", **what.asked()}


def _planner_fields() -> Iterator[tuple[str, Any, Any]]:
    """Yield a field for each planner option that the core declares; its value None means that it is not given."""
    for name, option in declared.options("planner").items():
        is_flag = "boolean" in option.types
        flag = f"--{name}/--no-{name}" if is_flag else None
        metadata = {"help": _planner_help(name, option), "flag": flag, "panel": _PLANNER, "values": option.choices}
        metadata["metavar"] = (
            None if is_flag or option.choices else _METAVARS[option.unit or min(option.types - {"null"})]
        )
        yield name, bool | None if is_flag else str | None, field(default=None, metadata=metadata)


def _planner_help(name: str, option: declared.Option) -> str:
    default = option.default
    if isinstance(default, bool):
        default = f"--{name}" if default else f"--no-{name}"
    planners = "" if option.planners is None else f" Only {option.owners()}."
    return f"{option.help}{planners}" + ("" if default is None else f" [default: {option.written(default)}]")


_Fields: Any = make_dataclass("_Fields", [*_planner_fields()], frozen=True, kw_only=True)


@dataclass(frozen=True, kw_only=True)
class PlannerOptions(_Fields):  # type: ignore[misc]
    """The options of planners, as the core declares them."""

    def asked(self) -> dict[str, Any]:
        """Return the keyword arguments of functions that plan: the options that are given."""
        return {name: value for name, value in vars(self).items() if value is not None}


def _simulator(help_text: str, *names: str, **others: Any) -> Any:
    return typer.Option(*names, help=help_text, rich_help_panel=_SIMULATOR, **others)


def simulator_option(default: str) -> Any:
    """Return the option that names the simulator; `default` says in words which one is the default."""
    return _simulator(
        f"The simulator: analytic, flow or packet; by default {default}.",
        autocompletion=completing(simulation.SIMULATORS),
    )


@dataclass(frozen=True, kw_only=True)
class SimulatorOptions:
    """The options of simulators: the simulator, the meaning of latency, and the machine."""

    simulator: Annotated[str | None, simulator_option("analytic, or packet with --machine or --set")] = None
    link_model: Annotated[
        str,
        _simulator(
            "What latency does: it only delays a message (propagation), or it also occupies the link (hockney).",
            autocompletion=completing(networks.LINK_MODELS),
        ),
    ] = "propagation"
    machine: Annotated[Path | None, _simulator("The TOML file of a machine; see 'treefold machine'.")] = None
    setting: Annotated[
        list[str] | None,
        _simulator(
            "Set a machine option ('treefold machine' lists them), for example wave=4KiB; may be repeated.",
            "--set",
            metavar="KEY=VALUE",
        ),
    ] = None

    def asked(self, default: str | None = None) -> simulation.Simulator:
        """Return the simulator; if a machine is given, it is the packet simulator."""
        machine = read_machine(self.machine, self.setting)
        if machine is None:
            return simulation.simulator_of(self.simulator, default or "analytic")
        if self.simulator is not None and simulation.simulator_of(self.simulator).name != "packet":
            raise TreefoldError(
                f"the {self.simulator} simulator has no machine; use --simulator packet, or drop --machine and --set"
            )
        return simulation.simulator_of(machine)


def read_machine(file: Path | None, settings: list[str] | None) -> Machine | None:
    """Return the machine of a file, changed by settings; None if neither is given.

    Raises:
        TreefoldError: If the file cannot be read, an option is unknown, or its value is not allowed.

    """
    if file is None and not settings:
        return None
    values = {} if file is None else _machine_values(str(file), read_toml(file))
    changes: dict[str, Any] = {}
    for setting in settings or ():
        key, equals, value = setting.partition("=")
        if not equals:
            raise TreefoldError(f"--set '{setting}' has no value; write KEY=VALUE, for example --set wave=8KiB")
        [(name, read)] = _machine_values(f"--set {setting}", {key.strip(): value.strip()}).items()
        if name in changes:
            raise TreefoldError(f"--set {name} is given twice; give it once")
        changes[name] = read
    return Machine(**values | changes)


def _machine_values(where: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """Return the options that are given, under their own names; what is wrong with one names where it stands."""
    try:
        for key, each in given.items():
            if isinstance(each, Mapping):
                raise TreefoldError(f"[{key}] is a heading, and a machine has none; drop that line only")
        named = {checks.name("machine option", key, declared.options("machine")): each for key, each in given.items()}
        read = declared.read("machine", named)
    except TreefoldError as error:
        raise TreefoldError(message(where, str(error))) from None
    return {name: read[name] for name in named}
