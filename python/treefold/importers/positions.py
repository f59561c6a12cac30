"""Reads the position of a node, its latitude and longitude in degrees."""

from collections.abc import Mapping

from treefold.checks import shown
from treefold.files.problems import fail
from treefold.importers.values import number

_LIMITS = {"latitude": 90, "longitude": 180}


def position_of(attributes: Mapping[str, object], where: str) -> tuple[float, float] | None:
    """Return latitude and longitude, or None if neither is given; Topology Zoo capitalizes their names.

    Raises:
        TreefoldError: If only one is given, or one is not a number of degrees in range.

    """
    found = {key: attributes.get(key, attributes.get(key.capitalize())) for key in _LIMITS}
    given = [key for key, value in found.items() if value not in (None, "")]
    if not given:
        return None
    if len(given) == 1:
        raise fail(where, f"has {given[0]} only; give latitude and longitude, or neither")
    return _degrees(found, "latitude", where), _degrees(found, "longitude", where)


def _degrees(found: Mapping[str, object], key: str, where: str) -> float:
    degrees, most = number(found[key]), _LIMITS[key]
    if degrees is None or not -most <= degrees <= most:
        raise fail(where, f"{key} {shown(found[key])} is not in degrees from -{most} to {most}; correct it or drop it")
    return degrees
