"""Makes figure 4 of the MultiTree paper: how many steps plans take, how deep their trees are, which links they use.

What the paper says of this in Fig. 4, section I and section VI-A is told by plans alone: nothing is simulated.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import treefold
from reproduction.drawing.bars import Bar, draw_bars
from reproduction.figures import Claim, Figure, Results, Row, Settings, networks_of, ours
from reproduction.tolerances import POINTS
from treefold._core import Tree

_GRIDS, _SWITCHED = ("mesh:2x2", "torus:4x4"), ("dgx2", "fattree:8,2", "bigraph:4x8", "bigraph:4x16")

_Values = dict[str, Row]
"""Rows of a network, by algorithm."""


class Steps(NamedTuple):
    """A trial that looks at a plan."""

    network: str
    algorithm: str

    def measure(self) -> dict[str, Any]:
        """Make the plan.

        An all-reduce has two phases of as many steps; streams, such as DBTree's, have no steps. Links are counted by
        the pairs of nodes that they connect.
        """
        network = treefold.topology(self.network)
        plan = treefold.plan(network, self.algorithm)
        routes = [edge.route for tree in plan.trees() for edge in (*tree.reduce(), *tree.broadcast())]
        return {
            "ranks": network.ranks,
            "steps_of_phase": None if plan.steps is None else plan.steps // 2,
            "height": treefold.summarize(plan).max_height,
            "height_in_links": max(_depth(tree) for tree in plan.trees()),
            "pairs_used": len({pair for route in routes for pair in pairwise(route)}),
            "pairs": len({(link.source, link.target) for link in network.links()}),
            "links_busy": None if plan.steps is None else _crossed(plan) / (plan.steps / 2 * len(network.links())),
        }


def _crossed(plan: treefold.Plan) -> int:
    """Return how often a link is crossed in a phase."""
    return sum(len(edge.route) - 1 for tree in plan.trees() for edge in tree.broadcast())


def _depth(tree: Tree) -> int:
    """Return how many links lie between the root and the rank farthest from it; edges are given from the root on."""
    depths = {tree.root: 0}
    for edge in tree.broadcast():
        depths[edge.target] = depths[edge.source] + len(edge.route) - 1
    return max(depths.values())


def _trials(settings: Settings) -> list[Steps]:
    return [Steps(network, name) for network in settings.networks for name in _algorithms(network)]


def _algorithms(network: str) -> tuple[str, ...]:
    return ("ring", "dbtree", "multitree", *(["hdrm"] if network.startswith("bigraph") else []))


def _rows(results: Results) -> list[Row]:
    return [{"network": trial.network, "algorithm": trial.algorithm, **result} for trial, result in results]


def _claims(rows: list[Row]) -> list[Claim]:
    """Judge Fig. 4's mesh, the links of section I's torus, and the steps of section VI-A's switched networks."""
    claims = []
    for network in networks_of(rows):
        own = {row["algorithm"]: row for row in rows if row["network"] == network}
        make = _on_mesh if network == "mesh:2x2" else _on_torus if network == "torus:4x4" else _switched
        claims += [claim._replace(claim=f"{network}: {claim.claim}") for claim in make(own)]
    return claims


def _on_mesh(own: _Values) -> list[Claim]:
    ring, multitree = (own[name]["steps_of_phase"] for name in ("ring", "multitree"))
    deep, flat = own["dbtree"], own["multitree"]
    is_deeper = deep["height"] == flat["height"] and deep["height_in_links"] > flat["height_in_links"]
    heights = [f"{deep[key]} and {flat[key]}" for key in ("height", "height_in_links")]
    text = "height of dbtree and of multitree, and the same in links"
    return [
        Claim(
            "steps of a phase of ring and of multitree",
            "one more",
            "none",
            f"{ring} and {multitree}",
            ring == multitree + 1,
        ),
        Claim(text, "the same; deeper", "none", "; ".join(heights), is_deeper),
    ]


def _on_torus(own: _Values) -> list[Claim]:
    """Tell what ring uses, which is a formula, and judge whether MultiTree's steps use all links (IV-A, VI-B)."""
    ring, multitree = own["ring"]["pairs_used"] / own["ring"]["pairs"], own["multitree"]["links_busy"]
    text = "links that a step of multitree uses, mean"
    return [
        ours(Claim("links that ring uses", "25 %", "5 points", f"{ring:.0%}", abs(ring - 0.25) <= POINTS)),
        Claim(text, "all", "5 points", f"{multitree:.0%}", multitree >= 1 - POINTS),
    ]


def _switched(own: _Values) -> list[Claim]:
    steps = {name: row["steps_of_phase"] for name, row in own.items()}
    ring, multitree = steps["ring"], steps["multitree"]
    text = "steps of a phase of"
    claims = [Claim(f"{text} multitree and of ring", "the same", "none", f"{multitree} and {ring}", multitree == ring)]
    if own["ring"]["network"] == "dgx2":
        height = own["multitree"]["height"]
        claims.append(
            Claim(
                "height of multitree's trees, which are those of Blink's design", "1", "none", str(height), height == 1
            )
        )
    if hdrm := steps.get("hdrm"):
        measured = f"{hdrm} and {multitree}"
        claims.append(Claim(f"{text} hdrm and of multitree", "fewer", "none", measured, hdrm < multitree))
    return claims


def _draw(rows: list[Row], subtitle: str) -> bytes:
    """Draw bars of the steps of a phase; a stream, such as DBTree, has none of its own."""
    groups: dict[str, Sequence[Bar]] = {}
    for network in networks_of(rows):
        own = {row["algorithm"]: row["steps_of_phase"] for row in rows if row["network"] == network}
        groups[network.replace(":", ":\n")] = [
            Bar(name, {"steps": steps / own["ring"]}, str(steps)) for name, steps in own.items() if steps is not None
        ]
    return draw_bars(groups, title="Fig. 4: steps of a phase", subtitle=subtitle, y_label="steps over ring's")


FIGURES = {
    "fig4": Figure(
        "Fig. 4: steps, heights and links of plans",
        "On the 2x2 mesh ring needs one step more than MultiTree, and DBTree has MultiTree's height, but is deeper in "
        "links. Ring uses 25 % of the links of a 4x4 torus (section I), and MultiTree fully utilizes links (VI-B; but "
        "at the leaves of trees, IV-A). On fat trees and BiGraphs MultiTree and ring take as many steps, and HDRM "
        "fewer (VI-A). On a DGX-2 MultiTree has the trees of Blink's design for it (VIII-A).",
        (*_GRIDS, *_SWITCHED),
        _trials,
        _rows,
        _claims,
        _draw,
        "plans alone",
    )
}
