"""Reproduces the figures of the papers: `treefold reproduce mtree/fig6`.

This package is part of the checkout and not of the wheel. A paper is a package with a table `FIGURES` in its module
`figures`. What came out of a figure stands in `results/PAPER/FIGURE`: `data.csv`, `plot.svg`, and the paper's claims
inside `README.md`. Finished trials are kept in `trials.jsonl`, so that an interrupted figure goes on where it stopped.
"""

from reproduction.catalogue import PAPERS, figures, named, split_networks
from reproduction.figures import Claim, Figure, Row, Settings
from reproduction.pages import Reproduced
from reproduction.running import are_skews, misfits, reproduce, summary

__all__ = [
    "PAPERS",
    "Claim",
    "Figure",
    "Reproduced",
    "Row",
    "Settings",
    "are_skews",
    "figures",
    "misfits",
    "named",
    "reproduce",
    "split_networks",
    "summary",
]
