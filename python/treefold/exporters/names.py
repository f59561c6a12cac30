"""What the writers of GraphML and DOT share: checks, and the names of what is written as JSON text."""

import unicodedata
from typing import Any

from treefold.errors import TreefoldError

EXTRAS = ("ranks", "shape", "shared", "routes", "tested")
"""The parts of a document that become attributes of the graph, as JSON text."""


def check_printable(document: dict[str, Any]) -> None:
    """Refuse a document if the network's or a node's name holds control characters."""
    for name in (document["name"], *(node["name"] for node in document["nodes"])):
        if any(unicodedata.category(character) in ("Cc", "Cs") or character in "\ufffe\uffff" for character in name):
            raise TreefoldError(f"name {name!r} holds control characters; rename it or write a .json file")


def is_undirected(document: dict[str, Any]) -> bool:
    """Tell whether every link goes both ways, so that the file can be an undirected graph."""
    links = document["links"]
    return bool(links) and all(link.get("both_ways", False) for link in links)
