"""Gives every node its neighbours and a route to every other node."""

from tools.wan_box import system
from tools.wan_box.names import address, device, hardware
from tools.wan_box.network import next_hops
from tools.wan_box.state import State, both_ways


def set_routes(state: State) -> None:
    """Set all neighbours and routes as the state has them; nothing is set on devices that are down."""
    network, off = state.network, both_ways(state.off)
    hops = next_hops(network, both_ways(state.cut) if state.is_rerouted else ())
    for place, nexts in enumerate(hops):
        lines = [
            f"neigh replace {address(b)} lladdr {hardware(b, a)} dev {device(b)} nud permanent"
            for a, b in network.directions
            if a == place and (a, b) not in off
        ]
        lines += [
            f"route replace {address(target)}/32 via {address(hop)} dev {device(hop)} onlink src {address(place)}"
            for target, hop in nexts.items()
            if (place, hop) not in off
        ]
        system.ip(lines, state.namespace(place))
