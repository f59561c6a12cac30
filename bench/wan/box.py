"""A WAN in a box: the nodes of a topology as network namespaces, its links as shaped cables between them.

    python bench/wan/box.py up TOPOLOGY [--name NAME] [--bandwidth 50Mbit/s] [--latency 5ms] [--no-delay]
    python bench/wan/box.py status | down | exec NODE -- COMMAND...
    python bench/wan/box.py rate SOURCE TARGET 25Mbit/s [--both]
    python bench/wan/box.py cut SOURCE TARGET [--down] [--reroute]
    python bench/wan/box.py mend [SOURCE TARGET]

As a library:

    with box.up("wan.json") as wan:
        wan.run_all([sys.executable, "train.py"])

Each node has one namespace and one address (10.77.x.y/32, on the device `node`); workers and switches both forward. A
cable (see cables.py) is a veth pair with a token bucket at both ends; a delay is netem's, or on kernels without it the
delay process's (delay.py). No device leads out of the box.
"""

import argparse
import contextlib
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import building
import cables
import running
import system
from building import DEVICE, address, hardware, namespace, take_down
from running import Outcome

import treefold
from treefold import TreefoldError
from treefold._core import format_bandwidth, parse_bandwidth, parse_time

FIRST_PORT = 29500
PORTS = 1000


