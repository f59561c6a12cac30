"""The controller of an adaptive group: plans follow the network while operations run, and no result is lost.

Every operation yields the rate of each connection that had data waiting. Links that the plan does not use are probed
now and then, and round trips are timed while connections carry no data. Workers tell rank 0 what differs from what the
plan assumes: rates, and latencies against those of the beginning. Rank 0 plans anew where that is worth it, and says
from which operation on the new plan is used. It says so before its next operation begins, on every connection ahead of
all later messages. Every rank needs rank 0's values to end that operation, and so has got the message by then. With a
window of W operations in flight, a rank has ended that one before it begins the W-th after it: from there on all ranks
use the new plan.

When the connection between two workers is cut, all stop and say how far they are, and rank 0 plans without that
connection. An operation counts as done only when a tiny all-reduce after it confirms that all ranks have all their
data. So all ranks keep the results that all of them have, and run what else was in flight again, from the values that
each has kept.

The ends of that connection go on trying to connect. When both have told rank 0 that they have met again, it plans with
the link where that is worth it. Each connection between two workers has a number, its life; with each plan goes the
list of the lives that it uses. So the end of an old life, or of one that no plan uses yet, ends no operation.
Where links fall short from the beginning, `learning` comes first, and its plans are announced in the same way.
"""

import logging
import threading
import time
from collections import deque
from contextlib import suppress
from typing import Any

from treefold._core import Plan, Topology
from treefold.auto import names
from treefold.errors import MisfitError, TreefoldError
from treefold.plans import replan, replan_as
from treefold.results import Replanned
from treefold.runtime import control
from treefold.runtime.control import ControlMessage
from treefold.runtime.delays import DelayMonitor
from treefold.runtime.faults import lost_error, silent_error
from treefold.runtime.flights import Flight, Flights
from treefold.runtime.learning import Learning
from treefold.runtime.networks import UNCHANGED, Changes, Pair, changed, pair_of
from treefold.runtime.observing import MOMENTS, Used, teaches, used
from treefold.runtime.pending import MOST_IN_FLIGHT
from treefold.runtime.plans import GroupPlans, NextPlan, lines
from treefold.runtime.rates import REPORTED, RateMonitor
from treefold.runtime.recovery import State, back, resumption
from treefold.runtime.tcp import Life, TcpTransport
from treefold.runtime.transport import Operation

_WORTH = 0.05
"""A new plan is used if it should be faster by this part than the current one is predicted to be, and has been."""
_POLL_S, _MOST_POLL_S = 0.02, 0.3
_MOST_EVENTS = 1000
_LOG = logging.getLogger("treefold")


