"""Makes the switch tables of multicast regions, as the fabric manager of the in-network paper does (section IV-A).

Accelerators register a range of global addresses, a region. Each switch gets an entry for each neighbour from which it
receives multicast packets of the region, and one more if it is the root of a tree. An entry holds the targets to which
the switch forwards the packets, and the number of ranks whose operands are in the sum that leaves it. The fabric
manager is the software that sets up switches. The entries are those that the packet simulator works with
(`sim/packet/in_network/region_tables.rs` of the core). This module reads regions and checks that they do not overlap.

The paper gives no number of entries for a table, and no cost of the translation from global to local addresses: it says
that applications rarely need many regions, and that tables are set up once. So neither has a limit or takes time here.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple, SupportsIndex

from treefold import checks, planning
from treefold._core import Topology, format_size, region_entries
from treefold.errors import TreefoldError
from treefold.networks import as_network
from treefold.plans import plan
from treefold.ranks import places_of
from treefold.records import Record

LINE_BYTES = 128
"""The bytes that a packet carries by default; a region begins at a multiple of them (section IV-D)."""
ADDRESSES = 1 << 64
"""The number of global addresses, which have 64 bits."""


class Region(NamedTuple):
    """A range of global addresses, and the accelerators whose memory it stands for.

    Attributes:
        start: The first address, a multiple of 128 bytes (`LINE_BYTES`).
        size_bytes: The number of addresses, each of one byte; or a text with a unit, such as `1MiB`.
        members: The accelerators, by index or name as in `treefold.topology(ranks=...)`; None means all ranks.

    Example:
        >>> treefold.regions.Region(start=0, size_bytes="1MiB", members="0-3").members
        '0-3'

    """

    start: int
    size_bytes: int | str
    members: str | Sequence[int | str] | None = None


@dataclass(frozen=True)
class SwitchEntry(Record):
    """The entry of a switch for a region.

    Attributes:
        region: The place of the region in the list of regions.
        start: The region's first address.
        size_bytes: The region's size, in bytes.
        source: The neighbour, a switch or an accelerator, from which multicast packets of the region come; None at a
            root.
        targets: The switches and accelerators to which the switch forwards a packet.
        operands: How many ranks' operands are in the sum when it leaves the switch: those of all ranks below it in the
            tree.

    Example:
        >>> entries = treefold.regions.switch_tables("dgx2", [treefold.regions.Region(0, 128, "0-1")])["SW0"]
        >>> entries[0].targets, entries[0].operands
        (('GPU0', 'GPU1'), 2)

    """

    region: int
    start: int
    size_bytes: int
    source: str | None
    targets: tuple[str, ...]
    operands: int


def switch_tables(
    network: Topology | str, regions: Sequence[Region], algorithm: str = "innet-push"
) -> dict[str, list[SwitchEntry]]:
    """Return the entries of each switch for these regions, by the switch's name.

    Each region is planned for its own size and members.

    Args:
        network: A `Topology`, a spec, or the path of a file.
        regions: The regions, which do not overlap.
        algorithm: An algorithm whose plans multicast in switches: `innet`, `innet-push` or `innet-pull`.

    Raises:
        TreefoldError: If regions overlap, as switches could not tell their operands apart; if a region is empty, has
            fewer than two members, does not begin at a multiple of 128 bytes or does not end within 64-bit addresses;
            or if no switch multicasts.

    Example:
        >>> tables = treefold.regions.switch_tables("dgx2:planes=6", [treefold.regions.Region(0, 1 << 20, "0-3")])
        >>> tables["SW0"][0].operands
        4

    """
    network = as_network(network)
    tables: dict[str, list[SwitchEntry]] = {}
    for number, region in enumerate(_checked(regions)):
        own = (
            network
            if region.members is None
            else network.with_ranks(places_of(region.members, network.accelerator_names))
        )
        if own.ranks < 2:
            raise TreefoldError(f"region {_name(region)} has only the member {own.rank_names[0]}; name at least two")
        own_plan = plan(own, algorithm, size_bytes=region.size_bytes)
        for each in region_entries(own_plan):
            targets = tuple(each.targets)
            entry = SwitchEntry(number, region.start, region.size_bytes, each.source, targets, each.operands)
            tables.setdefault(each.switch, []).append(entry)
    if not tables:
        raise TreefoldError(f"no switch multicasts in plans of {algorithm}; choose {planning.reducers()}")
    return {switch: tables[switch] for switch in sorted(tables, key=_in_order)}


class _Range(NamedTuple):
    """A region that has been checked.

    Attributes:
        start: The first address.
        size_bytes: The number of addresses.
        members: The accelerators, as in `Region`.

    """

    start: int
    size_bytes: int
    members: str | Sequence[int | str] | None


def _checked(regions: Sequence[Region]) -> list[_Range]:
    """Return what the regions say; refuse those that cannot be, and those that overlap."""
    if not regions:
        raise TreefoldError("no region was given; name at least one, for example 0x0:1MiB")
    read = list(map(_read, regions))
    for before, after in pairwise(sorted(read, key=lambda region: region.start)):
        if _end(before) > after.start:
            raise TreefoldError(
                f"regions {_name(before)} and {_name(after)} overlap, so switches could not tell their operands apart; "
                f"start the second at {-(-_end(before) // LINE_BYTES) * LINE_BYTES:#x} or later"
            )
    return read


def _read(given: Region) -> _Range:
    start = given.start
    if not isinstance(start, SupportsIndex) or not 0 <= start.__index__() < ADDRESSES:
        at = f"{start:#x}" if isinstance(start, int) else checks.shown(start)
        raise TreefoldError(f"region at {at}: addresses go from 0x0 to {ADDRESSES - 1:#x}, in whole numbers")
    region = _Range(start.__index__(), checks.size(given.size_bytes), given.members)
    if not region.size_bytes:
        raise TreefoldError(f"region at {region.start:#x} is empty; give it a size of at least 1 B")
    if region.start % LINE_BYTES:
        raise TreefoldError(
            f"region {_name(region)} does not begin at a multiple of {LINE_BYTES} bytes, the payload of a packet; "
            f"start it at {region.start - region.start % LINE_BYTES:#x}"
        )
    if _end(region) > ADDRESSES:
        raise TreefoldError(
            f"region {_name(region)} ends after the last address, {ADDRESSES - 1:#x}; start it lower, or make it "
            "smaller"
        )
    return region


def _end(region: _Range) -> int:
    return region.start + region.size_bytes


def _name(region: _Range) -> str:
    return f"{region.start:#x}:{format_size(region.size_bytes)}"


def _in_order(name: str) -> tuple[str, int]:
    letters = name.rstrip("0123456789")
    return letters, int(name[len(letters) :] or 0)
