"""A box that is up: runs commands in its nodes, and changes its cables while traffic flows."""

import contextlib
import math
import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import treefold
from tools.wan_box import building, delays, firewalls, losses, network, processes, routing, shaping, system
from tools.wan_box import state as states
from tools.wan_box.interrupts import ends_cleanly, held_back
from tools.wan_box.names import DEVICE, address, device
from tools.wan_box.network import Direction, Pair
from tools.wan_box.processes import Outcome, Running
from tools.wan_box.state import State, both_ways, cable
from treefold import TreefoldError
from treefold._core import format_bandwidth, parse_bandwidth

_FIRST_PORT = 29500
_PORTS = 1000
_FLOW = [sys.executable, "-ES", str(Path(__file__).with_name("flow.py"))]


class Box:
    """A box that is up; its state is what its file remembers."""

    def __init__(self, state: State):
        self.state = state
        self.processes: list[subprocess.Popen[Any]] = []
        self._runs = 0

    @property
    def network(self) -> network.Network:
        """The network as it is now: changed rates are in it, and cut cables too."""
        return self.state.network

    @property
    def workers(self) -> list[str]:
        """The workers' names, rank 0 first."""
        return [self.network.nodes[place] for place in self.network.workers]

    def place(self, node: str) -> int:
        """Return a node's place; the error lists the nodes."""
        if node not in self.network.nodes:
            raise TreefoldError(f"the box has no node {node!r}; it has {', '.join(self.network.nodes)}")
        return self.network.nodes.index(node)

    def address(self, node: str) -> str:
        """Return a node's address."""
        return address(self.place(node))

    def namespace(self, node: str) -> str:
        """Return a node's network namespace."""
        return self.state.namespace(self.place(node))

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
            shown = complaint.strip()[-processes.TAIL :]
            raise TreefoldError(f"`{' '.join(map(str, command))}` failed in {node}: {shown}")
        return str(output)

    def run_all(
        self,
        command: Sequence[str],
        env: Mapping[str, str] | None = None,
        timeout_s: float = 600.0,
        order: Sequence[str] | None = None,
        check: bool = True,
        meanwhile: Callable[[], None] = lambda: None,
        keys: Path | None = None,
    ) -> list[Outcome]:
        """Run a command on every worker, rank 0 first, and return what each left.

        `order` names the workers in another order. When one fails, all are ended and the error names it; with
        `check=False` the others go on. `meanwhile` is called about twenty times a second. `keys` is a folder with a
        certificate for each worker, by its name.
        """
        order = list(order or self.workers)
        running: list[Running] = []
        with contextlib.ExitStack() as stack:
            try:
                for node, own in zip(order, self._environments(order), strict=True):
                    own |= {} if keys is None else {"TREEFOLD_TLS": str(keys / node)}
                    out, err = stack.enter_context(processes.files())
                    process = self.popen(node, command, {**own, **(env or {})}, stdout=out, stderr=err)
                    running.append(Running(node, process, out, err))
                late = processes.wait(running, timeout_s, check, meanwhile)
            finally:
                self.end([one.process for one in running])
            outcomes = [one.outcome() for one in running]
        if late or check:
            processes.judge(command, outcomes, late, timeout_s)
        return outcomes

    def _environments(self, order: Sequence[str]) -> list[dict[str, str]]:
        """Return what tells each worker who it is and where rank 0 listens: on another port in each run."""
        port = _FIRST_PORT + self._runs % _PORTS
        self._runs += 1
        common = {
            "WORLD_SIZE": str(len(order)),
            "LOCAL_RANK": "0",
            "MASTER_ADDR": self.address(order[0]),
            "MASTER_PORT": str(port),
            "GLOO_SOCKET_IFNAME": DEVICE,
            "PYTHONUNBUFFERED": "1",
        }
        return [{**common, "RANK": str(rank), "TREEFOLD_NAME": node} for rank, node in enumerate(order)]

    def end(self, running: Sequence[subprocess.Popen[Any]]) -> None:
        """End processes that this box started, with what they started."""
        for process in list(running):
            processes.end(process)
            if process in self.processes:
                self.processes.remove(process)

    def _pair(self, source: str, target: str) -> Pair:
        """Return the places of a cable's ends; the error lists the neighbours."""
        a, b = self.place(source), self.place(target)
        if (a, b) not in self.network.directions:
            neighbours = sorted(self.network.nodes[y] for x, y in self.network.directions if x == a)
            raise TreefoldError(f"no cable joins {source} and {target}; {source} has cables to {', '.join(neighbours)}")
        return a, b

    def rate(self, source: str, target: str, bandwidth: str | float, both: bool = False) -> None:
        """Change the rate from source to target, a text with its unit or bytes a second, while traffic flows."""
        value = parse_bandwidth(bandwidth) if isinstance(bandwidth, str) else bandwidth
        if value > network.MOST_BPS:
            raise TreefoldError(f"{bandwidth} is more than a box carries: {format_bandwidth(network.MOST_BPS)} a link")
        a, b = self._pair(source, target)
        pairs = [(a, b), (b, a)] if both else [(a, b)]
        changed = {pair: Direction(value, self.network.directions[pair].latency_s) for pair in pairs}
        self.state.network = replace(self.network, directions=self.network.directions | changed)
        for pair in pairs:
            if cable(*pair) not in self.state.cut:
                shaping.shape(self.state, pair)
        states.save(self.state)

    def latency(self, source: str, target: str, latency_s: float) -> None:
        """Change the latency of a cable, both ways and in seconds, while traffic flows; a few packets may be lost.

        Both the old and the new latency must be positive, as a cable without latency has nothing that delays packets.
        """
        a, b = self._pair(source, target)
        pairs, directions = [(a, b), (b, a)], self.network.directions
        if latency_s <= 0 or any(directions[pair].latency_s <= 0 for pair in pairs) or self.state.delays == "none":
            raise TreefoldError(f"the latency of the cable {source} - {target} cannot change to or from 0 s")
        changed = {pair: Direction(directions[pair].bandwidth_Bps, latency_s) for pair in pairs}
        self.state.network = replace(self.network, directions=directions | changed)
        delays.change_delays(self.state, pairs)
        states.save(self.state)

    def cut(self, source: str, target: str, down: bool = False, reroute: bool = False) -> None:
        """Lose every packet of a cable, both ways. Its devices stay up, as routers see a far link die, unless `down`.

        With `reroute` packets take another route, as they would once the routers have noticed.
        """
        a, b = self._pair(source, target)
        for pair in ((a, b), (b, a)):
            shaping.lose_all(self.state, pair)
            if down:
                self._set_device(pair, "down")
        self.state.cut.add(cable(a, b))
        if down:
            self.state.off.add(cable(a, b))
        if reroute:
            self.state.is_rerouted = True
            routing.set_routes(self.state)
        states.save(self.state)

    def mend(self, source: str | None = None, target: str | None = None) -> None:
        """Bring a cable back as it was, or every one that was cut; firewalls between the same nodes go, or all."""
        if source and target:
            between = both_ways({(self.place(source), self.place(target))})
            walls = between & self.state.firewalls
            mended = {cable(*pair) for pair in between & self.network.directions.keys()}
            if not walls and not mended:
                self._pair(source, target)
        else:
            mended, walls = set(self.state.cut), set(self.state.firewalls)
        for pair in sorted(both_ways(mended)):
            self._set_device(pair, "up")
            shaping.shape(self.state, pair)
        self.state.cut -= mended
        self.state.off -= mended
        self.state.is_rerouted = bool(self.state.cut) and self.state.is_rerouted
        routing.set_routes(self.state)
        self.state.firewalls -= walls
        for place in {b for _, b in walls}:
            firewalls.set_firewalls(self.state, place)
        states.save(self.state)

    def firewall(self, source: str, target: str) -> None:
        """Keep source from opening TCP connections to target, which can still open them to source; `mend` undoes it."""
        pair = self._two(source, target)
        self.state.firewalls.add(pair)
        firewalls.set_firewalls(self.state, pair[1])
        states.save(self.state)

    def _two(self, source: str, target: str) -> Pair:
        """Return the places of two nodes; the error says that they are one."""
        a, b = self.place(source), self.place(target)
        if a == b:
            raise TreefoldError(f"source and target are both {source}; name two nodes")
        return a, b

    @contextlib.contextmanager
    def traffic(
        self, source: str, target: str, rate: str | float, on_s: float = 1.0, off_s: float = 0.0
    ) -> Iterator[subprocess.Popen[Any]]:
        """Send traffic that is not ours from source to target until the end of the `with`, or of the box.

        It sends datagrams at this rate, a text with its unit or bytes a second with headers, for `on_s` seconds and
        nothing for `off_s`, over and over; it does not give way to others. It yields the process that sends.
        """
        value = parse_bandwidth(rate) if isinstance(rate, str) else rate
        self._two(source, target)
        if not 0 < value <= network.MOST_BPS:
            raise TreefoldError(f"rate {rate} is not one that a box carries; write for example 20Mbit/s")
        if not (0 < on_s < math.inf and 0 <= off_s < math.inf):
            raise TreefoldError(f"traffic is on for {on_s} s and off for {off_s} s; the first must be above 0 s")
        options: dict[str, Any] = {"stdout": subprocess.PIPE, "text": True}
        receiver = self.popen(target, [*_FLOW, "hold"], **options)
        started = [receiver]
        try:
            port = _line(receiver)
            sender = self.popen(
                source, [*_FLOW, "disturb", self.address(target), port, *map(str, (value, on_s, off_s))], **options
            )
            started.append(sender)
            _line(sender)
            yield sender
        finally:
            self.end(started)

    def _set_device(self, pair: Pair, condition: str) -> None:
        a, b = pair
        system.ip([f"link set {device(b)} {condition}"], self.state.namespace(a))

    def down(self) -> None:
        """Take the box down: its processes, its delays, its namespaces, its file. Interrupts wait until then."""
        with held_back():
            self.end(list(self.processes))
            building.take_down(self.state)

    def describe(self) -> str:
        """Return the box's nodes, addresses and cables, for people."""
        state, nodes = self.state, self.network.nodes
        process = state.delay_process
        condition = "" if not process else " (running)" if process.is_running else " (DEAD)"
        lines = [
            f"box {state.name}: {self.network.name}, {len(nodes)} nodes, {len(self.workers)} workers",
            f"delays: {state.delays}{condition}; loss: {losses.shown(state.loss)}; "
            f"congestion control: {state.congestion_control}",
        ]
        for place, node in enumerate(nodes):
            lines.append(f"  {node}  {address(place)}  namespace {state.namespace(place)}")
        for (a, b), direction in sorted(self.network.directions.items()):
            note = " cut" if cable(a, b) in state.cut else "" if (a, b) in self.network.links else " (idle)"
            rate, latency = f"{direction.bandwidth_Bps * 8e-6:g} Mbit/s", f"{direction.latency_s * 1e3:g} ms"
            lines.append(f"  {nodes[a]} -> {nodes[b]}  {rate}  {latency}{note}")
        lines += [f"  {nodes[a]} cannot open connections to {nodes[b]}" for a, b in sorted(state.firewalls)]
        return "\n".join(lines)


