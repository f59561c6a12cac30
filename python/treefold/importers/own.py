"""Reads treefold's own JSON. Its schema is schema/topology.schema.json; the core checks the network itself.

Links may have texts such as `"bandwidth": "10Gbit/s"` and `"latency": "5ms"`; the document gets the numbers.
"""

from collections import Counter
from typing import Any

from treefold.checks import guess, shown
from treefold.files.problems import fail
from treefold.files.reading import check_links, stem
from treefold.importers.document import (
    KINDS,
    VERSION,
    Document,
    make_document,
    make_link,
    make_node,
    make_route,
    make_shared,
)
from treefold.importers.positions import position_of
from treefold.importers.shares import check_once
from treefold.importers.values import Quantity, guess_word, measure, quantity, streams

_KEYS = ("format", "version", "name", "nodes", "links", "shared", "routes", "ranks", "shape", "tested")
TESTED = ("alone", "at once")
"""What tests may have shown of bandwidths: see `treefold.Topology.tested`."""
_NODE_KEYS = ("name", "kind", "reduces", "multicasts", "latency_s", "latitude", "longitude")
_TEXTS = {
    "bandwidth": Quantity("bandwidth_Bps", "bandwidth", None, place="key"),
    "latency": Quantity("latency_s", "latency", None, place="key"),
}
_LINK_KEYS = ("source", "target", "bandwidth_Bps", "latency_s", "overhead_s", "streams", "shares", "both_ways", *_TEXTS)
_SHARED_KEYS = ("name", "bandwidth_Bps", "bandwidth")
_ROUTE_KEYS = ("source", "target", "via", "both_ways")
_ROUTE = '{"source": "a", "target": "c", "via": ["b"]}'
_QUANTITIES = {
    "bandwidth_Bps": Quantity("bandwidth_Bps", "bandwidth_Bps", "B/s"),
    "latency_s": Quantity("latency_s", "latency_s", "s"),
    "overhead_s": Quantity("overhead_s", "overhead_s", "s"),
}
_MEANINGS = {"bandwidth_Bps": "a number of bytes per second", "latency_s": "seconds", "overhead_s": "seconds"}
_MEANT = {"from": "source", "src": "source", "to": "target", "dst": "target"}


def parse(content: dict[str, Any], where: str) -> Document:
    """Return the document in a JSON object, with all defaults written out.

    Raises:
        TreefoldError: If the version is too new, a key is unknown or missing, or a value has the wrong type.

    """
    _check_version(content.get("version"), where)
    _check_keys(content, _KEYS, where)
    _check_list(content, "nodes", where)
    _check_list(content, "links", where)
    check_links(max(len(content["nodes"]), len(content["links"])), where)
    nodes = [_node(node, f"{where}: node {place}") for place, node in enumerate(content["nodes"])]
    links = [_link(link, f"{where}: link {place}") for place, link in enumerate(content["links"])]
    name = _name({"name": stem(where)} | content, "name", where)
    return make_document(name, nodes, links, shared_capacities(content, where)) | _optional(content, where)


def _check_version(version: object, where: str) -> None:
    if isinstance(version, bool) or not isinstance(version, int) or version < 1:
        raise fail(where, f'version {shown(version)} is not a positive whole number; write "version": {VERSION}')
    if version > VERSION:
        problem = f"version {version} is newer than this treefold reads ({VERSION})"
        raise fail(where, f"{problem}; upgrade treefold or save the file as version {VERSION}")


def _check_keys(part: dict[str, Any], known: tuple[str, ...], where: str) -> None:
    unknown = [key for key in part if key not in known]
    if unknown:
        remedy = _guess(unknown[0], known) or f"the keys are {', '.join(known)}"
        raise fail(where, f"unknown key {shown(unknown[0])}; {remedy}")


def _guess(key: str, known: tuple[str, ...]) -> str:
    """Return the question whether another key is meant; empty if none is similar."""
    word = guess_word(key)
    meant = quantity(word, None, "key") if word else None
    field = meant.field if meant else _MEANT.get(key.lower())
    near = field if field in known else guess(key, known)
    if near is None:
        return ""
    meaning = f" ({_MEANINGS[near]})" if near in _MEANINGS else ""
    return f"did you mean {near}{meaning}?"


def _check_list(content: dict[str, Any], key: str, where: str) -> None:
    if not isinstance(content.get(key), list):
        raise fail(where, f"'{key}' must be a list, got {shown(content.get(key))}")


def _name(part: dict[str, Any], key: str, where: str) -> str:
    name = part.get(key)
    if not isinstance(name, str) or not name.strip():
        raise fail(where, f"'{key}' must be a text that is not empty, got {shown(name)}")
    return name


def _node(node: object, where: str) -> dict[str, Any]:
    if not isinstance(node, dict):
        raise fail(where, f'must be an object such as {{"name": "GPU0"}}, got {shown(node)}')
    name = _name(node, "name", where)
    where = f"{where} ({shown(name)})"
    _check_keys(node, _NODE_KEYS, where)
    kind = node.get("kind", "accelerator")
    if kind not in KINDS:
        raise fail(where, f"kind {shown(kind)} is unknown; write {' or '.join(KINDS)}")
    flags = {key: _flag(node, key, where) for key in ("reduces", "multicasts")}
    if kind != "switch" and any(flags.values()):
        raise fail(where, "an accelerator does not reduce or multicast as switches do; say that its kind is switch")
    latency_s = _value(node, "latency_s", where) or 0.0
    for key in ("latitude", "longitude"):
        _check_number(node, key, where)
    return make_node(name, kind, **flags, latency_s=latency_s, position=position_of(node, where))