class Box:
    """A box that is up. `state` is what its file remembers."""

    def __init__(self, state: dict[str, Any]):
        self.state = state
        self.processes: list[subprocess.Popen[Any]] = []
        self.runs = 0

    @property
    def network(self) -> cables.Network:
        """The network as it is now: rates that were changed are in it, cut links too."""
        state = self.state
        directions = {(a, b): cables.Direction(rate, delay) for a, b, rate, delay in state["directions"]}
        links = frozenset((a, b) for a, b in state["links"])
        return cables.Network(state["topology"], state["nodes"], state["workers"], directions, links)

    @property
    def workers(self) -> list[str]:
        """The workers' names, rank 0 first."""
        return [self.state["nodes"][place] for place in self.state["workers"]]

    def place(self, node: str) -> int:
        """Return a node's place; the error lists the nodes."""
        if node not in self.state["nodes"]:
            raise TreefoldError(f"the box has no node {node!r}; it has {', '.join(self.state['nodes'])}")
        return self.state["nodes"].index(node)

    def address(self, node: str) -> str:
        """Return a node's address."""
        return address(self.place(node))

    def namespace(self, node: str) -> str:
        """Return a node's network namespace."""
        return namespace(self.state, self.place(node))

    def popen(
        self, node: str, command: Sequence[str], env: Mapping[str, str] | None = None, **options: Any
    ) -> subprocess.Popen[Any]:
        """Start a command in a node, in a session of its own; the box ends it when the box goes down."""
        inside = ["ip", "netns", "exec", self.namespace(node), *map(str, command)]
        environment = {**os.environ, **(env or {})}
        process = subprocess.Popen(inside, env=environment, start_new_session=True, **options)
        self.processes.append(process)
        return process

    def run(self, node: str, command: Sequence[str], env: Mapping[str, str] | None = None) -> str:
        """Run a command in a node and return what it prints; its complaint becomes the error."""
        process = self.popen(node, command, env, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        output, complaint = process.communicate()
        self.processes.remove(process)
        if process.returncode:
            raise TreefoldError(
                f"`{' '.join(map(str, command))}` failed in {node}: {complaint.strip()[-running.TAIL :]}"
            )
        return str(output)

    def environment(self, rank: int, order: Sequence[str], port: int) -> dict[str, str]:
        """Return what tells a worker who it is and where rank 0 listens."""
        return {
            "RANK": str(rank),
            "WORLD_SIZE": str(len(order)),
            "LOCAL_RANK": "0",
            "MASTER_ADDR": self.address(order[0]),
            "MASTER_PORT": str(port),
            "TREEFOLD_NAME": order[rank],
            "GLOO_SOCKET_IFNAME": DEVICE,
            "PYTHONUNBUFFERED": "1",
        }

    def run_all(
        self,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        timeout_s: float = 600.0,
        order: Sequence[str] | None = None,
        check: bool = True,
        meanwhile: Callable[[], None] = lambda: None,
    ) -> list[Outcome]:
        """Run a command on every worker, rank 0 first, and return what each left.

        `order` names the workers in another order. When one fails, all are ended and the error names it; with
        `check=False` the others go on. `meanwhile` is called about twenty times a second.
        """
        order = list(order or self.workers)
        port = FIRST_PORT + self.runs % PORTS
        self.runs += 1
        with contextlib.ExitStack() as stack:
            files = [[stack.enter_context(tempfile.TemporaryFile()) for _ in range(2)] for _ in order]
            processes = []
            try:
                for rank, (node, (out, err)) in enumerate(zip(order, files, strict=True)):
                    told = {**self.environment(rank, order, port), **(env or {})}
                    processes.append(self.popen(node, command, told, stdout=out, stderr=err))
                late = running.wait(processes, timeout_s, check, meanwhile)
            finally:
                self.end(processes)
            outcomes = [
                Outcome(node, process.returncode, *map(running.text, pair))
                for node, process, pair in zip(order, processes, files, strict=True)
            ]
        if late:
            names = ", ".join(order[place] for place in late)
            raise TreefoldError(f"not done within {timeout_s:.0f} s: {names}\n{running.complaints(outcomes)}")
        failed = [outcome for outcome in outcomes if outcome.returncode not in (0, -signal.SIGKILL)]
        if check and failed:
            raise TreefoldError(f"`{' '.join(map(str, command))}` failed\n{running.complaints(failed)}")
        return outcomes

    def end(self, processes: Sequence[subprocess.Popen[Any]]) -> None:
        """End processes that this box started, with what they started."""
        for process in list(processes):
            running.end(process)
            if process in self.processes:
                self.processes.remove(process)

    def cable(self, source: str, target: str) -> cables.Pair:
        """Return the pair of a cable; the error lists the neighbours."""
        a, b = self.place(source), self.place(target)
        if (a, b) not in self.network.directions:
            neighbours = sorted(self.state["nodes"][y] for x, y in self.network.directions if x == a)
            raise TreefoldError(f"no cable joins {source} and {target}; {source} has cables to {', '.join(neighbours)}")
        return a, b

    def rate(self, source: str, target: str, bandwidth: str | float, both: bool = False) -> None:
        """Change the rate from source to target, a text with its unit or bytes a second, while traffic flows."""
        value = parse_bandwidth(bandwidth) if isinstance(bandwidth, str) else bandwidth
        if value > cables.MOST_BPS:
            raise TreefoldError(f"{bandwidth} is more than a box carries: {format_bandwidth(cables.MOST_BPS)} a link")
        a, b = self.cable(source, target)
        pairs = [(a, b), (b, a)] if both else [(a, b)]
        for entry in self.state["directions"]:
            if (entry[0], entry[1]) in pairs:
                entry[2] = value
        for pair in pairs:
            if sorted(pair) not in self.state["cut"]:
                self.shape(*pair)
        system.save(self.state)

    def shape(self, a: int, b: int) -> None:
        """Give the device from a to b its rate, and with netem its delay."""
        direction = self.network.directions[a, b]
        lines = system.shape(f"to{b}", direction.bandwidth_Bps, direction.latency_s, self.state["delays"])
        system.tc(lines, namespace(self.state, a))

    def cut(self, source: str, target: str, down: bool = False, reroute: bool = False) -> None:
        """Lose every packet of a cable, both ways. Its devices stay up, as routers see a far link die, unless `down`.

        With `reroute` packets take another way, as they would once the routers have noticed.
        """
        a, b = self.cable(source, target)
        for x, y in ((a, b), (b, a)):
            system.tc([f"qdisc replace dev to{y} root blackhole"], namespace(self.state, x))
            if down:
                system.ip([f"link set to{y} down"], namespace(self.state, x))
        pair = sorted((a, b))
        for key in ("cut", "off") if down else ("cut",):
            if pair not in self.state[key]:
                self.state[key].append(pair)
        if reroute:
            self.state["rerouted"] = True
            self.set_routes()
        system.save(self.state)

    def mend(self, source: str | None = None, target: str | None = None) -> None:
        """Bring a cable back as it was, or every one that was cut."""
        pairs = [sorted(self.cable(source, target))] if source and target else list(self.state["cut"])
        for a, b in pairs:
            for x, y in ((a, b), (b, a)):
                system.ip([f"link set to{y} up"], namespace(self.state, x))
                self.shape(x, y)
        for key in ("cut", "off"):
            self.state[key] = [pair for pair in self.state[key] if pair not in pairs]
        self.state["rerouted"] = bool(self.state["cut"]) and self.state["rerouted"]
        self.set_routes()
        system.save(self.state)

    def set_routes(self) -> None:
        """Give every node its neighbours and its way to every other node."""
        network, cut, off = self.network, both(self.state["cut"]), both(self.state["off"])
        hops = cables.next_hops(network, cut if self.state["rerouted"] else ())
        for place, nexts in enumerate(hops):
            lines = [
                f"neigh replace {address(b)} lladdr {hardware(b, a)} dev to{b} nud permanent"
                for a, b in network.directions
                if a == place and (a, b) not in off
            ]
            lines += [
                f"route replace {address(target)}/32 via {address(hop)} dev to{hop} onlink src {address(place)}"
                for target, hop in nexts.items()
                if (place, hop) not in off
            ]
            system.ip(lines, namespace(self.state, place))

    def down(self) -> None:
        """Take the box down: its processes, its delays, its namespaces, its file."""
        self.end(list(self.processes))
        take_down(self.state)


def both(pairs: Sequence[Sequence[int]]) -> set[cables.Pair]:
    """Return the directions of cables."""
    return {pair for a, b in pairs for pair in ((a, b), (b, a))}


def start(
    topology: str | Path | treefold.Topology, name: str = "box", delay: bool = True, congestion: str | None = None
) -> Box:
    """Build a box from a topology, a file or a spec; it stays up until `down`. Whatever fails leaves nothing behind."""
    network = cables.read(topology)
    system.require("ip", "tc")
    state = {
        "name": name,
        "topology": network.name,
        "nodes": network.nodes,
        "workers": network.workers,
        "directions": [[a, b, *vars(way).values()] for (a, b), way in sorted(network.directions.items())],
        "links": sorted(network.links),
        "cut": [],
        "off": [],
        "rerouted": False,
        "delays": "none",
        "starter": [*system.identity(os.getpid()).values(), time.monotonic()],
    }
    try:
        system.claim(state)
        box = Box(state)
        building.build(box, congestion)
        if delay and any(way.latency_s for way in network.directions.values()):
            building.set_delays(box)
        system.save(state)
    except BaseException:
        if system.claimed(state):
            take_down(state)
        raise
    return box


def attach(name: str = "box") -> Box:
    """Return a box that is up."""
    return Box(system.load(name))


@contextlib.contextmanager
def up(
    topology: str | Path | treefold.Topology, name: str = "box", delay: bool = True, congestion: str | None = None
) -> Iterator[Box]:
    """Build a box and take it down at the end, also after an error, Ctrl-C or SIGTERM."""
    with ends_on_sigterm():
        box = start(topology, name, delay, congestion)
        try:
            yield box
        finally:
            box.down()


@contextlib.contextmanager
def ends_on_sigterm() -> Iterator[None]:
    """Turn SIGTERM into an exit that cleans up, where this is the main thread."""
    try:
        before = signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    except ValueError:
        yield
        return
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def describe(box: Box) -> str:
    """Return what `status` prints."""
    state, names = box.state, box.state["nodes"]
    process = state.get("delay_process")
    alive = "" if not process else " (running)" if system.started(process["pid"]) == process["started"] else " (DEAD)"
    lines = [
        f"box {state['name']}: {state['topology']}, {len(names)} nodes, {len(state['workers'])} workers",
        f"delays: {state['delays']}{alive}; congestion control: {state['congestion_control']}",
        *(f"  {names[place]}  {address(place)}  namespace {namespace(state, place)}" for place in range(len(names))),
    ]
    for a, b, rate, latency in state["directions"]:
        note = " cut" if sorted((a, b)) in state["cut"] else "" if [a, b] in map(list, state["links"]) else " (idle)"
        lines.append(f"  {names[a]} -> {names[b]}  {rate * 8e-6:g} Mbit/s  {latency * 1e3:g} ms{note}")
    return "\n".join(lines)


def add_topology(parser: argparse.ArgumentParser) -> None:
    """Add the arguments that name a topology."""
    parser.add_argument("topology", help="a topology file or spec")
    parser.add_argument("--bandwidth", help="of every link of a spec, of a file's links without one: 100Mbit/s")
    parser.add_argument("--latency", help="likewise, one way: 5ms")


def topology_of(wanted: argparse.Namespace) -> treefold.Topology:
    """Return the topology that the arguments name."""
    return treefold.topology(
        wanted.topology,
        bandwidth_Bps=parse_bandwidth(wanted.bandwidth) if wanted.bandwidth else None,
        latency_s=parse_time(wanted.latency) if wanted.latency else None,
    )


def parser() -> argparse.ArgumentParser:
    """Return the command line."""
    parser = argparse.ArgumentParser(prog="box.py", description=__doc__.partition("\n")[0])
    named = argparse.ArgumentParser(add_help=False)
    named.add_argument("--name", default="box", help="of the box, when several are up (box)")
    commands = parser.add_subparsers(dest="command", required=True)
    add = commands.add_parser("up", parents=[named], help="build a box")
    add_topology(add)
    add.add_argument("--no-delay", action="store_true", help="rates only")
    add.add_argument("--congestion", help="TCP's congestion control; else the machine's")
    commands.add_parser("down", parents=[named], help="remove it")
    commands.add_parser("status", parents=[named], help="show its nodes, addresses, cables")
    add = commands.add_parser("exec", parents=[named], help="run a command in a node")
    add.add_argument("node")
    add.add_argument("arguments", nargs=argparse.REMAINDER, metavar="-- COMMAND")
    for word, tells in (("rate", "change a rate"), ("cut", "lose all packets of a cable"), ("mend", "undo cuts")):
        add = commands.add_parser(word, parents=[named], help=tells)
        add.add_argument("source", nargs="?" if word == "mend" else None)
        add.add_argument("target", nargs="?" if word == "mend" else None)
        if word == "rate":
            add.add_argument("bandwidth", help="such as 25Mbit/s")
            add.add_argument("--both", action="store_true", help="the other direction too")
        if word == "cut":
            add.add_argument("--down", action="store_true", help="set the devices down as well")
            add.add_argument("--reroute", action="store_true", help="send packets another way")
    return parser


def command(wanted: argparse.Namespace) -> int:
    """Do what the command line asks for."""
    if wanted.command == "up":
        with ends_on_sigterm():
            print(describe(start(topology_of(wanted), wanted.name, not wanted.no_delay, wanted.congestion)))
        return 0
    box = attach(wanted.name)
    if wanted.command == "down":
        box.down()
    elif wanted.command == "status":
        print(describe(box))
    elif wanted.command == "exec":
        arguments = wanted.arguments[wanted.arguments[:1] == ["--"] :]
        if not arguments:
            raise TreefoldError("nothing to run: box.py exec NODE -- COMMAND...")
        os.execvp("ip", ["ip", "netns", "exec", box.namespace(wanted.node), *arguments])
    elif wanted.command == "rate":
        box.rate(wanted.source, wanted.target, wanted.bandwidth, wanted.both)
    elif wanted.command == "cut":
        box.cut(wanted.source, wanted.target, wanted.down, wanted.reroute)
    else:
        box.mend(wanted.source, wanted.target)
    return 0


def main() -> int:
    """Run the command line; errors are a line and exit code 2."""
    return running.exit_code(lambda: command(parser().parse_args()))


if __name__ == "__main__":
    sys.exit(main())
