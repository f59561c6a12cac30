"""Writes DOT for Graphviz: switches are boxes, accelerators are ellipses, and links have their values."""

import json
from typing import Any

from treefold.exporters.names import EXTRAS, check_printable, is_undirected

_NODE_KEYS = ("kind", "reduces", "multicasts", "latency_s")
_POSITION = ("latitude", "longitude")
_LINK_KEYS = ("bandwidth_Bps", "latency_s", "overhead_s", "streams")


def text(document: dict[str, Any]) -> str:
    """Return the document as DOT.

    The result is a `graph` if every link goes both ways, otherwise a `digraph` with `dir=both` on such links.

    Raises:
        TreefoldError: If a name holds control characters.

    """
    check_printable(document)
    undirected = is_undirected(document)
    lines = [f"{'graph' if undirected else 'digraph'} {_quoted(document['name'])} {{"]
    for key in EXTRAS:
        if document.get(key):
            lines.append(f"  {key}={_quoted(json.dumps(document[key]))};")
    lines += [f"  {_quoted(node['name'])}{_node_attributes(node)};" for node in document["nodes"]]
    lines += [f"  {_link(link, undirected)};" for link in document["links"]]
    return "\n".join([*lines, "}", ""])


def _node_attributes(node: dict[str, Any]) -> str:
    values = {key: node[key] for key in _NODE_KEYS if node.get(key)}
    values |= {key: node[key] for key in _POSITION if node.get(key) is not None}
    if values.get("kind") == "switch":
        values["shape"] = "box"
    else:
        values.pop("kind", None)
    return _attributes(values)


def _link(link: dict[str, Any], undirected: bool) -> str:
    values = {key: link[key] for key in _LINK_KEYS if link.get(key) is not None}
    if not values.get("overhead_s"):
        values.pop("overhead_s", None)
    if link.get("shares"):
        values["shares"] = json.dumps(link["shares"])
    if link.get("both_ways", False) and not undirected:
        values["dir"] = "both"
    arrow = "--" if undirected else "->"
    return f"{_quoted(link['source'])} {arrow} {_quoted(link['target'])}{_attributes(values)}"


def _attributes(values: dict[str, Any]) -> str:
    return f" [{', '.join(f'{key}={_quoted(_text(value))}' for key, value in values.items())}]" if values else ""


def _text(value: object) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
