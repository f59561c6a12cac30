"""Files of layers: SCALE-Sim's CSV of convolutions, and treefold's own JSON (schema/model.schema.json)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from treefold.checks import shown
from treefold.errors import TreefoldError
from treefold.files.problems import fail
from treefold.files.reading import Row, parse_csv, parse_json, read_bytes, stem
from treefold.training.layers import DATA, FROZEN, WEIGHTS, Layer, Model, convolution

_COLUMNS = (
    "input height",
    "input width",
    "filter height",
    "filter width",
    "channels",
    "filters",
    "stride",
)
_FORM = ", ".join(("name", *_COLUMNS))
_OWN = {
    "inputs": 0,
    "outputs": 0,
    "window": 1,
    "channels": 0,
    "filters": 0,
    "copies": 1,
    "parameters": 0,
    "elements": 0,
    "kernels": 0,
}
"""Keys of a layer, and the least value of each."""
_CONVOLUTION = {"stride": 1, "padding": 0, "groups": 1}
"""The same of what a convolution may have besides its sizes."""
_DIGITS = 12
_OPERANDS = (WEIGHTS, FROZEN, DATA)
_SPLITS = ("", "columns", "rows", "heads")


def read(path: Path) -> Model:
    """Return the model of a file.

    Raises:
        TreefoldError: With the line, or the layer, of what is missing or no size.

    """
    return _read_csv(str(path)) if path.suffix == ".csv" else _read_json(str(path))


def _read_csv(where: str) -> Model:
    rows = [row for row in parse_csv(read_bytes(where), where) if not row.is_blank]
    columns = rows[0].cells[1 : 1 + len(_COLUMNS)]
    has_header = len(columns) == len(_COLUMNS) and all(any(map(str.isalpha, cell)) for cell in columns)
    layers = [_row(row) for row in rows[has_header:]]
    if not layers:
        raise fail(where, f"no layers; each needs a line with {_FORM}")
    return Model(stem(where), tuple(layers))


def _row(row: Row) -> Layer:
    name, *cells = row.cells
    if not name:
        raise fail(row.where, f"the layer's name is missing; a line needs {_FORM}")
    values = []
    for place, column in enumerate(_COLUMNS):
        text = cells[place] if place < len(cells) else ""
        if not text:
            raise fail(row.where, f"{column} of layer {shown(name)} is missing; a line needs {_FORM}")
        if not text.isascii() or not text.isdigit() or len(text) > _DIGITS or int(text) == 0:
            form = f"it must be a whole number above 0, of at most {_DIGITS} digits"
            raise fail(row.where, f"{column} of layer {shown(name)} is {shown(text)}; {form}")
        values.append(int(text))
    height, width, over_height, over_width, channels, filters, stride = values
    try:
        return convolution(name, (height, width), (over_height, over_width), channels, filters, stride=stride)
    except TreefoldError as error:
        raise fail(row.where, str(error)) from None


def _read_json(where: str) -> Model:
    found = parse_json(read_bytes(where), where)
    if not isinstance(found, Mapping) or found.get("format") != "treefold-model":
        raise fail(where, 'is no model; it needs "format": "treefold-model" and a list of layers')
    if found.get("version") != 1:
        raise fail(where, f"version {shown(found.get('version'))} is unknown; this treefold reads version 1")
    _known(where, found, ("format", "version", "name", "sample", "layers"))
    listed = found.get("layers")
    if not isinstance(listed, list) or not listed:
        raise fail(where, 'no layers; "layers" must list at least one')
    layers = tuple(_layer(f"{where} layer {place}", each) for place, each in enumerate(listed, 1))
    return Model(_text(where, found, "name", stem(where)), layers, _text(where, found, "sample", "sample"))


def _layer(where: str, found: Any) -> Layer:
    if not isinstance(found, Mapping):
        raise fail(where, f"is {shown(found)}; write an object with a name and sizes")
    name = _text(where, found, "name", "")
    if not name:
        raise fail(where, 'has no "name"')
    where = f"{where} ({name})"
    layer = _convolution(where, name, found) if "input" in found else _other(where, name, found)
    split = _text(where, found, "split", "")
    if split not in _SPLITS:
        raise fail(where, f'"split" is {shown(split)}; known are columns, rows, heads')
    return layer._replace(split=split)


def _convolution(where: str, name: str, found: Mapping[str, Any]) -> Layer:
    _known(where, found, ("name", "input", "filter", "channels", "filters", *_CONVOLUTION, "split"))
    sides = _pair(where, found, "input"), _pair(where, found, "filter")
    channels, filters = (_size(where, found, key, 1) for key in ("channels", "filters"))
    options: dict[str, Any] = {
        key: _size(where, found, key, least) for key, least in _CONVOLUTION.items() if key in found
    }
    try:
        return convolution(name, *sides, channels, filters, **options)
    except TreefoldError as error:
        raise fail(where, str(error)) from None


def _other(where: str, name: str, found: Mapping[str, Any]) -> Layer:
    _known(where, found, ("name", *_OWN, "split", "operand"))
    own: dict[str, Any] = {key: _size(where, found, key, least) for key, least in _OWN.items() if key in found}
    operand = _text(where, found, "operand", WEIGHTS)
    if operand not in _OPERANDS:
        raise fail(where, f'"operand" is {shown(operand)}; known are {", ".join(_OPERANDS)}')
    layer = Layer(name, operand=operand, **own)
    weights = layer.window * layer.channels * layer.filters * layer.copies
    implied: dict[str, Any] = {
        "outputs": layer.inputs if layer.channels else 0,
        "parameters": weights if operand == WEIGHTS else 0,
    }
    return layer._replace(**{key: value for key, value in implied.items() if key not in found})


def _known(where: str, found: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    for key in found:
        if key not in keys:
            raise fail(where, f"key {shown(key)} is unknown; known are {', '.join(keys)}")


def _text(where: str, found: Mapping[str, Any], key: str, default: str) -> str:
    value = found.get(key, default)
    if not isinstance(value, str):
        raise fail(where, f'"{key}" is {shown(value)}; it must be text')
    return value


def _size(where: str, found: Mapping[str, Any], key: str, least: int) -> int:
    value = found.get(key)
    if not _is_whole(value, least):
        what = "missing" if value is None else shown(value)
        form = f"it must be a whole number of at least {least}, of at most {_DIGITS} digits"
        raise fail(where, f'"{key}" is {what}; {form}')
    return int(value)  # type: ignore[arg-type]


def _pair(where: str, found: Mapping[str, Any], key: str) -> tuple[int, int]:
    match found.get(key):
        case [height, width] if _is_whole(height, 1) and _is_whole(width, 1):
            return height, width
        case value:
            raise fail(where, f'"{key}" is {shown(value)}; it must be a height and a width, for example [224, 224]')


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 10**_DIGITS
