"""Lists the figures of all papers, and finds those that a name on the command line stands for."""

from importlib import import_module

from reproduction.figures import Figure
from treefold import checks

PAPERS = ("mtree", "multitree", "in-network", "synthesis")


def figures() -> dict[str, Figure]:
    """Return every figure by its name, `mtree/fig6`."""
    tables = {paper: import_module(f"reproduction.{paper.replace('-', '_')}.figures").FIGURES for paper in PAPERS}
    return {f"{paper}/{name}": figure for paper, table in tables.items() for name, figure in table.items()}


def named(name: str) -> list[str]:
    """Return the figures that a figure's or a paper's name stands for.

    Raises:
        TreefoldError: If it is the name of neither; the error says what may have been meant.

    """
    known = figures()
    meant = checks.name("figure", name, [*PAPERS, *known])
    return [each for each in known if meant in (each, each.partition("/")[0])]


def split_networks(text: str) -> list[str]:
    """Return the networks of a list with commas, although some names contain commas themselves: fattree:8,2."""
    known = {name for figure in figures().values() for name in (*figure.others, *figure.networks)}
    parts, networks = text.split(","), []
    while parts:
        length = next((many for many in range(len(parts), 1, -1) if ",".join(parts[:many]).strip() in known), 1)
        networks.append(",".join(parts[:length]).strip())
        del parts[:length]
    return networks
