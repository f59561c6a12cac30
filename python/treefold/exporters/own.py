"""Writes treefold's own JSON with one node, link or route on each line, so that versions can be compared by line."""

import json
from typing import Any

# The keys in the order of the file, with their defaults; None is never a value.
_NODE_KEYS = {
    "name": None,
    "kind": "accelerator",
    "reduces": False,
    "multicasts": False,
    "latency_s": 0,
    "latitude": None,
    "longitude": None,
}
_LINK_KEYS: dict[str, Any] = {
    "source": None,
    "target": None,
    "bandwidth_Bps": None,
    "latency_s": None,
    "overhead_s": 0,
    "streams": None,
    "shares": [],
    "both_ways": False,
}
_ROUTE_KEYS: dict[str, Any] = {"source": None, "target": None, "via": [], "both_ways": False}


def text(document: dict[str, Any]) -> str:
    """Return the document as JSON, with keys in a fixed order and without defaults."""
    parts = [f'"{key}": {_json(document[key])}' for key in ("format", "version", "name")]
    parts.append(f'"nodes": {_lines([_brief(node, _NODE_KEYS) for node in document["nodes"]])}')
    parts.append(f'"links": {_lines([_brief(link, _LINK_KEYS) for link in document["links"]])}')
    if document.get("shared"):
        parts.append(f'"shared": {_lines(document["shared"])}')
    if document.get("routes"):
        parts.append(f'"routes": {_lines([_brief(route, _ROUTE_KEYS) for route in document["routes"]])}')
    keys = ("ranks", "shape", "tested")
    parts += [f'"{key}": {_json(document[key])}' for key in keys if document.get(key) is not None]
    return "{\n  " + ",\n  ".join(parts) + "\n}\n"


def _brief(part: dict[str, Any], keys: dict[str, Any]) -> dict[str, Any]:
    return {key: part[key] for key, default in keys.items() if part.get(key, default) != default}


def _lines(parts: list[dict[str, Any]]) -> str:
    return "[\n    " + ",\n    ".join(map(_json, parts)) + "\n  ]" if parts else "[]"


def _json(value: object) -> str:
    return json.dumps(value, ensure_ascii=False, allow_nan=False)
