"""The controller: plans follow the network while operations run, and no result is lost.

Every operation tells for free how fast each connection carried what waited for it. Workers tell rank 0 what differs
from what the plan was made for; rank 0 plans anew where that is worth it, and says from which operation on the
new plan counts. Its word goes out before its next operation begins, on every connection before all later messages. So
whoever ends that operation, which depends on rank 0's values, has heard it: all switch between the same two operations.

When the way between two workers is cut, everyone stops, says how far he is, and rank 0 plans without that way. An
operation counts as done only when a tiny all-reduce after it says that all have all their data; so either everyone goes
on with his result, or everyone does it again from the values that he kept.
"""

import json
import logging
import statistics
import threading
import time
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from treefold import verbs
from treefold._core import Mesh, Plan, Topology
from treefold.errors import TreefoldError
from treefold.workers import notices

if TYPE_CHECKING:
    from treefold.workers.group import Group

Fault = tuple[str, int, int, str]

THRESHOLD = 0.25
"""A link has changed when its rate differs by so much from what the plan was made for."""
WORTH = 0.05
"""A new plan is used when it is predicted to be faster by so much."""
_TELL = 0.1
_LEAST_S, _LEAST_BYTES = 0.1, 1 << 20
_LISTEN_S = 0.3
_EVENTS = 1000
_LOG = logging.getLogger("treefold")


class State(NamedTuple):
    """How far a worker is."""

    begun: int
    """Operations that it has begun."""
    stage: str
    """`data`, `commit`, or `idle` when the last one is done."""
    sequence: int


