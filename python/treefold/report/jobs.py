"""Lays out the predictions of jobs that run together."""

from treefold._core import format_bandwidth, format_size, format_time
from treefold.job_results import BackgroundReport, Interference, JobPrediction
from treefold.report.align import align


def jobs_table(result: Interference) -> str:
    """Return a table of the times of jobs, alone and together, and of the latencies of background traffic.

    Args:
        result: The result of `treefold.simulate_together`.

    Example:
        >>> from treefold import report
        >>> ring = treefold.plan("ring:8", "ring", size_bytes=64 << 20)
        >>> print(report.jobs_table(treefold.simulate_together([ring, ring])).splitlines()[1])
        1    ring       64MiB  14.682ms  7.342ms    2.00 x  4.571GB/s

    """
    header = ["job", "algorithm", "size", "time", "alone", "slowdown", "algbw"]
    first = result.jobs[0].prediction
    lines = [align([header, *map(_cells, result.jobs)], left={0, 1})]
    lines.append(f"# {first.simulator} simulator; all jobs begin at once")
    if result.shared_ranks:
        shared = "interfaces serve the jobs in turn" if first.simulator == "packet" else "links are shared"
        lines.append(f"# {result.shared_ranks} ranks take part in more than one job; their {shared}")
    if result.background is not None:
        lines.append(_traffic(result.background))
    return "\n".join(lines)


def _cells(job: JobPrediction) -> list[str]:
    row = job.prediction
    return [
        str(job.job),
        row.algorithm if row.collective == "all-reduce" else f"{row.algorithm} ({row.collective})",
        format_size(row.size_bytes),
        format_time(row.time_s),
        "-" if job.alone_s is None else format_time(job.alone_s),
        "-" if job.slowdown is None else f"{job.slowdown:.2f} x",
        "-" if row.algbw_Bps is None else format_bandwidth(row.algbw_Bps),
    ]


def _traffic(background: BackgroundReport) -> str:
    """Return the line about background traffic."""
    what = f"# background: load {background.load:g} in messages of {format_size(background.message_bytes)}"
    if background.messages is None:
        return f"{what}, taken from the bandwidth of each link; the packet simulator tells latencies"
    if background.mean_latency_s is None or background.p99_latency_s is None:
        return f"{what}; no message was sent"
    mean, p99 = format_time(background.mean_latency_s), format_time(background.p99_latency_s)
    return f"{what}: {background.messages} messages, mean latency {mean}, 99th percentile {p99}"
