"""What staging needs of the devices that hold tensors: streams, events, copies, and memory that copies fast.

`STAGED` lists the kinds of devices that have it. A test may add a stand-in.
"""

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Any, Protocol

import torch

Stream = Any
"""A queue of a device: it does one thing after the other."""
Event = Any
"""A mark in a stream, which is reached when everything before it is done."""


class Device(Protocol):
    """One device. Nothing here waits for the device but `synchronize`."""

    def current(self) -> Stream:
        """Return the stream on which the calling thread works."""

    def stream(self) -> Stream:
        """Return a new stream."""

    def record(self, stream: Stream) -> Event:
        """Return an event behind everything that is in a stream now."""

    def wait(self, stream: Stream, event: Event) -> None:
        """Let a stream wait for an event before it goes on."""

    def synchronize(self, event: Event) -> None:
        """Let the calling thread wait for an event."""

    def is_reached(self, event: Event) -> bool:
        """Return whether an event is reached."""

    def copy(self, target: torch.Tensor, source: torch.Tensor, stream: Stream) -> None:
        """Copy in a stream; what is on the host is memory of `pinned`, or copies wait for it."""

    def pinned(self, size: int) -> torch.Tensor:
        """Return so many bytes of host memory that the device reads and writes by itself.

        Raises:
            RuntimeError: If there is no such memory left.

        """

    def keep(self, tensor: torch.Tensor, stream: Stream) -> None:
        """Tell the allocator that a stream uses a tensor's memory, which must not be given to others before."""

    def future(self) -> Any:
        """Return a future of tensors on the device."""

    def on(self, stream: Stream) -> AbstractContextManager[Any]:
        """Make a stream the current one."""

    def is_capturing(self) -> bool:
        """Return whether the current stream is being captured into a graph."""


class Cuda:
    """A CUDA device, as a `Device`."""

    def __init__(self, device: torch.device) -> None:
        self._device = device

    def current(self) -> Stream:
        """Return the current stream, as in `Device`."""
        return torch.cuda.current_stream(self._device)

    def stream(self) -> Stream:
        """Return a new stream, as in `Device`."""
        return torch.cuda.Stream(self._device)

    def record(self, stream: Stream) -> Event:
        """Return an event, as in `Device`; a thread that waits for it sleeps."""
        event = torch.cuda.Event(blocking=True)
        event.record(stream)
        return event

    def wait(self, stream: Stream, event: Event) -> None:
        """Let a stream wait, as in `Device`."""
        stream.wait_event(event)

    def synchronize(self, event: Event) -> None:
        """Let the thread wait, as in `Device`; others go on."""
        event.synchronize()

    def is_reached(self, event: Event) -> bool:
        """Return whether an event is reached, as in `Device`."""
        return bool(event.query())

    def copy(self, target: torch.Tensor, source: torch.Tensor, stream: Stream) -> None:
        """Copy in a stream, as in `Device`."""
        with torch.cuda.stream(stream):
            target.copy_(source, non_blocking=True)

    def pinned(self, size: int) -> torch.Tensor:
        """Return pinned memory, as in `Device`."""
        return torch.empty(size, dtype=torch.uint8, pin_memory=True)

    def keep(self, tensor: torch.Tensor, stream: Stream) -> None:
        """Tell the allocator, as in `Device`."""
        tensor.record_stream(stream)

    def future(self) -> Any:
        """Return a future, as in `Device`: who waits for it has its stream wait, too."""
        return torch.futures.Future(devices=[self._device])

    def on(self, stream: Stream) -> AbstractContextManager[Any]:
        """Make a stream the current one, as in `Device`."""
        return torch.cuda.stream(stream)

    def is_capturing(self) -> bool:
        """Return whether a graph is captured, as in `Device`."""
        return bool(torch.cuda.is_current_stream_capturing())


STAGED: dict[str, Callable[[torch.device], Device]] = {"cuda": Cuda}
"""What makes the `Device` of each type of device that has one."""


def with_current_stream(call: Callable[[], Any]) -> Callable[[], Any]:
    """Return a call that runs on the caller's CUDA stream in whatever thread it is made."""
    if not torch.cuda.is_initialized():
        return call
    stream = torch.cuda.current_stream()

    def on_stream() -> Any:
        with torch.cuda.stream(stream):
            return call()

    return on_stream
