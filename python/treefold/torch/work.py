"""Operations under way: an executor runs them in order, and a handle waits for one of them."""

import concurrent.futures
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch import distributed as dist

from treefold.errors import DeadlineError, TreefoldError

_NO_BACKWARD_PASS = -1


class Work(dist.Work):
    """The handle of an operation, as torch.distributed returns it."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._result: Any = None
        self._over: torch.futures.Future[None] = torch.futures.Future()
        # C++ only knows the error of a future whose callback has raised it; DDP takes any other exception for tensors.
        self._future: torch.futures.Future[Any] = self._over.then(self._outcome)

    def run(self, operation: Callable[[], Any]) -> None:
        """Run this handle's operation, which returns its result; those who wait for the handle get what it raises."""
        try:
            self._result = operation()
        except TreefoldError as error:
            self._error = error.with_traceback(None)  # its message says all; a traceback would hide it
        except Exception as error:
            self._error = error
        self._done.set()
        self._over.set_result(None)

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
        return self._future.value()

    def get_future(self) -> Any:
        """Return a future of the tensors that hold the result.

        In a backward pass DDP or one of its hooks asks for it, and DDP's C++ turns every error of a future into a
        RuntimeError. So the pass waits for the operation at its end, before DDP does, and raises the error as it is.
        """
        if torch._C._current_graph_task_id() != _NO_BACKWARD_PASS:
            torch.autograd.Variable._execution_engine.queue_callback(self.wait)
        return self._future


class OrderedExecutor:
    """Runs the operations of a group in the order in which they are issued, on a thread that starts when needed."""

    def __init__(self, name: str) -> None:
        self._threads = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix=name)
        self._last: concurrent.futures.Future[None] | None = None
        self._thread: int | None = None
        self._running = threading.RLock()

    @property
    def is_idle(self) -> bool:
        """Tell whether no operation is under way or waiting."""
        return self._last is None or self._last.done()

    def start(self, work: Work, operation: Callable[[], Any], in_background: bool) -> Work:
        """Run an operation after the earlier ones, in the caller's thread if that delays nothing; return its handle."""
        # A callback of a future runs on the executor's thread; an operation that it issues would wait for itself.
        if threading.get_ident() == self._thread or (self.is_idle and not in_background):
            self._run(work, operation)
        else:
            self._last = self._threads.submit(self._run_in_thread, work, operation)
        return work

    def _run_in_thread(self, work: Work, operation: Callable[[], Any]) -> None:
        self._thread = threading.get_ident()
        self._run(work, operation)

    def _run(self, work: Work, operation: Callable[[], Any]) -> None:
        with self._running:  # a group runs one operation at a time, but users may have several threads
            work.run(operation)

    def close(self) -> None:
        """Wait for the operations under way, and end the thread."""
        self._threads.shutdown(wait=threading.get_ident() != self._thread)
