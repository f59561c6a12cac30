"""Pacing: how fast ranks send by plans that count on it, and what slower connections then say about their links."""

import json
import math
import socket
import struct
import sys
from concurrent.futures import ThreadPoolExecutor
from types import SimpleNamespace

import numpy as np
import pytest

import treefold
from treefold import runtime
from treefold.runtime import pacing
from treefold.runtime.rates import RateMonitor
from treefold.runtime.tcp import TcpTransport

SIZE = 64 << 20


def network(tested="at once", **bandwidths):
    """Return three workers that were tested, with 10 MB/s from each to each unless it is given."""
    document = json.loads(treefold.topology("full:3").to_json())
    links = [
        link | {"bandwidth_Bps": bandwidths.get(f"{link['source']}_{link['target']}", 1e7)}
        for link in document["links"]
    ]
    return treefold.topology(document | {"links": links} | ({"tested": tested} if tested else {}))


def plan_of(of):
    plan = treefold.plan(of, "packing", size_bytes=SIZE)
    assert {*plan.shape.paces} == {"paced"}
    return plan


@pytest.mark.parametrize("tested", ["alone", "at once"])
def test_ranks_send_what_the_plan_counts_on_and_together_no_more_than_links_carry(tested):
    of = network(tested, GPU0_GPU1=5e6)
    plan = plan_of(of)
    paces = {(rank, peer): pace for rank in range(3) for peer, pace in pacing.paces(plan, rank, of).items()}
    names = of.rank_names
    carried = {(names.index(link.source), names.index(link.target)): link.bandwidth_Bps for link in of.links()}
    assert paces and all(pace <= 1.001 * carried[pair] for pair, pace in paces.items())
    # Whoever is not limited by its own links has one that is full.
    assert max(pace / carried[pair] for pair, pace in paces.items()) == pytest.approx(1, abs=0.01)


def test_nothing_is_paced_where_rates_are_guessed_or_the_plan_does_not_count_on_it():
    assert pacing.paces(plan_of(network(None)), 0, network(None)) == {}
    assert pacing.paces(treefold.plan(network(), "ring", size_bytes=SIZE), 0, network()) == {}
    gather = treefold.plan(network(), "packing", size_bytes=SIZE, collective="all-gather")
    assert pacing.paces(gather, 0, network()) == {}


def test_a_link_that_has_become_slower_is_not_held_back():
    before, now = network(), network(GPU0_GPU1=4e6)
    paces = pacing.paces(plan_of(now), 0, before)
    assert 1 not in paces and 2 in paces


@pytest.mark.skipif(sys.platform != "linux", reason="other systems do not pace")
def test_streams_share_the_pace_of_their_connection_and_lose_it():
    ends = [socket.socketpair() for _ in range(2)]
    with ends[0][0] as one, ends[0][1], ends[1][0] as other, ends[1][1]:

        def limited(rate_Bps):
            pacing.limit([one.dup().detach(), other.dup().detach()], rate_Bps)
            values = [each.getsockopt(socket.SOL_SOCKET, 47, 8) for each in (one, other)]
            return [struct.unpack("=Q", value.ljust(8, b"\0"))[0] for value in values]

        assert limited(2e6) == [1_010_000] * 2
        assert min(limited(None)) > 1 << 31


def test_a_link_that_kept_its_pace_has_not_become_slower():
    monitor = RateMonitor(plan_of(network()))
    slow = Usage(1, 4_000_000, 1.0)
    assert monitor.measure(0, [slow], {}) == {1: 4e6}
    assert monitor.measure(0, [slow], {1: 4.2e6}) == {1: 1e7}
    assert monitor.changes() == {}
    assert monitor.measure(0, [slow], {1: 9e6}) == {1: 4e6}


def test_a_link_counts_as_held_back_if_it_was_at_any_time_since_the_last_operation():
    mesh = SimpleNamespace(descriptors=lambda rank: [])
    transport = TcpTransport(mesh, 0, None, None, None, ["", "", ""], 0.0)
    plan, broadcast = plan_of(network()), treefold.plan(network(), "packing", size_bytes=SIZE, collective="broadcast")
    for each in (plan, broadcast):
        transport.pace(each, network())
    assert transport.paces == {}
    assert transport.held().keys() == {1, 2} and transport.held() == {}


def test_only_the_last_operation_is_compared_with_what_is_predicted():
    plan = plan_of(network())
    monitor, predicted = RateMonitor(plan), treefold.simulate(plan, size_bytes=SIZE)
    assert monitor.took(predicted) == math.inf
    monitor.is_slower(("all-reduce", SIZE, None), 2.0)
    assert monitor.took(predicted) == 2.0
    monitor.is_slower(None, 1.0)
    assert monitor.took(predicted) == math.inf


def test_a_group_on_a_tested_network_is_paced_and_right():
    def work(meeting):
        group = runtime.join(meeting, network=network("alone"), algorithm="packing", size_bytes=SIZE)
        array = np.arange(1 << 16, dtype=np.float32)
        group.all_reduce(array)
        paced = dict(group.transport.paces)
        group.broadcast(array)
        lifted = dict(group.transport.paces)
        group.close()
        return array[-1], paced, lifted

    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(work, runtime.local(3)))
    for last, paced, lifted in results:
        assert last == 3 * ((1 << 16) - 1)
        assert paced and lifted == {}


class Usage:
    """What a rank has sent to another one, as the core counts it."""

    def __init__(self, rank, sent_bytes, busy_s):
        self.rank, self.sent_bytes, self.busy_s = rank, sent_bytes, busy_s
