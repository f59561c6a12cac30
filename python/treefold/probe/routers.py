"""Finds the routers between workers as an ordinary user, and the pairs of workers that cross the same ways.

This is traceroute without raw sockets: small datagrams go out with rising hop limits (TTL), each router on the way
drops one of them and says so by ICMP, and Linux hands that to the sender's own socket (IP_RECVERR). All hop limits to
all addresses go out at once, and again where no answer came: routers answer few questions a second, Linux six at once
and then one, and some none.

Routers spread traffic over equal routes by addresses and ports. All datagrams to an address have the same, so that they
see one route (Augustin et al., "Avoiding Traceroute Anomalies with Paris Traceroute", 2006); the route of a connection
with other ports may be another. Which datagram an answer is about stands in its first byte, which routers quote as RFC
1812 asks. For those that quote as little as RFC 792 did, each hop limit gets a socket, and so a port, of its own.
"""

import contextlib
import select
import socket
import struct
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from ipaddress import ip_address
from itertools import pairwise

from treefold.probe.results import Pair

_MOST_HOPS = 30
_PORT = 33434
"""Nobody listens at traceroute's first port, and many firewalls let it pass."""
_AGAIN_S = 0.25
_DATA_BYTES = 16
_ANY_LIMIT = 0
"""The key of the socket whose datagrams have any hop limit."""
_MOST_ANSWER_BYTES = 512
_LIMIT_OPTIONS = {
    socket.AF_INET: (socket.IPPROTO_IP, socket.IP_TTL),
    socket.AF_INET6: (socket.IPPROTO_IPV6, socket.IPV6_UNICAST_HOPS),
}
_ERROR_OPTIONS = {socket.AF_INET: (socket.IPPROTO_IP, 11), socket.AF_INET6: (socket.IPPROTO_IPV6, 25)}
"""Linux's IP_RECVERR and IPV6_RECVERR, which Python has no names for."""
_ERROR = struct.Struct("=IBBBxII")
"""Linux's `struct sock_extended_err`: number, origin, type, code, and two values that are not used here."""
_ADDRESSES = {socket.AF_INET: slice(4, 8), socket.AF_INET6: slice(8, 24)}
"""Where the address stands in the socket address of who answered, which follows the error."""
_EXPIRED = {(2, 11), (3, 3)}
_UNREACHABLE = {(2, 3), (3, 1)}
"""Origins and types of what ICMP and ICMPv6 say of a hop limit that was used up, and of a target not reached."""

Sockets = dict[tuple[int, int], socket.socket]
"""The sockets by address family and hop limit."""


@dataclass
class _Way:
    """The answers about the way to an address, by hop limit."""

    family: int
    target: tuple[str, int]
    routers: dict[int, str] = field(default_factory=dict)
    distance: int | None = None
    """The least hop limit with which the target itself answered."""
    blocked: int | None = None
    """The least hop limit with which a router said that it does not lead there."""
    quotes_little: bool = False

    def open_limits(self) -> Iterator[int]:
        """Yield the hop limits that are still to be asked for."""
        end = min(self.distance or _MOST_HOPS + 1, self.blocked or _MOST_HOPS + 1)
        return (limit for limit in range(1, end) if limit not in self.routers)

    @property
    def is_known(self) -> bool:
        """Whether there is nothing more to ask."""
        return next(self.open_limits(), None) is None

    def listed(self) -> list[str | None]:
        """Return the routers in their order, with None for each that did not answer and for an unknown end."""
        if self.distance is not None:
            return [self.routers.get(limit) for limit in range(1, self.distance)]
        last = max((limit for limit in self.routers if limit < (self.blocked or _MOST_HOPS + 1)), default=0)
        return [*(self.routers.get(limit) for limit in range(1, last + 1)), None]


def routers_on_the_way(address: str, timeout_s: float) -> list[str | None]:
    """Return the routers between this worker and an address, as `routes_to` does for several addresses."""
    return routes_to([address], timeout_s)[0]


def routes_to(addresses: Sequence[str], timeout_s: float) -> list[list[str | None]]:
    """Return the routers between this worker and each address, the nearest first, without either end.

    It is done as soon as all is known. It raises nothing where networks, firewalls or systems do not take part.

    Args:
        addresses: IPv4 or IPv6 addresses as numbers.
        timeout_s: How long to ask, in seconds; 1.5 and the longest round trip give each router several chances, and
            one that is on the way to more than six addresses needs a second for each of the others.

    Returns:
        For each address at most 30 routers by their addresses. None stands for a router that did not answer, and a
        last None for an end of the route that is unknown: the target did not answer, or this is not Linux. An empty
        list says that no router is between.

    Example:
        >>> from treefold.probe.routers import routes_to
        >>> routes_to(["127.0.0.1"], timeout_s=1.5) in ([[]], [[None]])  # the latter where this is not Linux
        True

    """
    targets = [_target(address) for address in addresses]
    ways = {target[1][0]: _Way(*target) for target in targets if target is not None}
    if sys.platform == "linux" and ways:
        with contextlib.suppress(OSError), contextlib.ExitStack() as stack:
            _ask(ways, stack, time.monotonic() + timeout_s)
    return [[None] if target is None else ways[target[1][0]].listed() for target in targets]


def _target(address: str) -> tuple[int, tuple[str, int]] | None:
    """Return the family of an address and where datagrams to it go; None if it is not an address."""
    try:
        given = socket.getaddrinfo(address, _PORT, type=socket.SOCK_DGRAM, flags=socket.AI_NUMERICHOST)
    except (OSError, UnicodeError, ValueError):
        return None
    family, _, _, _, where = given[0]
    return family, where  # type: ignore[return-value]  # an IPv6 one has a flow and a scope, too


