"""The handle of an operation as torchft's manager needs it: an error is told to the group, and raised nowhere.

torchft 0.2 asks for three things that other handles of torch do not have. Its manager makes callbacks behind `wait`
that only work on a future that is done. A bucket of its DDP whose handle raises an error ends the program, and so does
the next bucket of a step in which the manager knows of an error. So the manager learns of errors when it asks whether
to commit the step.
"""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import torch
from torch import distributed as dist

from treefold.torch.work import Work

Report = Callable[[BaseException], None]


class Watched(dist.Work):
    """A handle whose `wait` returns False if the operation failed; its future is then done all the same."""

    def __init__(self, work: Any, report: Report = lambda _: None) -> None:
        """Watch an operation.

        Args:
            work: Its handle, of treefold or of the wrapped backend; None for one that was not begun, after an error.
            report: A function that gets its error.

        """
        super().__init__()
        self._work, self._report, self._has_failed = work, report, work is None
        self._future = torch.futures.Future[Any]()
        if work is None:
            self._future.set_result([])
        else:
            self._future = (work.future if isinstance(work, Work) else work.get_future()).then(self._outcome)

    def _outcome(self, future: Any) -> Any:
        """Return the value of a future that is done; report its error if it has one."""
        try:
            return future.value()
        except Exception as error:
            # That of the future is a RuntimeError which quotes the operation's.
            own = self._work.exception() if isinstance(self._work, Work) else None
            self._fail(own or error)
            return []

    def _fail(self, error: BaseException) -> None:
        self._has_failed = True
        self._report(error)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait until the operation is done, and return whether it has a result; a timeout of 0 sets no limit."""
        if self._work is not None:
            try:
                self._work.wait(timeout) if timeout else self._work.wait()
            except Exception as error:
                self._fail(error)
                if timeout:
                    return False  # the operation may still be under way
            self._future.wait()
        return not self._has_failed

    def synchronize(self) -> None:
        """Wait until the operation is done."""
        self.wait()

    def block_current_stream(self) -> None:
        """Let the current stream wait for the operation."""
        self.wait()

    def is_completed(self) -> bool:
        """Return whether the operation is over, with or without an error."""
        return bool(self._future.done())

    def get_future(self) -> Any:
        """Return a future of the tensors that hold the result; after an error they hold anything."""
        return self._future
