"""On a WAN in a box (root): a link's rate is halved, a link dies, in mid-run; no result is wrong, and time recovers."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "bench" / "wan"))

if os.geteuid():
    pytest.skip("needs root, for network namespaces", allow_module_level=True)

import box as boxes  # noqa: E402

TOPOLOGIES = HERE.parent / "bench" / "wan" / "topologies"
SIZE_BYTES = 16 << 20
WORKER = f"""
import json, sys, time
import numpy as np, treefold
from treefold.workers import group, rendezvous

meeting = rendezvous.from_environment()
network = treefold.topology(sys.argv[3])
patience = group.Patience(silence_s=15.0, dead_after_s=3.0)
joined = group.join(meeting, network=network, algorithm="packing", adapt=True, patience=patience)
array, rows = np.empty({SIZE_BYTES} // 4, np.float32), []
for number in range(int(sys.argv[1])):
    array[:] = joined.worker + number
    if meeting.rank == 0:
        open(sys.argv[2], "w").write(str(number))
    start = time.perf_counter()
    joined.all_reduce(array)
    seconds = time.perf_counter() - start
    right = bool((array == sum(range(joined.size)) + joined.size * number).all())
    rows.append({{"seconds": seconds, "right": right, "changes": joined.changes()}})
print(json.dumps(rows))
joined.close()
meeting.close()
"""


def run(tmp_path, name, operations, change):
    """Rows of rank 0, and which operation was at work when `change` was made to the box: soon after the third began."""
    progress, changed = tmp_path / "progress", []

    def meanwhile():
        number = int(progress.read_text() or -1) if progress.exists() else -1
        if number >= 3 and not changed:
            time.sleep(0.3)
            change(box)
            changed.append(number)

    with boxes.up(str(TOPOLOGIES / name), name="changing") as box:
        command = [sys.executable, "-c", WORKER, str(operations), str(progress), str(TOPOLOGIES / name)]
        outcomes = box.run_all(command, timeout_s=280, meanwhile=meanwhile)
    reports = [json.loads(outcome.stdout.splitlines()[-1]) for outcome in outcomes]
    assert all(row["right"] for report in reports for row in report)
    return reports[0], changed[0]


def test_a_halved_rate_is_planned_around(tmp_path):
    rows, changed = run(tmp_path, "six-dense.json", 9, lambda box: box.rate("w0", "w5", "57Mbit/s", both=True))
    usual = min(row["seconds"] for row in rows[:changed])
    assert any("w5" in line for row in rows[changed:] for line in row["changes"])
    # The network still has another way around for what this link carried.
    assert rows[changed + 3]["seconds"] < 1.35 * usual, [row["seconds"] for row in rows]


def test_a_dead_link_costs_no_result(tmp_path):
    rows, changed = run(tmp_path, "eight-sparse.json", 8, lambda box: box.cut("w0", "w1"))
    assert any("w0 -> w1 is gone" in line for row in rows for line in row["changes"])
    assert rows[changed]["seconds"] < 15
    usual = min(row["seconds"] for row in rows[:changed])
    assert min(row["seconds"] for row in rows[changed + 1 :]) < 1.5 * usual