def _ask(ways: Mapping[str, _Way], stack: contextlib.ExitStack, deadline: float) -> None:
    """Send rounds of datagrams until all is known or the time is over; the ways keep the answers."""
    sockets: Sockets = {}
    while any(not way.is_known for way in ways.values()) and time.monotonic() < deadline:
        for limit in range(1, _MOST_HOPS + 1):
            for way in ways.values():
                if limit in way.open_limits():
                    # Where a family does not exist, its addresses stay unknown, and others do not.
                    with contextlib.suppress(OSError):
                        _send(_own(sockets, way, limit, stack), way, limit)
            _read_all(sockets, ways)
        if not sockets:
            return
        until = min(time.monotonic() + _AGAIN_S, deadline)
        while any(not way.is_known for way in ways.values()) and (left_s := until - time.monotonic()) > 0:
            _wait(sockets, left_s)
            _read_all(sockets, ways)


def _own(sockets: Sockets, way: _Way, limit: int, stack: contextlib.ExitStack) -> socket.socket:
    """Return the socket for datagrams with a hop limit, which is made when it is first needed."""
    key = way.family, limit if way.quotes_little else _ANY_LIMIT
    if key not in sockets:
        sockets[key] = stack.enter_context(_socket(way.family))
    return sockets[key]


def _wait(sockets: Sockets, seconds: float) -> None:
    """Wait until a socket has an error to tell, which need not be asked for."""
    poll = select.poll()
    for own in sockets.values():
        poll.register(own, 0)
    poll.poll(seconds * 1e3)


def _socket(family: int) -> socket.socket:
    """Return a socket for datagrams that keeps what ICMP says of them."""
    made = socket.socket(family, socket.SOCK_DGRAM)
    try:
        made.setblocking(False)
        made.setsockopt(*_ERROR_OPTIONS[socket.AddressFamily(family)], 1)
    except BaseException:
        made.close()
        raise
    return made


def _send(own: socket.socket, way: _Way, limit: int) -> None:
    """Send a datagram with a hop limit; what is lost is asked for again."""
    own.setsockopt(*_LIMIT_OPTIONS[socket.AddressFamily(way.family)], limit)
    for _ in range(3):
        # An answer that came meanwhile makes the next call fail once.
        with contextlib.suppress(OSError):
            own.sendto(bytes([limit]) * _DATA_BYTES, way.target)
            return


def _read_all(sockets: Sockets, ways: Mapping[str, _Way]) -> None:
    """Take in all answers that have come."""
    for (family, limit), own in sockets.items():
        with contextlib.suppress(BlockingIOError):
            while True:
                data, control, _, where = own.recvmsg(_DATA_BYTES, _MOST_ANSWER_BYTES, socket.MSG_ERRQUEUE)
                way = ways.get(where[0])
                if way is not None:
                    for _, _, error in control:
                        _note(way, family, limit or next(iter(data), _ANY_LIMIT), error)
        own.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)  # else it stays, and waiting ends at once for ever


def _note(way: _Way, family: int, limit: int, error: bytes) -> None:
    """Add an answer about the datagram with this hop limit."""
    address = error[_ERROR.size :][_ADDRESSES[socket.AddressFamily(family)]]
    if len(address) not in (4, 16) or limit > _MOST_HOPS:  # what is quoted may have been changed on the way
        return
    answering, (_, origin, kind, _, _, _) = str(ip_address(address)), _ERROR.unpack_from(error)
    if limit == _ANY_LIMIT:
        way.quotes_little = True
    elif (origin, kind) in _EXPIRED:
        way.routers.setdefault(limit, answering)
    elif (origin, kind) in _UNREACHABLE:
        if answering == way.target[0].partition("%")[0]:
            way.distance = min(limit, way.distance or limit)
        else:
            way.blocked = min(limit, way.blocked or limit)


def shared_ways(routes: Mapping[Pair, Sequence[str | int | None]]) -> list[frozenset[Pair]]:
    """Return the sets of pairs of workers whose routes cross the same ways, and may thus share a capacity.

    The pairs of a set have two routers in common, one right behind the other; or the source and the first router; or
    the last router and the target. They may also have only the first router in common, or only the last: workers behind
    one access line often see no router of their own before it. A router that did not answer joins nothing. Sets are
    hypotheses: sites may use the same private addresses, and a common way may be wide.

    Args:
        routes: The routers on the way of each pair (source, target), as `routes_to` returns them; a worker that is one
            by its rank.

    Returns:
        Each set of two or more pairs once, in the order of their pairs.

    Example:
        >>> from treefold.probe.routers import shared_ways
        >>> routes = {(0, 2): ["a", "b", "c"], (1, 2): ["a", "b", "d"], (0, 1): ["e", None]}
        >>> [sorted(pairs) for pairs in shared_ways(routes)]
        [[(0, 2), (1, 2)]]

    """
    crossing: dict[tuple[object, object], set[Pair]] = {}
    for (source, target), route in routes.items():
        outer = [("first", route[0]), ("last", route[-1])] if route else []
        for hop in (*pairwise([source, *route, target]), *outer):
            if None not in hop:
                crossing.setdefault(hop, set()).add((source, target))
    found = {frozenset(pairs) for pairs in crossing.values() if len(pairs) > 1}
    return sorted(found, key=sorted)
