"""Workers that cannot come to the rendezvous: the others are told why, and only those who know the job's word count."""

import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from treefold import TreefoldError, rendezvous
from treefold.rendezvous import master
from treefold.rendezvous.sockets import free_port

LOOPBACK = "127.0.0.1"


def met(timeout_s, **of_worker_1):
    """Return the errors of workers 0 and 1 that try to meet, and how long that took."""
    port, before = free_port(LOOPBACK), time.monotonic()

    def join(rank):
        with pytest.raises(TreefoldError) as caught:
            given = {"job": "word"} | (of_worker_1 if rank else {})
            rendezvous.from_master(rank, 2, LOOPBACK, port, timeout_s, **given)
        return str(caught.value)

    with ThreadPoolExecutor(2) as pool:
        return *pool.map(join, range(2)), time.monotonic() - before


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"own_port": 70_000}, "own_port=70000: a worker listens on a port from 1 to 65535, or on none"),
        ({"interface": "eth77"}, "interface 'eth77' does not exist here"),
    ],
)
def test_who_fails_before_it_comes_ends_the_job_at_once(given, why):
    first, second, took_s = met(60, **given)
    assert second.startswith(why)
    assert first.startswith("worker 1 (") and f" at {LOOPBACK}) cannot come: {why}" in first
    assert took_s < 30


def test_without_a_word_anybody_may_have_said_it():
    first, second, _ = met(1, job="", own_port="x")
    assert second.startswith("own_port=x: a worker listens on a port")
    assert "worker 1 did not come within 1 s" in first and "another TREEFOLD_JOB" in first
    port = free_port(LOOPBACK)
    with ThreadPoolExecutor(1) as pool:
        waits = pool.submit(rendezvous.from_master, 0, 2, LOOPBACK, port, 4)
        with pytest.raises(TreefoldError, match="own_port=x"):
            rendezvous.from_master(1, 2, LOOPBACK, port, 4, own_port="x")
        assert not waits.done()
        with pytest.raises(TreefoldError, match=r"worker 1 did not come .*cannot come: own_port=x"):
            waits.result()


def test_who_fails_while_nobody_serves_says_so_soon(monkeypatch):
    monkeypatch.setattr(master, "_TELL_S", 0.2)
    before = time.monotonic()
    with pytest.raises(TreefoldError, match="own_port=x"):
        rendezvous.from_master(1, 2, LOOPBACK, free_port(LOOPBACK), 60, own_port="x")
    assert time.monotonic() < before + 10


def test_a_worker_with_another_word_is_hinted_at():
    first, second, _ = met(1, job="another word")
    assert "another job's rendezvous" in second
    assert f"a caller at {LOOPBACK} has another TREEFOLD_JOB" in first
