"""What a rank sends that no rank sends: one clear error on every rank, which names it."""

import base64
import json
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import treefold
from treefold import TreefoldError, runtime
from treefold.perf import runs as perf_runs
from treefold.perf.job import Job
from treefold.probe import Settings, measuring, taking
from treefold.probe.steps import Step
from treefold.rendezvous import store, validation
from treefold.runtime import Connections, control, tcp

NONSENSE = {
    "nothing": b"",
    "no UTF-8": b"\xff\xfe",
    "deep": b"[" * 100_000,
    "long number": b"1" * 5000,
    "number": b"7",
    "null": b"null",
    "infinite": b"[Infinity, NaN]",
    "text": b'"x"',
    "other object": b'{"a": 1}',
    "list": b"[]",
    "zeros": bytes(100),
    "long text": b'"' + b"\x1b[2J" * 100_000 + b'"',
}
MOST_ROUNDS = 16
PLAN = treefold.plan("full:2", "ring")


def outcomes(work, nonsense, number):
    """Let two ranks work; the second sends nonsense in its exchange of this number. Return results, or errors."""
    places = runtime.local(2, timeout_s=2)
    gather, count = places[1]._gather, iter(range(1000))
    has_lied = []

    def lying(blob):
        if next(count) == number:
            has_lied.append(True)
            blob = nonsense
        return gather(blob)

    places[1]._gather = lying

    def outcome(place):
        try:
            return work(place)
        except TreefoldError as error:
            return error
        finally:
            place.close()

    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(outcome, places)), bool(has_lied)


def joins(place):
    runtime.join(place, PLAN, connections=Connections(2, 2)).close()


def probes(place):
    measuring.measure(place, Settings(seconds=1.5, most_bytes=64 << 20))


def runs(place):
    job = Job((1024,), iterations=1)
    perf_runs.among_processes(place, job, PLAN, {"algorithm": "ring"}, None, iter)


@pytest.fixture(autouse=True)
def quick(monkeypatch):
    monkeypatch.setattr(tcp, "CONNECT_S", 2.0)


@pytest.mark.parametrize(
    ("work", "nonsense"),
    [
        *((joins, each) for each in NONSENSE.values()),
        *((runs, NONSENSE[each]) for each in ("no UTF-8", "deep", "list")),
    ],
    ids=[*NONSENSE, *("no UTF-8 in a run", "deep in a run", "list in a run")],
)
def test_whoever_sends_nonsense_is_named_on_every_rank(work, nonsense):
    for number in range(MOST_ROUNDS):
        found, has_lied = outcomes(work, nonsense, number)
        if not has_lied:
            break
        for error in found:
            assert error is None or isinstance(error, list | TreefoldError)
            if isinstance(error, TreefoldError):
                assert "worker 1" in str(error)
                assert len(str(error)) < 1300 and "\n" not in str(error) and "\x1b" not in str(error)
    assert 3 < number < MOST_ROUNDS - 1


@pytest.mark.parametrize("nonsense", [b"", b"\xff", b"{}", b'{"error": null, "results": [[0, 1, "x"]]}'])
def test_nonsense_in_a_probe(nonsense):
    for number in (0, 1, 2):
        found, has_lied = outcomes(probes, nonsense, number)
        assert has_lied
        assert all("worker 1 has sent" in str(error) for error in found)


@pytest.mark.parametrize(
    "results", [[], [[0, 1]], [[0, 1, 1.0, 1.0]], [[5, 9, 1.0]], [[0, 1, -1.0]], [[0, 1, 1.0]] * 2]
)
def test_a_probe_misses_what_a_rank_did_not_measure(results):
    step = Step("together", [(0, 1)])
    with pytest.raises(TreefoldError, match="worker 1 has sent "):
        validation.check("worker 1", {"results": results}, {"results": [taking._is_report]})
        taking._values(step, [{"results": []}, {"results": results}])


def test_a_plan_that_is_none_names_rank_0():
    places = runtime.local(2, timeout_s=5)
    gather = places[0]._gather
    places[0]._gather = lambda blob: gather(b'{"plan": "[", "fingerprint": null}' if b"treefold-plan" in blob else blob)

    def outcome(place):
        with pytest.raises(TreefoldError) as told:
            runtime.join(place)
        return str(told.value)

    with ThreadPoolExecutor(2) as pool:
        assert all(
            error.startswith("worker 0 has sent not a treefold-plan file") for error in pool.map(outcome, places)
        )


