"""On a WAN in a box (root): a latency rises and falls, an idle cable becomes fast or slow, a cut cable comes back."""

import json
import os
import sys
import time

import pytest

if os.geteuid():
    pytest.skip("needs root, for network namespaces", allow_module_level=True)

from tools import wan_box

WORKER = """
import json, sys, time
import numpy as np, treefold
from treefold import runtime

network, seconds, size_bytes, options = sys.argv[1], float(sys.argv[2]), int(sys.argv[3]), json.loads(sys.argv[4])
connections = runtime.Connections(silence_s=15.0, dead_after_s=3.0)
joined = runtime.join(
    runtime.from_environment(), network=network, size_bytes=size_bytes, connections=connections, **options
)
array, flag, rows = np.empty(size_bytes // 4, np.float32), np.zeros(1, np.int8), []
begun = time.monotonic()
while not flag[0]:
    array[:] = joined.worker + len(rows)
    start = time.perf_counter()
    joined.all_reduce(array)
    took = time.perf_counter() - start
    right = bool((array == sum(range(joined.size)) + joined.size * len(rows)).all())
    rows.append({"at": start, "seconds": took, "right": right, "changes": joined.changes(), "pairs": joined.plan.pairs})
    flag[0] = time.monotonic() - begun > seconds
    joined.all_reduce(flag, "max")
    time.sleep(0.05)
print(json.dumps(rows))
joined.close()
"""


def network(tmp_path, rates, latency="3ms"):
    links = [
        {"source": ends[:2], "target": ends[2:], "bandwidth": f"{rate}Mbit/s", "latency": latency, "both_ways": True}
        for ends, rate in rates.items()
    ]
    nodes = [{"name": name} for name in sorted({name for ends in rates for name in (ends[:2], ends[2:])})]
    path = tmp_path / "network.json"
    path.write_text(
        json.dumps({"format": "treefold-topology", "version": 1, "name": "box", "nodes": nodes, "links": links})
    )
    return str(path)


def run(path, seconds, size_bytes, actions, **options):
    """Rows of rank 0; `actions` are made so many seconds after the start."""
    actions, start = list(actions), None

    def meanwhile():
        nonlocal start
        start = start or time.monotonic()
        if actions and time.monotonic() - start > actions[0][0]:
            actions.pop(0)[1](box)

    with wan_box.up(path, name="watched") as box:
        command = [sys.executable, "-c", WORKER, path, str(seconds), str(size_bytes), json.dumps(options)]
        outcomes = box.run_all(command, timeout_s=seconds + 60, meanwhile=meanwhile)
    reports = [json.loads(outcome.stdout.splitlines()[-1]) for outcome in outcomes]
    assert all(row["right"] for report in reports for row in report)
    assert len({len(report) for report in reports}) == 1
    return reports[0]


def told(rows):
    """The lines that were told, in order, each with the place of its row."""
    return [(place, line) for place, row in enumerate(rows) for line in row["changes"]]


def median_s(rows):
    return sorted(row["seconds"] for row in rows)[len(rows) // 2]


def uses(row, one, other):
    return [one, other] in row["pairs"]


SQUARE = dict.fromkeys(["w0w1", "w0w2", "w0w3", "w1w2", "w1w3", "w2w3"], 100)


def test_a_latency_that_rises_is_planned_around_and_one_that_falls_is_used_again(tmp_path):
    actions = [(20, lambda box: box.latency("w0", "w1", 0.033)), (45, lambda box: box.latency("w0", "w1", 0.003))]
    rows = run(network(tmp_path, SQUARE), 65, 1 << 20, actions, algorithm="packing", adapt=True)
    lines = [(place, line) for place, line in told(rows) if line.startswith("link w0 -> w1: latency")]
    assert len(lines) == 2, told(rows)
    (risen, first), (fallen, second) = lines
    assert first.startswith("link w0 -> w1: latency 3ms, now 3") and ", now 3" in second, lines
    assert uses(rows[0], 0, 1) and not uses(rows[fallen - 1], 0, 1) and uses(rows[-1], 0, 1)
    slow, around = rows[risen - 10 : risen], rows[risen + 5 : fallen]
    assert median_s(around) < 0.8 * median_s(slow)


def test_an_idle_cable_that_becomes_fast_is_used_and_one_that_becomes_slow_again_is_left(tmp_path):
    rates = {"w0w1": 20, "w0w2": 100, "w2w3": 100, "w1w2": 40}
    actions = [
        (8, lambda box: box.rate("w0", "w1", "100Mbit/s", both=True)),
        (45, lambda box: box.rate("w0", "w1", "20Mbit/s", both=True)),
    ]
    rows = run(network(tmp_path, rates), 65, 4 << 20, actions, algorithm="packing", trees=1, adapt=True)
    assert not uses(rows[0], 0, 1)
    used = [uses(row, 0, 1) for row in rows]
    begun = used.index(True)
    ended = used.index(False, begun)
    assert any("w0 -> w1: bandwidth 2.5MB/s, now" in line for _, line in told(rows)), told(rows)
    assert median_s(rows[begun + 3 : begun + 20]) < 0.7 * median_s(rows[:begun])
    assert not any(used[ended:])


def test_a_cut_cable_that_comes_back_is_used_again(tmp_path):
    actions = [(5, lambda box: box.cut("w0", "w1")), (20, lambda box: box.mend("w0", "w1"))]
    rows = run(network(tmp_path, SQUARE), 40, 4 << 20, actions, algorithm="packing", adapt=True)
    lines = [line for _, line in told(rows) if "w0 -> w1" in line]
    assert lines == ["link w0 -> w1 is gone", "link w0 -> w1 is new"], told(rows)
    without = [row for row in rows if not uses(row, 0, 1)]
    assert uses(rows[0], 0, 1) and without and uses(rows[-1], 0, 1)
    assert median_s(rows[-20:]) < 0.9 * median_s(without[2:])


def test_the_watch_hardly_disturbs_operations(tmp_path):
    """An idle cable is probed beside operations, whose median time grows by less than a twentieth."""
    path = network(tmp_path, {"w0w1": 20, "w0w2": 100, "w2w3": 100, "w1w2": 40})
    medians = {
        adapt: median_s(run(path, 40, 4 << 20, [], algorithm="packing", trees=1, adapt=adapt))
        for adapt in (False, True)
    }
    print(medians)
    commit_s = 4 * 0.003  # the one-byte all-reduce after each operation takes two heights of the tree
    assert medians[True] < 1.05 * (medians[False] + 2 * commit_s), medians