def _line(process: subprocess.Popen[Any]) -> str:
    """Return the first line of a helper's output, which tells that it is ready."""
    assert process.stdout
    line = str(process.stdout.readline()).strip()
    if not line:
        raise TreefoldError(f"`{process.args!r}` ended before it was ready")
    return line


def start(
    topology: str | Path | treefold.Topology,
    name: str = "box",
    delay: bool = True,
    congestion: str | None = None,
    loss: float | None = None,
) -> Box:
    """Build a box from a topology, a file or a spec; it stays up until `down`. Whatever fails leaves nothing behind.

    Each cable loses the share `loss` of its frames; 0 cuts packets into frames and loses none, to compare with.
    """
    wanted = network.read(topology)
    losses.check(loss, delay)
    system.require("ip", "tc")
    state = states.new(name, wanted, loss)
    try:
        states.claim(state)
        building.build(state, delay, congestion)
        states.save(state)
    except BaseException:
        if states.is_claimed(state):
            with held_back():
                building.take_down(state)
        raise
    return Box(state)


def attach(name: str = "box") -> Box:
    """Return a box that is up."""
    return Box(states.load(name))


@contextlib.contextmanager
def up(
    topology: str | Path | treefold.Topology,
    name: str = "box",
    delay: bool = True,
    congestion: str | None = None,
    loss: float | None = None,
) -> Iterator[Box]:
    """Build a box and take it down at the end, also after an error, Ctrl-C, SIGTERM or SIGHUP."""
    with ends_cleanly():
        box = start(topology, name, delay, congestion, loss)
        try:
            yield box
        finally:
            box.down()