TIMELY = {"round": 0, "error": "", "lost": [], "lives": [], "changes": [], "done": 0, "sequence": 1}


@pytest.mark.parametrize(
    "words",
    [
        *NONSENSE.values(),
        *(
            json.dumps(each).encode()
            for each in (
                {"kind": 7},
                {"kind": "surprise\x1b[2J"},
                {"kind": "rates"},
                {"kind": "rates", "rates": {"5": 1.0}},
                {"kind": "rates", "rates": {"x": 1.0}},
                {"kind": "rates", "rates": {"0": -1.0}},
                {"kind": "rates", "rates": {"0": True}},
                {"kind": "state", "round": 0, "state": ["0", 0]},
                {"kind": "state", "round": 0, "state": [0]},
                {"kind": "state", "round": 0, "state": [0, 0, 0]},
                {"kind": "state", "round": -1, "state": [0, 0]},
                {"kind": "state", "round": 0, "state": [0, 1 << 32]},
                {"kind": "resume"} | TIMELY,
                {"kind": "resume", "plan": "{}"} | TIMELY | {"lives": [[0, 9, 1]]},
                {"kind": "resume", "plan": "{}"} | TIMELY | {"lives": [[0, 1]]},
                {"kind": "resume", "plan": "{}"} | TIMELY | {"lives": [[0, 1, -1]]},
                {"kind": "plan", "from": 1.5, "plan": "{}", "changes": [], "lives": []},
                {"kind": "plan", "from": 1, "plan": None, "changes": [], "lives": []},
                {"kind": "plan", "from": 1, "plan": "{}", "changes": []},
                {"kind": "delays", "delays": {"0": float("inf")}},
                {"kind": "returned", "peer": 2, "life": 1},
                {"kind": "lost", "lost": [2]},
                {"kind": "lost", "lost": 1},
                {"kind": "meet", "round": 0, "blob": "?"},
                {"kind": "meet", "round": 0, "blob": "é"},
                {"kind": "meet", "round": [], "blob": ""},
            )
        ),
    ],
)
def test_control_messages_that_are_none(words):
    with pytest.raises(TreefoldError, match="worker 1 \\(rome\\) has sent ") as told:
        control.read("worker 1 (rome)", words, 2)
    assert len(str(told.value)) < 300 and "\n" not in str(told.value) and "\x1b" not in str(told.value)


def test_control_messages_as_they_are_sent():
    for fields in (
        {"kind": "rates", "rates": {0: 1e9}},
        {"kind": "state", "round": 3, "state": [1, 7]},
        {"kind": "resume", "plan": "{}"} | TIMELY,
        {"kind": "plan", "from": 1, "plan": "{}", "changes": ["a"], "lives": [[0, 1, 2], [0, 1, None]]},
        {"kind": "delays", "delays": {0: -0.01}},
        {"kind": "returned", "peer": 0, "life": 1},
        {"kind": "window", "operations": 16},
        {"kind": "lost", "lost": [0, 1]},
        {"kind": "meet", "round": 0, "blob": base64.b64encode(b"blob").decode()},
    ):
        assert control.read("worker 1", json.dumps(fields).encode(), 2)["kind"] == fields["kind"]


@pytest.mark.parametrize("message", [b"\xff", b'{"kind": "plan", "from": 1, "plan": "[", "changes": [], "lives": []}'])
def test_a_group_that_hears_nonsense_says_whose_it_is(message):
    def work(place):
        team = runtime.join(place, network=treefold.topology("full:2"), connections=Connections(5, 5), adapt=True)
        try:
            team.all_reduce(np.ones(10))
            if team.worker == 1:
                team.transport._mesh.broadcast(message)
                return time.sleep(0.5)
            time.sleep(0.3)
            with pytest.raises(TreefoldError, match=r"worker 1 \(GPU1\) has sent "):
                team.all_reduce(np.ones(10))
            return None
        finally:
            team.close()

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(work, runtime.local(2))) == [None, None]


@pytest.mark.parametrize("parts", [b"", b"x", b"-1", b"\xff", b"9" * 5000, b"65"])
def test_parts_of_a_torch_store_that_are_none(parts):
    with pytest.raises(TreefoldError, match="worker 3 has stored what is not a blob"):
        store._part_count(parts, 3)
    assert store._part_count(b"64", 3) == 64
