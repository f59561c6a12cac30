"""The options of planners and of the packet simulator's machine, as the core declares them.

`make options` writes this file from the declarations in the core; do not edit it.
"""

from dataclasses import dataclass
from typing import Literal, TypedDict


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The machine on which the packet simulator runs a plan.

    A quantity is a number of its base unit (bytes, seconds, bytes per second, Hz), or a text with a unit, such as
    8KiB. Values are checked when the machine is used. None stands for a default that depends on the network or the
    plan.

    Attributes:
        interfaces: How messages choose a network interface: each link of a rank has its own (bound), or any free one
            serves (shared). One of `bound`, `shared`. Source: MultiTree, section IV-A.
        ports: How many network interfaces a rank has, each with a port; by default one per link, or if they are
            shared, as many as the plan uses at once. Source: MultiTree, section IV-A.
        lockstep: Make ranks finish what they send in a step before they enter the next one, and wait out the
            estimated time of steps in which they send nothing. By default they do so if the plan promises to use no
            link twice in a step. Source: MultiTree, section IV-A.
        flow_control: How often a head flit is sent: once per packet (packet), or once per message (message). One of
            `packet`, `message`. Source: MultiTree, section IV-B.
        virtual_channels: How many virtual channels each link and each injection port have. From 1 to 16. Source:
            MultiTree, Table III.
        buffer_flits: How many flits a virtual channel buffers; by default 318, and in a fabric as many as keep a link
            busy during a credit's round trip. Source: MultiTree, Table III.
        flit: How many bytes a flit has; the payload of a packet must be a multiple of it. From 1B to 64KiB. Source:
            MultiTree, the authors' simulator.
        payload: How many bytes a packet carries; by default 256B, or 128B in a fabric. From 1B to 1MiB. Source:
            MultiTree, Table III; in-network, section V.
        clock: The clock of routers and interfaces; by default 1GHz, or more if the fastest link needs it. From 1Hz to
            1e15Hz. Source: MultiTree, Table III.
        router_cycles: How many cycles a router's pipeline takes; by default 3 in accelerators and 4 in switches. From
            3 to 1048576. Source: MultiTree, the authors' simulator.
        interface_packets: How many packets' payloads an interface buffers before its injection queue; the authors
            call them messages. Source: MultiTree, the authors' simulator.
        injection_flits: How many flits the injection queue holds; by default 80 if accelerators have routers, and
            else as many as a virtual channel buffers. Source: MultiTree, the authors' simulator.
        processing_elements: How many adders an accelerator has; as in the authors' simulator they take turns, so that
            n elements take ceil(ceil(n / adders) / lanes) x adders cycles, and more adders do not make it faster.
            Source: MultiTree, Table III.
        lanes: How many elements an adder takes at a time. Source: MultiTree, Table III.
        switches: What switches are: routers that forward flit by flit (routers), or shared memory that forwards
            packet by packet, each of them acknowledged (fabric); by default fabric if switches reduce or multicast in
            the plan's trees, or if the network has switches that reduce, multicast and have a latency. One of
            `routers`, `fabric`. Source: in-network, section IV.
        table: How many bytes the reduction table of a switch's port has; by default 4KiB for pulls, and 256B for
            pushes, or more if many operands meet in few ports. Source: in-network, sections IV-D and VI-C.
        wave: How many bytes of the vector a wave has. Source: in-network, section IV-F.
        waves: How many waves a rank may have outstanding, 0 for any number; by default 4 for pulls, and for pushes as
            many as all reduction tables hold, but at least 16. Source: in-network, section IV-F.
        speedup: How many flits cross a switch inside while one leaves it. Source: in-network, section IV-E.
        queue_flits: How many flits a switch's output queue holds for each class of virtual channels; by default as
            many as keep a link busy during a credit's round trip. Source: in-network, section V.
        memory_cycles: How many cycles a read from memory takes at least. Source: in-network, section V.
        memory_spread: How much longer a read from memory may take: a random number of cycles, from 0 to one less than
            this. Source: in-network, section V.
        timeout_cycles: After how many cycles an entry of a reduction table is evicted if nothing is added to it; by
            default the longer of two times: ten times the latency of the longest route; or a read from memory plus
            the time that the busiest link needs to carry all that is outstanding. Source: in-network, section IV-C.
        barrier: Make ranks wait for each other before they pull. Source: in-network, section IV-B.
        initiation: Who issues requests: a DMA engine in order (dma), or cores as their reads from memory come back
            (core). One of `dma`, `core`. Source: in-network, section IV-F.
        reorder: Among how many waiting requests an accelerator picks the next at random; 1 keeps them in order.
            Source: in-network, section IV-F.
        window: How many requests may wait at each port of an accelerator.
        credit: What ends a wave of pulls, so that the next may begin: its results in the memory of the rank that
            pulls (result), or the acknowledgements of all ranks (acknowledgement). One of `result`,
            `acknowledgement`. Source: in-network, section IV-F.
        home_mapping: How the lines of a push get their homes, which are ports of switches: in turn (interleaved), in
            turn in an order that is drawn anew each round (shuffled), or by a hash of the address (hashed). One of
            `interleaved`, `shuffled`, `hashed`. Source: in-network, section IV-C.
        eviction_policy: Where the evicted partial sums of a push go: to a home accelerator (home), or to all
            accelerators (multicast). One of `home`, `multicast`. Source: in-network, section IV-C.
        deterministic: Make switches add operands in a fixed order, with reduction tables as large as that needs.
            Source: in-network, section IV-E.
        sync_cost: How long software takes from the arrival of a flag to the start of the work that waited for it;
            with the default, a ring all-reduce in software on a DGX-2 takes 18 times as long as pushes for small
            vectors, as in the paper. Source: in-network, section V.
        fence: When software sends the flag behind its data: at once, as the network keeps their order (ordered), or
            when all of the data are acknowledged (acknowledged). One of `ordered`, `acknowledged`. Source:
            in-network, section V.
        seed: The seed of all that is random in the machine.

    Example:
        >>> machine = treefold.Machine(virtual_channels=2, payload="64B")
        >>> treefold.simulate(treefold.plan("torus:4x4", "ring"), size_bytes=4096, simulator=machine).packets.packets
        1920

    """

    interfaces: Literal["bound", "shared"] = "bound"
    ports: int | None = None
    lockstep: bool | None = None
    flow_control: Literal["packet", "message"] = "packet"
    virtual_channels: int = 4
    buffer_flits: int | None = None
    flit: int | str = "16B"
    payload: int | str | None = None
    clock: float | str | None = None
    router_cycles: int | None = None
    interface_packets: int = 48
    injection_flits: int | None = None
    processing_elements: int = 16
    lanes: int = 32
    switches: Literal["routers", "fabric"] | None = None
    table: int | str | None = None
    wave: int | str = "8KiB"
    waves: int | None = None
    speedup: int = 4
    queue_flits: int | None = None
    memory_cycles: int = 180
    memory_spread: int = 180
    timeout_cycles: int | None = None
    barrier: bool = False
    initiation: Literal["dma", "core"] = "dma"
    reorder: int = 1
    window: int = 1024
    credit: Literal["result", "acknowledgement"] = "result"
    home_mapping: Literal["interleaved", "shuffled", "hashed"] = "interleaved"
    eviction_policy: Literal["home", "multicast"] = "home"
    deterministic: bool = False
    sync_cost: float | str = "80ns"
    fence: Literal["ordered", "acknowledged"] = "ordered"
    seed: int = 1


@dataclass(frozen=True, kw_only=True)
class PlannerOptions:
    """The options of planners, with their defaults.

    Give them to `treefold.plan` as keyword arguments; there, a quantity may also be a text with a unit. A quantity is
    a number of its base unit (bytes, seconds, bytes per second, Hz) here, as planners read it. None stands for a
    default that depends on the network or the plan.

    Attributes:
        trees: How many trees a plan has at most; multitree grows exactly so many, and auto leaves out algorithms that
            cannot keep a limit. By default a plan has as many as the planner finds best, and in multitree one per
            rank. Only packing, mtree, blink, multitree, topoadopt, psld and plink have it. Source: MTree, section
            III-B.
        height: How high a tree may be at most, in the unit of heights; by default there is no limit. Only packing and
            mtree have it. Source: MTree, section III-A.
        heights: The unit of heights: edges of the tree (hops); or the latency of the path (latency), where each link
            counts as its latency over the network's smallest above 0, rounded up. One of `hops`, `latency`. Only
            packing and mtree have it. Source: MTree, section III-A.
        least_rate: The least rate that each tree carries, for example 10Mbit/s. By default packing has no least rate;
            that of mtree is a 25th of the mean cable's bandwidth, or what the widest tree can carry if that is less.
            Only packing and mtree have it. Source: MTree, section III-A.
        rho: The part of the total rate that must remain when mtree replaces its trees by lower ones, above 0 and at
            most 1. Only mtree has it. Source: MTree, section III-A.
        seed: The seed of what the planner draws at random; a random network has a seed of its own. Only mtree and
            topoadopt have it.
        pipeline: Whether a streamed tree cuts its span of the vector into chunks that follow each other; if not, each
            node sends the span in one piece. Source: MTree, section III-C.
        tree_order: The order in which trees take turns within a step: by their roots (ascending), or the tree that
            has farthest to go first (remaining-height). By default it is the faster of the two if the network is
            direct, is not a grid and has at most 1024 ranks; on all others it is ascending. One of `ascending`,
            `remaining-height`. Only multitree has it. Source: MultiTree, Algorithm 1.
        neighbor_order: The order in which a node's links are tried: as the network lists them, on grids north, south,
            west, east (listed), or the other way round (reversed). One of `listed`, `reversed`. Only multitree has
            it. Source: MultiTree, section III-C.
        route_by: What decides between equally long routes to a home switch: the rank that sends (source), or the
            address (address). One of `source`, `address`. Only innet-push has it. Source: in-network, section IV-C.

    Example:
        >>> treefold.plan("b4", "packing", trees=4, height=5, least_rate="10Mbit/s").num_trees <= 4
        True
        >>> treefold.PlannerOptions().rho
        1.0

    """

    trees: int | None = None
    height: int | None = None
    heights: Literal["hops", "latency"] = "hops"
    least_rate: float | None = None
    rho: float = 1.0
    seed: int = 1
    pipeline: bool = True
    tree_order: Literal["ascending", "remaining-height"] | None = None
    neighbor_order: Literal["listed", "reversed"] = "listed"
    route_by: Literal["source", "address"] = "source"


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
