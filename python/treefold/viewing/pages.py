"""Writes pages: one HTML file with the viewer and its data, which needs no server and no network."""

import base64
import html
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from treefold._core import Topology
from treefold.files.writing import write_text_atomically
from treefold.layouts import layouts
from treefold.viewing.built import asset
from treefold.viewing.columns import pack
from treefold.viewing.networks import network_document
from treefold.viewing.scenes import Scene, scene_columns, scene_document, trees_that_fit
from treefold.viewing.widget import widget_of

_MOST_SHOWN = 2


@dataclass(frozen=True, eq=False, repr=False)
class Page:
    """A page that shows plans: their network, trees, busy links and time. `treefold.view` makes one.

    Attributes:
        title: The title of the page.
        scenes: What it shows.

    Example:
        >>> page = treefold.view(treefold.plan("torus:4x4", "multitree"), size_bytes="1MiB")
        >>> page
        Page(torus:4x4: multitree)
        >>> page.html.startswith("<!doctype html>")
        True

    """

    title: str
    scenes: Sequence[Scene]

    @cached_property
    def html(self) -> str:
        """The text of the page: a whole HTML document that loads nothing from elsewhere."""
        document, blocks = page_parts(self.title, self.scenes)
        return page_text(document, blocks)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the page to a file, which any browser opens.

        Args:
            path: The file; its name should end in .html.

        Raises:
            OutsideError: If the file cannot be written.

        """
        write_text_atomically(path, self.html)

    def widget(self, height: int = 720) -> Any:
        """Return the page as a Jupyter widget, whose `state` tells and sets what the page shows.

        Args:
            height: How high the widget is, in pixels.

        Raises:
            TreefoldError: If anywidget is not installed; it comes with the extra `widget`.

        """
        return widget_of(self.html, height)

    def _repr_html_(self) -> str:
        frame = 'style="width:100%;height:720px;border:1px solid #ccc" sandbox="allow-scripts allow-downloads"'
        return f'<iframe title="{html.escape(self.title)}" srcdoc="{html.escape(self.html)}" {frame}></iframe>'

    def __repr__(self) -> str:
        return f"Page({self.title})"


def page_parts(title: str, scenes: Sequence[Scene], is_served: bool = False) -> tuple[dict[str, Any], dict[str, bytes]]:
    """Return the document of a page, and its blocks of columns by their names; a server keeps those of scenes."""
    networks: list[Topology] = []
    blocks: dict[str, bytes] = {}
    described: list[dict[str, Any]] = []
    for scene in scenes:
        network = scene.plan.topology
        if network not in networks:
            networks.append(network)
        here = trees_that_fit(scene)
        number = len(described)
        document = scene_document(scene, networks.index(network), here)
        where = {"columns": f"scene-{number}", "served": f"scenes/{number}" if is_served else None}
        described.append({**document, **where})
        if not is_served:
            trees = None if here == scene.plan.num_trees else range(here)
            blocks[f"scene-{number}"] = pack(scene_columns(scene, trees))
    documents = []
    placed = layouts(networks)
    for number, (network, (own, whole)) in enumerate(zip(networks, placed, strict=True)):
        document, columns = network_document(network, own, placed[whole][0])
        documents.append({**document, "columns": f"network-{number}"})
        blocks[f"network-{number}"] = pack(columns)
    shown = list(range(min(len(scenes), _MOST_SHOWN)))
    return {"title": title, "networks": documents, "scenes": described, "shown": shown}, blocks


def page_text(document: dict[str, Any], blocks: dict[str, bytes]) -> str:
    """Return the text of a page. Nothing in the data can run: the page's policy names its own script by its hash."""
    parts = {
        "title": html.escape(document["title"]),
        # A text in the document could end the element that holds it, or begin another.
        "document": json.dumps(document, separators=(",", ":")).replace("<", "\\u003c"),
        "columns": "\n".join(
            f'<script type="text/plain" id="{name}">{base64.b64encode(block).decode()}</script>'
            for name, block in sorted(blocks.items())
        ),
    }
    head, rest = asset("page.html").split("{title}", 1)
    before, rest = rest.split("{document}", 1)
    script, end = rest.rsplit("{columns}", 1)
    return "".join([head, parts["title"], before, parts["document"], script, parts["columns"], end])
