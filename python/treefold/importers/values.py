"""Reads bandwidths and times, whose unit stands in the value or in the name of the column or attribute."""

import math
from collections.abc import Collection, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

from treefold._core import parse_bandwidth, parse_time
from treefold.checks import guess, shown
from treefold.errors import TreefoldError
from treefold.files.problems import fail

_BANDWIDTH_WORDS = ("bandwidth", "throughput", "capacity")
_TIME_WORDS = {"latency": 1.0, "rtt": 0.5, "overhead": 1.0}
ALIASES = {"bw": "bandwidth", "speed": "bandwidth", "lat": "latency", "delay": "latency"}
"""Short words that CSV columns may have; elsewhere an error suggests the usual word."""

_VENDOR_UNITS = {"bps": "bit/s", "kbps": "kbit/s", "mbps": "Mbit/s", "gbps": "Gbit/s", "tbps": "Tbit/s"}
MOST_STREAMS = 256
"""The most TCP streams that a file may give a link."""
_TRUTHS = {"true": True, "yes": True, "1": True, "false": False, "no": False, "0": False}
_TIME_UNITS = ("s", "ms", "us", "ns", "ps")
_ABSENT = ("", "-", "null")
_LARGEST_IN_USUAL_UNIT = 1e6
_ADVICE = {
    "corner": ", or '{word} {unit}' in the corner cell",
    "column": ", or name the column {word}_{unit}",
    "attribute": ", or name the attribute {field}",
    "key": ", or name the key {field}",
}


class Quantity(NamedTuple):
    """The quantity that a column or attribute holds.

    `field` is the document's key. `unit` is None if each value has its own unit. Values are multiplied by `factor`;
    it is 0.5 for round trips, as the document's latencies are one-way. `place` is a key of `_ADVICE`: the part of the
    file that could name the unit instead of each value; it is empty if there is none.
    """

    field: str
    word: str
    unit: str | None
    factor: float = 1.0
    place: str = ""


_ZOO_RAW = "LinkSpeedRaw"
_ZOO_QUANTITY = Quantity("bandwidth_Bps", _ZOO_RAW, "bit/s")


@lru_cache(maxsize=1024)
def quantity_of(label: str, place: str = "attribute") -> Quantity | None:
    """Return the quantity of a label such as `bandwidth`, `bandwidth_Gbit/s`, `rtt_ms` or `LinkSpeedRaw`; else None."""
    if label == _ZOO_RAW:
        return _ZOO_QUANTITY
    word, _, unit = label.partition("_")
    return quantity(word.lower(), unit or None, place)


def quantity(word: str, unit: str | None, place: str) -> Quantity | None:
    """Return the quantity of a word such as `rtt` and a unit; None if either is unknown."""
    if word in _BANDWIDTH_WORDS:
        found = Quantity("bandwidth_Bps", word, unit, place=place)
    elif word in _TIME_WORDS:
        found = Quantity("overhead_s" if word == "overhead" else "latency_s", word, unit, _TIME_WORDS[word], place)
    else:
        return None
    if unit is None:
        return found
    spellings = (found._replace(unit=spelling) for spelling in (_VENDOR_UNITS.get(unit, unit), _any_case(unit)))
    return next((spelt for spelt in spellings if spelt.unit and _unit_size(spelt)), None)


def guess_word(key: str, given: Collection[str] = ()) -> str | None:
    """Return the word that an unknown column or key may mean, unless its field is among the `given`."""
    words = (*_BANDWIDTH_WORDS, *_TIME_WORDS)
    own = key.lower().partition("_")[0]
    word = own if own in words else ALIASES.get(own) or guess(own, words)
    meant = quantity(word, None, "") if word else None
    return None if meant is None or meant.field in given else word


def _any_case(unit: str) -> str | None:
    """Return a unit in its usual case; None if the case distinguishes bits from bytes, as in `GBPS`."""
    lower = unit.lower()
    if lower in _TIME_UNITS:
        return lower
    return lower[:-5].upper().replace("K", "k") + "bit/s" if lower.endswith("bit/s") else None


