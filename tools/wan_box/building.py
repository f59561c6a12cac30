"""Builds a box, namespaces first and delays last, and removes all that was built."""

from dataclasses import dataclass

from tools.wan_box import delays, losses, routing, system
from tools.wan_box import state as states
from tools.wan_box.names import DEVICE, address, device, hardware
from tools.wan_box.shaping import BURST_BYTES, shape
from tools.wan_box.state import State
from treefold import TreefoldError

_SETTINGS = {
    "net/ipv4/ip_forward": "1",
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/default/rp_filter": "0",
    "net/ipv6/conf/all/disable_ipv6": "1",
    "net/ipv6/conf/default/disable_ipv6": "1",
    # Else a connection starts with what an earlier one to the same address measured, cut or slow links included.
    "net/ipv4/tcp_no_metrics_save": "1",
}


@dataclass(frozen=True)
class _Abilities:
    """The abilities of this kernel."""

    device: str
    """The kind of device that can hold an address."""
    delays: str
    """The means that can delay packets."""


def build(state: State, delay: bool, congestion: str | None) -> None:
    """Make the namespaces, devices, rates, routes and delays of a box."""
    _make_namespaces(state)
    abilities = _abilities(state.namespaces[0])
    for namespace in state.namespaces:
        system.configure(namespace, _SETTINGS)
        state.congestion_control = system.set_congestion_control(namespace, congestion)
    _make_devices(state, abilities.device)
    for pair in state.network.directions:
        shape(state, pair)
    routing.set_routes(state)
    if state.loss is not None:
        losses.set_losses(state)
        delays.set_delays(state, "nfqueue")
    elif delay and any(direction.latency_s for direction in state.network.directions.values()):
        delays.set_delays(state, abilities.delays)


def _make_namespaces(state: State) -> None:
    namespaces = [state.namespace(place) for place in range(len(state.network.nodes))]
    taken = set(system.run("ip", "netns", "list").split()) & set(namespaces)
    if taken:
        raise TreefoldError(f"a network namespace {min(taken)} exists already: use another --name")
    state.namespaces = namespaces
    states.save(state)
    system.ip(f"netns add {namespace}" for namespace in state.namespaces)


def _abilities(namespace: str) -> _Abilities:
    """Try in a namespace of ours what this kernel has."""
    kinds = [
        kind for kind in ("bridge", "dummy") if system.accepts(namespace, "ip", f"link add try-{kind} type {kind}")
    ]
    if not kinds:
        raise TreefoldError("this kernel has neither bridge nor dummy devices: nothing can hold a node's address")
    has_netem = system.accepts(namespace, "tc", f"qdisc add dev try-{kinds[0]} root netem delay 1ms")
    for kind in kinds:
        system.run("ip", "-n", namespace, "link", "del", f"try-{kind}")
    return _Abilities(kinds[0], "netem" if has_netem else "nfqueue")


def _make_devices(state: State, kind: str) -> None:
    """Make a veth pair for each cable, and on each node a device that holds its address; set all of them up."""
    directions, inside = state.network.directions, state.namespaces
    system.ip(
        f"link add {device(b)} address {hardware(a, b)} netns {inside[a]} type veth "
        f"peer name {device(a)} address {hardware(b, a)} netns {inside[b]}"
        for a, b in directions
        if a < b
    )
    for place, namespace in enumerate(inside):
        ends = [device(b) for a, b in directions if a == place]
        own = [f"link add {DEVICE} type {kind}", f"addr add {address(place)}/32 dev {DEVICE}"]
        bursts = [f"link set {end} gso_max_size {BURST_BYTES}" for end in ends]
        ready = [f"link set {end} up" for end in ("lo", DEVICE, *ends)]
        system.ip([*own, *bursts, *ready], namespace)


def take_down(state: State) -> None:
    """Remove all that a box made, however far it got."""
    if state.delay_process:
        system.end(state.delay_process)
    for namespace in state.namespaces:
        system.remove(namespace)
    states.forget(state.name)
