"""Makes a box's namespaces, devices, rates, routes and delays, and removes them; and how these are named."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import system

from treefold import TreefoldError

if TYPE_CHECKING:
    from box import Box

DEVICE = "node"


def address(place: int) -> str:
    """Return the address of the node at this place of the topology."""
    return f"10.77.{place // 250}.{place % 250 + 1}"


def hardware(a: int, b: int) -> str:
    """Return the hardware address of the device from node a to node b: neighbours know it without asking."""
    return f"02:54:{a >> 8:02x}:{a & 255:02x}:{b >> 8:02x}:{b & 255:02x}"


def namespace(state: dict[str, Any], place: int) -> str:
    """Return the network namespace of the node at this place."""
    return f"{state['name']}-{place}"


def build(box: Box, congestion: str | None) -> None:
    """Make namespaces, devices, rates and routes."""
    state, network = box.state, box.network
    places = range(len(network.nodes))
    inside = [namespace(state, place) for place in places]
    taken = set(system.run("ip", "netns", "list").split()) & set(inside)
    if taken:
        raise TreefoldError(f"a network namespace {min(taken)} exists already: use another --name")
    state["made"] = inside
    system.save(state)
    system.ip(f"netns add {one}" for one in inside)
    state.update(system.abilities(inside[0]))
    state["engine"], state["delays"] = state["delays"], "none"
    for place in places:
        system.configure(inside[place], system.SETTINGS)
        state["congestion_control"] = system.congestion_control(inside[place], congestion)
    system.ip(
        f"link add to{b} address {hardware(a, b)} netns {inside[a]} type veth "
        f"peer name to{a} address {hardware(b, a)} netns {inside[b]}"
        for a, b in network.directions
        if a < b
    )
    for place in places:
        devices = [f"to{b}" for a, b in network.directions if a == place]
        own = [f"link add {DEVICE} type {state['device']}", f"addr add {address(place)}/32 dev {DEVICE}"]
        bursts = [f"link set {device} gso_max_size {system.BURST_BYTES}" for device in devices]
        ready = [f"link set {device} up" for device in ("lo", DEVICE, *devices)]
        system.ip([*own, *bursts, *ready], inside[place])
    for pair in network.directions:
        box.shape(*pair)
    box.set_routes()


def set_delays(box: Box) -> None:
    """Delay what crosses the cables, with netem or the delay process."""
    state, ways = box.state, box.network.directions
    state["delays"] = state["engine"]
    if state["delays"] == "netem":
        for pair in ways:
            box.shape(*pair)
        return
    system.require("iptables-legacy-restore")
    # On arrival: a packet has then got through the sender's rate, as on a real wire.
    queues = [(namespace(state, b), f"to{a}", way.latency_s) for (a, b), way in ways.items() if way.latency_s]
    state["delay_process"] = system.start_delays(queues)
    system.save(state)
    system.queue_arrivals(queues)


def take_down(state: dict[str, Any]) -> None:
    """Remove all that a box made, however far it got."""
    if "delay_process" in state:
        system.end(state["delay_process"])
    for made in state.get("made", []):
        system.remove(made)
    system.forget(state["name"])
