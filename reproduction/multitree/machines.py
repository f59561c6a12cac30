"""The two machines of figures 9 to 11: which interface a message takes, and on which of them claims are judged."""

from collections.abc import Callable, Sequence

from reproduction.figures import Claim, Row, beside
from reproduction.multitree.trials import Interfaces

MACHINES: dict[Interfaces, str] = {"shared": "any free interface", "bound": "an interface for each port"}


def judged(rows: Sequence[Row], claims: Callable[[list[Row]], list[Claim]]) -> list[Claim]:
    """Judge rows with any free interface, as the authors measured; tell those with bound ports, where there are any."""
    shared, bound = ([row for row in rows if row["interfaces"] == interfaces] for interfaces in MACHINES)
    if not bound:
        return claims(shared)
    return [beside(*pair, "ports bound") for pair in zip(claims(shared), claims(bound), strict=True)]