class Controller:
    """One worker's knowledge of the operations of its group; each method runs under `lock`."""

    def __init__(
        self, transport: TcpTransport, plans: GroupPlans, algorithm: str | None = None, file: str | None = None
    ) -> None:
        """Begin with a plan; new ones have its algorithm or else this one, and `file` is for what rank 0 learns."""
        self.transport, self.plans, self._algorithm = transport, plans, algorithm
        self.lock = threading.RLock()
        self.monitor = RateMonitor(plans.all_reduce)
        self.delays = DelayMonitor()
        self.learning = Learning(plans.all_reduce, algorithm, file)
        self.returned: dict[Pair, dict[int, int]] = {}
        """The life of each connection that came back, as each of its ends has told."""
        self._first_plan, self._first_network = plans.all_reduce, plans.all_reduce.topology
        self._known, self._lives = UNCHANGED, dict[Pair, int | None]()
        """The changes of the first network that rank 0 assumes, and which lives of connections its plans use."""
        self._declined: set[tuple[Pair, int]] = set()
        """The connections that came back and were not worth a new plan."""
        self.count = 0
        """How many operations have begun."""
        self.flights, self.window = Flights(transport, plans), 1
        """The operations in flight, and how many may be; rank 0 opens the window when it needs one."""
        self._errors: dict[int, TreefoldError] = {}
        """The errors of operations that have ended."""
        self.events: deque[str] = deque(maxlen=_MOST_EVENTS)
        """Lines that say what has changed about the network."""
        self.round = 0
        """How many cuts have been recovered from."""
        self.states: dict[int, State] = {}
        self.resumed: dict[str, Any] | None = None
        self._next_plan: NextPlan | None = None
        self._failure: TreefoldError | None = None
        self._unhandled: list[ControlMessage] = []
        self._most_bytes = 0

    def start(self, plan: Plan, operation: Operation, elements: int, element_bytes: int) -> int:
        """Begin an operation that ends on all ranks, or on none; return its number."""
        with self.lock:
            self.poll()
            if len(self.flights) and self.window == 1 and self.transport.rank == 0:
                self.window = MOST_IN_FLIGHT
                self.transport.broadcast("window", operations=self.window)
            while len(self.flights) >= self.window:
                self._end_first()
            if self._next_plan is not None and self.count + 1 >= self._next_plan.first:
                self._end_all()
                self._adopt(self._next_plan.plan, self._next_plan.lives)
            if not self.transport.reaches(current := self.plans.current(plan)):
                self._end_all()
                self.transport.connect(current)
            self.count += 1
            self._most_bytes = max(self._most_bytes, operation.vector.size)
            if not len(self.flights):
                self.transport.link_usage()  # it is measured from here on
                self.transport.serve_once()  # no connection carries data yet, so that round trips can be timed
            self.flights.add(self.count, plan, operation, elements, element_bytes)
            return self.count

    def end(self, number: int) -> None:
        """Wait until the operation of this number has ended, and raise its error if it has one."""
        while (run := self._awaited_run(number)) is not None:
            self.transport.await_end(run)
            with self.lock:
                first = self.flights.first
                if first is not None and run in first.runs:
                    self._end_first()
        with self.lock:
            if number in self._errors:
                raise self._errors.pop(number)

    def _awaited_run(self, number: int) -> int | None:
        """Return the run of the transport that ends the next operation; None if that of this number has ended."""
        with self.lock:
            first = self.flights.first
            return None if first is None or first.number > number else first.runs[1]

    def _end_all(self) -> None:
        while len(self.flights):
            self._end_first()

    def _end_first(self) -> None:
        """Wait until the first operation in flight has ended, or until all in flight run again after a cut."""
        first = self.flights.first
        assert first is not None
        fault = self.flights.fault(first)
        if fault is not None and fault.kind == "cut":
            self.recover()
            return
        self.flights.pop()
        if fault is not None:
            self._errors[first.number] = self.transport.error(fault)
        else:
            self._learn(first)

    def _adopt(self, plan: Plan, lives: list[Life]) -> None:
        self._next_plan = None
        self.monitor.reset(plan)
        self.plans.adopt(plan)
        self.transport.use(lives)
        self.transport.connect(plan)
        self.transport.watch(plan)

    # Control messages.

    def poll_between_operations(self) -> bool:
        """Poll unless an operation runs; return whether it was done. An error is raised by the next operation."""
        if not self.lock.acquire(blocking=False):
            return False
        try:
            with suppress(TreefoldError):
                self.poll()
        finally:
            self.lock.release()
        return True

    def poll(self) -> None:
        """Handle the control messages and the cut that have come since the last call.

        Raises:
            TreefoldError: If a rank has sent a message that no rank sends, now or earlier.

        """
        try:
            self._receive()
        except TreefoldError as error:
            self._failure = error
        if self._failure is not None:
            raise self._failure
        failure = self.transport.failure
        if failure is not None and failure.kind == "cut":
            self.recover()

    def _receive(self) -> None:
        for message in self.transport.receive():
            self._handle(message)
        for peer, life in self.transport.returned.items():
            if self._record_return(self.transport.rank, peer, life):
                self.transport.broadcast("returned", peer=peer, life=life)

    def _record_return(self, rank: int, peer: int, life: int) -> bool:
        """Record that `rank` has met `peer` again; return whether that is news."""
        told = self.returned.setdefault(pair_of(rank, peer), {})
        is_news = told.get(rank) != life
        told[rank] = life
        return is_news

    def _receive_for(self, seconds: float) -> None:
        end = time.monotonic() + seconds
        while (left := end - time.monotonic()) > 0:
            self.transport.idle(left)
            self._receive()

    def _handle(self, message: ControlMessage) -> None:
        sender, fields = message
        kind = fields["kind"]
        if kind in ("state", "resume") and fields["round"] != self.round:
            return  # it is about a cut from which all have recovered
        if kind == "rates":
            self.monitor.rates |= {(sender, int(peer)): rate for peer, rate in fields["rates"].items()}
        elif kind == "delays":
            self.delays.added |= {pair_of(sender, int(peer)): by for peer, by in fields["delays"].items()}
        elif kind == "used":
            self.learning.hear(sender, fields["operation"], Used.read(fields))
        elif kind == "returned":
            self._record_return(sender, fields["peer"], fields["life"])
        elif kind == "window":
            self.window = fields["operations"]
        elif kind == "state":
            self.states[sender] = State(*fields["state"])
        elif kind == "resume":
            self.resumed = fields
        elif kind == "plan":
            plan = control.read_plan(self.transport.mapping.describe(sender), fields["plan"])
            self._next_plan = NextPlan(fields["from"], plan, fields["lives"])
            self._report(fields["changes"])
        else:
            self._unhandled.append(message)

    def unhandled(self) -> list[ControlMessage]:
        """Handle the control messages that have come; return those of them, and of earlier ones, that are for others.

        Raises:
            TreefoldError: If a rank has sent a message that no rank sends.

        """
        with self.lock:
            self._receive()
            unhandled, self._unhandled = self._unhandled, []
            return unhandled

    def _report(self, changes: list[str]) -> None:
        """Log changes of the network, and keep them for `events`."""
        self.events += changes
        for change in changes:
            _LOG.info(change if change.startswith("learnt: ") else f"planned anew: {change}")

    # Links become slower or faster, or come back.

    def _learn(self, ended: Flight) -> None:
        """Learn from an operation that has ended, and from the watch; rank 0 plans anew where that is worth it."""
        rank, seconds = self.transport.rank, time.monotonic() - ended.since_s
        is_alone = ended.is_alone and not len(self.flights)
        tells = is_alone and teaches(ended, seconds) and self.learning.tells(self.plans.all_reduce)
        usage = self.transport.link_usage(MOMENTS if tells else 0)
        rates = self.monitor.measure(rank, usage + self.transport.probes(), self.transport.held())
        delays = self.delays.measure(rank, self.transport.round_trips.items())
        own = used(seconds, usage) if tells else None
        if rank:
            if rates:
                self.transport.broadcast("rates", rates=rates)
            if delays:
                self.transport.broadcast("delays", delays=delays)
            if own:
                self.transport.broadcast("used", operation=ended.number, **own._asdict())
            return
        if own:
            self.learning.begin(ended.number, self.plans.all_reduce, ended.operation.vector.size, own)
            self._await_study(time.monotonic() + self.learning.patience_s(seconds))
        kind = (ended.plan.collective, ended.operation.vector.size, ended.operation.wire) if is_alone else None
        if self.monitor.is_slower(kind, seconds):
            # The rates that the other ranks have measured are on their way.
            self._receive_for(min(REPORTED * seconds, _MOST_POLL_S))
        if self._next_plan is None:
            self._study(ended.number)

    def _await_study(self, end_s: float) -> None:
        """Wait until something is learnt from the last operation, but no longer than until then."""
        while not self.learning.is_studied and (left := end_s - time.monotonic()) > 0:
            self._receive_for(min(left, _POLL_S))

    def _study(self, number: int) -> None:
        """Take over as rank 0 what was learnt, or decide about changes if all is learnt."""
        step = self.learning.take(number)
        if step.plan is not None:
            self._announce(step.plan, step.lines)
        else:
            self._report(step.lines)
        if self.learning.is_over:
            self._settle()
        if not self.learning.is_under_way and self._next_plan is None:
            self.decide()

    def _settle(self) -> None:
        """End learning: the network of the plan that was learnt is the first one, and what is measured is usual."""
        self.learning.is_over = True
        if self.learning.has_taught:
            self.learning.has_taught = False
            self._first_plan = self.plans.all_reduce
            self._first_network = self._first_plan.topology
            self.monitor.usual = self.learning.settle(self._first_network)
            self.monitor.rates.clear()
            self._know(self._known)

    def decide(self) -> None:
        """Plan anew as rank 0 if links have changed and a new plan is worth it."""
        links, met = self._changed_links(), self._back()
        if links == self._known and self._declined.issuperset(met.items()):
            return
        network = changed(self._first_network, links._replace(absent=links.absent - met.keys()))
        replanned = self._replanned(network)
        self.monitor.rates.clear()
        new, old = replanned.new, replanned.old
        if old is not None and min(old.time_s, self.monitor.took(new)) < (1 + _WORTH) * new.time_s:
            # What came back stays out of the network until something else changes.
            self._declined |= set(met.items())
            self._know(links)
            return
        self._lives |= met
        self._know(links._replace(absent=links.absent - met.keys()))
        self.learning.is_over = True
        self._announce(replanned.plan, lines(replanned))

    def _announce(self, plan: Plan, changes: list[str]) -> None:
        """Tell all ranks of a new plan, and why it is made."""
        first, lives = self.count + 1 + self.window, self._all_lives()
        self._report(changes)
        self._next_plan = NextPlan(first, plan, lives)
        self.transport.broadcast("plan", plan=plan.to_json(), changes=changes, lives=lives, **{"from": first})

    def _changed_links(self) -> Changes:
        """Return the changes of the first network, with what was measured since a plan was last made."""
        known = self._known
        factors = {link: by * known.factors.get(link, 1.0) for link, by in self.monitor.changes().items()}
        return self.learning.counted(Changes({**known.factors, **factors}, dict(self.delays.added), known.absent))

    def _back(self) -> dict[Pair, int]:
        """Return the absent pairs whose ends have met again, and the life of their connection."""
        return back(self.returned, self._known.absent, self.transport.lives)

    def _know(self, changes: Changes) -> None:
        self._known = changes
        self.monitor.assume(changed(self._first_network, changes))

    def _all_lives(self) -> list[Life]:
        return [(*pair, life) for pair, life in sorted(self._lives.items())]

    def _replanned(self, network: Topology) -> Replanned:
        """Plan anew, for the size of the plan, or if that is unknown for the largest vector so far.

        If the algorithm or a limit of the first plan gave way, it comes back as soon as it fits again.
        """
        plan, first = self.plans.all_reduce, self._first_plan
        size_bytes = max(self._most_bytes, 1) if plan.size_bytes is None else None
        gave_way = (plan.algorithm, plan.options) != (first.algorithm, first.options)
        if self._algorithm is None and gave_way and first.algorithm in names():
            with suppress(MisfitError):
                return replan_as(plan, first, network, size_bytes)
        replanned = replan(plan, network, self._algorithm, size_bytes=size_bytes)
        if self.plans.apart.isdisjoint(replanned.plan.pairs):
            return replanned
        return replan(plan, network, "forest", size_bytes=size_bytes)  # which sends along links only

    # The connection between two workers is cut.

    def recover(self) -> None:
        """Go on after a cut: all ranks keep the results that all of them have, and run the other operations again.

        Raises:
            RankLostError: If they cannot; the operations in flight have this error, too.

        """
        first = self.flights.first
        done = (self.count if first is None else first.number - 1) + self.flights.settle()
        try:
            resumed = self._resume(State(done, self.transport.sequence))
        except TreefoldError as error:
            while len(self.flights):
                self._errors[self.flights.pop().number] = error
            raise
        while (first := self.flights.first) is not None and first.number <= resumed:
            self.flights.pop()
        self.flights.relaunch()

    def _resume(self, state: State) -> int:
        """Tell the others how far this worker is; return the last operation that is done on all of them."""
        self.states[self.transport.rank] = state
        self.transport.broadcast("state", round=self.round, state=state)
        resumed = self._lead() if self.transport.rank == 0 else self._follow()
        if resumed["error"]:
            raise lost_error(resumed["error"], resumed["lost"], self.transport.mapping)
        self._raise_if_failed()
        self.transport.skip_to(resumed["sequence"])
        self.round += 1
        self.states, self.resumed = {}, None
        self._report(resumed["changes"])
        self._adopt(control.read_plan(self.transport.mapping.describe(0), resumed["plan"]), resumed["lives"])
        return int(resumed["done"])

    def _raise_if_failed(self) -> None:
        failure = self.transport.failure
        if failure is not None and failure.kind != "cut":
            raise self.transport.error(failure)

    def _lead(self) -> dict[str, Any]:
        """Gather all states as rank 0, plan anew, and tell all ranks how to go on."""
        self._await_states()
        lost = sorted(set(range(self.transport.size)) - set(self.states))
        self._settle()
        cut = self.transport.pairs_to_avoid
        self._lives |= dict.fromkeys(cut)
        fields: dict[str, Any] = {"round": self.round, "lost": lost, "lives": self._all_lives()}
        try:
            if lost:
                raise silent_error(lost, self.transport.mapping, self.transport.connections.silence_s)
            absent = self._known.absent | set(cut)
            # A cable that was repaired need not have the rate that it had before.
            factors = {link: by for link, by in self._known.factors.items() if pair_of(*link) not in absent}
            known = self._known._replace(factors=factors, absent=absent)
            replanned = self._replanned(changed(self._first_network, known))
            self._know(known)
            fields |= {"error": "", "plan": replanned.plan.to_json(), "changes": lines(replanned)}
        except TreefoldError as error:
            fields |= {"error": str(error), "plan": "", "changes": []}
        fields |= resumption(self.states.values())._asdict()
        self.transport.broadcast("resume", **fields)
        return fields

    def _await_states(self) -> None:
        """Wait until all ranks have said how far they are, or the time is over."""
        end = time.monotonic() + self.transport.connections.silence_s
        while len(self.states) < self.transport.size and time.monotonic() < end:
            self._raise_if_failed()
            self._receive_for(_POLL_S)

    def _follow(self) -> dict[str, Any]:
        """Wait until rank 0 says how to go on."""
        end = time.monotonic() + 3 * self.transport.connections.silence_s
        while self.resumed is None:
            self._raise_if_failed()
            if time.monotonic() > end:
                mapping = self.transport.mapping
                raise lost_error(f"{mapping.describe(0)} does not say how it goes on", [0], mapping)
            self._receive_for(_POLL_S)
        return self.resumed
