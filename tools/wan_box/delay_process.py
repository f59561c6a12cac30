"""Delays packets on kernels without netem: this process holds what arrives at a device and lets it go later.

`python delay_process.py` reads from its standard input a JSON list of queues (`QueueSpec`), listens to each namespace's
NFQUEUE of that number, prints "ready", and runs until it is ended. The kernel sends a packet's number only (COPY_META),
never its bytes; numbers of a queue ascend and every packet of a queue waits equally long, so a single batch verdict
releases all that are due. Messages of many packets are read by one system call (`recvmmsg`, which Python's library does
not have), so that boxes whose packets are single frames keep up. It imports nothing of ours, so that it starts in no
time.
"""

import contextlib
import ctypes
import json
import os
import select
import socket
import struct
import sys
import time
from collections import deque
from dataclasses import dataclass

TICK_S = 0.0005
BUFFER = 32 << 20
LONGEST_QUEUE = 1 << 17

CLONE_NEWNET = 0x40000000
NETLINK_NETFILTER = 12
SUBSYSTEM_QUEUE = 3 << 8
VERDICT_HEADER, CONFIG, VERDICT_BATCH = 2, 2, 3
COMMAND, PARAMETERS, MAXIMUM, MASK, FLAGS = 1, 2, 3, 4, 5
BIND, COPY_META, GSO, ACCEPT = 1, 1, 4, 1
REQUEST, ACKNOWLEDGE = 1, 4
SO_RCVBUFFORCE, SOL_NETLINK, NO_ENOBUFS = 33, 270, 5
KIND_AT, ID_AT = 4, 24
PACKET = SUBSYSTEM_QUEUE
ERROR = 2

MESSAGES = 256
"""How many messages one system call reads at most."""
KEPT_BYTES = 32
"""So much is read of each message: its packet's number stands in it, and what follows is dropped."""


class Vector(ctypes.Structure):
    """The system's `struct iovec`."""

    _fields_ = (("base", ctypes.c_void_p), ("length", ctypes.c_size_t))


class Header(ctypes.Structure):
    """The system's `struct msghdr`."""

    _fields_ = (
        ("name", ctypes.c_void_p),
        ("name_length", ctypes.c_uint32),
        ("vectors", ctypes.POINTER(Vector)),
        ("vector_count", ctypes.c_size_t),
        ("control", ctypes.c_void_p),
        ("control_length", ctypes.c_size_t),
        ("flags", ctypes.c_int),
    )


class Message(ctypes.Structure):
    """The system's `struct mmsghdr`."""

    _fields_ = (("header", Header), ("length", ctypes.c_uint))


class Mailbox:
    """Memory for the beginnings of many messages, and the call that fills it."""

    def __init__(self) -> None:
        self.memory = ctypes.create_string_buffer(MESSAGES * KEPT_BYTES)
        start = ctypes.addressof(self.memory)
        self.vectors = (Vector * MESSAGES)(*(Vector(start + KEPT_BYTES * n, KEPT_BYTES) for n in range(MESSAGES)))
        self.messages = (Message * MESSAGES)()
        for own, vector in zip(self.messages, self.vectors, strict=True):
            own.header.vectors, own.header.vector_count = ctypes.pointer(vector), 1
        self.call = ctypes.CDLL(None).recvmmsg

    def read(self, descriptor: int) -> int:
        """Read what waits at a socket, up to `MESSAGES`; return how many there were."""
        count: int = self.call(descriptor, self.messages, MESSAGES, socket.MSG_DONTWAIT, None)
        return max(count, 0)

    def last_packet(self, count: int) -> int | None:
        """Return the number of the last packet among the first `count` messages."""
        for at in range((count - 1) * KEPT_BYTES, -1, -KEPT_BYTES):
            if struct.unpack_from("=H", self.memory, at + KIND_AT)[0] == PACKET:
                number: int = struct.unpack_from("!I", self.memory, at + ID_AT)[0]
                return number
        return None


@dataclass(frozen=True)
class QueueSpec:
    """A queue of a namespace, and how long packets stay in it."""

    namespace: str
    number: int
    delay_s: float
    cuts: bool
    """Whether packets of many frames become as many packets."""


