"""Operations under way: an executor begins and ends them in order, and a handle waits for one of them."""

import concurrent.futures
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import timedelta
from functools import partial
from typing import Any

import torch
from torch import distributed as dist

from treefold.errors import DeadlineError, TreefoldError

_NO_BACKWARD_PASS = -1

Span = tuple[int, int]
"""The addresses of the first byte of a piece of memory and of the byte behind it."""


class Work(dist.Work):
    """The handle of an operation, as torch.distributed returns it."""

    def __init__(
        self, name: str, over: Any = None, completing: Callable[[], AbstractContextManager[Any]] = nullcontext
    ) -> None:
        """Make the handle of an operation that has not begun.

        Args:
            name: What errors call it.
            over: The future that is completed in the end, if tensors of a device need one of their own.
            completing: What makes the context in which it is completed.

        """
        super().__init__()
        self._name, self._completing = name, completing
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._result: Any = None
        self._over: torch.futures.Future[Any] = torch.futures.Future() if over is None else over
        # C++ only knows the error of a future whose callback has raised it; DDP takes any other exception for tensors.
        self.future: torch.futures.Future[Any] = self._over.then(self._outcome)
        """The future of the tensors that hold the result, whoever waits for it."""

    def run(self, operation: Callable[[], Any]) -> None:
        """Run this handle's operation, or the rest of it; who waits for the handle gets its result, or its error."""
        try:
            self._result = operation()
        except TreefoldError as error:
            self._error = error.with_traceback(None)  # its message says all; a traceback would hide it
        except Exception as error:
            self._error = error
        self._done.set()
        with self._completing():
            self._over.set_result(self._result)

    def _outcome(self, _: object) -> Any:
        if self._error is not None:
            raise self._error
        return self._result

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait until the operation is done; a timeout of 0 sets no limit.

        Raises:
            DeadlineError: If it is not done in time.
            TreefoldError: If it failed.

        """
        seconds = timeout.total_seconds()
        if not self._done.wait(seconds if seconds > 0 else None):
            raise DeadlineError(f"{self._name} is not done after {seconds:g} s; wait longer, or look at other ranks")
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        """Wait until the operation is done."""
        self.wait()

    def is_completed(self) -> bool:
        """Return whether the operation is over, with or without an error."""
        return self._done.is_set()

    def is_success(self) -> bool:
        """Return whether the operation is over without an error."""
        return self._done.is_set() and self._error is None

    def exception(self) -> BaseException | None:
        """Return what the operation raised, if it did."""
        return self._error

    def result(self) -> Any:
        """Return the tensors that hold the result, once it is there."""
        self.wait()
        return self.future.value()

    def get_future(self) -> Any:
        """Return a future of the tensors that hold the result.

        In a backward pass DDP or one of its hooks asks for it, and DDP's C++ turns every error of a future into a
        RuntimeError. So the pass waits for the operation at its end, before DDP does, and raises the error as it is.
        """
        if torch._C._current_graph_task_id() != _NO_BACKWARD_PASS:
            torch.autograd.Variable._execution_engine.queue_callback(self.wait)
        return self.future


@contextmanager
def in_profile(name: str) -> Iterator[Callable[[Work], Work]]:
    """Let the PyTorch profiler, if it runs, see an operation by name: from here until the handle's end.

    Yields:
        What is given the handle, and returns it.

    """
    if not torch.autograd._profiler_enabled():
        yield lambda work: work
        return
    with torch.profiler.record_function(f"treefold::{name}") as seen:

        def until_end(work: Work) -> Work:
            seen._call_end_callbacks_on_future(work.future)
            return work

        yield until_end


class OrderedExecutor:
    """Begins the operations of a group in the order in which they are issued, and ends them in that order.

    An operation is a function whose generator begins it up to a yield, and waits for its end behind it; or a function
    that does all at once, with no other operation beside it. There is a thread that begins operations and one that ends
    them, which start when they are needed.
    """

    def __init__(self, name: str) -> None:
        self._starter, self._ender = (
            concurrent.futures.ThreadPoolExecutor(1, f"{name}-{do}") for do in ("begin", "end")
        )
        self._last: concurrent.futures.Future[None] | None = None
        self._flights: list[tuple[concurrent.futures.Future[None], list[Span]]] = []
        self._own_threads: set[int] = set()
        self._running = threading.RLock()

    @property
    def is_idle(self) -> bool:
        """Tell whether no operation is under way or waiting."""
        return (self._last is None or self._last.done()) and all(ended.done() for ended, _ in self._flights)

    @property
    def is_own_thread(self) -> bool:
        """Tell whether the calling thread begins or ends operations."""
        return threading.get_ident() in self._own_threads

    def start(
        self, work: Work, operation: Callable[[], Any], in_background: bool, spans: Sequence[Span] | None = None
    ) -> Work:
        """Begin an operation after the earlier ones, in the caller's thread if that delays nothing.

        Args:
            work: The handle of the operation.
            operation: What makes its generator, or does all at once.
            in_background: Whether the caller does not wait for it.
            spans: The memory that it uses; it begins when earlier ones have ended that use any of it. None means that
                it begins when all earlier ones have ended.

        Returns:
            The handle.

        """
        # A callback of a future runs on a thread of the executor; an operation that it issues would wait for itself.
        if self.is_own_thread or (self.is_idle and not in_background):
            with self._running:  # users may have several threads
                work.run(lambda: _whole(operation()))
        else:
            self._last = self._starter.submit(self._begin, work, operation, spans)
        return work

    def _begin(self, work: Work, operation: Callable[[], Any], spans: Sequence[Span] | None) -> None:
        self._own_threads.add(threading.get_ident())
        self._flights = [flight for flight in self._flights if not flight[0].done()]
        for ended, used in self._flights:
            if spans is None or overlap(used, spans):
                ended.result()
        try:
            with self._running:
                begun = operation()
                if isinstance(begun, Iterator):
                    next(begun)
        except Exception as error:
            work.run(partial(_raise, error))
            return
        self._flights.append((self._ender.submit(self._end, work, begun), list(spans or [])))

    def _end(self, work: Work, begun: Any) -> None:
        self._own_threads.add(threading.get_ident())
        work.run(lambda: _whole(begun))

    def close(self) -> None:
        """Wait for the operations under way, and end the threads."""
        wait = threading.get_ident() not in self._own_threads
        self._starter.shutdown(wait=wait)
        self._ender.shutdown(wait=wait)


def spans_of(tensors: Iterable[torch.Tensor]) -> list[Span]:
    """Return the memory of tensors; of one that is not contiguous all of its storage, as it may be anywhere there."""
    spans = []
    for tensor in tensors:
        memory = tensor if tensor.is_contiguous() else tensor.untyped_storage()
        size = memory.nbytes if isinstance(memory, torch.Tensor) else memory.nbytes()
        spans.append((memory.data_ptr(), memory.data_ptr() + size))
    return spans


def bytes_of(value: Any) -> int:
    """Return how many bytes the elements of a tensor have, or of those in a list, which may be one of lists."""
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    return sum(map(bytes_of, value)) if isinstance(value, list | tuple) else 0


def overlap(some: Sequence[Span], others: Sequence[Span]) -> bool:
    """Return whether any of some pieces of memory have bytes in common with others."""
    return any(start < other_end and other < end for start, end in some for other, other_end in others)


def _whole(begun: Any) -> Any:
    """Return the result of an operation: what is left of a generator returns it."""
    while isinstance(begun, Iterator):
        try:
            next(begun)
        except StopIteration as end:
            return end.value
    return begun


def _raise(error: Exception) -> None:
    raise error
