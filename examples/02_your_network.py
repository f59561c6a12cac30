"""Your own network: from a file or a matrix of measured pairs to a plan file that others can check.

`python examples/02_your_network.py`
"""

import tempfile
from pathlib import Path

import treefold
from treefold.report import compare_table

MEASURED = """\
bandwidth Mbit/s,frankfurt,virginia,tokyo,sydney
frankfurt,,900,400,250
virginia,950,,700,300
tokyo,420,720,,800
sydney,260,310,790,

rtt ms,frankfurt,virginia,tokyo,sydney
frankfurt,,90,230,280
virginia,90,,150,200
tokyo,230,150,,105
sydney,280,200,105,
"""

with tempfile.TemporaryDirectory() as folder:
    file = Path(folder) / "measured.csv"
    file.write_text(MEASURED)
    network = treefold.topology(file, node_cap="1Gbit/s")
print(treefold.describe(network))
print(compare_table(treefold.compare(network, sizes_bytes=[1 << 20, 256 << 20])))

plan = treefold.plan(network, size_bytes=256 << 20)
print(f"\nauto chose {plan.algorithm}; {treefold.check(plan)}")
