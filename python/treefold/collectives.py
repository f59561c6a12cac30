"""The collectives by name: what ranks hold before and after each, as the core defines them."""

from treefold import _core
from treefold.errors import TreefoldError

COLLECTIVES = {each.name: each for each in _core.collectives()}
"""Every collective."""


def check_has_root(collective: str, root: int) -> None:
    """Refuse a root other than 0, the default, of a collective that has none.

    Raises:
        TreefoldError: If the root would have no effect; the error names the collectives that have one.

    """
    if root and not COLLECTIVES[collective].has_root:
        having = " and ".join(name for name, each in COLLECTIVES.items() if each.has_root)
        raise TreefoldError(f"root {root}: {collective} has no root, only {having} have one; drop it")
