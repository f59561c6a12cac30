"""The topology document: how its parts are built, and how readers complain."""

import warnings
from typing import Any

from treefold.checks import LONGEST_SHOWN
from treefold.errors import TreefoldError
from treefold.text import message

Document = dict[str, Any]

FORMAT = "treefold-topology"
VERSION = 1
KINDS = ("accelerator", "switch")


class TopologyWarning(UserWarning):
    """Something in a network's file was dropped, ignored or filled in."""


def make_node(
    name: str,
    kind: str = "accelerator",
    *,
    reduces: bool = False,
    multicasts: bool = False,
    latency_s: float = 0.0,
    position: tuple[float, float] | None = None,
) -> dict[str, Any]:
    """Return a node of a document.

    `latency_s` is the time in seconds that a message spends in it, `position` its latitude and longitude in degrees.
    """
    node = {"name": name, "kind": kind, "reduces": reduces, "multicasts": multicasts, "latency_s": latency_s}
    return node if position is None else node | dict(zip(("latitude", "longitude"), position, strict=True))


def make_link(
    source: str,
    target: str,
    *,
    bandwidth_Bps: float | None = None,
    latency_s: float | None = None,
    overhead_s: float | None = None,
    both_ways: bool = False,
) -> dict[str, Any]:
    """Return a link of a document; what is None stays absent, except that the overhead is 0 by default."""
    link: dict[str, Any] = {"source": source, "target": target}
    if bandwidth_Bps is not None:
        link["bandwidth_Bps"] = bandwidth_Bps
    if latency_s is not None:
        link["latency_s"] = latency_s
    return link | {"overhead_s": overhead_s or 0.0, "both_ways": both_ways}


def make_document(name: str, nodes: list[dict[str, Any]], links: list[dict[str, Any]]) -> Document:
    """Return a document of the current version."""
    return {"format": FORMAT, "version": VERSION, "name": name, "nodes": nodes, "links": links}


def direction_count(link: dict[str, Any]) -> int:
    """How many directed links an entry stands for: 2 if it goes both ways."""
    return 2 if link["both_ways"] else 1


def fail(where: str, problem: str) -> TreefoldError:
    """Return the error `where: problem`, on one line whatever the parts hold."""
    return TreefoldError(message(where, problem))


def warn(where: str, problem: str) -> None:
    """Issues the TopologyWarning `where: problem`, on one line whatever the parts hold."""
    warnings.warn(message(where, problem), TopologyWarning, stacklevel=2)


def one_line(text: str) -> str:
    """Return a name that may be broken into lines, as labels of drawings are, on one line."""
    return text if text.isalnum() else " ".join(text.split())


def reason(error: BaseException) -> str:
    """Return the message of another library's error, on one line and cut when it is long."""
    text = " ".join(str(error).split()) or type(error).__name__
    return text if len(text) <= 3 * LONGEST_SHOWN else f"{text[: 3 * LONGEST_SHOWN]}..."
