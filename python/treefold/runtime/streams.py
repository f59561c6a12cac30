"""Says how many TCP streams side by side a connection needs.

A stream has at most as many bytes under way as the kernel grants its socket. A line that holds more, because it is long
and fast, needs several. The line holds its bandwidth times its round trip, as the plan's network tells them. Where the
network tells how many streams fill a link, as `treefold probe` has measured it, that counts: on a line that loses
packets it is more.
"""

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import numpy as np

from treefold import checks, environment
from treefold._core import Plan
from treefold.checks import shown
from treefold.errors import TreefoldError

MOST = 256
"""The most streams of a connection."""
_MARGIN = 1.5
"""So many times what the line holds should fit under way, as a stream that has lost a packet sends at half its rate."""
_SETTINGS = Path("/proc/sys/net/ipv4")
_USUAL_BYTES = 4 << 20
"""The most memory of a socket where the kernel does not tell: what Linux has by default."""


def asked_streams(given: int | None) -> int | None:
    """Return how many streams are asked for, by a caller or by TREEFOLD_STREAMS; None if neither says so.

    Raises:
        TreefoldError: If that is no number from 1 to 256.

    """
    if given is not None:
        with suppress(TreefoldError):
            return checks.whole("streams", given, 1, MOST)
        raise TreefoldError(f"streams={shown(given)}: must be a whole number from 1 to {MOST}")
    if not (text := environment.value("TREEFOLD_STREAMS")):
        return None
    if (number := checks.whole_in(text, 1, MOST)) is None:
        raise TreefoldError(f"TREEFOLD_STREAMS {shown(text)} is not a whole number from 1 to {MOST}; set it to one")
    return number


def streams_of(plan: Plan, rank: int) -> dict[int, int]:
    """Return how many streams the connection to each peer needs, for the peers that a plan sends to or receives from.

    Args:
        plan: The plan.
        rank: The rank whose connections are asked for.

    """
    columns = plan.columns()
    needed: dict[int, int] = {}
    counts = _counts(plan, columns).tolist()
    for source, target, count in zip(
        columns["lane_source"].tolist(), columns["lane_target"].tolist(), counts, strict=True
    ):
        if rank in (source, target):
            peer = target if source == rank else source
            needed[peer] = max(needed.get(peer, 1), count)
    return needed


def _counts(plan: Plan, columns: Mapping[str, np.ndarray]) -> np.ndarray:
    """Return how many streams each lane of a plan needs.

    A lane needs the streams of the link of its route that was measured with most. If it has latency beyond that of one
    measured link, it also needs those for what it holds in a round trip at the rate of its slowest link.
    """
    _, _, bandwidth_Bps = plan.topology.link_columns()
    of_links = plan.topology.links()
    latency_s = np.array([link.latency_s for link in of_links])
    told = np.array([link.streams or 0 for link in of_links], np.int64)
    starts, links = columns["lane_start"][:-1].astype(np.int64), columns["lane_links"]
    if not len(starts):
        return np.zeros(0, np.int64)
    whole_s = np.add.reduceat(latency_s[links], starts)
    held = np.minimum.reduceat(bandwidth_Bps[links], starts) * 2 * whole_s
    counted = np.clip(np.ceil(_MARGIN * held / granted_bytes()), 1, MOST).astype(np.int64)
    measured = np.maximum.reduceat(told[links], starts)
    is_measured = (measured > 0) & (np.maximum.reduceat(np.where(told > 0, latency_s, 0.0)[links], starts) >= whole_s)
    return np.where(is_measured, measured, np.maximum(counted, measured))


def granted_bytes() -> float:
    """Return the bytes that the kernel lets one stream have under way: half the memory of its sockets, about."""
    return min(_most_memory("tcp_wmem"), _most_memory("tcp_rmem")) / 2


def _most_memory(setting: str) -> int:
    try:
        return int((_SETTINGS / setting).read_text().split()[2])
    except (OSError, ValueError, IndexError):
        return _USUAL_BYTES
