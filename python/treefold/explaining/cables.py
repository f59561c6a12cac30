"""Lists the cables of a network, and reads the names of cables, of their directions and of sites.

A cable is all that joins two nodes: parallel links, and those of both directions. `A - B` names a cable, and `A -> B`
one direction of it.
"""

import re
from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from treefold._core import Link, Topology, nearest
from treefold.checks import shown
from treefold.errors import TreefoldError
from treefold.text import some

Ends = tuple[str, str]
"""The names of the source and of the target of a link."""
_MOST_COMPARED = 10_000
"""Only so many names are compared with a misspelt one."""
_MOST_NEIGHBOURS = 6


class Cable(NamedTuple):
    """All links between two nodes; those of one direction only if there are no others, or if no others are meant."""

    source: str
    target: str
    has_both: bool
    """Whether there are links back."""

    @property
    def name(self) -> str:
        """The name: `A - B`, or `A -> B` for one direction."""
        return f"{self.source} {'-' if self.has_both else '->'} {self.target}"

    @property
    def directions(self) -> list[Ends]:
        """The ends of the links of each direction."""
        there = (self.source, self.target)
        return [there, there[::-1]] if self.has_both else [there]


def cables_of(network: Topology) -> dict[Cable, list[Link]]:
    """Return the links of each cable, in the order of the network's links."""
    between: dict[Ends, list[Link]] = {}
    for link in network.links():
        between.setdefault((link.source, link.target), []).append(link)
    found: dict[Cable, list[Link]] = {}
    for (source, target), links in between.items():
        back = between.get((target, source))
        if Cable(target, source, True) not in found:
            found[Cable(source, target, back is not None)] = links + (back or [])
    return found


def bandwidth_of(cable: Cable, links: Iterable[Link]) -> float:
    """Return the bandwidth from the source of a cable to its target, in bytes per second: that of all its links."""
    return sum(link.bandwidth_Bps for link in links if link.source == cable.source)


def split_link(name: str, nodes: Container[str]) -> Ends:
    """Return the ends of a link of the name `A -> B`, where names of nodes may have arrows, too."""
    parts = name.split(" -> ")
    splits = ((" -> ".join(parts[:at]), " -> ".join(parts[at:])) for at in range(1, len(parts)))
    return next(ends for ends in splits if ends[0] in nodes and ends[1] in nodes)


def cable_named(network: Topology, given: Any) -> Cable:
    """Return the cable, or the direction of one, that a text such as `A - B` or `A -> B` names, or a pair of names.

    Raises:
        TreefoldError: If there is none, or the text may mean several; the error suggests similar names.

    """
    nodes = {node.name for node in network.nodes()}
    existing = {(link.source, link.target) for link in network.links()}
    found = list(dict.fromkeys(each for each in _read(given, nodes) if not existing.isdisjoint(each.directions)))
    if not found:
        raise TreefoldError(_unknown(network, given))
    if len(found) > 1:
        meant = " or ".join(each.name for each in found)
        raise TreefoldError(f"link {shown(given)} may mean {meant}; in Python a pair of names tells them apart")
    source, target, wants_both = found[0]
    if wants_both and not {(source, target), (target, source)} <= existing:
        return Cable(source, target, False) if (source, target) in existing else Cable(target, source, False)
    return found[0]


def _read(given: Any, nodes: Iterable[str]) -> Iterator[Cable]:
    """Yield what a text or a pair of names may mean: the text may be split wherever two names are left."""
    if isinstance(given, str):
        for split in re.finditer("->?", given):
            ends = given[: split.start()].strip(), given[split.end() :].strip()
            if ends[0] in nodes and ends[1] in nodes:
                yield Cable(*ends, split[0] == "-")
    elif isinstance(given, Sequence) and len(given) == 2 and all(isinstance(end, str) for end in given):
        yield Cable(given[0], given[1], True)


def _unknown(network: Topology, given: Any) -> str:
    """Say that there is no such link, and what may be meant: a similar link, another node, or one of its links."""
    problem = f"{network.name} has no link {shown(given)}"
    ends = _ends_of(given)
    nodes = [node.name for node in network.nodes()]
    for end in [each for each in ends if each and each not in nodes]:
        if near := nearest(" - ".join(ends), [each.name for each in list(cables_of(network))[:_MOST_COMPARED]])[:2]:
            return f"{problem}; did you mean {' or '.join(near)}?"
        near = nearest(end, nodes[:_MOST_COMPARED])[:1]
        return f"{problem}, nor a node {shown(end)}; {f'did you mean {near[0]}?' if near else _example(network)}"
    joined = [cable.name for cable in cables_of(network) if ends and ends[0] in cable[:2]]
    return f"{problem}; {ends[0]} has {some(joined, _MOST_NEIGHBOURS)}" if joined else f"{problem}; {_example(network)}"


def _ends_of(given: Any) -> tuple[str, ...]:
    """Return the two names that a text or a pair has; nothing if it has no two."""
    if isinstance(given, str):
        split = re.split(r"\s+->?\s+", given.strip()) if re.search(r"\s->?\s", given) else re.split(r"\s*->?\s*", given)
        return tuple(split) if len(split) == 2 else ()
    return tuple(map(str, given)) if isinstance(given, tuple | list) and len(given) == 2 else ()


def _example(network: Topology) -> str:
    """Show how a link is written."""
    return f"write for example '{next((each.name for each in cables_of(network)), 'A - B')}'"


def split_upgrade(text: str) -> tuple[str, str]:
    """Return the link and the rate of a text such as `A - B=10Gbit/s`.

    Raises:
        TreefoldError: If one of the two is missing.

    """
    link, equals, rate = text.rpartition("=")
    if not equals or not link.strip() or not rate.strip():
        raise TreefoldError(f"upgrade {shown(text)} is not LINK=RATE; write for example 'A - B=10Gbit/s'")
    return link.strip(), rate.strip()
