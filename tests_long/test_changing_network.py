"""On a WAN in a box (root): a link's rate is halved, a link dies, in mid-run; no result is wrong, and time recovers."""

import json
import os
import sys
import time
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parent

if os.geteuid():
    pytest.skip("needs root, for network namespaces", allow_module_level=True)

import treefold  # noqa: E402
from tools import wan_box  # noqa: E402
from treefold import certificates  # noqa: E402

TOPOLOGIES = HERE.parent / "bench" / "wan" / "topologies"
SMALL_BYTES = 16 << 20
LARGE_BYTES = 64 << 20  # for which the bound counts: what an operation costs besides its bytes hardly shows
TCP_SHARE = 0.955  # of a link's rate: headers take the rest (tools/wan_box/checking.py)
WORKER = """
import json, sys, time
import numpy as np, treefold
from treefold import runtime

meeting = runtime.from_environment()
network = treefold.topology(sys.argv[3])
connections = runtime.Connections(silence_s=15.0, dead_after_s=3.0)
joined = runtime.join(meeting, network=network, algorithm="packing", adapt=True, connections=connections)
array, rows = np.empty(int(sys.argv[4]) // 4, np.float32), []
for number in range(int(sys.argv[1])):
    array[:] = joined.worker + number
    if meeting.rank == 0:
        open(sys.argv[2], "w").write(str(number))
    start = time.perf_counter()
    joined.all_reduce(array)
    seconds = time.perf_counter() - start
    right = bool((array == sum(range(joined.size)) + joined.size * number).all())
    rows.append({"seconds": seconds, "right": right, "changes": joined.changes()})
print(json.dumps(rows))
joined.close()
meeting.close()
"""


def run(tmp_path, name, operations, size_bytes, change, is_secret=False):
    """Rows of rank 0, and which operation was at work when `change` was made to the box: soon after the third began."""
    progress, changed = tmp_path / "progress", []

    def meanwhile():
        number = int(progress.read_text() or -1) if progress.exists() else -1
        if number >= 3 and not changed:
            time.sleep(0.3)
            change(box)
            changed.append(number)

    with wan_box.up(str(TOPOLOGIES / name), name="changing") as box:
        arguments = [operations, progress, TOPOLOGIES / name, size_bytes]
        command = [sys.executable, "-c", WORKER, *map(str, arguments)]
        keys = tmp_path / "keys" if is_secret else None
        if is_secret:
            certificates.make(box.workers, keys)
        outcomes = box.run_all(command, timeout_s=280, meanwhile=meanwhile, keys=keys)
    reports = [json.loads(outcome.stdout.splitlines()[-1]) for outcome in outcomes]
    assert all(row["right"] for report in reports for row in report)
    return reports[0], changed[0]


def bound_s(name, size_bytes, halved):
    """Return the bound at this size where the rate of link `halved` is half of the file's."""
    network = json.loads(treefold.topology(str(TOPOLOGIES / name)).to_json())
    for link in network["links"]:
        if {link["source"], link["target"]} == set(halved):
            link["bandwidth_Bps"] /= 2
    return size_bytes / (TCP_SHARE * treefold.bound(treefold.topology(network)).all_reduce.rate_Bps)


def test_after_a_halved_rate_the_next_but_two_is_within_20_percent_of_the_new_bound(tmp_path):
    halved, excess = ("w0", "w5"), []
    best_s = bound_s("six-dense.json", LARGE_BYTES, halved)
    # Six workers share this machine's processors with whatever else runs, which can only make them slower.
    for attempt in range(3):
        folder = tmp_path / str(attempt)
        folder.mkdir()
        rows, changed = run(
            folder, "six-dense.json", 8, LARGE_BYTES, lambda box: box.rate(*halved, "57.5Mbit/s", both=True)
        )
        assert any("w5" in line for row in rows[changed:] for line in row["changes"])
        excess.append(rows[changed + 3]["seconds"] / best_s - 1)
        if excess[-1] < 0.2:
            return
    pytest.fail(f"the next all-reduce but two takes {min(excess):.0%} longer than the bound at best: {excess}")


@pytest.mark.parametrize("is_secret", [False, True], ids=["clear", "TLS"])
def test_a_dead_link_costs_no_result(tmp_path, is_secret):
    rows, changed = run(tmp_path, "eight-sparse.json", 8, SMALL_BYTES, lambda box: box.cut("w0", "w1"), is_secret)
    assert any("w0 -> w1 is gone" in line for row in rows for line in row["changes"])
    assert rows[changed]["seconds"] < 15
    usual = min(row["seconds"] for row in rows[:changed])
    assert min(row["seconds"] for row in rows[changed + 1 :]) < 1.5 * usual


def test_two_links_that_die_together_cost_no_result(tmp_path):
    def cut(box):
        box.cut("w0", "w4")
        box.cut("w3", "w5")

    rows, changed = run(tmp_path, "six-dense.json", 8, SMALL_BYTES, cut)
    told = [line for row in rows for line in row["changes"]]
    assert any("w0 -> w4 is gone" in line for line in told)
    assert any("w3 -> w5 is gone" in line for line in told)
    assert min(row["seconds"] for row in rows[changed + 2 :]) < 2.5 * min(row["seconds"] for row in rows[:changed])
