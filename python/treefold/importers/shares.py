"""Reads which capacities links share from texts such as `conduit=10Gbit/s;card`, or lists of names.

A text names shared capacities, separated by semicolons, and may give the bandwidth of each behind an equals sign, once
or wherever it is named. A list, which may be JSON text, has names only; names with these signs need it.
"""

from collections import Counter
from collections.abc import Iterable
from typing import Any, NamedTuple

from treefold._core import format_bandwidth
from treefold.checks import guess, shown
from treefold.files.problems import fail, one_line
from treefold.files.reading import loads
from treefold.importers.document import make_shared
from treefold.importers.values import Quantity, measure

KEY = "shares"
_BANDWIDTH = Quantity("bandwidth_Bps", "bandwidth", None)


class Share(NamedTuple):
    """A shared capacity, as a link names it."""

    name: str
    bandwidth_Bps: float | None
    """What the link says of its bandwidth."""
    where: str
    """The place in the file."""


def read_shares(value: object, where: str) -> list[Share]:
    """Return the shared capacities that a text or a list names.

    Raises:
        TreefoldError: If a name is missing or stands twice, or a bandwidth is none.

    """
    if value is None or (isinstance(value, str) and not value.strip()):
        return []
    names = listed(value)
    if names is not None:
        shares = [Share(name, None, where) for name in names]
    elif isinstance(value, str):
        shares = [_share(part, where) for part in value.split(";")]
    else:
        raise fail(where, f"'{KEY}' must name shared capacities, as in conduit;card, got {shown(value)}")
    check_once([share.name for share in shares], where)
    return shares


def check_once(names: list[str], where: str) -> None:
    """Refuse a link that names a shared capacity twice, or one without a name."""
    for name, count in Counter(names).items():
        if not name.strip():
            raise fail(where, f"'{KEY}' has an empty name; write the name of a shared capacity")
        if count > 1:
            raise fail(where, f"'{KEY}' names {shown(name)} twice; name it once")


def shared_of(shares: Iterable[Share], listed: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Return the shared capacities of a file: those that it lists, and those whose bandwidths links give.

    Raises:
        TreefoldError: If one has no bandwidth, or two.

    """
    widths = {each["name"]: each["bandwidth_Bps"] for each in listed}
    first: dict[str, Share] = {}
    for share in shares:
        first.setdefault(share.name, share)
        if share.bandwidth_Bps is not None:
            known_Bps = widths.setdefault(share.name, share.bandwidth_Bps)
            if known_Bps != share.bandwidth_Bps:
                two = f"{format_bandwidth(known_Bps)} and {format_bandwidth(share.bandwidth_Bps)}"
                raise fail(share.where, f"shared capacity {shown(share.name)} has two bandwidths, {two}; keep one")
    for name, share in first.items():
        if name not in widths:
            near = guess(name, widths)
            remedy = f"did you mean {shown(near)}?" if near else "write it once, as in NAME=10Gbit/s"
            raise fail(share.where, f"shared capacity {shown(name)} has no bandwidth; {remedy}")
    known = {each["name"] for each in listed}
    return [*listed, *(make_shared(name, widths[name]) for name in first if name not in known)]


def listed(value: object) -> list[str] | None:
    """Return the names of a list, or of a JSON list; None if it is none."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = loads(value)
        except (ValueError, RecursionError):
            return None
    return value if isinstance(value, list) and all(isinstance(name, str) for name in value) else None


def _share(text: str, where: str) -> Share:
    name, equals, rate = text.rpartition("=")
    if not equals:
        return Share(one_line(text), None, where)
    given = measure(rate.strip(), _BANDWIDTH, f"{where}: shared capacity {shown(one_line(name))}")
    if given is None:
        raise fail(where, f"shared capacity {shown(one_line(name))} has no bandwidth behind '='; write 10Gbit/s, say")
    return Share(one_line(name), given, where)
