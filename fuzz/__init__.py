"""Fuzzing: random input by the million, each batch of it in a child process with limits. See README.md here.

Random networks, and what NumPy makes of vectors, are those of the tests.
"""

import sys
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parent.parent / "tests"))
