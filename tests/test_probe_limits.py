"""The time of transfers that compete, and how many bytes each may send: they share a window, and bytes are a bound."""

from itertools import permutations

import pytest

from treefold.probe import Measurements, RoundTrips, transfers
from treefold.probe.limits import bytes_of_test, limits
from treefold.probe.steps import Step

FAST_BPS = 1.25e9
PAIRS = list(permutations(range(6), 2))
RING = [pair for pair in PAIRS if (pair[0] + 1) % 6 == pair[1]]


def measured(rate_Bps=FAST_BPS, trip_s=1e-3, most_bytes=960 << 20, pairs=PAIRS):
    workers = [{"name": str(rank)} for rank in range(1 + max(map(max, pairs)))]
    found = Measurements(workers, 1.0, most_bytes, dict.fromkeys(pairs, rate_Bps))
    found.trips = {pair: RoundTrips(trip_s, trip_s) for pair in pairs if pair[0] < pair[1]}
    return found


def uneven(rate_Bps):
    """A ring that is busy beside pairs that carry little."""
    return {pair: rate_Bps * (0.8 if pair in RING else 0.008) for pair in PAIRS}


@pytest.mark.parametrize("rate_Bps", [FAST_BPS, 10 * FAST_BPS, 1e6])
@pytest.mark.parametrize("workers", [6, 12])
def test_no_pair_of_a_test_ends_before_its_window(rate_Bps, workers):
    offered = {pair: rate_Bps * (0.8 if (pair[0] + 1) % workers == pair[1] else 0.008)
               for pair in permutations(range(workers), 2)}  # fmt: skip
    found = measured(rate_Bps, pairs=list(offered), most_bytes=1 << 20)
    step = Step("offer", sorted(offered), offered_Bps=offered, most_bytes=bytes_of_test(offered, found, 1 << 36))
    most = limits(step, found)
    assert sum(most.most_bytes.values()) <= step.most_bytes
    assert most.seconds >= 0.05 - 1e-6 and 0 < most.longer_s <= 0.15
    for pair, rate in offered.items():
        assert most.most_bytes[pair] >= rate * (most.seconds + most.longer_s), pair


@pytest.mark.parametrize("kind", ["egress", "ingress", "together"])
def test_pairs_that_are_fast_get_more_bytes_than_slow_ones(kind):
    found = measured()
    found.rates |= {pair: 1e6 for pair in PAIRS if 5 in pair}
    pairs = {"egress": [pair for pair in PAIRS if not pair[0]], "ingress": [pair for pair in PAIRS if not pair[1]]}
    step = Step(kind, pairs.get(kind, PAIRS))
    most = limits(step, found)
    assert sum(most.most_bytes.values()) <= found.most_transfer_bytes
    slow, fast = ([most.most_bytes[pair] for pair in step.pairs if (5 in pair) is is_slow] for is_slow in (True, False))
    assert max(slow) < min(fast) and min(slow) >= 1e6 * (most.seconds + most.longer_s)


def test_a_test_that_bytes_would_make_too_short_is_none():
    offered, found = uneven(FAST_BPS), measured(trip_s=1e-3)
    needed = bytes_of_test(offered, found, 1 << 40)
    assert needed == found.most_transfer_bytes
    assert bytes_of_test(offered, found, 200 << 20) == 0
    assert bytes_of_test(offered, measured(trip_s=0.03), 1 << 30) == 0, "20 round trips are longer"
    assert bytes_of_test(offered, measured(trip_s=0.03), 1 << 40) > needed


def test_a_transfer_that_ends_early_does_not_count_its_slow_start():
    samples = [(0.0, 0), (0.1, 1000), *((0.1 + 0.01 * step, 1000 + 10_000 * step) for step in range(1, 31))]
    assert transfers.rate_between(samples, 0.0, 0.4, 1.0) == pytest.approx(1e6)
    assert transfers.rate_between(samples, 0.0, 0.2, 0.4) == pytest.approx(1e6)
