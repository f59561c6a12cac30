"""The handle of an operation as torchft's manager needs it: an error is told, and never raised into a backward pass."""

from collections.abc import Callable
from datetime import timedelta
from typing import Any

from torch import distributed as dist

from treefold.torch.work import Work


class Watched(dist.Work):
    """A handle whose `wait` returns False where the operation failed; its error is in the future, and reported.

    torchft's manager asks for errors before it commits a step. If `wait` raised one, its DDP would end the program.
    """

    def __init__(self, work: Any, report: Callable[[Exception], None]) -> None:
        """Watch an operation.

        Args:
            work: Its handle, of treefold or of the wrapped backend.
            report: A function that gets its error.

        """
        super().__init__()
        self._work, self._report = work, report
        self._future = work.future if isinstance(work, Work) else work.get_future()
        self._future.add_done_callback(self._look)

    def _look(self, future: Any) -> None:
        """Report the error of a future that is done."""
        try:
            future.value()
        except Exception as error:
            self._report(error)

    def wait(self, timeout: timedelta = timedelta(0)) -> bool:
        """Wait until the operation is done, and return whether it has a result; a timeout of 0 sets no limit."""
        try:
            self._work.wait(timeout) if timeout else self._work.wait()
        except Exception as error:
            self._report(error)
            return False
        return True

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
        """Return a future of the tensors that hold the result."""
        return self._future
