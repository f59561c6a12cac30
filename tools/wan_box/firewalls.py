"""Has nodes refuse TCP connections that certain others open to them, as firewalls and address translation do.

A firewall stands in front of the node that is called. It drops the packet that opens a connection (SYN without ACK) and
lets all others pass, so that the node itself can call, and gets answers. The caller hears nothing, as with most
firewalls, and waits until its own time is over.
"""

from tools.wan_box import system
from tools.wan_box.names import address
from tools.wan_box.state import State


def set_firewalls(state: State, target: int) -> None:
    """Write the firewall of a node as the state has it, in place of the one before."""
    system.require("iptables-legacy-restore")
    sources = sorted(a for a, b in state.firewalls if b == target)
    rules = [f"-A INPUT -s {address(source)} -p tcp --syn -j DROP" for source in sources]
    text = "\n".join(["*filter", *rules, "COMMIT\n"])
    system.run_inside(state.namespace(target), "iptables-legacy-restore", "-w", stdin=text)
