"""Iterations as a Chrome trace, which Perfetto opens: a process for each algorithm, compute and network its threads."""

import json
from collections.abc import Mapping

from treefold.training.timeline import COMPUTE, NETWORK, Timeline


def to_chrome(timelines: Mapping[str, Timeline]) -> str:
    """Return the content of the file; times are in microseconds there."""
    events = []
    for process, (name, timeline) in enumerate(timelines.items()):
        events.append({"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}})
        for thread, lane in enumerate((COMPUTE, NETWORK)):
            events.append({"ph": "M", "pid": process, "tid": thread, "name": "thread_name", "args": {"name": lane}})
            events += [
                {
                    "ph": "X",
                    "pid": process,
                    "tid": thread,
                    "name": span.name,
                    "cat": span.kind,
                    "ts": span.start_s * 1e6,
                    "dur": (span.end_s - span.start_s) * 1e6,
                }
                for span in timeline.spans
                if span.lane == lane
            ]
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})
