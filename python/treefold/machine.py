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
    buffer_flits: int | None = _parameter(
        None, "Flits that a virtual channel buffers; by default 318, where switches reduce a credit's round trip."
    )
    payload_bytes: int | None = _parameter(
        None, "Payload of a packet; by default 256 bytes, where switches reduce 128.", "--payload"
    )
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
    switches: str | None = _parameter(
        None,
        "What switches are: routers (flit by flit) or a fabric of shared memory (packet by packet, acknowledged); "
        "by default a fabric if one of them reduces, multicasts and has a latency.",
    )
    table_bytes: int | None = _parameter(
        None,
        "Reduction table of a switch's port; by default 4096 bytes for pulls, else 256, or more where many operands "
        "meet in few ports.",
        "--table",
    )
    wave_bytes: int = _parameter(8192, "Of a wave.", "--wave")
    waves: int | None = _parameter(
        None,
        "Waves that a rank may have outstanding, 0 for any number; "
        "by default as many as all tables hold, at least 16, for pulls 4.",
    )
    speedup: int = _parameter(4, "Flits that cross a switch for each that leaves.")
    queue_flits: int | None = _parameter(None, "Output queue of a switch; by default a credit's round trip.")
    memory_cycles: int = _parameter(180, "Cycles of a read.")
    memory_spread: int = _parameter(180, "Cycles below which a read takes longer at random.")
    timeout_cycles: int | None = _parameter(
        None,
        "Cycles after which an entry is evicted that nobody touches; by default ten times the farthest way, or what "
        "the busiest link takes for what is outstanding.",
    )
    barrier: bool = _parameter(False, "Wait for each other before pulling.")
    initiation: str = _parameter("dma", "Who issues requests: dma (in order) or core (as reads come back).")
    reorder: int = _parameter(1, "Requests of which an accelerator picks the next at random; 1 is in order.")
    window: int = _parameter(1024, "Requests that may wait for a port of an accelerator.")
    credit: str = _parameter(
        "result", "When a pull's wave is over: at its result, or at everybody's acknowledgement (acknowledgement)."
    )
    homes: str = _parameter(
        "interleaved", "How lines are dealt to home ports of pushes: interleaved, shuffled or hashed."
    )
    partials: str = _parameter(
        "home", "What becomes of a push's partial sums: to a home accelerator (home), or to all (multicast)."
    )
    deterministic: bool = _parameter(False, "Add operands in a fixed order, in tables as large as that needs.")
    sync_cost_s: float = _parameter(
        80e-9, "Software in a fabric: from a flag's arrival to what it lets begin; calibrated.", "--sync-cost"
    )
    fence: str = _parameter(
        "ordered",
        "Software in a fabric: whether a flag just follows its data (ordered) or waits for their "
        "acknowledgements (acknowledged).",
    )
    seed: int = _parameter(1, "Of what is random.", "--memory-seed")

    def options(self) -> dict[str, Any]:
        """Return the core's keyword arguments."""
        return asdict(self)
