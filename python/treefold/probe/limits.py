"""How long the transfers of a step may take, and how many bytes each of them may send.

Transfers that compete have to end at the same time, as their rates are of one window. So the limit of bytes becomes one
of time, by the rate that is expected of them together, and each transfer gets as many bytes as it may send by then.
"""

from collections.abc import Collection, Mapping
from typing import NamedTuple

from treefold.probe.results import Measurements, Pair, expected_together, sent_bytes
from treefold.probe.steps import MOST_TRANSFER_S, Step

_TRIPS_OF_SEVERAL = 20
"""A transfer over several streams takes so many round trips at least, as it takes them a while to share a line."""
_LEAST_TEST_S = 0.05
"""A test of many pairs at once says little if it is shorter than this, or than so many round trips."""
_LONGER_S, _MOST_LONGER = 0.15, 0.2
"""Sources that send at once go on for so long, or for this part of all their time if bytes are few.

So all send until the last of them is no longer measured.
"""
_FASTER = 1.1
"""Together they may be so many times as fast as is expected."""


class Limits(NamedTuple):
    """The limits of the transfers of a step."""

    seconds: float
    """How long they are measured."""
    longer_s: float
    """How much longer the sources send."""
    most_bytes: Mapping[Pair, int]
    """How many bytes each pair may send."""


def limits(step: Step, measured: Measurements) -> Limits:
    """Return the limits of the transfers of a step."""
    if step.kind in ("trips", "pair"):
        return _limits_alone(step, measured)
    most_bytes = step.most_bytes or measured.most_transfer_bytes
    wants_Bps = _wants(step.offered_Bps or measured.rates, step.pairs, measured)
    rate_Bps = _FASTER * _expected(step.kind, wants_Bps, measured)
    seconds = wanted_s(step.pairs, measured) if step.kind == "offer" else measured.transfer_s
    longer_s = _LONGER_S
    if (seconds + longer_s) * rate_Bps > most_bytes:
        all_s = most_bytes / rate_Bps
        longer_s = min(_LONGER_S, _MOST_LONGER * all_s)
        seconds = all_s - longer_s
    wants = {pair: _FASTER * want_Bps * (seconds + longer_s) for pair, want_Bps in wants_Bps.items()}
    return Limits(seconds, longer_s, _fair(most_bytes, wants))


def _limits_alone(step: Step, measured: Measurements) -> Limits:
    """Return the limits of transfers that do not compete."""
    seconds, each = measured.transfer_s, measured.most_transfer_bytes // len(step.pairs)
    if step.kind == "pair":
        each = min(each - sent_bytes(measured, pair) for pair in step.pairs)
    if step.streams > 1:
        seconds = wanted_s(step.pairs, measured)
    return Limits(seconds, 0.0, dict.fromkeys(step.pairs, each))


def wanted_s(pairs: Collection[Pair], measured: Measurements) -> float:
    """Return how long a transfer of several streams, or of several pairs at once, should take."""
    return max(measured.transfer_s, min(_trips_s(pairs, measured), MOST_TRANSFER_S))


def bytes_of_test(offered_Bps: Mapping[Pair, float], measured: Measurements, left_bytes: int) -> int:
    """Return how many bytes a test may send of those that are left; 0 if these are too few for a useful test.

    It is as many as any transfer may, or more where the test would be too short.
    """
    least_s = min(wanted_s(offered_Bps, measured), max(_LEAST_TEST_S, _trips_s(offered_Bps, measured)))
    expected_Bps = _expected("offer", _wants(offered_Bps, offered_Bps, measured), measured)
    least = int(_FASTER * expected_Bps * least_s / (1 - _MOST_LONGER)) + 1
    return 0 if least > left_bytes else min(left_bytes, max(least, measured.most_transfer_bytes))


def _trips_s(pairs: Collection[Pair], measured: Measurements) -> float:
    """Return how long so many round trips take that rates are steady."""
    return _TRIPS_OF_SEVERAL * max(measured.trips[min(pair), max(pair)].least_s for pair in pairs)


def _wants(offered_Bps: Mapping[Pair, float], pairs: Collection[Pair], measured: Measurements) -> dict[Pair, float]:
    """Return the rate that each pair would have if all were alone."""
    return {pair: min(offered_Bps[pair], measured.rates[pair]) for pair in pairs}


def _expected(kind: str, wants_Bps: Mapping[Pair, float], measured: Measurements) -> float:
    """Return the rate that is expected of pairs together; what a node carries with all its partners is yet unknown."""
    if kind in ("egress", "ingress"):
        return min(sum(wants_Bps.values()), 2 * max(wants_Bps.values()))
    return expected_together(measured, wants_Bps)


def _fair(total: int, wants: Mapping[Pair, float]) -> dict[Pair, int]:
    """Share a number of bytes so that nobody who gets less than it wants gets less than another."""
    left, shares = total, dict[Pair, int]()
    for place, pair in enumerate(sorted(wants, key=wants.__getitem__)):
        shares[pair] = min(int(wants[pair]) + 1, left // (len(wants) - place))
        left -= shares[pair]
    return shares