def _link(link: object, where: str) -> dict[str, Any]:
    if not isinstance(link, dict):
        raise fail(where, f'must be an object such as {{"source": "a", "target": "b"}}, got {shown(link)}')
    source, target = _name(link, "source", where), _name(link, "target", where)
    where = f"{where} ({shown(source)} -> {shown(target)})"
    _check_keys(link, _LINK_KEYS, where)
    values: dict[str, Any] = {key: _value(link, key, where) for key in _QUANTITIES}
    _check_number(link, "streams", where)
    values["streams"] = streams(link.get("streams"), where)
    values |= {quantity.field: _text(link, key, where) for key, quantity in _TEXTS.items() if key in link}
    values["shares"] = _shares(link, where)
    return make_link(source, target, **values, both_ways=_flag(link, "both_ways", where))


def _shares(link: dict[str, Any], where: str) -> tuple[str, ...]:
    names = link.get("shares", [])
    if not isinstance(names, list) or not all(isinstance(name, str) for name in names):
        raise fail(where, f"'shares' must be a list of names of shared capacities, got {shown(names)}")
    check_once(names, where)
    return tuple(names)


def shared_capacities(content: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """Return the shared capacities that a file lists, each a name and a bandwidth."""
    if "shared" not in content:
        return []
    _check_list(content, "shared", where)
    listed = [
        _shared_capacity(each, f"{where}: shared capacity {place}") for place, each in enumerate(content["shared"])
    ]
    names = Counter(each["name"] for each in listed)
    if twice := next((name for name, count in names.items() if count > 1), None):
        raise fail(where, f"shared capacity {shown(twice)} is listed twice; give each its own name")
    return listed


def _shared_capacity(shared: object, where: str) -> dict[str, Any]:
    if not isinstance(shared, dict):
        example = '{"name": "conduit", "bandwidth": "10Gbit/s"}'
        raise fail(where, f"must be an object such as {example}, got {shown(shared)}")
    name = _name(shared, "name", where)
    where = f"{where} ({shown(name)})"
    _check_keys(shared, _SHARED_KEYS, where)
    given = _text(shared, "bandwidth", where) if "bandwidth" in shared else _value(shared, "bandwidth_Bps", where)
    if given is None:
        raise fail(where, 'has no bandwidth; write one such as "bandwidth": "10Gbit/s"')
    return make_shared(name, given)


def explicit_routes(content: dict[str, Any], where: str) -> list[dict[str, Any]]:
    """Return the routes that a file lists; which of them are possible shows when the network is made of them."""
    _check_list(content, "routes", where)
    if not content["routes"]:
        raise fail(where, f"'routes' is empty; list routes such as {_ROUTE}, or leave it out")
    check_links(len(content["routes"]), where)
    return [_route(each, f"{where}: route {place}") for place, each in enumerate(content["routes"])]


def _route(route: object, where: str) -> dict[str, Any]:
    if not isinstance(route, dict):
        raise fail(where, f"must be an object such as {_ROUTE}, got {shown(route)}")
    source, target = _name(route, "source", where), _name(route, "target", where)
    where = f"{where} ({shown(source)} -> {shown(target)})"
    _check_keys(route, _ROUTE_KEYS, where)
    via = route.get("via", [])
    if not isinstance(via, list) or not all(isinstance(name, str) for name in via):
        raise fail(where, f"'via' must be a list of the names of the nodes on the way, got {shown(via)}")
    return make_route(source, target, via, both_ways=_flag(route, "both_ways", where))


def _flag(part: dict[str, Any], key: str, where: str) -> bool:
    flag = part.get(key, False)
    if not isinstance(flag, bool):
        raise fail(where, f"'{key}' must be true or false, got {shown(flag)}")
    return flag


def _value(part: dict[str, Any], key: str, where: str) -> float | None:
    _check_number(part, key, where)
    return measure(part.get(key), _QUANTITIES[key], where)


def _check_number(part: dict[str, Any], key: str, where: str) -> None:
    if key in part and (part[key] is None or isinstance(part[key], str)):
        raise fail(where, f"'{key}' must be a number, got {shown(part[key])}; leave it out when it is unknown")


def _text(link: dict[str, Any], key: str, where: str) -> float | None:
    """Return the value of a text with a unit; refuse a link that also has the number."""
    text, quantity = link[key], _TEXTS[key]
    if quantity.field in link:
        raise fail(where, f"'{key}' and '{quantity.field}' both give its {key}; keep one")
    value = measure(text, quantity, where) if isinstance(text, str) else None
    if value is None:
        meant = f"did you mean {quantity.field} ({_MEANINGS[quantity.field]})?"
        raise fail(where, f"'{key}' must be a text with its unit, got {shown(text)}; {meant}")
    return value


def _optional(content: dict[str, Any], where: str) -> dict[str, Any]:
    """Return the routes, the ranks, the shape, and what was tested, if the file has them."""
    found: dict[str, Any] = {}
    if "routes" in content:
        found["routes"] = explicit_routes(content, where)
    if "ranks" in content:
        ranks = content["ranks"]
        if not isinstance(ranks, list) or not all(isinstance(rank, str) for rank in ranks):
            raise fail(where, f"'ranks' must be a list of node names, got {shown(ranks)}")
        found["ranks"] = ranks
    if "shape" in content:
        if not isinstance(content["shape"], dict):
            raise fail(where, f"'shape' must be an object, got {shown(content['shape'])}; leave it out")
        found["shape"] = content["shape"]
    if "tested" in content:
        if content["tested"] not in TESTED:
            raise fail(
                where,
                f"'tested' must be {' or '.join(map(shown, TESTED))}, got {shown(content['tested'])}; or leave it out",
            )
        found["tested"] = content["tested"]
    return found
