"""The in-network paper's equations against the numbers of its DGX-2."""

import pytest

from treefold import TreefoldError, sizing

CLOCK_HZ = 25e9 / 16
DGX2 = {"hops": 2, "hop_latency_s": 150e-9}


@pytest.mark.parametrize(("cycles", "bytes_a_port"), [(180 + 90, 1288), (180 + 180, 1384)])
def test_a_pull_needs_about_1400_bytes_a_port(cycles, bytes_a_port):
    needed = sizing.pull_table_bytes(150e9, 16, **DGX2, response_latency_s=cycles / CLOCK_HZ)
    assert needed / 6 == pytest.approx(bytes_a_port, abs=1)


def test_a_push_needs_234_bytes_a_port_as_printed():
    assert sizing.push_table_bytes(150e9, **DGX2) / 192 == pytest.approx(234, abs=1)


def test_a_switch_moves_nearly_twice_what_leaves_it():
    assert sizing.internal_speedup(2) == 1
    assert sizing.internal_speedup(16) == pytest.approx(1.875)


def test_one_rank_reduces_nothing():
    with pytest.raises(TreefoldError, match="ranks must be a whole number of at least 2, got 1"):
        sizing.internal_speedup(1)


@pytest.mark.parametrize("wrong", [-1.0, float("nan"), float("inf"), "150GB/s", None])
def test_what_is_no_number_is_refused(wrong):
    with pytest.raises(TreefoldError, match="must be numbers of at least 0, got"):
        sizing.push_table_bytes(wrong, **DGX2)
    with pytest.raises(TreefoldError, match="must be numbers of at least 0, got"):
        sizing.pull_table_bytes(150e9, 16, **DGX2, response_latency_s=wrong)
