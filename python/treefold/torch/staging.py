"""Stages calls on tensors of a device through pinned host memory: pieces are sent while others are still being copied.

Copies run on two streams beside the caller's: one to the host, which waits for what the caller's stream has in it at
the call, and one back. A piece is sent when it is there, and copied back when it is final; the network and both
directions of copies are busy at once. Who waits for a call waits until the network is done, and then lets the stream,
not the thread, wait for the last copy. Nothing is called from a callback of the device, and nothing waits for all of
the device.

Pinned memory is a few buffers, which are kept; a piece is as large as one. Pieces are copied in the order of calls, and
a call that shares memory with an earlier one waits until that one is over.
"""

import threading
import warnings
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from typing import Any

import torch

from treefold._core import Plan, format_size
from treefold.runtime.group import Group
from treefold.torch.devices import Device, Event
from treefold.torch.pieces import Call, Copy, Cut, Piece
from treefold.torch.work import OrderedExecutor, Span, Work, overlap, spans_of

BUFFERS = 8
"""How many pieces there are at once, so that the network is busy while others are copied."""
_NAME = "the operation"


@dataclass(eq=False)
class _Buffer:
    memory: torch.Tensor
    is_kept: bool = True
    """Whether it serves other pieces afterwards."""
    emptied: Event = None
    """Behind the last copy out of it; None if there was none."""


@dataclass(eq=False)
class _Begun:
    """A call that is under way."""

    call: Call
    end: Callable[[], None]
    """Is called when it is over."""
    spans: list[Span]
    ready: Event
    """Behind what the caller's stream had in it at the call."""
    after: list["_Begun"]
    """Earlier calls that share memory with it."""
    over: threading.Event = field(default_factory=threading.Event)
    errors: list[Exception] = field(default_factory=list)


@dataclass(eq=False)
class _Part:
    """A piece of a call, on its way."""

    begun: _Begun
    piece: Piece
    buffer: _Buffer | None = None
    host: torch.Tensor | None = None
    copied: Event = None
    fetched: threading.Event = field(default_factory=threading.Event)
    """Set when its copies are in the stream, or have failed."""
    error: Exception | None = None


