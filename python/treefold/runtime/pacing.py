"""Paces connections, so that what shares a line with others gets the part of it on which its plan counts.

The trees of a `paced` plan leave each other their time on every line. TCP does not: where several connections fill a
line, each gets about as much as any other, or more if its round trip is shorter. Those on which the plan counts more
fall behind, while others get ahead and then wait. So Linux is told to send on each connection no faster than the plan
needs (`SO_MAX_PACING_RATE`, socket(7)); other systems are left as they are. In a box with the caps of a cloud (12 to 18
MB/s for each of six workers), an all-reduce of 64 MiB then takes 7.9 s instead of 9.4 to 10.0 s.

That is right only where rates are known, so it is done for networks whose file tells what tests have shown.
"""

import socket
import struct
import sys
from collections.abc import Sequence
from contextlib import suppress
from functools import lru_cache

from treefold._core import Plan, Topology
from treefold.discovery import loads_of
from treefold.runtime.networks import bandwidths

_MORE = 1.01
"""TCP counts what is sent without headers; what is sent again takes a little, too."""
_SO_MAX_PACING_RATE = 47
_UNLIMITED = (1 << 64) - 1


@lru_cache(maxsize=8)
def paces(plan: Plan, rank: int, tested: Topology) -> dict[int, float]:
    """Return how fast a rank sends to each other one by an all-reduce's plan, in bytes per second.

    It is empty unless the plan counts on that, and its network was tested. Links that have become slower since then
    are left out: that such a link is fast again shows only where nothing holds it back.
    """
    if sys.platform != "linux" or plan.collective != "all-reduce":
        return {}
    if {*plan.shape.paces} != {"paced"} or not plan.topology.tested:
        return {}
    rate_Bps, before, now = plan.rate or 0.0, bandwidths(tested), bandwidths(plan.topology)
    own = {pair: load for pair, load in loads_of(plan).items() if pair[0] == rank and load > 0}
    return {pair[1]: rate_Bps * load for pair, load in own.items() if now.get(pair, 0.0) >= before.get(pair, 0.0)}


def limit(descriptors: Sequence[int], rate_Bps: float | None) -> None:
    """Let the streams of a connection send no faster than this together, or as fast as they can; closes descriptors."""
    share = _UNLIMITED if rate_Bps is None else max(int(_MORE * rate_Bps / max(len(descriptors), 1)), 1)
    for descriptor in descriptors:
        with socket.socket(fileno=descriptor) as stream, suppress(OSError):  # then it sends as fast as before
            stream.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, struct.pack("=Q", share))
