"""The model of a network that nobody described: the rate of each pair alone, and groups of pairs that share a capacity.

A group is what crosses one cable, what one worker sends at most, or what a provider lets through. In a topology
document it is a shared capacity.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from treefold._core import Topology
from treefold.discovery.observations import Pair
from treefold.importers.document import Document, make_document, make_link, make_node, make_shared
from treefold.networks import topology

_DIGITS = 4
"""A measurement is worth so many digits."""
_LEAST = 1e-3
"""A pair that was left out when traffic was carried has this part of its rate alone."""

_NAMED = 3
"""The name of a group has all of its pairs if there are so many."""

_LIMITS = 0.998
"""A group limits its pairs if its capacity is less than this part of what they carry alone, after rounding."""


@dataclass(frozen=True)
class Group:
    """Pairs that share a capacity.

    Attributes:
        members: The pairs (source, target), as ranks of workers.
        capacity_Bps: What they carry together, in bytes per second.
        name: The name of the capacity in a topology document.
        support: In how many tests the group was full while one of its pairs fell short.
        confirmed: Whether its pairs alone were tested, or it was measured in the first place, as the cap of a worker.

    """

    members: frozenset[Pair]
    capacity_Bps: float
    name: str
    support: int
    confirmed: bool


@dataclass(frozen=True)
class Model:
    """A network as far as it is known.

    Attributes:
        names: The name of each worker, by rank.
        alone_Bps: The rate of each pair alone.
        groups: The groups of pairs that share a capacity.
        carried_Bps: The rates that pairs carried all at once, in one test or in turns, of which the best plan is made.
            What is planned within them is carried, whatever else the network is.
        latency_s: The latency of each pair, one way; pairs without one have 0.
        is_whole: Whether pairs and groups explain all tests, and the last plan for them was carried. Then any plan for
            them is carried, also that of another collective, and not only what is within `carried_Bps`.

    Example:
        >>> from treefold.discovery import Group, Model
        >>> line = Group(frozenset({(0, 1), (0, 2)}), 1e7, "w0 egress", support=3, confirmed=True)
        >>> pairs = dict.fromkeys([(0, 1), (0, 2), (1, 0), (1, 2), (2, 0), (2, 1)], 1e7)
        >>> document = Model(["w0", "w1", "w2"], pairs, [line], pairs, {}).document()
        >>> document["shared"]
        [{'name': 'w0 egress', 'bandwidth_Bps': 10000000.0}]

    """

    names: Sequence[str]
    alone_Bps: Mapping[Pair, float]
    groups: Sequence[Group]
    carried_Bps: Mapping[Pair, float]
    latency_s: Mapping[Pair, float]
    is_whole: bool = False

    def document(self) -> Document:
        """Return the network as a topology document: each pair with its rate alone, and the shared capacities."""
        links = [self._link(pair, rate_Bps) for pair, rate_Bps in self.alone_Bps.items()]
        document = make_document(self._title, [make_node(name) for name in self.names], links)
        return shared(document, self)

    def carried(self) -> Document:
        """Return the network of what was carried at once: any plan on it is as fast as it promises.

        A pair has the rate that it carried beside the others, and one that carried nothing next to none.
        """
        rates_Bps = {pair: max(self.carried_Bps.get(pair, 0.0), _LEAST * rate) for pair, rate in self.alone_Bps.items()}
        links = [self._link(pair, rate_Bps) for pair, rate_Bps in rates_Bps.items()]
        return make_document(self._title, [make_node(name) for name in self.names], links)

    def network(self) -> Topology:
        """Return the network of `document`."""
        return topology(self.document())

    @property
    def _title(self) -> str:
        return f"discovered network of {len(self.names)} workers"

    def _link(self, pair: Pair, rate_Bps: float) -> Document:
        source, target = (self.names[rank] for rank in pair)
        return make_link(source, target, bandwidth_Bps=_rounded(rate_Bps), latency_s=self.latency_s.get(pair, 0.0))


def shared(document: Document, model: Model) -> Document:
    """Return a document of links between the workers of a model with the model's shared capacities.

    Links that go both ways, and those between other nodes, stay as they are. Groups that limit nothing are left out.
    """
    groups = [each for each in model.groups if each.capacity_Bps < _LIMITS * _sum_Bps(each, model)]
    if not groups:
        return document
    names_of: dict[tuple[str, str], list[str]] = {}
    for group in groups:
        for source, target in sorted(group.members):
            names_of.setdefault((model.names[source], model.names[target]), []).append(group.name)
    links = [
        link | {"shares": names_of[ends]} if (ends := (link["source"], link["target"])) in names_of else link
        for link in document["links"]
    ]
    capacities = [make_shared(each.name, _rounded(each.capacity_Bps)) for each in groups]
    return document | {"links": links, "shared": capacities}


def _sum_Bps(group: Group, model: Model) -> float:
    return sum(model.alone_Bps.get(pair, 0.0) for pair in group.members)


def _rounded(rate_Bps: float) -> float:
    return float(f"{rate_Bps:.{_DIGITS}g}")


def cut_name(members: Collection[Pair], names: Sequence[str], ranks: int) -> str | None:
    """Return the name of all that workers send to the others, or receive from them; None if the pairs are not that."""
    sources, targets = ({pair[end] for pair in members} for end in (0, 1))
    others = set(range(ranks))
    for inside, outside, verb in ((sources, targets, "egress"), (targets, sources, "ingress")):
        is_cut = outside == others - inside and len(members) == len(inside) * len(outside)
        if is_cut and len(inside) <= max(1, ranks // 2):
            return f"{' + '.join(names[rank] for rank in sorted(inside))} {verb}"
    return None


def group_name(members: Collection[Pair], names: Sequence[str], ranks: int) -> str:
    """Return a name that says which pairs a group has: what workers send or receive, or its pairs, or two of many."""
    if (name := cut_name(members, names, ranks)) is not None:
        return name
    named = _NAMED if len(members) <= _NAMED else 2
    first = [f"{names[source]} -> {names[target]}" for source, target in sorted(members)[:named]]
    more = f" + {len(members) - named} more" if len(members) > named else ""
    return f"{' + '.join(first)}{more}"
