"""How many TCP streams a probe finds that a line takes, and what it says of messages while a line is full."""

import threading
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from treefold import probe, rendezvous
from treefold.probe import Measurements, Settings, lines, measuring, report, streams, transfers
from treefold.probe.results import Try
from treefold.report.measured import probe_table

PAIR = (0, 1)
BLOCK_BYTES = 32 << 10


def measured(*tries: Try, trip_s: float = 0.1, granted_bytes: float = 2e6, most_bytes: int = 1 << 40) -> Measurements:
    """The measurements of a line after transfers over 1, 2, 4, ... streams."""
    workers = [
        {"name": name, "address": "127.0.0.1", "named": True, "granted_bytes": granted_bytes} for name in ("a", "b")
    ]
    found = Measurements(workers, 1.0, most_bytes, overheads_s={PAIR: 1e-5})
    found.trips[PAIR] = transfers.RoundTrips(trip_s, trip_s)
    found.tries[PAIR] = {2**place: tried for place, tried in enumerate(tries)}
    streams.settle(found, PAIR)
    return found


def tried(rate_Bps: float, loaded_s: float = 0.1, retransmitted: float = 0.0) -> Try:
    return Try(rate_Bps, round(rate_Bps), loaded_s, retransmitted)


@pytest.mark.parametrize(
    ("found", "more"),
    [
        (measured(tried(19e6)), True),
        (measured(tried(19e6), trip_s=1e-4), False),
        (measured(tried(1e6)), False),
        (measured(tried(1e6, retransmitted=0.001)), True),
        (measured(tried(1e6, retransmitted=0.001), trip_s=1e-4), False),
        (measured(tried(19e6), granted_bytes=64e6), False),
        (measured(tried(19e6), most_bytes=20_000_000), False),
    ],
)
def test_more_streams_are_tried_where_a_window_or_losses_may_hold_one_back(found, more):
    assert streams.may_want_more(found, PAIR) == more


def test_streams_double_for_as_long_as_they_are_held_back_and_that_brings_a_twentieth():
    assert streams.wants_more(measured(tried(20e6), tried(22e6)), PAIR)
    assert not streams.wants_more(measured(tried(20e6), tried(20.8e6)), PAIR)
    assert not streams.wants_more(measured(tried(10e6), tried(18e6)), PAIR), "two windows take twice as much"
    assert not streams.wants_more(measured(*(tried(10e6 * 2**place) for place in range(9))), PAIR), "256 are the most"


def test_where_packets_are_lost_one_doubling_may_be_unlucky():
    lossy = [tried(rate, retransmitted=0.001) for rate in (1e6, 0.9e6, 0.8e6)]
    assert streams.wants_more(measured(*lossy[:2]), PAIR)
    assert not streams.wants_more(measured(*lossy), PAIR)
    assert streams.wants_more(measured(*lossy, tried(4e6)), PAIR)


def test_the_other_direction_tells_how_many_streams_to_try_at_once():
    found = measured(tried(19e6))
    assert streams.next_count(found, [PAIR]) == 2
    found.streams[1, 0] = 8
    assert streams.next_count(found, [PAIR]) == 8
    found.tries[PAIR][8] = tried(60e6)
    assert streams.next_count(found, [PAIR]) == 16


def test_the_fewest_streams_that_reach_the_rate_are_told():
    found = measured(tried(10e6), tried(19e6), tried(19.5e6))
    assert (found.rates[PAIR], found.streams[PAIR]) == (19.5e6, 2)
    [link] = report.document(found)["links"]
    assert link["streams"] == 2


def test_the_rate_of_streams_is_that_of_their_sum():
    one, other = [(0.0, 0), (1.0, 10), (2.0, 20)], [(0.5, 0), (1.5, 5)]
    assert lines.together([one, other]) == [(0.0, 0), (1.0, 10), (1.5, 15), (2.0, 25)]


def test_a_full_line_whose_messages_wait_is_noted():
    found = report.summary(measured(tried(1e6, loaded_s=0.1)))
    assert found["links"][0]["loaded_latency_s"] == 0.05 and found["notes"] == []
    found = report.summary(measured(tried(1e6, loaded_s=0.5)))
    [note] = found["notes"]
    assert found["links"][0]["loaded_latency_s"] == 0.45
    assert note.startswith("a -> b: a message takes 450ms while the line is full, and 50ms while it is idle")
    assert "bufferbloat" in note and "fq_codel" in note
    row = probe_table(found).splitlines()[2].split()
    assert row[:4] == ["a", "b", "50ms", "450ms"] and row[6] == "1"


def together(settings: Settings) -> Measurements:
    with ThreadPoolExecutor(2) as pool:
        return next(iter(pool.map(lambda place: probe.measure(place, settings), rendezvous.local(2))))


@pytest.fixture
def narrow(monkeypatch):
    """Lets one stream send 4 MB/s, and all of them together 14 MB/s; each looks as if its window held it back."""
    lock, free = threading.Lock(), [0.0]

    def send(connection, seconds, most_bytes, rate_Bps):
        own = time.perf_counter()
        deadline, sent = own + seconds, 2 * BLOCK_BYTES
        while own < deadline:
            connection.sendall(b"\1" * BLOCK_BYTES)
            sent += BLOCK_BYTES
            with lock:
                free[0] = max(free[0], time.perf_counter()) + BLOCK_BYTES / 14e6
                own = max(own + BLOCK_BYTES / 4e6, free[0])
            time.sleep(max(own - time.perf_counter(), 0))
        connection.sendall(b"\0" * 2 * BLOCK_BYTES)
        return sent

    monkeypatch.setattr(transfers, "send_stream", send)
    monkeypatch.setattr(measuring, "granted_bytes", lambda: 1.0)


def test_a_line_is_measured_with_as_many_streams_as_it_takes(narrow):
    found = together(Settings(seconds=2.0, most_bytes=1 << 30))
    assert found.streams[0, 1] == 4 and found.streams[1, 0] == 4
    assert 9e6 < found.rates[0, 1] < 17e6
    assert sum(found.together.values()) > 6e6, "with all of their streams"


def test_a_line_that_one_stream_fills_is_measured_once():
    found = together(Settings(seconds=1.0, most_bytes=1 << 30))
    assert {count for tries in found.tries.values() for count in tries} == {1}
    assert all(each.loaded_s > 0 for tries in found.tries.values() for each in tries.values())
