"""An error on one rank while a group forms is told to all, and at once."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

import treefold
from treefold import TreefoldError, runtime
from treefold.runtime import forming
from treefold.runtime.agreement import AgreedPlans

RANKS = 3
SOON_S = 5.0


def told(engine=None, spoil=lambda places: None) -> list[str]:
    """Return what each rank is told; all have to be told soon."""
    places = runtime.local(RANKS, timeout_s=30)
    spoil(places)
    plan = treefold.plan(treefold.topology(f"full:{RANKS}"), "ring")

    def outcome(place):
        with pytest.raises(TreefoldError) as caught:
            forming.form(place, AgreedPlans(plan), engine=engine and (lambda _: engine(place.rank)))
        return str(caught.value)

    start = time.monotonic()
    with ThreadPoolExecutor(RANKS) as pool:
        found = list(pool.map(outcome, places))
    assert time.monotonic() - start < SOON_S
    return found


@pytest.mark.parametrize(
    ("address", "message"), [(None, "set TREEFOLD_INTERFACE"), ("192.0.2.1", "give an address of this machine")]
)
def test_an_address_that_does_not_do(address, message):
    def spoil(places):
        places[1]._address = address

    first, *others = told(spoil=spoil)
    assert first.startswith("worker 1: ")
    assert message in first
    assert others == [first] * 2


def test_a_cost_that_cannot_be_measured(monkeypatch):
    costs = iter([1e-6, 1e-6])

    def cost():
        for seconds in costs:
            return seconds
        raise TreefoldError("the cost of messages cannot be measured over loopback")

    monkeypatch.setattr(forming, "message_cost", cost)
    assert all("cannot be measured over loopback" in each for each in told())


class Engine:
    """Carries nothing."""

    ahead, message_s = 1, 1e-6
    closed = 0

    def close(self):
        """Count."""
        Engine.closed += 1


def test_an_engine_that_fails_on_one_rank():
    def make(rank):
        if rank == 2:
            raise RuntimeError("[enforce fail at gloo/x.cc:1] no such device\nstack")
        return Engine()

    Engine.closed = 0
    first, *others = told(make)
    assert "worker 2: the engine that carries messages: [enforce fail at gloo/x.cc:1] no such device; look at" in first
    assert "\n" not in first
    assert others == [first] * 2
    assert Engine.closed == 2