class StagedWork(Work):
    """The handle of a staged call."""

    def __init__(self, name: str, device: Device, completing: Callable[[], Any]) -> None:
        super().__init__(name, device.future(), completing)
        self._device = device
        self.event: Event = None
        """Behind the last copy to the caller's tensors."""

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait until the network is done, as in `Work`, and let the current stream wait for the last copy."""
        super().wait(timeout)
        self._device.wait(self._device.current(), self.event)
        return True

    def is_completed(self) -> bool:
        """Return whether the operation and its copies are over."""
        return super().is_completed() and (self.event is None or self._device.is_reached(self.event))


class Staging:
    """The copies between one device and the host for one process group."""

    def __init__(self, device: Device, plan: Plan, most_bytes: int) -> None:
        """Begin without buffers.

        Args:
            device: The device.
            plan: The plan with which the group began; after that, ranks may learn of new plans at different times.
            most_bytes: The maximum of pinned memory.

        """
        self.device, self._plan, self._piece_bytes = device, plan, most_bytes // BUFFERS
        self._to_host, self._to_device, self._aside = device.stream(), device.stream(), device.stream()
        self._free: list[_Buffer] = []
        self._count = 0
        self._waiting: deque[_Part] = deque()
        """The pieces whose copies are not in the stream yet, in order."""
        self._under_way: list[_Begun] = []
        self._lock = threading.Lock()

    def cut(self, group: Group) -> Cut:
        """Return how calls are cut."""
        return Cut(self.device, group, self._plan, self._piece_bytes)

    def start(self, executor: OrderedExecutor, group: Group, results: Any, end: Callable[[], None], call: Call) -> Work:
        """Begin a call on the caller's current stream, behind the earlier ones; return its handle.

        Args:
            executor: What runs the operations of the process group.
            group: The treefold group.
            results: The tensors that hold the results in the end.
            end: A function that is called when the call is over.
            call: The call.

        """
        work = StagedWork(_NAME, self.device, partial(self.device.on, self._to_device))
        begun = self._begun(call, end)
        parts = [_Part(begun, piece) for piece in call.pieces]
        with self._lock:
            if executor.is_own_thread:  # where buffers may be full of pieces that this thread would have to end
                for part in parts:
                    self._fill(part, _Buffer(_memory(self.device, self._piece_bytes), is_kept=False))
            else:
                self._waiting.extend(parts)
        self._fetch()
        for part in parts[:-1]:
            executor.start(Work(_NAME), partial(self._operation, part, group), True, [])
        executor.start(work, partial(self._last, begun, parts[-1:], group, work, results), True, [])
        return work

    @contextmanager
    def aside(self, tensors: Sequence[torch.Tensor]) -> Iterator[None]:
        """Make a stream beside the caller's the current one, behind the caller's and all calls on these tensors."""
        spans, ready = spans_of(tensors), self.device.record(self.device.current())
        with self._lock:
            earlier = [each for each in self._under_way if overlap(each.spans, spans)]
        for each in earlier:
            each.over.wait()
        self.device.wait(self._aside, ready)
        for tensor in tensors:
            self.device.keep(tensor, self._aside)
        with self.device.on(self._aside):
            yield

    def _begun(self, call: Call, end: Callable[[], None]) -> _Begun:
        for tensor in call.uses:
            for stream in (self._to_host, self._to_device):
                self.device.keep(tensor, stream)
        spans, ready = spans_of(call.uses), self.device.record(self.device.current())
        with self._lock:
            self._under_way = [each for each in self._under_way if not each.over.is_set()]
            begun = _Begun(call, end, spans, ready, [each for each in self._under_way if overlap(each.spans, spans)])
            self._under_way.append(begun)
        return begun

    def _fetch(self) -> None:
        """Put the copies of waiting pieces into the stream, as far as buffers are free."""
        with self._lock:
            while self._waiting and all(each.over.is_set() for each in self._waiting[0].begun.after):
                if (buffer := self._buffer()) is None:
                    return
                self._fill(self._waiting.popleft(), buffer)

    def _fill(self, part: _Part, buffer: _Buffer) -> None:
        """Put a piece's copies to the host into the stream."""
        part.buffer = buffer
        try:
            self._copy_in(part, buffer)
        except Exception as error:
            part.error = error
        part.fetched.set()

    def _buffer(self) -> _Buffer | None:
        """Return a free buffer, or a new one if there may be more."""
        if self._free:
            return self._free.pop()
        if self._count == BUFFERS:
            return None
        self._count += 1
        return _Buffer(_memory(self.device, self._piece_bytes))

    def _copy_in(self, part: _Part, buffer: _Buffer) -> None:
        call, stream = part.begun.call, self._to_host
        size = part.piece.elements * call.dtype.itemsize
        part.host = buffer.memory[:size].view(call.dtype)
        self.device.wait(stream, part.begun.ready)
        if buffer.emptied is not None:
            self.device.wait(stream, buffer.emptied)
        for copy in part.piece.into:
            self.device.copy(_at(part.host, copy), copy.device, stream)
        part.copied = self.device.record(stream)

    def _operation(self, part: _Part, group: Group) -> Iterator[None]:
        """Run a piece: what begins it waits until it is there, and what ends it copies it back."""
        try:
            part.fetched.wait()
            if part.error is not None:
                raise part.error
            assert part.host is not None and part.buffer is not None
            self.device.synchronize(part.copied)
            yield from part.piece.run(group, part.host)
            self._copy_back(part, part.host, part.buffer)
        except Exception as error:
            part.begun.errors.append(error)
            raise
        finally:
            self._release(part)

    def _copy_back(self, part: _Part, host: torch.Tensor, buffer: _Buffer) -> None:
        stream = self._to_device
        # What the caller's stream had in it before may still use the tensors to which this copies.
        self.device.wait(stream, part.begun.ready)
        for copy in part.piece.back:
            self.device.copy(copy.device, _at(host, copy), stream)
        buffer.emptied = self.device.record(stream)

    def _release(self, part: _Part) -> None:
        """Let other pieces have a piece's buffer."""
        with self._lock:
            if part.buffer is not None and part.buffer.is_kept:
                self._free.append(part.buffer)
            elif part in self._waiting:
                self._waiting.remove(part)
        self._fetch()

    def _last(
        self, begun: _Begun, last: Sequence[_Part], group: Group, work: StagedWork, results: Any
    ) -> Iterator[None]:
        """Run the last piece of a call if it has any, and end the call; return its results."""
        try:
            if not last:
                yield
            for part in last:
                yield from self._operation(part, group)
            if begun.errors:
                raise begun.errors[0]
            for tensor, dense in begun.call.stores:
                self.device.copy(tensor.detach(), dense, self._to_device)
            self.device.wait(self._to_device, begun.ready)
            with self.device.on(self._to_device):
                begun.call.finish()
            work.event = self.device.record(self._to_device)
        finally:
            self._end(begun)
        return results

    def _end(self, begun: _Begun) -> None:
        """Let later calls on the same memory begin, which read what this one wrote."""
        try:
            written = self.device.record(self._to_device)
            for stream in (self._to_host, self._aside):
                self.device.wait(stream, written)
        finally:
            begun.over.set()
            begun.end()
            self._fetch()


def _at(host: torch.Tensor, copy: Copy) -> torch.Tensor:
    return host[copy.first : copy.first + copy.device.numel()]


def _memory(device: Device, size: int) -> torch.Tensor:
    """Return pinned memory, or where there is none left other memory, which the device reads more slowly."""
    try:
        return device.pinned(size)
    except RuntimeError as error:
        reason = str(error).partition("\n")[0]
        warnings.warn(
            f"no {format_size(size)} of pinned memory are left ({reason}): copies are slower; allow less "
            "(TREEFOLD_STAGING), or raise the limit of locked memory (ulimit -l)",
            stacklevel=2,
        )
        return torch.empty(size, dtype=torch.uint8)
