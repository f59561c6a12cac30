"""Fuzzes treefold with random input by the million, in child processes with limits; README.md explains it.

The generator of random networks, and NumPy's results for vectors, come from the tests.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
