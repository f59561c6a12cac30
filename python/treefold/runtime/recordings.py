"""When the messages of an operation left and came, in a table."""

import numpy as np
from numpy.typing import NDArray

from treefold._core import Recording

Times = NDArray[np.float64]
"""When transfers left and were received, as `Recording.write` writes it: never is 0."""


def table_of(recordings: list[Recording]) -> Times:
    """Return the times of these ranks' messages: a row for first bytes, one for last bytes, and one for receipts."""
    table = np.zeros(3 * recordings[0].transfers)
    for recording in recordings:
        recording.write(table)
    return table
