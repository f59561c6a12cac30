"""Gives a device of a cable its rate by a token bucket, and with netem its delay."""

from tools.wan_box import system
from tools.wan_box.names import device
from tools.wan_box.network import Pair
from tools.wan_box.state import State

BURST_BYTES = 28 << 10
"""The longest packet that a kernel hands to a cable. TBF cuts what exceeds its bucket into frames and wakes up for each
of them, which costs more processor time than all else on a box; a real cable's driver cuts for nothing."""
_PACKET_BYTES = 1514
_QUEUE_S = 0.05


def shape(state: State, pair: Pair) -> None:
    """Give the device from one place to another its rate, and with netem its delay."""
    a, b = pair
    direction, target = state.network.directions[pair], device(b)
    rate = max(8, round(direction.bandwidth_Bps * 8))
    lines = [f"qdisc replace dev {target} root handle 1: tbf rate {rate}bit burst 32kb latency 50ms"]
    if state.delays == "netem" and direction.latency_s:
        packets = 100 + round(direction.bandwidth_Bps * (direction.latency_s + _QUEUE_S) / _PACKET_BYTES)
        delay = f"delay {round(direction.latency_s * 1e6)}us limit {packets}"
        lines.append(f"qdisc replace dev {target} parent 1:1 handle 10: netem {delay}")
    system.tc(lines, state.namespace(a))


def lose_all(state: State, pair: Pair) -> None:
    """Have the device from one place to another lose every packet."""
    a, b = pair
    system.tc([f"qdisc replace dev {device(b)} root blackhole"], state.namespace(a))