class Queue:
    """One direction of a cable: its netlink socket, its delay, and what waits as (when due, last packet's number)."""

    def __init__(self, spec: QueueSpec):
        enter(spec.namespace)
        self.number, self.delay_s = spec.number, spec.delay_s
        self.waiting: deque[tuple[float, int]] = deque()
        self.socket = socket.socket(socket.AF_NETLINK, socket.SOCK_RAW, NETLINK_NETFILTER)
        self.socket.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, BUFFER)
        self.socket.setsockopt(SOL_NETLINK, NO_ENOBUFS, 1)
        self.socket.bind((0, 0))
        self.configure(attribute(COMMAND, struct.pack("!BxH", BIND, socket.AF_INET)))
        self.configure(attribute(PARAMETERS, struct.pack("!IB", 0, COPY_META)))
        self.configure(attribute(MAXIMUM, struct.pack("!I", LONGEST_QUEUE)))
        flags = 0 if spec.cuts else GSO
        self.configure(attribute(FLAGS, struct.pack("!I", flags)), attribute(MASK, struct.pack("!I", GSO)))
        self.socket.setblocking(False)

    def configure(self, *attributes: bytes) -> None:
        """Set a property of the queue and wait for the kernel's consent."""
        self.socket.send(message(CONFIG, self.number, b"".join(attributes), ACKNOWLEDGE))
        answer = self.socket.recv(4096)
        kind, error = struct.unpack_from("=H", answer, 4)[0], struct.unpack_from("=i", answer, 16)[0]
        if kind == ERROR and error:
            raise OSError(-error, f"NFQUEUE {self.number}: {os.strerror(-error)}")

    def take(self, mailbox: Mailbox, now: float) -> None:
        """Record all that has arrived: half a tick ago on average, to leave half a tick late, hence TICK_S."""
        count, last = MESSAGES, None
        while count == MESSAGES:
            count = mailbox.read(self.socket.fileno())
            last = mailbox.last_packet(count) or last
        if last is not None:
            self.waiting.append((now + self.delay_s - TICK_S, last))

    def release(self, now: float) -> None:
        """Let all packets go that are due."""
        last = None
        while self.waiting and self.waiting[0][0] <= now:
            last = self.waiting.popleft()[1]
        if last is not None:
            header = attribute(VERDICT_HEADER, struct.pack("!II", ACCEPT, last))
            # A link that was just set down takes its packets along: then there is nothing to release.
            with contextlib.suppress(OSError):
                self.socket.send(message(VERDICT_BATCH, self.number, header))


def enter(namespace: str) -> None:
    """Move this process into a network namespace; its open sockets stay in theirs."""
    with open(f"/var/run/netns/{namespace}") as file:
        libc = ctypes.CDLL(None, use_errno=True)
        if libc.setns(file.fileno(), CLONE_NEWNET):
            raise OSError(ctypes.get_errno(), f"cannot enter the network namespace {namespace}")


def attribute(kind: int, value: bytes) -> bytes:
    """Return a netlink attribute, padded to four bytes."""
    return struct.pack("=HH", 4 + len(value), kind) + value + b"\0" * (-len(value) % 4)


def message(kind: int, queue: int, body: bytes, flags: int = 0) -> bytes:
    """Return a netlink message to a queue."""
    header = struct.pack("=IHHII", 20 + len(body), SUBSYSTEM_QUEUE | kind, REQUEST | flags, 0, 0)
    return header + struct.pack("!BBH", socket.AF_UNSPEC, 0, queue) + body


def serve(queues: list[Queue]) -> None:
    """Delay for ever: tick while anything waits, sleep while nothing does. No packet costs a wake-up of its own."""
    mailbox = Mailbox()
    sockets = [queue.socket for queue in queues]
    while True:
        if any(queue.waiting for queue in queues):
            time.sleep(TICK_S)
        else:
            select.select(sockets, [], [])
        now = time.monotonic()
        for queue in queues:
            queue.take(mailbox, now)
            queue.release(now)


def hurry() -> None:
    """Run before other processes where that is allowed: a packet that waits for this process is late."""
    try:
        os.sched_setscheduler(0, os.SCHED_RR, os.sched_param(1))
    except OSError:
        with contextlib.suppress(OSError):
            os.nice(-20)


def main() -> None:
    """Read what to delay, say when all is set, and delay."""
    queues = [Queue(QueueSpec(**spec)) for spec in json.load(sys.stdin)]
    hurry()
    print("ready", flush=True)
    with contextlib.suppress(KeyboardInterrupt):
        serve(queues)


if __name__ == "__main__":
    main()
