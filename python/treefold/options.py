"""The options of planners and of the packet simulator's machine, as the core declares them.

`make options` writes this file from the declarations in the core; do not edit it.
"""

from dataclasses import dataclass
from typing import Literal, TypedDict


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The machine on which the packet simulator runs a plan.

    A quantity is a number of its base unit (bytes, seconds, bytes a second, Hz), or a text with a unit, such as 8KiB.
    None stands for a default that depends on the network or the plan.

    Example:
        >>> machine = treefold.Machine(virtual_channels=2, payload="64B")
        >>> treefold.simulate(treefold.plan("torus:4x4", "ring"), size_bytes=4096, model=machine).packets.packets
        1920

    """

    interfaces: Literal["bound", "shared"] = "bound"
    """How messages choose an interface: each port has its own (bound), or any free one serves (shared). (MultiTree,
    section IV-A)
    """
    ports: int | None = None
    """How many interfaces a rank has; by default one a link (if shared, as many as the plan uses). (MultiTree,
    section IV-A)
    """
    lockstep: bool | None = None
    """Make ranks wait out steps in which they send nothing; by default where the plan uses no link twice in a step.
    (MultiTree, section IV-A)
    """
    flow_control: Literal["packet", "message"] = "packet"
    """How often a head flit is sent: once a packet (packet), or once a message (message). (MultiTree, section IV-B)"""
    virtual_channels: int = 4
    """How many virtual channels a link and an injection port have. (MultiTree, Table III)"""
    buffer_flits: int | None = None
    """How many flits a virtual channel buffers; by default 318, in switches that reduce a credit's round trip.
    (MultiTree, Table III)
    """
    flit: int | str = "16B"
    """How many bytes a flit has. (MultiTree, the authors' simulator)"""
    payload: int | str | None = None
    """How many bytes a packet carries; by default 256B, or 128B where switches reduce. (MultiTree, Table III; in-
    network, section V)
    """
    clock: float | str | None = None
    """The clock of routers and interfaces; by default 1GHz, or more where the fastest link needs it. (MultiTree,
    Table III)
    """
    router_cycles: int | None = None
    """How many cycles a router's pipeline takes; by default 3 in accelerators, 4 in switches. (MultiTree, the
    authors' simulator)
    """
    interface_messages: int = 48
    """How many payloads an interface buffers before its injection queue. (MultiTree, the authors' simulator)"""
    injection_flits: int | None = None
    """How many flits the injection queue holds; by default 80 if accelerators have routers, else a channel's buffer.
    (MultiTree, the authors' simulator)
    """
    processing_elements: int = 16
    """How many adders an accelerator has; n elements take ceil(ceil(n / adders) / lanes) x adders cycles.
    (MultiTree, Table III)
    """
    lanes: int = 32
    """How many elements an adder takes at a time. (MultiTree, Table III)"""
    switches: Literal["routers", "fabric"] | None = None
    """What switches are: routers (flit by flit), or a fabric of shared memory (packet by packet, acknowledged); by
    default a fabric if the plan has switches in its trees, or they reduce and have a latency. (in-network,
    section IV)
    """
    table: int | str | None = None
    """How large the reduction table of a switch's port is; by default 4KiB for pulls, else 256B, or more where many
    operands meet in few ports. (in-network, sections IV-D and VI-C)
    """
    wave: int | str = "8KiB"
    """How large a wave is. (in-network, section IV-F)"""
    waves: int | None = None
    """How many waves a rank may have outstanding, 0 for any number; by default as many as all tables hold and at
    least 16, for pulls 4. (in-network, section IV-F)
    """
    speedup: int = 4
    """How many flits cross a switch while one leaves it. (in-network, section IV-E)"""
    queue_flits: int | None = None
    """How many flits a switch's output queue holds for each class; by default a credit's round trip. (in-network,
    section V)
    """
    memory_cycles: int = 180
    """How many cycles a read from memory takes at least. (in-network, section V)"""
    memory_spread: int = 180
    """How many cycles longer a read may take, at random; the number itself is not reached. (in-network, section V)"""
    timeout_cycles: int | None = None
    """After how many cycles a table's untouched entry is evicted; by default ten times the longest route, or as long
    as the busiest link takes for all that is outstanding. (in-network, section IV-C)
    """
    barrier: bool = False
    """Make ranks wait for each other before they pull. (in-network, section IV-B)"""
    initiation: Literal["dma", "core"] = "dma"
    """Who issues requests: a DMA engine in order (dma), or cores as reads come back (core). (in-network, section
    IV-F)
    """
    reorder: int = 1
    """Among how many requests an accelerator picks the next at random; 1 keeps them in order. (in-network, section
    IV-F)
    """
    window: int = 1024
    """How many requests may wait for a port of an accelerator."""
    credit: Literal["result", "acknowledgement"] = "result"
    """When a pull's wave is over: with its result (result), or once all have acknowledged it (acknowledgement). (in-
    network, section IV-F)
    """
    home_mapping: Literal["interleaved", "shuffled", "hashed"] = "interleaved"
    """How the lines of a push are mapped to home ports: interleaved, shuffled or hashed. (in-network, section IV-C)"""
    eviction_policy: Literal["home", "multicast"] = "home"
    """Where a push's evicted partial sums go: to a home accelerator (home), or to all (multicast). (in-network,
    section IV-C)
    """
    deterministic: bool = False
    """Make switches add operands in a fixed order, with tables as large as that needs. (in-network, section IV-E)"""
    sync_cost: float | str = "80ns"
    """How long software takes from a flag's arrival to the work that it lets begin; the default is calibrated. (in-
    network, section V)
    """
    fence: Literal["ordered", "acknowledged"] = "ordered"
    """Whether software's flag just follows its data (ordered), or waits until they are acknowledged (acknowledged).
    (in-network, section V)
    """
    seed: int = 1
    """The seed of all that is random in the machine."""


@dataclass(frozen=True, kw_only=True)
class PlannerOptions:
    """What a caller asks of a planner, as the core has read it.

    A quantity is a number of its base unit (bytes, seconds, bytes a second, Hz).
    None stands for a default that depends on the network or the plan.

    Example:
        >>> treefold.plan("b4", "packing", trees=4, height=5).num_trees <= treefold.PlannerOptions(trees=4).trees
        True

    """

    trees: int | None = None
    """How many trees a plan may have; MultiTree grows exactly so many. (MTree, section III-B)"""
    height: int | None = None
    """How high a tree may be, in the unit that heights has. (MTree, section III-A)"""
    heights: Literal["hops", "latency"] = "hops"
    """How heights count: hops, or multiples of the least link's latency (latency). (MTree, section III-A)"""
    least_rate: float | None = None
    """How much each tree carries at least. (MTree, section III-A)"""
    rho: float = 1.0
    """The part of the total rate that lower trees must keep. (MTree, section III-A)"""
    seed: int = 1
    """The seed of all that is drawn at random."""
    pipeline: bool = True
    """Whether streamed trees send their parts in chunks. (MTree, section III-C)"""
    tree_order: Literal["ascending", "remaining-height"] | None = None
    """The order in which trees take turns within a step; by default the better one for the network. (MultiTree,
    Algorithm 1)
    """
    neighbor_order: Literal["listed", "reversed"] = "listed"
    """The order in which a node's links are tried. (MultiTree, section III-C)"""
    route_by: Literal["source", "address"] = "source"
    """The tie-break between equally long routes to a home switch: by the source, or by the address. (in-network,
    section IV-C)
    """


class PlannerArguments(TypedDict, total=False):
    """The fields of `PlannerOptions`, as keyword arguments of the functions that plan."""

    trees: int | None
    height: int | None
    heights: Literal["hops", "latency"]
    least_rate: float | str | None
    rho: float
    seed: int
    pipeline: bool
    tree_order: Literal["ascending", "remaining-height"] | None
    neighbor_order: Literal["listed", "reversed"]
    route_by: Literal["source", "address"]
