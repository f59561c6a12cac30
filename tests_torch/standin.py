"""A stand-in for a GPU: its memory is the host's, but its streams are late, and it knows what has happened before what.

Each stream is a thread that does one thing after the other, with pauses. Beside that, the host and each stream have
vector clocks (Mattern 1989): a copy that uses memory which something else uses, where neither is known to have happened
before the other, is a race, even if all went well this time.
"""

import contextlib
import queue
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import torch

HOST = -1
Clock = dict[int, int]
Span = tuple[int, int]


@dataclass(eq=False)
class Event:
    """A mark in a stream."""

    clock: Clock
    is_set: threading.Event = field(default_factory=threading.Event)


@dataclass(eq=False)
class Stream:
    """A queue with a thread."""

    number: int
    todo: "queue.SimpleQueue[Callable[[], None]]" = field(default_factory=queue.SimpleQueue)

    def __post_init__(self) -> None:
        threading.Thread(target=self._work, daemon=True).start()

    def _work(self) -> None:
        pauses = random.Random(self.number)
        while True:
            action = self.todo.get()
            time.sleep(pauses.choice((0, 0, 0, 1e-3)))
            action()


@dataclass
class Access:
    """A use of memory."""

    span: Span
    writes: bool
    agent: int
    time: int
    what: str


class StandIn:
    """A device as `treefold.torch.devices.Device`, over memory of the CPU."""

    def __init__(
        self, device: torch.device, blind: bool = False, prompt: bool = False, most_pinned: float = float("inf")
    ) -> None:
        """Begin.

        Args:
            device: The device of the tensors.
            blind: Whether no stream waits, to see that this is noticed.
            prompt: Whether the host waits, too, where the caller's stream does: then kernels may run on the host.
            most_pinned: How many bytes can be pinned.

        """
        self._blind, self._prompt, self._left = blind, prompt, most_pinned
        self._lock = threading.RLock()
        self._clocks: dict[int, Clock] = {HOST: {}}
        self._streams: list[Stream] = []
        self._local = threading.local()
        self._user = self.stream()
        self._accesses: list[Access] = []
        self._pinned: list[Span] = []
        self._kept: set[tuple[int, int, int]] = set()
        self._alive: list[torch.Tensor] = []
        """Kept tensors, whose memory is given to nothing else meanwhile."""
        self.races: list[str] = []
        self.captures = False

    # What a device has.

    def current(self) -> Stream:
        """Return the thread's stream."""
        return getattr(self._local, "stream", self._user)

    def stream(self) -> Stream:
        """Return a new stream."""
        with self._lock:
            self._streams.append(Stream(len(self._streams)))
            self._clocks[self._streams[-1].number] = {}
            return self._streams[-1]

    def record(self, stream: Stream) -> Event:
        """Return a mark."""
        with self._lock:
            event = Event(dict(self._clocks[stream.number]))
            stream.todo.put(event.is_set.set)
            return event

    def wait(self, stream: Stream, event: Event) -> None:
        """Let a stream wait."""
        if self._blind:
            return
        with self._lock:
            _merge(self._clocks[stream.number], event.clock)
            stream.todo.put(lambda: _ignore(event.is_set.wait()))
        if self._prompt and stream is self._user:
            self.synchronize(event)

    def synchronize(self, event: Event) -> None:
        """Let the host wait."""
        event.is_set.wait()
        with self._lock:
            _merge(self._clocks[HOST], event.clock)

    def is_reached(self, event: Event) -> bool:
        """Return whether a mark is reached."""
        return event.is_set.is_set()

    def copy(self, target: torch.Tensor, source: torch.Tensor, stream: Stream) -> None:
        """Copy in a stream."""
        with self._lock:
            for tensor in (target, source):
                is_known = stream is self._user or self._is_pinned(tensor) or self._is_kept(tensor, stream)
                if not is_known:
                    self.races.append(f"the allocator does not know that stream {stream.number} uses a tensor")
        self.run(stream, lambda: _ignore(target.copy_(source)), reads=[source], writes=[target], what="copy")

    def pinned(self, size: int) -> torch.Tensor:
        """Return memory, as long as there is some."""
        if size > self._left:
            raise RuntimeError("no pinned memory")
        self._left -= size
        memory = torch.full((size,), 0x5A, dtype=torch.uint8)
        self._pinned.append(_span(memory))
        return memory

    def keep(self, tensor: torch.Tensor, stream: Stream) -> None:
        """Note that a stream uses a tensor."""
        self._kept.add((*_span(tensor), stream.number))
        self._alive.append(tensor)

    def future(self) -> Any:
        """Return a plain future."""
        return torch.futures.Future()

    @contextlib.contextmanager
    def on(self, stream: Stream) -> Iterator[None]:
        """Make a stream the thread's."""
        before = self.current()
        self._local.stream = stream
        try:
            yield
        finally:
            self._local.stream = before

    def is_capturing(self) -> bool:
        """Return what the test says."""
        return self.captures

    # What tests do with it.

    def run(
        self,
        stream: Stream,
        action: Callable[[], None],
        reads: list[torch.Tensor] = [],  # noqa: B006
        writes: list[torch.Tensor] = [],  # noqa: B006
        what: str = "kernel",
    ) -> None:
        """Do something in a stream that uses memory."""
        with self._lock:
            clock = self._clocks[stream.number]
            _merge(clock, self._clocks[HOST])
            clock[stream.number] = clock.get(stream.number, 0) + 1
            self._check(stream.number, reads, writes, f"{what} in stream {stream.number}")
            stream.todo.put(action)

    def on_host(self, memory: torch.Tensor, what: str) -> None:
        """Note that the host reads and writes memory."""
        with self._lock:
            clock = self._clocks[HOST]
            clock[HOST] = clock.get(HOST, 0) + 1
            self._check(HOST, [], [memory], what)

    def finish(self) -> None:
        """Wait until the caller's stream is done."""
        event = self.record(self.current())
        self.synchronize(event)

    def _check(self, agent: int, reads: list[torch.Tensor], writes: list[torch.Tensor], what: str) -> None:
        clock = self._clocks[agent]
        for tensor, is_write in [*((each, False) for each in reads), *((each, True) for each in writes)]:
            span = _span(tensor)
            for before in self._accesses:
                meets = before.span[0] < span[1] and span[0] < before.span[1]
                if meets and (is_write or before.writes) and clock.get(before.agent, 0) < before.time:
                    self.races.append(f"{what} meets {before.what}, and neither waits for the other")
            # What is replaced has happened before, so that later uses need to look at this one only.
            self._accesses = [
                each
                for each in self._accesses
                if not (is_write and span[0] <= each.span[0] and each.span[1] <= span[1])
            ]
            self._accesses.append(Access(span, is_write, agent, clock.get(agent, 0), what))

    def _is_pinned(self, tensor: torch.Tensor) -> bool:
        start, end = _span(tensor)
        return any(first <= start and end <= last for first, last in self._pinned)

    def _is_kept(self, tensor: torch.Tensor, stream: Stream) -> bool:
        start, end = _span(tensor)
        return any(first <= start and end <= last and stream.number == number for first, last, number in self._kept)


def _span(tensor: torch.Tensor) -> Span:
    memory = tensor if tensor.is_contiguous() else tensor.untyped_storage()
    size = memory.nbytes if isinstance(memory, torch.Tensor) else memory.nbytes()
    return memory.data_ptr(), memory.data_ptr() + size


def _merge(clock: Clock, other: Clock) -> None:
    for agent, moment in other.items():
        clock[agent] = max(clock.get(agent, 0), moment)


def _ignore(_: object) -> None:
    return None
