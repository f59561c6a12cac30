"""What a page knows of an explanation: what each cable is worth, and what each failure costs."""

from typing import Any

from treefold._core import Topology
from treefold.errors import TreefoldError
from treefold.explaining.cables import cables_of
from treefold.explanation_results import Explanation


def check_explains(found: Explanation, network: Topology) -> None:
    """Refuse an explanation of another network, or one that lacks what a page shows."""
    if found.left_out:
        raise TreefoldError(f"this explanation has nothing that a page would show: {found.left_out}")
    cables = {cable.name for cable in cables_of(network)}
    if found.network != network.name or {each.link for each in found.links} != cables:
        raise TreefoldError(f"the explanation is of {found.network}, and not of {network.name}; explain that one")


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
