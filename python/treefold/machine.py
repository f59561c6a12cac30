"""The machine on which the packet simulator runs a plan: routers, network interfaces, adders.

Defaults are those of the MultiTree paper (its Table III). The command line's options are made from these fields.
"""

from dataclasses import asdict, dataclass, field
from typing import Any


def _parameter(default: Any, help_text: str, flag: str | None = None) -> Any:
    return field(default=default, metadata={"help": help_text, "flag": flag})


@dataclass(frozen=True, kw_only=True)
class Machine:
    """What the packet simulator simulates; `None` stands for a default that depends on the network or the plan."""

    ni: str = _parameter(
        "bound", "Interfaces: bound to a port each, or shared (any free one, as the authors' simulator)."
    )
    ports: int | None = _parameter(
        None, "Interfaces of a rank; by default one a link (shared: as many as the plan uses)."
    )
    lockstep: bool | None = _parameter(
        None, "Wait out steps without messages; by default where the plan uses no link twice in a step."
    )
    flow_control: str = _parameter("packet", "packet (a head flit each 256 bytes) or message (a head flit a message).")
    virtual_channels: int = _parameter(4, "Virtual channels of a port.")
    buffer_flits: int = _parameter(318, "Flits that a virtual channel buffers.")
    payload_bytes: int = _parameter(256, "Payload of a packet.", "--payload")
    flit_bytes: int = _parameter(16, "Width of a flit.", "--flit")
    clock_hz: float | None = _parameter(
        None, "Clock of routers and interfaces; by default 1GHz, more where the fastest link needs it.", "--clock"
    )
    router_cycles: int | None = _parameter(None, "Pipeline of a router; by default 3 in accelerators, 4 in switches.")
    ni_messages: int = _parameter(48, "Payloads that an interface buffers before its injection queue.")
    injection_flits: int | None = _parameter(
        None, "Injection queue; by default 80 where accelerators have routers, a channel's buffer elsewhere."
    )
    processing_elements: int = _parameter(
        16, "Adders of an accelerator; n elements take them ceil(ceil(n / adders) / lanes) x adders cycles."
    )
    lanes: int = _parameter(32, "Elements that each takes at a time.")

    def options(self) -> dict[str, Any]:
        """Return the core's keyword arguments."""
        return asdict(self)
