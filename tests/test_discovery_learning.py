"""Learning from operations: no operation is much slower than before, and later ones are faster."""

from itertools import count

import numpy as np
import pytest

import treefold
from bench.discovery import networks
from bench.discovery.operations import learnt
from treefold.discovery import Learner


@pytest.mark.parametrize(
    ("kind", "least"), [(networks.sparse, 0.65), (networks.access_lines, 0.9), (networks.meshed, 0.9)]
)
def test_operations_soon_become_fast_and_none_is_much_slower(kind, least):
    drawn = (networks.drawn(kind, seed) for seed in count(500))
    rates = learnt(next(each for each in drawn if each.ranks <= 7), "latency", 0, most=12)
    assert min(rates) >= 0.95 * rates[0]
    assert rates[-1] >= 0.9 * max(rates)
    assert rates[-1] >= max(rates[0], least)


@pytest.mark.parametrize("rate", [0.0, -1.0, np.inf, np.nan])
def test_the_rate_before_learning_is_a_number(rate):
    with pytest.raises(treefold.TreefoldError, match="slowest_Bps"):
        Learner({(0, 1): 1e6, (1, 0): 1e6}, rate)
