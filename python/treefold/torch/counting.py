"""Counts the calls of a process group: how many there were, how many bytes they had, and how long they were under way.

A call adds to a few numbers. What links have carried is read from the connections only when somebody asks.
"""

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from treefold._core import Plan
from treefold.runtime.adaptive import AdaptiveGroup
from treefold.runtime.group import Group
from treefold.runtime.rates import RateMonitor
from treefold.runtime.tcp import TcpTransport


@dataclass
class Count:
    """What the calls of one collective were so far."""

    calls: int = 0
    bytes: int = 0
    crossing_bytes: int = 0
    """The bytes of planned vectors as they cross lines, of which bounds tell."""
    passed_on: int = 0
    passed_on_bytes: int = 0
    _ended_s: float = 0.0
    _under_way: int = 0
    _since: float = 0.0

    def begin(self) -> None:
        """Count a planned call that begins."""
        if self._under_way == 0:
            self._since = time.monotonic()
        self._under_way += 1
        self.calls += 1

    def end(self) -> None:
        """Count that it is over."""
        self._under_way -= 1
        if self._under_way == 0:
            self._ended_s += time.monotonic() - self._since

    @property
    def seconds(self) -> float:
        """The seconds in which at least one planned call was under way."""
        return self._ended_s + (time.monotonic() - self._since if self._under_way else 0.0)


@dataclass(eq=False)
class Counters:
    """The counts of one process group."""

    ranks: Sequence[int]
    """The numbers of its ranks in the group of all ranks."""
    sites: Sequence[str] = ()
    """The site of each rank."""
    of: dict[str, Count] = field(default_factory=dict)
    """The count of each call, by its name in PyTorch."""
    inside_bytes: int = 0
    """The bytes of tensors of calls inside this rank's site."""
    unplanned_bytes: int = 0
    """The bytes of tensors of calls that were passed on although ranks are at several sites."""
    sent_bytes: int | None = None
    """The bytes that this rank has sent by plans; None if nobody counts them."""
    plan: Plan | None = None
    replans: list[str] = field(default_factory=list)
    short_links: dict[str, float] = field(default_factory=dict)
    """The links on which this rank sent more slowly than the network says, and the part of its rate that they had."""
    _group: Group | None = None
    _monitor: RateMonitor | None = None
    _lock: threading.RLock = field(default_factory=threading.RLock)

    def __post_init__(self) -> None:
        self._are_apart = len(set(self.sites)) > 1

    def watch(self, group: Group) -> None:
        """Watch what this rank sends in a group, too."""
        self._group, self.plan = group, group.plan
        if isinstance(group.transport, TcpTransport):
            self.sent_bytes = 0
            self._monitor = group.controller.monitor if isinstance(group, AdaptiveGroup) else RateMonitor(group.plan)

    def begin(self, name: str, size_bytes: int, crossing_bytes: int, inside_bytes: int) -> Callable[[], None]:
        """Count a planned call that begins, and return what is to be called when it is over.

        Args:
            name: The call's name.
            size_bytes: The bytes of its whole vector.
            crossing_bytes: The same as they cross lines.
            inside_bytes: The bytes that are reduced inside the site first.

        """
        with self._lock:
            count = self.of.setdefault(name, Count())
            count.begin()
            count.bytes += size_bytes
            count.crossing_bytes += crossing_bytes
            self.inside_bytes += inside_bytes
        return lambda: self._end(count)

    def _end(self, count: Count) -> None:
        with self._lock:
            count.end()

    def pass_on(self, name: str, size_bytes: int) -> None:
        """Count a call that is passed on."""
        with self._lock:
            count = self.of.setdefault(name, Count())
            count.passed_on += 1
            count.passed_on_bytes += size_bytes
            if self._are_apart:
                self.unplanned_bytes += size_bytes
            elif self.sites:
                self.inside_bytes += size_bytes

    def update(self) -> None:
        """Read from the group what its links have carried since the last time, and what has changed."""
        group, monitor = self._group, self._monitor
        if group is None:
            return
        with self._lock:
            self.plan = group.plan
            self.replans += group.changes()
            if monitor is None or not isinstance(group.transport, TcpTransport):
                return
            if not isinstance(group, AdaptiveGroup):  # whose controller does so itself
                monitor.measure(group.rank, group.transport.link_usage(), group.transport.held())
            self.sent_bytes = group.transport.sent_bytes
            names = group.mapping.names
            self.short_links = {
                f"{names[source]} -> {names[target]}": factor
                for (source, target), factor in monitor.changes().items()
                if factor < 1 and source == group.rank
            }

    def close(self) -> None:
        """Read a last time what the group's links have carried, before the group is closed."""
        self.update()
        self._group = None
