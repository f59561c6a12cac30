"""The plans of one replica: those that it has, and those that it makes before anybody asks for them.

A good plan for ten sites takes a second or two to find, and a quorum must not wait so long. So while a quorum trains,
its replicas share the work of planning for the quorums that may come next: without one of them, or with one more site.
A quorum that nobody foresaw gets a plan that is found quickly.
"""

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Iterable, Sequence
from contextlib import suppress

from treefold._core import Plan, Topology
from treefold.checks import DEFAULT_SIZE_BYTES
from treefold.errors import MisfitError, TreefoldError
from treefold.networks import without_relays
from treefold.runtime.agreement import first_plan
from treefold.runtime.networks import with_named_ranks

_FLOAT_BYTES = 4
_MOST_PLANS = 64
_SMALL = 5
"""The best plan for so many sites is found quickly, too."""
_MANY = 16
"""For more sites the best plan takes tens of seconds to find, so they only get quick ones."""

Sites = tuple[str, ...]
"""The names of sites, in the order of the alphabet."""


class SitePlans:
    """The plans that a replica has for parts of one network; any thread may call its methods."""

    def __init__(self, network: Topology, wire: str | None, given: Plan | None = None) -> None:
        """Begin with a plan that was given, or none.

        Args:
            network: The network of all sites that may come.
            wire: The type in which numbers cross lines.
            given: A plan for some of the sites.

        """
        self.network, self._wire = network, wire
        self.seed = hashlib.sha256(f"{wire} {network.to_json()}".encode()).hexdigest()
        """What tells this network from others."""
        self._plans: OrderedDict[str, Plan] = OrderedDict()
        self._lock = threading.Lock()
        self._awaited: list[Sites] = []
        self._planner: threading.Thread | None = None
        if given is not None:
            self.keep(sorted_sites(given.topology.rank_names), given)

    def key(self, sites: Sites) -> str:
        """Return what stands for these sites of this network; replicas with the same topology have the same."""
        return hashlib.sha256(json.dumps([self.seed, *sites]).encode()).hexdigest()[:16]

    def keys(self) -> list[str]:
        """Return the keys of all plans that there are."""
        with self._lock:
            return [*self._plans]

    @property
    def known(self) -> list[str]:
        """The names of all sites that may come."""
        return self.network.accelerator_names

    def get(self, sites: Sites) -> Plan | None:
        """Return the plan for these sites if there is one."""
        with self._lock:
            return self._plans.get(self.key(sites))

    def keep(self, sites: Sites, plan: Plan) -> None:
        """Remember a plan; of many, those that were kept last."""
        with self._lock:
            self._plans[self.key(sites)] = plan
            self._plans.move_to_end(self.key(sites))
            while len(self._plans) > _MOST_PLANS:
                self._plans.popitem(last=False)

    def make(self, sites: Sites, quickly: bool) -> Plan:
        """Return a new plan for these sites, the best or a quick one; the best is kept.

        Raises:
            TreefoldError: If there is no plan.

        """
        if len(sites) > (_SMALL if quickly else _MANY):
            # mtree plans for links between ranks only, and other sites would stand between them.
            with suppress(TreefoldError):
                network = without_relays(with_named_ranks(self.network, sites))
                return self._planned(sites, network, "mtree")
            with suppress(MisfitError):
                return self._planned(sites, self.network, "multitree")
        best = self._planned(sites, self.network, "auto")
        self.keep(sites, best)
        return best

    def _planned(self, sites: Sites, network: Topology, algorithm: str) -> Plan:
        crossing = None if self._wire is None else (self._wire, _FLOAT_BYTES)
        return first_plan(sites, network, DEFAULT_SIZE_BYTES, {"algorithm": algorithm}, crossing)

    def foresee(self, awaited: Iterable[Sites]) -> None:
        """Make plans for these sets of sites in a thread; those that were asked for before are given up."""
        with self._lock:
            wanted = [sites for sites in awaited if 1 < len(sites) <= _MANY]
            self._awaited = [sites for sites in dict.fromkeys(wanted) if self.key(sites) not in self._plans]
            if self._planner is None and self._awaited:
                self._planner = threading.Thread(target=self._plan_ahead, name="treefold-foresight")
                self._planner.start()

    def _plan_ahead(self) -> None:
        while (sites := self._next()) is not None:
            with suppress(TreefoldError):  # whoever needs this plan gets the error
                self.make(sites, quickly=False)

    def _next(self) -> Sites | None:
        with self._lock:
            if not self._awaited:
                self._planner = None
                return None
            return self._awaited.pop(0)


def sorted_sites(names: Iterable[str]) -> Sites:
    """Return the names of sites as a set of them is written here."""
    return tuple(sorted(names))


def next_quorums(sites: Sequence[str], rank: int, known: Sequence[str]) -> list[Sites]:
    """Return for which quorums one of a quorum's replicas plans; together its replicas plan for all that are near.

    Args:
        sites: The sites of the quorum, by rank.
        rank: The rank of the replica.
        known: All sites that may come.

    Returns:
        This quorum, for rank 0, as its plan may be a quick one. The quorum without the replica's neighbour, because the
        replica is still there when that one is lost. The replica's share of the quorums with one site more. And for
        rank 0 that of all sites.

    Example:
        >>> from treefold.torchft.plans import next_quorums
        >>> next_quorums(["oslo", "paris", "rome"], 1, ["oslo", "paris", "rome", "turin", "vaduz"])
        [('oslo', 'paris'), ('oslo', 'paris', 'rome', 'vaduz')]

    """
    lost = sites[(rank + 1) % len(sites)]
    absent = [site for site in known if site not in sites]
    near = [set(sites) - {lost}, *({*sites, site} for site in absent[rank :: len(sites)])]
    return [sorted_sites(each) for each in ([sites, *near, known] if rank == 0 else near)]
