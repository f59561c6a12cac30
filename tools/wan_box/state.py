"""Remembers boxes in files, so that later commands find a box, and so that even a half-made one can be taken down."""

import contextlib
import json
import os
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tools.wan_box import names
from tools.wan_box.network import Direction, Network, Pair
from tools.wan_box.system import ProcessIdentity, identity
from treefold import TreefoldError


@dataclass
class State:
    """The state of a box is everything that is remembered of it."""

    name: str
    network: Network
    """The network as it is now: changed rates are in it, and cut cables too."""
    starter: list[float]
    """The process that started the box, and when: no other box has the same."""
    cut: set[Pair] = field(default_factory=set)
    """Cables that lose every packet, each by the lower and the higher place of its ends."""
    off: set[Pair] = field(default_factory=set)
    """Cables whose devices are down as well."""
    firewalls: set[Pair] = field(default_factory=set)
    """Pairs of which the first cannot open TCP connections to the second."""
    is_rerouted: bool = False
    """Whether routes avoid the cables that are cut."""
    namespaces: list[str] = field(default_factory=list)
    """The namespaces that were made, or are about to be."""
    delays: str = "none"
    """What delays packets: nothing, netem, or nfqueue with a process of ours."""
    congestion_control: str = ""
    loss: float | None = None
    """The share of frames that each cable loses; None where packets are not cut into frames."""
    delay_process: ProcessIdentity | None = None

    def namespace(self, place: int) -> str:
        """Return the network namespace of a node."""
        return names.namespace(self.name, place)


def new(name: str, network: Network, loss: float | None = None) -> State:
    """Return the state of a box that is about to be built by this process."""
    process = identity(os.getpid())
    return State(name, network, [process.pid, process.started, time.monotonic()], loss=loss)


def cable(a: int, b: int) -> Pair:
    """Return the cable between two places, however it was named."""
    return (a, b) if a < b else (b, a)


def both_ways(cables: set[Pair]) -> set[Pair]:
    """Return both directions of cables."""
    return cables | {(b, a) for a, b in cables}


def file_of(name: str) -> Path:
    """Return where a box of this name is remembered."""
    if not name or not all(letter.isascii() and (letter.isalnum() or letter in "-_") for letter in name):
        raise TreefoldError(f"{name!r} cannot name a box: use letters, digits, - and _")
    run_directory = Path("/run")
    parent = run_directory if os.access(run_directory, os.W_OK) else Path(tempfile.gettempdir())
    return parent / "treefold-box" / f"{name}.json"


def load(name: str) -> State:
    """Return what is remembered of a box."""
    path = file_of(name)
    if not path.exists():
        others = sorted(other.stem for other in path.parent.glob("*.json"))
        raise TreefoldError(f"no box {name!r} is up; up are: {', '.join(others) or 'none'}")
    return _from_json(path.read_text())


def claim(state: State) -> None:
    """Remember a new box before anything of it exists, so that it can be taken down even when it is half-made."""
    path = file_of(state.name)
    path.parent.mkdir(exist_ok=True)
    fresh = _write(state, path)
    try:
        # A link appears whole or not at all, and never over another's.
        os.link(fresh, path)
    except FileExistsError:
        raise TreefoldError(f"a box {state.name!r} is up already: take it down or use another --name") from None
    finally:
        fresh.unlink()


def is_claimed(state: State) -> bool:
    """Return whether the box that is remembered is this one."""
    with contextlib.suppress(TreefoldError):
        return load(state.name).starter == state.starter
    return False


def save(state: State) -> None:
    """Remember a change; readers see the old state or the new one."""
    path = file_of(state.name)
    _write(state, path).replace(path)


def forget(name: str) -> None:
    """Remove the file, and its directory when it was the last."""
    file_of(name).unlink(missing_ok=True)
    with contextlib.suppress(OSError):
        file_of(name).parent.rmdir()


def _write(state: State, path: Path) -> Path:
    fresh = path.with_suffix(f".{os.getpid()}")
    fresh.write_text(_to_json(state))
    return fresh


def _to_json(state: State) -> str:
    network = state.network
    directions = [
        [a, b, direction.bandwidth_Bps, direction.latency_s] for (a, b), direction in sorted(network.directions.items())
    ]
    known = {"directions": directions, "links": sorted(network.links)}
    value: dict[str, Any] = vars(state) | {
        "network": vars(network) | known,
        "cut": sorted(state.cut),
        "off": sorted(state.off),
        "firewalls": sorted(state.firewalls),
        "delay_process": state.delay_process and vars(state.delay_process),
    }
    return json.dumps(value)


def _from_json(text: str) -> State:
    value = json.loads(text)
    network = value["network"]
    network["directions"] = {(a, b): Direction(rate, latency) for a, b, rate, latency in network["directions"]}
    network["links"] = frozenset((a, b) for a, b in network["links"])
    value["network"] = Network(**network)
    for key in ("cut", "off", "firewalls"):
        value[key] = {(a, b) for a, b in value[key]}
    if value["delay_process"]:
        value["delay_process"] = ProcessIdentity(**value["delay_process"])
    return State(**value)
