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
        "bound", "How messages choose an interface: each port has its own (bound), or any free one serves (shared)."
    )
    ports: int | None = _parameter(
        None, "How many interfaces a rank has; by default one a link (if shared, as many as the plan uses)."
    )
    lockstep: bool | None = _parameter(
        None,
        "Make ranks wait out steps in which they send nothing; by default where the plan uses no link twice in a step.",
    )
    flow_control: str = _parameter(
        "packet", "How often a head flit is sent: once a packet of 256 bytes (packet), or once a message (message)."
    )
    virtual_channels: int = _parameter(4, "How many virtual channels a port has.")
    buffer_flits: int | None = _parameter(
        None, "How many flits a virtual channel buffers; by default 318, in switches that reduce a credit's round trip."
    )
    payload_bytes: int | None = _parameter(
        None, "How many bytes a packet carries; by default 256, or 128 where switches reduce.", "--payload"
    )
    flit_bytes: int = _parameter(16, "How many bytes a flit has.", "--flit")
    clock_hz: float | None = _parameter(
        None,
        "The clock of routers and interfaces; by default 1GHz, or more where the fastest link needs it.",
        "--clock",
    )
    router_cycles: int | None = _parameter(
        None, "How many stages a router's pipeline has; by default 3 in accelerators, 4 in switches."
    )
    ni_messages: int = _parameter(48, "How many payloads an interface buffers before its injection queue.")
    injection_flits: int | None = _parameter(
        None,
        "How long the injection queue is; by default 80 flits if accelerators have routers, else a channel's buffer.",
    )
    processing_elements: int = _parameter(
        16, "How many adders an accelerator has; n elements take ceil(ceil(n / adders) / lanes) x adders cycles."
    )
    lanes: int = _parameter(32, "How many elements an adder takes at a time.")
    switches: str | None = _parameter(
        None,
        "What switches are: routers (flit by flit), or a fabric of shared memory (packet by packet, acknowledged); "
        "by default a fabric if one of them reduces, multicasts and has a latency.",
    )
    table_bytes: int | None = _parameter(
        None,
        "How large the reduction table of a switch's port is; by default 4096 bytes for pulls, else 256, or more where "
        "many operands meet in few ports.",
        "--table",
    )
    wave_bytes: int = _parameter(8192, "How large a wave is.", "--wave")
    waves: int | None = _parameter(
        None,
        "How many waves a rank may have outstanding, 0 for any number; by default as many as all tables hold and at "
        "least 16, for pulls 4.",
    )
    speedup: int = _parameter(4, "How many flits cross a switch while one leaves it.")
    queue_flits: int | None = _parameter(None, "How long a switch's output queue is; by default a credit's round trip.")
    memory_cycles: int = _parameter(180, "How many cycles a read from memory takes at least.")
    memory_spread: int = _parameter(180, "How many cycles longer a read may take, at random.")
    timeout_cycles: int | None = _parameter(
        None,
        "After how many cycles an entry that nobody touches is evicted; by default ten times the longest route, or "
        "what the busiest link takes for all that is outstanding.",
    )
    barrier: bool = _parameter(False, "Make accelerators wait for each other before they pull.")
    initiation: str = _parameter("dma", "Who issues requests: dma (in order) or core (as reads come back).")
    reorder: int = _parameter(
        1, "Among how many requests an accelerator picks the next at random; 1 keeps them in order."
    )
    window: int = _parameter(1024, "How many requests may wait for a port of an accelerator.")
    credit: str = _parameter(
        "result",
        "When a pull's wave is over: with its result (result), or once all have acknowledged it (acknowledgement).",
    )
    homes: str = _parameter(
        "interleaved", "How the lines of a push are mapped to home ports: interleaved, shuffled or hashed."
    )
    partials: str = _parameter(
        "home", "Where a push's evicted partial sums go: to a home accelerator (home), or to all (multicast)."
    )
    deterministic: bool = _parameter(
        False, "Make switches add operands in a fixed order, with tables as large as that needs."
    )
    sync_cost_s: float = _parameter(
        80e-9,
        "How long software takes from a flag's arrival to what it lets begin (in a fabric; calibrated).",
        "--sync-cost",
    )
    fence: str = _parameter(
        "ordered",
        "Whether a flag just follows its data (ordered), or waits until they are acknowledged (acknowledged); for "
        "software in a fabric.",
    )
    seed: int = _parameter(1, "The seed of all that is random in the machine.", "--memory-seed")

    def options(self) -> dict[str, Any]:
        """Return the core's keyword arguments."""
        return asdict(self)
