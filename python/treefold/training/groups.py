"""The groups of ranks that share collectives, and the time of the collectives of all groups of a kind at once.

With model parallelism, a model is spread over groups of neighbouring ranks; the ranks at one place of all groups hold
the same part of it, and form a group of data parallelism (MultiTree paper, VII-B). Each group's collectives are planned
for its ranks alone, on the whole network, where all other accelerators only forward. All groups of a kind begin
together, as they all compute the same.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from treefold._core import Plan, Topology
from treefold.results import Prediction
from treefold.simulation import Simulator, fitted, simulate, trace
from treefold.together import simulate_together
from treefold.training.timeline import DATA, MODEL


class Groups(NamedTuple):
    """The networks of all groups; each network has the ranks of a group. A kind without collectives has no groups."""

    data: tuple[Topology, ...]
    """Ranks that hold the same part of the model, and add their gradients."""
    model: tuple[Topology, ...]
    """Ranks that hold a model together, and add partial sums."""

    def of(self, kind: str) -> tuple[Topology, ...]:
        """Return the groups of a kind, `data` or `model`."""
        return {DATA: self.data, MODEL: self.model}[kind]

    @property
    def ranks(self) -> int:
        """The number of ranks of all groups together."""
        return sum(group.ranks for group in self.data or self.model)


def groups_of(network: Topology, model_parallel: int) -> Groups:
    """Return the groups of a network where `model_parallel` neighbouring ranks hold a model together."""
    if model_parallel == 1:
        return Groups((network,), ())
    if model_parallel == network.ranks:
        return Groups((), (network,))
    places = {name: place for place, name in enumerate(network.accelerator_names)}
    ranks = [places[name] for name in network.rank_names]
    data = [ranks[place::model_parallel] for place in range(model_parallel)]
    model = [ranks[first : first + model_parallel] for first in range(0, len(ranks), model_parallel)]
    return Groups(tuple(map(network.with_ranks, data)), tuple(map(network.with_ranks, model)))


def together(plans: Sequence[Plan], size_bytes: int, simulator: Simulator, link_model: str) -> Prediction:
    """Return the prediction of the plan that ends last, if all begin at once on one network.

    The analytic simulator knows one plan at a time: there each is simulated as if it were alone.
    """
    used = fitted(plans[0], simulator)
    how: dict[str, Any] = {"simulator": used.named, "link_model": link_model}
    if simulator.name == "analytic" or len(plans) == 1:
        predictions = [simulate(plan, size_bytes=size_bytes, **how) for plan in plans]
    else:
        jobs = simulate_together(plans, sizes_bytes=size_bytes, alone=False, **how).jobs
        predictions = [job.prediction for job in jobs]
    return max(predictions, key=lambda each: each.time_s)


def use_other_links(some: Sequence[Plan], others: Sequence[Plan]) -> bool:
    """Return whether no link has data of both some plans and others."""
    return not _links(some) & _links(others)


def _links(plans: Sequence[Plan]) -> set[tuple[str, str]]:
    used = (link for plan in plans for link in trace(plan, size_bytes=1 << 20, simulator="flow").links())
    return {(link.source, link.target) for link in used if link.busy_s > 0}