@lru_cache(maxsize=1024)
def _unit_size(quantity: Quantity) -> float | None:
    """Return the size of a unit in bytes per second or seconds; None if there is no such unit."""
    parse = parse_bandwidth if quantity.field == "bandwidth_Bps" else parse_time
    try:
        return parse(f"1{_VENDOR_UNITS.get(quantity.unit or '', quantity.unit)}")
    except TreefoldError:
        return None


def measure(value: object, quantity: Quantity, where: str) -> float | None:
    """Return a value in bytes per second or seconds; None if it is absent (None, empty, `-` or `null`).

    Raises:
        TreefoldError: If the value is not a number, lacks a unit, or is not a possible bandwidth or time.

    """
    if value is None or (isinstance(value, str) and value.strip() in _ABSENT):
        return None
    if quantity.field == "bandwidth_Bps":
        return _bandwidth(value, quantity, where)
    return _time(value, quantity, where)


def _bandwidth(value: object, quantity: Quantity, where: str) -> float:
    if quantity.unit is None:
        return _checked_bandwidth(_text_with_unit(value, quantity, where, "5Gbit/s"), where)
    result = _number_in_unit(value, quantity, where)
    _checked_bandwidth(_in_words(value, quantity), where)
    return result


def _time(value: object, quantity: Quantity, where: str) -> float:
    if quantity.unit is None:
        if number(value) == 0:
            return 0.0
        result = _checked_time(_text_with_unit(value, quantity, where, "5ms"), where) * quantity.factor
        return round(result, 13)
    result = _number_in_unit(value, quantity, where) * quantity.factor
    _checked_time(_in_words(value, quantity), where)
    return result if quantity.unit == "s" else round(result, 13)


def _number_in_unit(value: object, quantity: Quantity, where: str) -> float:
    plain = number(value)
    if plain is None:
        unit = f"{quantity.unit}, as the name says" if isinstance(value, str) else quantity.unit
        raise fail(where, f"{quantity.word} {shown(value)} is not a number; give it in {unit}")
    return plain * (_unit_size(quantity) or 1.0)


def _in_words(value: object, quantity: Quantity) -> str:
    """Return a number with its unit as a person writes it, for a check whose error shows what the file has."""
    unit = "B/s" if quantity.unit == "Bps" else _VENDOR_UNITS.get(quantity.unit or "", quantity.unit)
    return f"{number(value):.12g}{unit}"


def _text_with_unit(value: object, quantity: Quantity, where: str, example: str) -> str:
    plain = number(value)
    if plain is not None:
        raise fail(where, _problem_without_unit(str(value).strip(), plain, quantity, example))
    if not isinstance(value, str):
        raise fail(where, f"{quantity.word} {shown(value)} is not a text such as '{example}'")
    return value


def _problem_without_unit(text: str, plain: float, quantity: Quantity, example: str) -> str:
    """Return the problem of a number without a unit, and what to write; above 1e6 the unit is hardly the usual one."""
    unit = example.lstrip("5")
    if quantity.field == "bandwidth_Bps" and plain <= 0:
        return f"{quantity.word} must be positive, got {text}; leave it out when it is unknown, or write {example}, say"
    problem = f"{quantity.word} '{text}' has no unit"
    if abs(plain) > _LARGEST_IN_USUAL_UNIT:
        return f"{problem}; {_advice_of_large(quantity, example)}"
    advice = _ADVICE.get(quantity.place, "").format(word=_usual_word(quantity), unit=unit, field=_plain_name(quantity))
    return f"{problem}; write {plain:.12g}{unit}{advice}"


def _advice_of_large(quantity: Quantity, example: str) -> str:
    word, is_time = _usual_word(quantity), quantity.field != "bandwidth_Bps"
    small, large = ("ns", "us") if is_time else ("bit/s", "B/s")
    if quantity.place == "corner":
        return f"write '{word} {small}' or '{word} {large}' in the corner cell, whichever it is"
    if quantity.place == "column":
        return f"name the column {word}_{small} or {word}_{large}, whichever it is"
    if quantity.place == "attribute":
        names = (f"{word}_ns", f"{word}_us") if is_time else (f"{word}_bps", f"{word}_Bps")
        meaning = "" if is_time else " (bits or bytes per second)"
        return f"name the attribute {names[0]} or {names[1]}, whichever it is{meaning}"
    if quantity.place == "key":
        return f"name the key {_plain_name(quantity)} and give {'seconds' if is_time else 'bytes per second'}"
    return f"write it with its unit, such as {example}"


