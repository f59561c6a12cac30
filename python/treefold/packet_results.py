"""What simulators count of a run beside its time: the use of links, packets and flits, and what a fabric did."""

import math
from dataclasses import dataclass

from treefold.records import Record, inline


@dataclass(frozen=True)
class LinkUtilization(Record):
    """How much links are used, from 0 to 1.

    A link's utilization is the time that its messages would occupy it at its full bandwidth, overheads included,
    divided by the time of the collective.

    Attributes:
        mean: The mean utilization of all links.
        max: The utilization of the busiest link.

    Example:
        >>> links = treefold.simulate(treefold.plan("torus:4x4", "multitree"), size_bytes="64MiB").link_utilization
        >>> f"{links.mean:.2f} on average, {links.max:.2f} at most"
        '0.75 on average, 0.90 at most'

    """

    mean: float
    max: float


@dataclass(frozen=True)
class FabricReport(Record):
    """The counts of the packet simulator for a fabric, whose switches reduce.

    Attributes:
        op: The operator by which switches reduced; None if they reduced nothing.
        evictions: How many partial sums left their reduction tables early.
        timeouts: How many of the evictions were timeouts.
        bypasses: How many times a pull found no room for an entry in a reduction table, so that its answers were
            forwarded unreduced.
        stalls: How many pulls had to wait at their first switch for an entry in its reduction table.
        failed_allocations: How many times a wave asked for a counter of its wave controller and found none.
        retransmissions: How many packets were sent again over a link because they, or one before them, arrived corrupt.
        duplicates: How many packets arrived on a link a second time and were dropped.
        table_bytes: The size of the reduction table of a port, in bytes. It is None if the plan neither pulls nor
            pushes, and on a deterministic machine, whose reduction tables are as large as they need to be.
        timeout_cycles: The number of cycles after which an untouched entry is evicted; None if nothing is pushed, or
            `table_bytes` is None.
        table_peak_bytes: The most bytes that any reduction table held.
        packet_latency_s: The mean time, in seconds, of a packet between its endpoints.
        waves: How many waves a rank may have outstanding; None if any number may be, and if the plan neither pulls nor
            pushes.
        memory_read_bytes: The bytes that all ranks together read from memory.
        memory_written_bytes: The bytes that all ranks together wrote to memory.
        digest: A digest of the bits of all sums in floating point, which depend on the order in which switches add;
            None if the plan neither pulls nor pushes.

    Example:
        >>> push = treefold.plan("dgx2:planes=6", "innet-push")
        >>> fabric = treefold.simulate(push, size_bytes="64KiB", simulator="packet").packets.fabric
        >>> fabric.op, fabric.evictions
        ('sum', 0)

    """

    op: str | None
    evictions: int
    timeouts: int
    bypasses: int
    stalls: int
    failed_allocations: int
    retransmissions: int
    duplicates: int
    table_bytes: int | None
    timeout_cycles: int | None
    table_peak_bytes: int
    packet_latency_s: float
    waves: int | None
    memory_read_bytes: int
    memory_written_bytes: int
    digest: str | None


@dataclass(frozen=True)
class PacketReport(Record):
    """The counts of the packet simulator.

    Attributes:
        cycles: The time in cycles of the machine's clock.
        clock_hz: The machine's clock, in cycles per second.
        packets: How many packets were sent.
        flits: How many flits the packets had, head flits included.
        head_flits: How many of the flits were head flits.
        buffer_peak_flits: The most flits that any virtual channel's buffer held. It is None in a fabric, and if nothing
            was sent.
        buffer_cover: The size of buffers divided by what a link carries in its round trip; below 1, buffers limit the
            rate. It is None in a fabric, and if nothing was sent.
        switches: The kind of the switches: `routers` or `fabric`.
        fabric: The counts for the fabric; None if switches were routers. Dictionaries have its fields beside these.

    Example:
        >>> ring = treefold.plan("torus:4x4", "ring")
        >>> packets = treefold.simulate(ring, size_bytes="4KiB", simulator="packet").packets
        >>> packets.packets, packets.switches, packets.fabric
        (480, 'routers', None)

    """

    cycles: int
    clock_hz: float
    packets: int
    flits: int
    head_flits: int
    buffer_peak_flits: int | None
    buffer_cover: float | None
    switches: str
    fabric: FabricReport | None = inline()


def short_buffers(cover: float | None) -> str:
    """Return a warning if buffers cover only a part of a link's round trip, else an empty text."""
    if cover is None or cover >= 1:
        return ""
    times = math.ceil(1 / cover)
    remedy = f"raise them with treefold.Machine(buffer_flits=N), where N is {times} times what it is now"
    return f"buffers cover only {cover:.2%} of a link's round trip, which limits its rate; {remedy}"
