"""What the controller makes of measurements: latencies against those of the beginning, links that come back."""

from types import SimpleNamespace

import pytest

import treefold
from treefold.runtime import Connections
from treefold.runtime.controller import Controller
from treefold.runtime.delays import DelayMonitor
from treefold.runtime.networks import UNCHANGED, bandwidths, changed
from treefold.runtime.plans import GroupPlans

SQUARE = treefold.topology("full:4", bandwidth_Bps=12.5e6, latency_s=3e-3)


def latencies(network):
    return {(link.source, link.target): link.latency_s for link in network.links()}


@pytest.mark.parametrize(
    ("later_s", "told"),
    [(0.0101, {}), (0.0119, {}), (0.0140, {2: pytest.approx(0.002)}), (0.002, {2: pytest.approx(-0.004)})],
    ids=["same", "noise", "farther", "nearer"],
)
def test_a_latency_counts_by_its_difference_from_the_beginning(later_s, told):
    monitor = DelayMonitor()
    assert monitor.measure(1, [(0, 0.5), (2, 0.010)]) == {}
    assert monitor.measure(1, [(0, 0.9), (2, later_s)]) == told
    assert monitor.measure(1, [(0, 0.9), (2, later_s)]) == {}, "it is told once"


def test_a_small_latency_has_to_change_by_more_than_a_millisecond():
    monitor = DelayMonitor()
    monitor.measure(0, [(1, 1e-4)])
    assert monitor.measure(0, [(1, 2e-3)]) == {}
    assert monitor.measure(0, [(1, 2.2e-3)]) == {1: pytest.approx(1.05e-3)}


def test_changes_are_always_of_the_first_network():
    changes = UNCHANGED._replace(factors={(0, 1): 0.5, (2, 3): 2.0}, added_s={(0, 1): 1e-3, (2, 3): 1e-3})
    network = changed(SQUARE, changes._replace(absent=frozenset({(0, 1)})))
    rates = bandwidths(network)
    assert (0, 1) not in rates and rates[2, 3] == 25e6 and rates[3, 2] == 12.5e6
    assert latencies(network)["GPU3", "GPU2"] == latencies(network)["GPU2", "GPU3"] == 4e-3
    assert changed(SQUARE, UNCHANGED).to_json() == SQUARE.to_json(), "all that came back is as it was"


def leading():
    """Return rank 0's controller of a group in which nothing runs, and the messages that it sends."""
    sent = []
    plan = treefold.plan(SQUARE, "packing", size_bytes=1 << 20)
    transport = SimpleNamespace(
        rank=0, size=4, mapping=SimpleNamespace(describe=str), connections=Connections(), failure=None, sequence=0
    )
    transport.broadcast = lambda kind, **fields: sent.append((kind, fields))
    transport.lives = {}
    control = Controller(transport, GroupPlans(plan, 0, 0.0))
    return control, sent


def test_a_farther_link_is_planned_around_and_the_change_is_told():
    control, sent = leading()
    control.delays.added[0, 1] = 0.03
    control.decide()
    [(kind, fields)] = sent
    assert kind == "plan" and fields["lives"] == [] and fields["from"] == 2
    assert "link GPU0 -> GPU1: latency 3ms, now 33ms" in fields["changes"]
    assert (0, 1) not in control._next_plan.plan.pairs


def cut(control, pair, life):
    """Have rank 0 plan around a cut, as `recover` does, and use that plan."""
    transport = control.transport
    transport.lives[pair] = life
    transport.pairs_to_avoid = [pair]
    control.states = {rank: SimpleNamespace(done=1, sequence=1) for rank in range(4)}
    fields = control._lead()
    assert fields["error"] == "" and fields["lives"] == [(*pair, None)]
    control.plans.adopt(treefold.Plan.from_json(fields["plan"]))


def test_a_link_that_came_back_counts_when_both_ends_say_so_and_its_last_life_is_not_over():
    control, sent = leading()
    cut(control, (0, 1), 0)
    sent.clear()
    control._record_return(0, 1, 1)
    control.decide()
    assert sent == [], "one end has not met the other"
    control._record_return(1, 0, 1)
    control.transport.lives[0, 1] = 1
    control.decide()
    assert sent == [], "the connection was cut again"
    control._record_return(0, 1, 2)
    control.decide()
    assert sent == [], "the ends speak of different connections"
    control._record_return(1, 0, 2)
    control.decide()
    [(kind, fields)] = sent
    assert kind == "plan" and fields["lives"] == [(0, 1, 2)]
    assert fields["changes"] == ["link GPU0 -> GPU1 is new", "link GPU1 -> GPU0 is new"]
    assert control._next_plan.plan.topology.to_json() == SQUARE.to_json()


def test_a_link_that_is_not_worth_a_new_plan_is_weighed_once(monkeypatch):
    control, sent = leading()
    cut(control, (0, 1), 0)
    sent.clear()
    weighed = []
    replanned = control._replanned
    monkeypatch.setattr("treefold.runtime.controller._WORTH", 10.0)
    monkeypatch.setattr(control, "_replanned", lambda network: weighed.append(network) or replanned(network))
    for rank in (0, 1):
        control._record_return(rank, 1 - rank, 1)
    control.decide()
    control.decide()
    assert len(weighed) == 1 and sent == []
    control.delays.added[2, 3] = 0.03
    control.decide()
    control.decide()
    assert len(weighed) == 2, "another change weighs it again"