def _usual_word(quantity: Quantity) -> str:
    if quantity.field == "bandwidth_Bps":
        return "bandwidth"
    return quantity.word if quantity.word in _TIME_WORDS else "latency"


def _plain_name(quantity: Quantity) -> str:
    return f"{_usual_word(quantity)}_{'Bps' if quantity.field == 'bandwidth_Bps' else 's'}"


def _checked_bandwidth(text: str, where: str) -> float:
    try:
        return parse_bandwidth(text)
    except TreefoldError as error:
        raise fail(where, str(error)) from None


def _checked_time(text: str, where: str) -> float:
    try:
        return parse_time(text)
    except TreefoldError as error:
        raise fail(where, str(error)) from None


def number(value: object) -> float | None:
    """Return `value` as a finite number; None if it is not one."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        return None
    try:
        result = float(value)
    except (ValueError, OverflowError):
        return None
    return result if math.isfinite(result) else None


def truth(value: object, where: str, what: str) -> bool:
    """Return the truth of a boolean, 0, 1, or one of true, false, yes and no in any case.

    Raises:
        TreefoldError: If the value is anything else.

    """
    found = value if isinstance(value, bool) else _TRUTHS.get(str(value).strip().lower())
    if found is None:
        raise fail(where, f"{what} {shown(value)} is neither true nor false; write true or false")
    return found


def streams(value: object, where: str) -> int | None:
    """Return how many TCP streams fill a link; None if the value is absent (None, empty, `-` or `null`).

    Raises:
        TreefoldError: If the value is not a whole number from 1 to 256.

    """
    if value is None or (isinstance(value, str) and value.strip() in _ABSENT):
        return None
    count = number(value)
    if count is None or not count.is_integer() or not 1 <= count <= MOST_STREAMS:
        what = f"streams {shown(value)} is not a whole number from 1 to {MOST_STREAMS}"
        raise fail(where, f"{what}; leave it out where it was not measured")
    return int(count)


def link_values(attributes: Mapping[str, object], where: str) -> dict[str, Any]:
    """Return the fields bandwidth_Bps, latency_s, overhead_s and streams of attributes such as `capacity` and `rtt_ms`.

    What Topology Zoo writes counts only if no other attribute gives the bandwidth.

    Raises:
        TreefoldError: If a value is wrong, or two attributes give the same field.

    """
    found: dict[str, Any] = {}
    origin: dict[str, str] = {}
    for label in attributes:
        quantity = quantity_of(label) if label != _ZOO_RAW else None
        value = measure(attributes[label], quantity, where) if quantity else None
        if quantity is None or value is None:
            continue
        if quantity.field in found:
            raise fail(where, f"'{origin[quantity.field]}' and '{label}' both give its {quantity.field}; keep one")
        found[quantity.field], origin[quantity.field] = value, label
    if (count := streams(attributes.get("streams"), where)) is not None:
        found["streams"] = count
    zoo = None if "bandwidth_Bps" in found else _zoo_bandwidth(attributes, where)
    return found if zoo is None else found | {"bandwidth_Bps": zoo}


def _zoo_bandwidth(attributes: Mapping[str, object], where: str) -> float | None:
    """Return the bandwidth that the Internet Topology Zoo gives a link; None if it gives none that can be read.

    LinkSpeedRaw is a number. LinkSpeed with LinkSpeedUnits (`10` and `G`) and LinkLabel (`10 Gbps`) are for people, so
    they may say anything.
    """
    raw = measure(attributes.get(_ZOO_RAW), _ZOO_QUANTITY, where)
    if raw is not None:
        return raw
    unit = str(attributes.get("LinkSpeedUnits", ""))
    speed = f"{attributes.get('LinkSpeed')}{unit}{'bit/s' if len(unit) == 1 else ''}"
    return _readable_bandwidth(speed) or _readable_bandwidth(str(attributes.get("LinkLabel")))


def _readable_bandwidth(text: str) -> float | None:
    try:
        return parse_bandwidth(text)
    except TreefoldError:
        return None
