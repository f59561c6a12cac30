"""The results of simulating several plans at once: `treefold.simulate_together` returns an `Interference`."""

from dataclasses import dataclass
from typing import Any

from treefold._core import format_time
from treefold.records import Record, Table, inline
from treefold.results import Prediction


@dataclass(frozen=True, kw_only=True, repr=False)
class JobPrediction(Record):
    """The predicted time of a job, which is a plan that runs beside others.

    Attributes:
        job: The number of the job, counted from 1 in the order of the plans.
        prediction: The prediction for the plan beside the others. Dictionaries have its fields in its place.
        alone_s: The seconds that the job takes alone, without the others and the background; None if that was not
            asked for.
        slowdown: The factor by which the others and the background lengthen the job; None if `alone_s` is None, and if
            nothing takes time.

    Example:
        >>> ring = treefold.plan("ring:8", "ring", size_bytes="64MiB")
        >>> first = treefold.simulate_together([ring, ring]).jobs[0]
        >>> first.job, f"{first.slowdown:.2f}", first.as_dict()["algorithm"]
        (1, '2.00', 'ring')

    """

    job: int
    prediction: Prediction = inline()
    alone_s: float | None
    slowdown: float | None

    def __repr__(self) -> str:
        slowdown = "" if self.slowdown is None else f", slowdown {self.slowdown:.2f}"
        what = f"{self.job}: {self.prediction.algorithm}, {format_time(self.prediction.time_s)}"
        return f"JobPrediction({what}{slowdown})"


@dataclass(frozen=True, kw_only=True)
class BackgroundReport(Record):
    """The short messages that accelerators sent to each other beside the jobs.

    Attributes:
        load: The fraction of the bandwidth of its links together, from 0 to below 1, that each accelerator sent.
        message_bytes: The size of a message, in bytes.
        messages: How many messages were sent before the last job ended; None from the flow simulator, which takes
            their share from the bandwidth of links instead.
        mean_latency_s: The mean time of a message from when it was made until it was received, in seconds; None from
            the flow simulator, and if there was no message.
        p99_latency_s: The time that 99 of 100 messages did not exceed, in seconds; None where `mean_latency_s` is.

    Example:
        >>> ring = treefold.plan("ring:4", "ring", size_bytes="64KiB")
        >>> background = treefold.simulate_together(ring, simulator="packet", background_load=0.1).background
        >>> background.message_bytes, background.messages > 0
        (64, True)

    """

    load: float
    message_bytes: int
    messages: int | None
    mean_latency_s: float | None
    p99_latency_s: float | None


@dataclass(frozen=True, kw_only=True, repr=False)
class Interference(Record):
    """The predicted times of jobs that run together, and how much they disturb each other.

    Attributes:
        jobs: The jobs, in the order of the plans.
        shared_ranks: How many accelerators are ranks of more than one job.
        background: The background traffic; None if there was none.

    Example:
        >>> ring = treefold.plan("ring:8", "ring", size_bytes="64MiB")
        >>> interference = treefold.simulate_together([ring, ring])
        >>> len(interference.jobs), interference.shared_ranks, interference.background
        (2, 8, None)

    """

    jobs: tuple[JobPrediction, ...]
    shared_ranks: int
    background: BackgroundReport | None

    def rows(self) -> list[dict[str, Any]]:
        """Return a dictionary for each job, as `--json` prints them under `jobs`.

        Example:
            >>> ring = treefold.plan("ring:8", "ring", size_bytes="64MiB")
            >>> [row["job"] for row in treefold.simulate_together([ring, ring]).rows()]
            [1, 2]

        """
        return Table(self.jobs).rows()

    def to_pandas(self) -> Any:
        """Return the rows as a data frame of pandas.

        Raises:
            TreefoldError: If pandas is not installed.

        Example:
            >>> ring = treefold.plan("ring:8", "ring", size_bytes="64MiB")
            >>> treefold.simulate_together([ring, ring]).to_pandas()["job"].tolist()
            [1, 2]

        """
        return Table(self.jobs).to_pandas()

    def __repr__(self) -> str:
        background = "" if self.background is None else f", background load {self.background.load:g}"
        jobs = ", ".join(f"{job.prediction.algorithm} {format_time(job.prediction.time_s)}" for job in self.jobs)
        return f"Interference({jobs}{background})"
