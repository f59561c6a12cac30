"""The options of planners and of the packet simulator's machine, as the core declares them.

`make options` writes this file from the declarations in the core; do not edit it.
"""

from dataclasses import dataclass
from typing import Literal, TypedDict

from treefold import _core


@dataclass(frozen=True, kw_only=True)
class Machine:
    """The machine on which the packet simulator runs a plan.

    A quantity is a number of its base unit (bytes, seconds, bytes per second, Hz); one that is given as a text with a
    unit, such as `8KiB`, becomes that number. None stands for a default that depends on the network or the plan.

    Attributes:
        interfaces: The network interface that a message takes: that of the link on which it leaves (bound), or any
            that is free (shared). One of `bound`, `shared`. Source: our reading of MultiTree, section V-A, footnote 3
            and Fig. 8.
        ports: The number of network interfaces of a rank, each with a port; by default one per link, or if they are
            shared, as many as the plan uses at once. With fewer ports than links a rank cannot fill its links by
            itself; bounds do not count ports, so that plans stay farther below them. Source: MultiTree, section V-A.
        lockstep: Whether a rank starts a step only when its sends of the step before are done, and waits for the
            estimated time of each step in which it sends nothing. By default it does so if the plan promises to use
            no link twice in a step. With shared interfaces it can make large vectors faster, and small ones slower;
            with bound ones it changes little. Source: MultiTree, section IV-A.
        flow_control: The packets that have a head flit: all (packet), or only the first one of each message
            (message). One of `packet`, `message`. Source: MultiTree, section IV-B.
        virtual_channels: The number of virtual channels of each link and of each injection port. From 1 to 16.
            Source: MultiTree, Table III.
        kept_channels: The number of virtual channels, of each class on each link, that messages of plans leave to
            background traffic; by default 1 with flow_control=message, and else 0. From 0 to 15. Source: MultiTree,
            section IV-B.
        buffer_flits: The number of flits that a virtual channel buffers; by default 318, and in a fabric as many as
            keep a link busy during a credit's round trip. Source: MultiTree, Table III.
        flit: The size of a flit; the payload of a packet must be a multiple of it. From 1B to 64KiB. Source:
            MultiTree, the authors' simulator.
        payload: The number of bytes that a packet carries; by default 256B, or 128B in a fabric. From 1B to 1MiB.
            Source: MultiTree, Table III; in-network, section V.
        clock: The clock of routers and interfaces; by default 1GHz, or more if the fastest link needs it. From 1Hz to
            1e15Hz. Source: MultiTree, Table III.
        router_cycles: The depth of a router's pipeline, in cycles; by default 3 in accelerators and 4 in switches.
            From 3 to 1048576. Source: MultiTree, the authors' simulator.
        interface_packets: The size of an interface's buffer before its injection queue, counted in packet payloads
            (which the authors call messages). Source: MultiTree, the authors' simulator.
        injection_flits: The number of flits that the injection queue holds; by default 80 if accelerators have
            routers, and else as many as a virtual channel buffers. Source: MultiTree, the authors' simulator.
        processing_elements: The number of adders of an accelerator. As in the authors' simulator they take turns, so
            that n elements take ceil(ceil(n / adders) / lanes) x adders cycles; more adders therefore do not make it
            faster. Source: MultiTree, Table III.
        lanes: The number of elements that an adder takes at a time. Source: MultiTree, Table III.
        switches: The model of switches: routers that forward flit by flit (routers), or shared memory that forwards
            whole packets, each of which is acknowledged (fabric). By default it is fabric if switches reduce or
            multicast in the plan's trees, or if the network has switches that can do both and have a latency. One of
            `routers`, `fabric`. Source: in-network, section IV.
        table: The size of the reduction table of each port of a switch; by default 4KiB for pulls, and 256B for
            pushes, or more if many operands meet in few ports. Source: in-network, sections IV-D and VI-C.
        wave: The size of a wave: the consecutive bytes of the vector that a rank requests together. Source:
            in-network, section IV-F.
        waves: The number of waves that a rank may have outstanding, 0 for any number; by default 4 for pulls, 0 for
            plans in which switches only multicast, and for pushes as many as all reduction tables hold, but at least
            16. Source: in-network, section IV-F.
        speedup: The internal speed-up of a switch: the number of flits that an output takes in from inside the switch
            while the fastest link of the switch carries one. Source: in-network, section IV-E.
        queue_flits: The number of flits that a switch's output queue holds for each class of virtual channels; by
            default as many as keep a link busy during a credit's round trip. Source: in-network, section V.
        memory_cycles: The minimum number of cycles of a read from memory; a write takes none. They are cycles of
            `clock`, which in a fabric follows from the fastest link: 180 are 115 ns with links of 25 GB/s, and 29 ns
            with links of 100 GB/s. Source: in-network, section V.
        memory_spread: The spread of reads from memory: each takes a random number of cycles of `clock` more, from 0
            to one less than this. Source: in-network, section V.
        timeout_cycles: The number of cycles without an addition after which an entry of a reduction table is evicted.
            By default it is ten times the latency of the longest route; or, if that is longer, a read from memory
            plus the time that the busiest link needs to carry all that is outstanding. Source: in-network, section
            IV-C.
        barrier: Whether all ranks wait for each other before the first pull, by pulling a flag whose sum is not
            multicast. Without it, the simulation takes for granted that the operands of all ranks are ready when it
            begins. Source: in-network, section IV-B.
        initiation: The issuer of requests: a DMA engine in order (dma), or cores as their reads from memory come back
            (core). It decides in which order pushed operands leave, and nothing else. One of `dma`, `core`. Source:
            in-network, section IV-F.
        reorder: The number of waiting requests from which an accelerator picks the next at random; 1 keeps them in
            order. Source: in-network, section IV-F.
        window: The maximum number of requests that queue to leave at each port of an accelerator.
        credit: The event that ends a wave of pulls, so that the next may begin: its results are in the memory of the
            rank that pulls (result), or all ranks have acknowledged them (acknowledgement). One of `result`,
            `acknowledgement`. Source: in-network, section IV-F.
        home_mapping: The assignment of the lines of a push to their home ports, which are the ports of switches that
            reduce them: by a hash of the address, which gives each port the same number of lines (hashed), or in turn
            (interleaved). One of `hashed`, `interleaved`. Source: in-network, section IV-C.
        eviction_policy: The destination of the evicted partial sums of a push: a home accelerator, which adds them up
            (home), or all accelerators (multicast). One of `home`, `multicast`. Source: in-network, section IV-C.
        op: The operator by which switches reduce: one of those of `treefold run`. Elements are float32, or uint32 for
            `band`, `bor` and `bxor`. One of `sum`, `prod`, `min`, `max`, `band`, `bor`, `bxor`. Source: in-network,
            section IV-D.
        deterministic: Whether switches add operands in a fixed order, with reduction tables as large as that needs.
            Source: in-network, section IV-E.
        sync_cost: The delay between the arrival of a flag and the start of the software that waits for it. With the
            default, a ring all-reduce in software on a DGX-2 takes 18 times as long as pushes for small vectors, as
            in the paper. Source: in-network, section V.
        error_rate: The fraction of packets that arrive corrupt on each link, and of acknowledgements that are lost;
            the sender repeats both. From 0 to 1. Source: in-network, section IV-E.
        counters: The number of counters of an accelerator's wave controller, of which every outstanding wave needs
            one; by default there are always enough. Source: in-network, section IV-F.
        retry_cycles: The number of cycles after which a wave that found no counter asks again. Source: in-network,
            section IV-F.
        retries: The number of retries of the same packet on a link, or of a wave that finds no counter, after which
            the simulation ends with an error that names it. Source: in-network, sections IV-E and IV-F.
        fence: The moment at which software sends the flag after its data: at once, as the network keeps their order
            (ordered), or when all of the data are acknowledged (acknowledged). One of `ordered`, `acknowledged`.
            Source: in-network, section V.
        seed: The seed of all that is random in the machine.

    Raises:
        TreefoldError: If a value is not allowed.

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
    kept_channels: int | None = None
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
    speedup: int = 2
    queue_flits: int | None = None
    memory_cycles: int = 180
    memory_spread: int = 180
    timeout_cycles: int | None = None
    barrier: bool = False
    initiation: Literal["dma", "core"] = "dma"
    reorder: int = 1
    window: int = 1024
    credit: Literal["result", "acknowledgement"] = "result"
    home_mapping: Literal["hashed", "interleaved"] = "hashed"
    eviction_policy: Literal["home", "multicast"] = "home"
    op: Literal["sum", "prod", "min", "max", "band", "bor", "bxor"] = "sum"
    deterministic: bool = False
    sync_cost: float | str = "80ns"
    error_rate: float = 0.0
    counters: int | None = None
    retry_cycles: int = 100
    retries: int = 1000
    fence: Literal["ordered", "acknowledged"] = "ordered"
    seed: int = 1

    def __post_init__(self) -> None:
        _read(self, "machine")


@dataclass(frozen=True, kw_only=True)
class PlannerOptions:
    """The options of planners, with their defaults.

    Give them to `treefold.plan` as keyword arguments. A quantity is a number of its base unit (bytes, seconds, bytes
    per second, Hz); one that is given as a text with a unit, such as `10Mbit/s`, becomes that number. None stands for
    a default that depends on the network or the plan.

    Attributes:
        trees: The maximum number of trees; multitree makes exactly so many, and auto leaves out algorithms that have
            no such limit. By default the algorithm chooses the number, and multitree makes one tree for each rank.
            Only packing, mtree, blink, multitree, topoadopt, psld and plink accept it. Source: MTree, section III-B.
        height: The maximum height of a tree, in the unit that the option heights selects. By default there is no
            limit. Only packing and mtree accept it. Source: MTree, section III-A.
        heights: The unit of heights: hops counts the edges of a path; latency counts each link as its latency divided
            by the network's smallest latency above 0, rounded up, as in the paper. One of `hops`, `latency`. Only
            packing and mtree accept it. Source: MTree, section III-A.
        least_rate: The minimum rate of each tree, for example 10Mbit/s. By default packing has no minimum; that of
            mtree is 4 % of the mean bandwidth of the cables, or the highest rate that a single tree can have if that
            is lower. Only packing and mtree accept it. Source: MTree, section III-A.
        steps: The maximum number of steps, each of which waits for the one before it. Fewer steps have less latency,
            and more of them use bandwidth better; an all-reduce needs twice as many as an all-gather. By default the
            number has no limit, and forest takes steps only where they are the fastest. Only forest accepts it.
            Source: SCCL.
        rho: The fraction of the total rate that must remain when mtree replaces its trees by trees of less height,
            above 0 and at most 1. Only mtree accepts it. Source: MTree, section III-A.
        tree_rate: The rate that mtree gives a tree each time it grows one: at most a quarter of the largest bandwidth
            of a cable, so that a tree may be grown several times (quarter), or the smallest capacity that any cable
            of the network has left, but at least the least rate, as published (all). One of `quarter`, `all`. Only
            mtree accepts it. Source: MTree, Algorithm 1, line 22.
        starts: The ranks at which mtree starts to grow a tree: a random rank, and if no tree from it is low enough,
            the others in turn (any); or only the random rank, and if that fails, no more trees are grown, as
            published (one). One of `any`, `one`. Only mtree accepts it. Source: MTree, Algorithm 1, lines 14 and 19.
        seed: The seed of the planner's random choices. The seed of a random network is part of its spec. Only mtree
            and topoadopt accept it.
        pipeline: Whether the data of a streamed tree are cut into chunks, which follow each other as in a pipeline;
            if not, each node sends its data in one piece. Only packing, mtree, blink, innet, innet-push, innet-pull,
            dbtree and forest accept it. Source: MTree, section III-C.
        inside: The algorithm that reduce-scatters and all-gathers inside the groups of ranks. By default hierarchical
            tries a few, and takes the fastest. One of `ring`, `multiring`, `dbtree`, `halving-doubling`, `direct`,
            `multitree`, `forest`, `packing`, `exchange`. Only hierarchical accepts it. Source: BlueConnect.
        between: The algorithm that all-reduces between the groups of ranks. By default hierarchical tries a few, and
            takes the fastest. One of `ring`, `multiring`, `dbtree`, `halving-doubling`, `direct`, `multitree`,
            `forest`, `packing`, `exchange`. Only hierarchical accepts it. Source: BlueConnect.
        tree_order: The order in which trees take turns within a step: by their roots (ascending), or the tree that
            has farthest to go first (remaining-height). By default multitree tries both on direct networks that are
            no grids and have at most 1024 ranks, and keeps the faster plan; on all other networks the order is
            ascending. One of `ascending`, `remaining-height`. Only multitree accepts it. Source: MultiTree, Algorithm
            1.
        neighbor_order: The order in which multitree tries a node's links: the order of the network, which on grids is
            north, south, west, east (listed), or its reverse (reversed). One of `listed`, `reversed`. Only multitree
            accepts it. Source: MultiTree, section III-C.
        route_by: The choice among equally long routes to the switch that reduces an address: by the rank that sends
            (source), or by the address (address). One of `source`, `address`. Only innet-push accepts it. Source:
            in-network, section IV-C.

    Raises:
        TreefoldError: If a value is not allowed.

    Example:
        >>> treefold.plan("b4", "packing", trees=4, height=5, least_rate="10Mbit/s").num_trees <= 4
        True
        >>> treefold.PlannerOptions(least_rate="8Mbit/s").least_rate
        1000000.0

    """

    trees: int | None = None
    height: int | None = None
    heights: Literal["hops", "latency"] = "hops"
    least_rate: float | None = None
    steps: int | None = None
    rho: float = 1.0
    tree_rate: Literal["quarter", "all"] = "quarter"
    starts: Literal["any", "one"] = "any"
    seed: int = 1
    pipeline: bool = True
    inside: (
        Literal[
            "ring", "multiring", "dbtree", "halving-doubling", "direct", "multitree", "forest", "packing", "exchange"
        ]
        | None
    ) = None
    between: (
        Literal[
            "ring", "multiring", "dbtree", "halving-doubling", "direct", "multitree", "forest", "packing", "exchange"
        ]
        | None
    ) = None
    tree_order: Literal["ascending", "remaining-height"] | None = None
    neighbor_order: Literal["listed", "reversed"] = "listed"
    route_by: Literal["source", "address"] = "source"

    def __post_init__(self) -> None:
        _read(self, "planner")


class PlannerArguments(TypedDict, total=False):
    """The fields of `PlannerOptions`, as keyword arguments of the functions that plan."""

    trees: int | None
    height: int | None
    heights: Literal["hops", "latency"]
    least_rate: float | str | None
    steps: int | None
    rho: float
    tree_rate: Literal["quarter", "all"]
    starts: Literal["any", "one"]
    seed: int
    pipeline: bool
    inside: (
        Literal[
            "ring", "multiring", "dbtree", "halving-doubling", "direct", "multitree", "forest", "packing", "exchange"
        ]
        | None
    )
    between: (
        Literal[
            "ring", "multiring", "dbtree", "halving-doubling", "direct", "multitree", "forest", "packing", "exchange"
        ]
        | None
    )
    tree_order: Literal["ascending", "remaining-height"] | None
    neighbor_order: Literal["listed", "reversed"]
    route_by: Literal["source", "address"]


def _read(options: Machine | PlannerOptions, what: str) -> None:
    """Replace the values of new options by those that the core has read: checked, and as numbers of base units."""
    for name, value in _core.read_options(what, vars(options)).items():
        object.__setattr__(options, name, value)
