"""Timelines as a Chrome trace, which Perfetto opens: a process for each algorithm, with a thread for each lane."""

import json
from collections.abc import Mapping
from typing import Any

from treefold.training.timeline import LANES, Timeline


def to_chrome(timelines: Mapping[str, Timeline]) -> str:
    """Return the text of the trace file; its times are in microseconds."""
    events = []
    for process, (name, timeline) in enumerate(timelines.items()):
        events.append({"ph": "M", "pid": process, "name": "process_name", "args": {"name": name}})
        for thread, lane in enumerate(LANES):
            bars = _events_of_lane(timeline, lane, {"ph": "X", "pid": process, "tid": thread})
            named = {"ph": "M", "pid": process, "tid": thread, "name": "thread_name", "args": {"name": lane}}
            events += [named, *bars] if bars else []
    return json.dumps({"traceEvents": events, "displayTimeUnit": "ms"})


def _events_of_lane(timeline: Timeline, lane: str, common: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [
        {
            **common,
            "name": activity.name,
            "cat": activity.kind,
            "ts": activity.start_s * 1e6,
            "dur": (activity.end_s - activity.start_s) * 1e6,
        }
        for activity in timeline.activities
        if activity.lane == lane
    ]
