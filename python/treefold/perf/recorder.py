"""Records when the messages of a job's runs left and came, and makes the trace of the run with the median time.

Every measured run is recorded, as nobody knows before the end which one is typical. The clocks of the ranks are
compared before the first run and after the last one. The times of all messages come together by an all-reduce, in
which each has one rank that gives it, and zeros of all others.
"""

from contextlib import AbstractContextManager
from typing import TYPE_CHECKING

from treefold import _core
from treefold._core import Plan, Recording, Trace
from treefold.rendezvous import validation
from treefold.runtime.clocks import Clock
from treefold.runtime.recordings import table_of

if TYPE_CHECKING:
    from treefold.perf.teams import Team

MOST_RUNS = 1000
"""The most runs of which recordings are kept."""


class Recorder:
    """The recordings of this process's ranks in all measured runs."""

    def __init__(self, team: "Team") -> None:
        self._team = team
        self._before: Clock = team.clock()
        self._runs: list[list[Recording]] = []

    def recorded(self) -> AbstractContextManager[None]:
        """Record the next run: the last operation of this process's ranks within the context."""
        self._runs.append([Recording() for _ in self._team.ranks])
        return self._team.recorded(self._runs[-1])

    def trace(self, run: int, plan: Plan, all_reduce: Plan, elements: int, element_bytes: int) -> Trace | None:
        """Return the trace of a run in the process that keeps it, and None in others; all call this together.

        Args:
            run: The number of the run, counted from 0.
            plan: The plan that ran.
            all_reduce: A plan of an all-reduce, by which the times come together.
            elements: How many elements the longest vector has.
            element_bytes: How many bytes an element has.

        """
        after = self._team.clock()
        times = self._before.corrected(table_of(self._runs[run]), after)
        if times.size:
            self._team.add_up(times, all_reduce)
        mine = max(self._before.uncertainty_s, after.uncertainty_s)
        uncertainty_s = max(validation.exchange(self._team.exchange, mine, validation.is_amount))
        if not self._team.is_first:
            return None
        return _core.measured_trace(plan, elements, element_bytes, self._team.message_s, times, uncertainty_s)


def median_run(times_s: list[float]) -> int:
    """Return the number of the run whose time is the median, or the one below it if runs are even in number.

    Example:
        >>> median_run([5.0, 1.0, 3.0, 2.0])
        3

    """
    return sorted(range(len(times_s)), key=times_s.__getitem__)[(len(times_s) - 1) // 2]
