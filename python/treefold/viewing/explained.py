"""What a page knows of an explanation: what each cable is worth, and what each failure costs."""

from typing import Any

from treefold._core import Plan, Topology, format_size
from treefold.errors import TreefoldError
from treefold.explaining.cables import bandwidth_of, cables_of
from treefold.explanation_results import Explanation


def check_explains(found: Explanation, plan: Plan, size_bytes: int) -> None:
    """Refuse an explanation of another network or collective, or one that lacks what a page shows."""
    network = plan.topology
    if found.left_out:
        raise TreefoldError(f"this explanation has nothing that a page would show: {found.left_out}")
    if found.network != network.name:
        raise TreefoldError(f"the explanation is of {found.network}, and not of {network.name}; explain that one")
    explained = {each.link: each.bandwidth_Bps for each in found.links}
    if explained != {cable.name: bandwidth_of(cable, links) for cable, links in cables_of(network).items()}:
        raise TreefoldError(f"the explanation is of another {network.name}, with other links; explain this one")
    for name, one, other in (
        ("collective", found.collective, plan.collective),
        ("size", format_size(found.size_bytes), format_size(size_bytes)),
    ):
        if one != other:
            raise TreefoldError(f"the explanation is for the {name} {one}, and not for {other}; explain that")


def explained_document(found: Explanation, network: Topology) -> dict[str, Any]:
    """Return the document of an explanation; `viewer/src/data/format.ts` explains it."""
    numbers = _numbers(network)
    names = {node.name: node.number for node in network.nodes()}
    return {
        "links": [
            {"name": each.link, "links": numbers[each.link], "gain": each.gain_fraction, "spare": each.is_spare}
            for each in found.links
        ],
        "together": [] if found.together is None else list(found.together.links),
        "failures": [
            {
                "kind": each.kind,
                "name": each.name,
                "links": numbers[each.name] if each.kind == "link" else [],
                "node": names[each.name] if each.kind == "site" else None,
                "rate": each.rate_fraction,
                "time": each.time_factor,
                "problem": each.problem,
            }
            for each in found.failures
        ],
    }


def _numbers(network: Topology) -> dict[str, list[int]]:
    """Return the numbers of the links of each cable."""
    between: dict[tuple[str, str], list[int]] = {}
    for number, link in enumerate(network.links()):
        between.setdefault((link.source, link.target), []).append(number)
    return {
        cable.name: [number for ends in cable.directions for number in between[ends]] for cable in cables_of(network)
    }