class Controller:
    """What one worker knows about the group's operations. Everything is done under `lock`."""

    def __init__(self, group: "Group", mesh: Mesh) -> None:
        self.group, self.mesh = group, mesh
        self.lock = threading.RLock()
        self.count, self.stage = 0, "idle"
        self.round = 0
        self.pending: tuple[int, Plan] | None = None
        self.resumed: dict[str, Any] | None = None
        self.states: dict[int, State] = {}
        self.rates: dict[tuple[int, int], float] = {}
        self.fastest: dict[Any, float] = {}
        self.nonsense: TreefoldError | None = None
        self.strange: list[tuple[int, dict[str, Any]]] = []
        self.size_bytes = 0
        self.kept = np.empty(0, np.uint8)
        """This worker's values at the beginning of the operation at work."""
        self._believe(group.plan.topology)
        self.events: deque[str] = deque(maxlen=_EVENTS)
        """What has changed, a line each, for people."""

    def run(self, plan: Plan, view: NDArray[np.uint8], element_bytes: int, args: tuple[Any, ...]) -> None:
        """Run an operation that all end, or none; `args` are as for `Mesh.run`."""
        with self.lock:
            self.attend()
            self.count += 1
            self.size_bytes = max(self.size_bytes, view.size)
            self.kept = self.kept if self.kept.size == view.size else np.empty_like(view)
            self.kept[:] = view
            self.mesh.gauges()
            try:
                seconds = self._run_to_the_end(plan, view, element_bytes, args)
            finally:
                self.stage = "idle"
            self.learn(seconds, (plan.collective, view.size))

    def _run_to_the_end(self, plan: Plan, view: NDArray[np.uint8], element_bytes: int, args: tuple[Any, ...]) -> float:
        """Run an operation, again and again where cuts undo it; return how long the last try took."""
        start = time.monotonic()
        while (fault := self._try(plan, view, element_bytes, args)) is not None:
            if fault[0] != "cut":
                raise self.group.error(fault)
            if self.recover():
                break
            view[:] = self.kept
            start = time.monotonic()
        return time.monotonic() - start

    def _try(self, plan: Plan, view: NDArray[np.uint8], element_bytes: int, args: tuple[Any, ...]) -> Fault | None:
        if self.pending is not None and self.count >= self.pending[0]:
            self._adopt(self.pending[1])
        plan = self.group.current(plan)
        self.stage = "data"
        program = self.group.program(plan, view.size // element_bytes, element_bytes)
        fault = self.mesh.run(program, view, *args)
        if fault is None:
            self.stage = "commit"
            commit = self.group.program(self.group.plan, 1, 1)
            fault = self.mesh.run(commit, np.zeros(1, np.uint8), "uint8", "sum", *args[2:4])
        return fault

    def _believe(self, network: Topology) -> None:
        """Take this for the network as it is."""
        self.network, self.assumed = network, bandwidths(network)

    def _adopt(self, plan: Plan) -> None:
        self.pending = None
        self._believe(plan.topology)
        self.rates.clear()
        self.fastest.clear()
        self.group.adopt(plan)

    def attend(self) -> None:
        """Heed what others said, and what has happened, since the last time."""
        try:
            self._hear()
        except TreefoldError as error:  # also of what the idle thread has heard
            self.nonsense = error
        if self.nonsense is not None:
            raise self.nonsense
        failure = self.mesh.failure
        if self.stage == "idle" and failure is not None and failure[0] == "cut":
            self.recover()

    def _hear(self) -> None:
        for origin, words in self.mesh.words():
            self._heed(origin, self.group.read(origin, words))

    def _heed(self, origin: int, said: dict[str, Any]) -> None:
        kind = said["kind"]
        if kind in ("state", "resume") and said["round"] != self.round:
            return  # about a cut that is over
        if kind == "rates":
            self.rates |= {(origin, int(peer)): rate for peer, rate in said["rates"].items()}
        elif kind == "state":
            self.states[origin] = State(*said["state"])
        elif kind == "resume":
            self.resumed = said
        elif kind == "plan":
            self.pending = (said["from"], notices.tried(self.group.who(origin), Plan.from_json, said["plan"]))
            self.report(said["changes"])
        else:
            self.strange.append((origin, said))

    def unheeded(self, heard: list[tuple[int, dict[str, Any]]]) -> list[tuple[int, dict[str, Any]]]:
        """Heed these words; return those, and earlier ones, that are for others."""
        for origin, said in heard:
            self._heed(origin, said)
        strange, self.strange = self.strange, []
        return strange

    def report(self, changes: list[str]) -> None:
        """Keep changes for whoever asks, and log them."""
        self.events += changes
        for change in changes:
            _LOG.info("planned anew: %s", change)

    def tell(self, kind: str, **words: Any) -> None:
        """Say something to all others."""
        self.mesh.tell(json.dumps({"kind": kind, **words}).encode())

    # The network changes its rates.

    def learn(self, seconds: float, what: Any) -> None:
        """Take the rates that an operation yielded; rank 0 plans anew where that is worth it."""
        mine = {}
        for peer, carried, busy_s in self.mesh.gauges():
            link = (self.group.rank, peer)
            if busy_s >= _LEAST_S and carried >= _LEAST_BYTES and link in self.assumed:
                rate = carried / busy_s
                if abs(rate / self.rates.get(link, self.assumed[link]) - 1) > _TELL:
                    mine[peer] = rate
        self.rates |= {(self.group.rank, peer): rate for peer, rate in mine.items()}
        if self.group.rank:
            if mine:
                self.tell("rates", rates=mine)
            return
        if seconds > (1 + _TELL) * self.fastest.setdefault(what, seconds):
            # Something is slower: the others' words about it are on their way.
            self._listen(min(_TELL * seconds, _LISTEN_S))
        self.fastest[what] = min(seconds, self.fastest[what])
        if self.pending is None:
            self.decide()

    def _listen(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.mesh.idle(left)
            self._hear()

    def decide(self) -> None:
        """Plan anew if links have changed and that is worth it."""
        ratios = {link: rate / self.assumed[link] for link, rate in self.rates.items() if link in self.assumed}
        ordinary = [ratio for ratio in ratios.values() if abs(ratio - 1) <= THRESHOLD]
        share = statistics.median(ordinary) if ordinary else 1.0
        changed = {link: ratio / share for link, ratio in ratios.items() if abs(ratio / share - 1) > THRESHOLD}
        if not changed:
            return
        network = with_rates(self.network, changed)
        plan, report = verbs.replan(self.group.plan, network, size_bytes=max(self.size_bytes, 1))
        self.rates.clear()
        if report["old"] is not None and report["old"]["time_s"] < (1 + WORTH) * report["new"]["time_s"]:
            self._believe(network)
            return
        self.report(report["changes"])
        self.pending = (self.count + 2, plan)
        self.tell("plan", plan=plan.to_json(), changes=report["changes"], **{"from": self.count + 2})

    # The way between two workers is cut.

    def recover(self) -> bool:
        """Go on after a cut; return whether the operation at work is done, else it has to be done again."""
        state = State(self.count, self.stage, self.mesh.sequence)
        self.states[self.group.rank] = state
        self.tell("state", round=self.round, state=state)
        said = self._lead() if self.group.rank == 0 else self._follow()
        if said["error"]:
            raise self.group.lost(said["error"], said["lost"])
        self._gone()
        self.mesh.avoid([(one, other) for one, other in said["ways"]])
        self.mesh.skip_to(said["sequence"])
        self.round += 1
        self.states, self.resumed = {}, None
        self.report(said["changes"])
        self._adopt(notices.tried(self.group.who(0), Plan.from_json, said["plan"]))
        # Whoever has begun a later operation has seen the end of this one.
        return bool(said["done"]) or state.begun < said["last"]

    def _gone(self) -> None:
        failure = self.mesh.failure
        if failure is not None and failure[0] != "cut":
            raise self.group.error(failure)

    def _lead(self) -> dict[str, Any]:
        """Rank 0: hear all, plan, and say how it goes on."""
        size, patience = self.group.size, self.group.patience.silence_s
        end = time.monotonic() + patience
        while len(self.states) < size and time.monotonic() < end:
            self._gone()
            self._listen(0.02)
        lost = sorted(set(range(size)) - set(self.states))
        ways = self.mesh.ways_to_avoid
        said: dict[str, Any] = {"round": self.round, "error": "", "lost": lost, "ways": ways, "changes": [], "plan": ""}
        try:
            if lost:
                who = ", ".join(map(self.group.who, lost))
                raise TreefoldError(f"{who} did not answer for {patience:g} s: it hangs, or its machine is cut off")
            network = without_ways(self.group.plan.topology, ways)
            plan, report = verbs.replan(self.group.plan, network, size_bytes=max(self.size_bytes, 1))
            said |= {"plan": plan.to_json(), "changes": report["changes"]}
        except TreefoldError as error:
            said["error"] = str(error)
        states = self.states.values()
        said["last"] = last = max(state.begun for state in states)
        said["done"] = all(state.begun == last and state.stage != "data" for state in states)
        said["sequence"] = max(state.sequence for state in states) + 1
        self.tell("resume", **said)
        return said

    def _follow(self) -> dict[str, Any]:
        end = time.monotonic() + 3 * self.group.patience.silence_s
        while self.resumed is None:
            self._gone()
            if time.monotonic() > end:
                raise self.group.lost(f"{self.group.who(0)} does not say how it goes on", [0])
            self._listen(0.02)
        return self.resumed


def bandwidths(topology: Topology) -> dict[tuple[int, int], float]:
    """Bytes a second between ranks that are joined directly; parallel links add up."""
    total: dict[tuple[int, int], float] = {}
    for source, target, rate in zip(*(column.tolist() for column in topology.link_columns()), strict=True):
        total[source, target] = total.get((source, target), 0.0) + rate
    return total


def _document(topology: Topology) -> tuple[dict[str, Any], dict[str, int]]:
    """Return a network's document and the rank of each name."""
    return json.loads(topology.to_json()), {name: rank for rank, name in enumerate(topology.rank_names)}


def with_rates(topology: Topology, factors: dict[tuple[int, int], float]) -> Topology:
    """Return the network with bandwidths between ranks multiplied by `factors`."""
    document, rank = _document(topology)
    for link in document["links"]:
        pair = (rank.get(link["source"], -1), rank.get(link["target"], -1))
        link["bandwidth_Bps"] *= factors.get(pair, 1.0)
    return Topology.from_json(json.dumps(document))


def without_ways(topology: Topology, ways: Sequence[tuple[int, int]]) -> Topology:
    """Return the network without the links between these pairs of ranks.

    Raises:
        TreefoldError: If there are none, or it falls into parts without them.

    """
    document, rank = _document(topology)
    names, cut = topology.rank_names, {frozenset(way) for way in ways}
    ends = [frozenset((rank.get(link["source"]), rank.get(link["target"]))) for link in document["links"]]
    told = " and ".join(f"between {names[one]} and {names[other]}" for one, other in ways)
    if not cut or not cut <= set(ends):
        raise TreefoldError(f"the way {told} is cut, which no link of the network joins; look at the network")
    kept = [link for link, pair in zip(document["links"], ends, strict=True) if pair not in cut]
    document.pop("shape", None)  # a grid that lacks a link is none
    try:
        return Topology.from_json(json.dumps(document | {"links": kept}))
    except TreefoldError as error:
        raise TreefoldError(f"the way {told} is cut, and there is no other: {error}") from None
