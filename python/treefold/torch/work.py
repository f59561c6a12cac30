"""Operations under way: a lane runs them one after the other, a handle waits for one of them."""

import concurrent.futures
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch import distributed as dist

from treefold.errors import TreefoldError

_NO_BACKWARD_PASS = -1


class Work(dist.Work):
    """Handle of an operation in a lane, as torch.distributed gives them out."""

    def __init__(self, name: str) -> None:
        super().__init__()
        self._name = name
        self._done = threading.Event()
        self._error: BaseException | None = None
        self._result: Any = None
        self._over: torch.futures.Future[None] = torch.futures.Future()
        # Only a future whose callback has raised holds an error that C++ knows: DDP reads the exception of another one
        # as tensors.
        self._future: torch.futures.Future[Any] = self._over.then(self._outcome)

    def run(self, operation: Callable[[], Any]) -> None:
        """Run the operation this handle stands for, which returns its result; what it raises is for those who wait."""
        try:
            self._result = operation()
        except TreefoldError as error:
            self._error = error.with_traceback(None)  # its message tells all; our frames would hide it
        except Exception as error:
            self._error = error
        self._done.set()
        self._over.set_result(None)

    def _outcome(self, _: object) -> Any:
        if self._error is not None:
            raise self._error
        return self._result

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait until the operation is done; no time, or none above 0, waits as long as it takes.

        Raises:
            TreefoldError: If it failed, or is not done in time.

        """
        seconds = timeout.total_seconds()
        if not self._done.wait(seconds if seconds > 0 else None):
            raise TreefoldError(f"{self._name} is not done after {seconds:g} s; wait longer, or look at other ranks")
        if self._error is not None:
            raise self._error
        return True

    def synchronize(self) -> None:
        """Wait until the operation is done."""
        self.wait()

    def is_completed(self) -> bool:
        """Return whether the operation is over, well or not."""
        return self._done.is_set()

    def is_success(self) -> bool:
        """Return whether the operation is over and went well."""
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

        Whoever asks for it in a backward pass is DDP or a hook of it, and its C++ turns every error of a future into a
        RuntimeError. So the pass waits for the operation at its end, before DDP does, and raises the error as it is.
        """
        if torch._C._current_graph_task_id() != _NO_BACKWARD_PASS:
            torch.autograd.Variable._execution_engine.queue_callback(self.wait)
        return self._future


class Lane:
    """Runs the operations of a group in the order in which they were issued, on a thread that starts when needed."""

    def __init__(self, name: str) -> None:
        self._threads = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix=name)
        self._last: concurrent.futures.Future[None] | None = None
        self._thread: int | None = None
        self._running = threading.RLock()

    @property
    def is_idle(self) -> bool:
        """Whether no operation is under way or waits."""
        return self._last is None or self._last.done()

    def start(self, work: Work, operation: Callable[[], Any], in_background: bool) -> Work:
        """Run an operation after those before it, in the caller's thread where nothing is lost; return its handle."""
        # A callback of a future that issues an operation runs on the lane's thread: it would wait for itself.
        if threading.get_ident() == self._thread or (self.is_idle and not in_background):
            self._run(work, operation)
        else:
            self._last = self._threads.submit(self._run_in_thread, work, operation)
        return work

    def _run_in_thread(self, work: Work, operation: Callable[[], Any]) -> None:
        self._thread = threading.get_ident()
        self._run(work, operation)

    def _run(self, work: Work, operation: Callable[[], Any]) -> None:
        with self._running:  # the group takes one operation at a time, but users may have threads
            work.run(operation)

    def close(self) -> None:
        """Wait for what is under way and end the thread."""
        self._threads.shutdown(wait=threading.get_ident() != self._thread)
