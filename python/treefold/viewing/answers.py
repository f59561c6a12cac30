"""Makes the page of an answer: the network as it is beside the network that was asked about."""

from dataclasses import replace
from typing import Any

from treefold import plans
from treefold._core import Plan, Topology
from treefold.errors import TreefoldError
from treefold.explanation_results import Explanation, Outcome
from treefold.viewing.pages import Page
from treefold.viewing.views import view


def view_answer(network: Topology, changed: Topology, found: Explanation, *, label: str, root: str) -> Page:
    """Return a page with the network now and the changed network, each with the plan that the answer is about.

    Args:
        network: The network as it is.
        changed: The network with the changes that were asked about.
        found: The explanation, with the answer.
        label: What the changed network is called.
        root: The name of the rank that broadcasts or receives.

    Raises:
        TreefoldError: If there is no answer, or one of the two networks has no plan.

    """
    if found.answer is None:
        raise TreefoldError("the explanation answers no question; ask one with upgrade or without")
    sides = [(network, found.now), (changed, found.answer.then)]
    page = view(*[_planned(each, outcome, found, root) for each, outcome in sides], size_bytes=found.size_bytes)
    now, then = page.scenes
    explained = None if found.left_out else found
    told = (replace(now, label="now", explained=explained), replace(then, label=label, changes=found.answer.changes))
    return Page(f"{network.name}: now, and {label}", told)


def _planned(network: Topology, outcome: Outcome, found: Explanation, root: str) -> Plan:
    if outcome.algorithm is None:
        raise TreefoldError(f"there is no plan for a page to show: {outcome.problem}")
    ranks = network.rank_names
    # Only a collective with a root needs it, and has it.
    asked: dict[str, Any] = {"collective": found.collective, "root": ranks.index(root) if root in ranks else 0}
    return plans.plan(network, outcome.algorithm, size_bytes=found.size_bytes, **asked)
