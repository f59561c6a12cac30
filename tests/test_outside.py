"""Failures of the world outside: each is an error of treefold, and an `OSError` of the kind that callers expect."""

import os
import pickle
from concurrent.futures import ThreadPoolExecutor

import pytest

import treefold
from treefold import errors, rendezvous, runtime
from treefold._core import Mesh
from treefold.rendezvous.meeting import all_or_none, failures_of
from treefold.rendezvous.sockets import free_port, listen, own_address_towards
from treefold.runtime.engine import silence

LOOPBACK = "127.0.0.1"
NOT_OURS = "192.0.2.1"
KEY = bytes(32)
PLAN = treefold.plan("ring:4", "ring", size_bytes=1024)


def leave_and_exchange() -> None:
    stays, leaves = rendezvous.local(2)
    leaves.close()
    stays.exchange(b"")


@pytest.mark.parametrize(
    ("fails", "kind", "own"),
    [
        (lambda: treefold.load_plan("no-such-plan.json"), treefold.OutsideError, OSError),
        (lambda: treefold.load_plan(os.curdir), treefold.OutsideError, OSError),
        (lambda: treefold.topology("no-such-network.json"), treefold.OutsideError, OSError),
        (lambda: treefold.save(PLAN, "no-such-folder/plan.json"), treefold.OutsideError, OSError),
        (lambda: Mesh(0, 2, NOT_OURS, KEY), treefold.OutsideError, OSError),
        (lambda: listen(NOT_OURS), treefold.OutsideError, OSError),
        (lambda: own_address_towards("no.such.host.invalid"), treefold.OutsideError, OSError),
        (leave_and_exchange, treefold.PeerError, ConnectionError),
        (lambda: rendezvous.local(2, 0.1)[0].exchange(b""), treefold.DeadlineError, TimeoutError),
    ],
)
def test_a_failure_outside_is_an_error_of_python_too(fails, kind, own):
    with pytest.raises(treefold.TreefoldError) as raised:
        fails()
    assert type(raised.value) is kind and isinstance(raised.value, own)
    again = pickle.loads(pickle.dumps(raised.value))
    assert (type(again), str(again)) == (kind, str(raised.value))


def test_an_address_in_use_is_a_failure_outside():
    with listen(LOOPBACK) as taken, pytest.raises(treefold.OutsideError, match="the port is in use"):
        listen(LOOPBACK, taken.getsockname()[1])


@pytest.mark.parametrize("fails", [lambda: treefold.plan("ring:4", "rign"), lambda: treefold.topology("ring:0")])
def test_a_mistake_is_no_failure_outside(fails):
    with pytest.raises(treefold.TreefoldError) as raised:
        fails()
    assert not isinstance(raised.value, OSError)


def test_what_is_lost_or_late_says_so_in_its_type():
    lost = runtime.RankLostError("worker 2 is gone", [2])
    assert isinstance(lost, treefold.PeerError) and isinstance(lost, ConnectionError)
    assert (str(lost), lost.workers) == ("worker 2 is gone", [2])
    assert isinstance(silence([1], 2.0), TimeoutError)
    with (
        pytest.raises(treefold.OutsideError, match="gloo cannot listen: no device; look"),
        failures_of("gloo cannot listen", "look"),
    ):
        raise RuntimeError("no device")


@pytest.mark.parametrize(
    "kind", [treefold.OutsideError, treefold.PeerError, treefold.DeadlineError, treefold.MisfitError]
)
def test_the_error_of_one_worker_has_its_kind_on_all(kind):
    def prepare(place):
        if place.rank == 1:
            raise kind("it failed")

    def outcome(place):
        with pytest.raises(treefold.TreefoldError) as raised:
            all_or_none(place, lambda: prepare(place))
        return type(raised.value), str(raised.value)

    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(outcome, rendezvous.local(3))) == [(kind, "worker 1: it failed")] * 3


def test_all_workers_of_a_master_get_the_kind_of_its_error():
    port = free_port(LOOPBACK)

    def join(rank):
        with pytest.raises(treefold.TreefoldError) as raised:
            rendezvous.from_master(rank, 3, LOOPBACK, port, 1.0)
        return type(raised.value)

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(join, range(2))) == [treefold.DeadlineError] * 2


def test_kinds_of_which_workers_tell_are_read_whatever_they_say():
    assert errors.kind_of(runtime.RankLostError("worker 2 is gone", [2])) == "PeerError"
    assert errors.kind_of("a text") == "TreefoldError"
    for kind in (None, 7, "OSError", "KeyboardInterrupt", []):
        assert type(errors.of_kind(kind, "x")) is treefold.TreefoldError
