"""Readers of models: SCALE-Sim's CSV of convolutions, and treefold's own JSON (`schema/model.schema.json`)."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from treefold.checks import shown
from treefold.errors import TreefoldError
from treefold.files.problems import fail
from treefold.files.reading import Row, parse_csv, parse_json, read_bytes, stem
from treefold.training.layers import OPERANDS, SPLITS, WEIGHTS, Layer, Model, Window, convolution

_CSV_SIZES = ("input height", "input width", "filter height", "filter width", "channels", "filters", "stride")
_CSV_COLUMNS = ", ".join(("name", *_CSV_SIZES))

_LEAST_SIZES = {
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
"""A layer of a JSON file has these sizes, each at least so large."""
_LEAST_CONVOLUTION_SIZES = {"stride": 1, "padding": 0, "groups": 1}
"""A convolution of a JSON file may have these, too, each at least so large."""
_MOST_DIGITS = 12


def read(path: Path) -> Model:
    """Return the model that a .csv or .json file describes.

    Raises:
        TreefoldError: If the file cannot be read, or a value is missing or wrong; the message names the line or layer.

    """
    return _read_csv(str(path)) if path.suffix == ".csv" else _read_json(str(path))


def _read_csv(where: str) -> Model:
    rows = [row for row in parse_csv(read_bytes(where), where) if not row.is_blank]
    columns = rows[0].cells[1 : 1 + len(_CSV_SIZES)]
    has_header = len(columns) == len(_CSV_SIZES) and all(any(map(str.isalpha, cell)) for cell in columns)
    layers = [_layer_of_row(row) for row in rows[has_header:]]
    if not layers:
        raise fail(where, f"the file has no layers; each needs a line with {_CSV_COLUMNS}")
    return Model(stem(where), tuple(layers))


def _layer_of_row(row: Row) -> Layer:
    name, *cells = row.cells
    if not name:
        raise fail(row.where, f"the layer's name is missing; a line needs {_CSV_COLUMNS}")
    padded = [*cells, *[""] * len(_CSV_SIZES)]
    values = [_csv_size(row.where, name, column, text) for column, text in zip(_CSV_SIZES, padded, strict=False)]
    height, width, window_height, window_width, channels, filters, stride = values
    window = Window(window_height, window_width, stride=stride)
    try:
        return convolution(name, (height, width), window, channels, filters)
    except TreefoldError as error:
        raise fail(row.where, str(error)) from None


def _csv_size(where: str, name: str, column: str, text: str) -> int:
    if not text:
        raise fail(where, f"{column} of layer {shown(name)} is missing; a line needs {_CSV_COLUMNS}")
    if not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS or int(text) == 0:
        form = f"it must be a whole number above 0, of at most {_MOST_DIGITS} digits"
        raise fail(where, f"{column} of layer {shown(name)} is {shown(text)}; {form}")
    return int(text)


def _read_json(where: str) -> Model:
    document = parse_json(read_bytes(where), where)
    if not isinstance(document, Mapping) or document.get("format") != "treefold-model":
        raise fail(where, 'the file is not a model; it needs "format": "treefold-model" and a list of layers')
    if document.get("version") != 1:
        raise fail(where, f"version {shown(document.get('version'))} is unknown; this treefold reads version 1")
    _check_keys(where, document, ("format", "version", "name", "sample", "tokens", "layers"))
    listed = document.get("layers")
    if not isinstance(listed, list) or not listed:
        raise fail(where, 'the file has no layers; "layers" must list at least one')
    layers = tuple(_layer(f"{where} layer {place}", each) for place, each in enumerate(listed, 1))
    name, sample = _text(where, document, "name", stem(where)), _text(where, document, "sample", "sample")
    return Model(name, layers, sample, **_given_sizes(where, document, {"tokens": 0}))


def _layer(where: str, entry: Any) -> Layer:
    if not isinstance(entry, Mapping):
        raise fail(where, f"the layer is {shown(entry)}; write an object with a name and sizes")
    name = _text(where, entry, "name", "")
    if not name:
        raise fail(where, 'the layer has no "name"')
    where = f"{where} ({name})"
    layer = _convolution(where, name, entry) if "input" in entry else _other(where, name, entry)
    split = _text(where, entry, "split", "")
    if split not in ("", *SPLITS):
        raise fail(where, f'"split" is {shown(split)}; known are {", ".join(SPLITS)}')
    return layer._replace(split=split)


def _convolution(where: str, name: str, entry: Mapping[str, Any]) -> Layer:
    _check_keys(where, entry, ("name", "input", "filter", "channels", "filters", *_LEAST_CONVOLUTION_SIZES, "split"))
    size, window = _pair(where, entry, "input"), _pair(where, entry, "filter")
    channels, filters = (_size(where, entry, key, 1) for key in ("channels", "filters"))
    given = _given_sizes(where, entry, _LEAST_CONVOLUTION_SIZES)
    groups = given.pop("groups", 1)
    try:
        return convolution(name, size, Window(*window, **given), channels, filters, groups=groups)
    except TreefoldError as error:
        raise fail(where, str(error)) from None


def _other(where: str, name: str, entry: Mapping[str, Any]) -> Layer:
    _check_keys(where, entry, ("name", *_LEAST_SIZES, "split", "operand"))
    given = _given_sizes(where, entry, _LEAST_SIZES)
    operand = _text(where, entry, "operand", WEIGHTS)
    if operand not in OPERANDS:
        raise fail(where, f'"operand" is {shown(operand)}; known are {", ".join(OPERANDS)}')
    layer = Layer(name, operand=operand, **given)
    weights = layer.window * layer.channels * layer.filters * layer.copies
    implied = {
        "outputs": layer.inputs if layer.channels else 0,
        "parameters": weights if operand == WEIGHTS else 0,
    }
    return layer._replace(**(implied | given))


def _check_keys(where: str, entry: Mapping[str, Any], keys: tuple[str, ...]) -> None:
    for key in entry:
        if key not in keys:
            raise fail(where, f"key {shown(key)} is unknown; known are {', '.join(keys)}")


def _text(where: str, entry: Mapping[str, Any], key: str, default: str) -> str:
    value = entry.get(key, default)
    if not isinstance(value, str):
        raise fail(where, f'"{key}" is {shown(value)}; it must be text')
    return value


def _given_sizes(where: str, entry: Mapping[str, Any], least: Mapping[str, int]) -> dict[str, Any]:
    return {key: _size(where, entry, key, smallest) for key, smallest in least.items() if key in entry}


def _size(where: str, entry: Mapping[str, Any], key: str, least: int) -> int:
    value = entry.get(key)
    if not _is_whole(value, least):
        what = "missing" if value is None else shown(value)
        form = f"it must be a whole number of at least {least}, of at most {_MOST_DIGITS} digits"
        raise fail(where, f'"{key}" is {what}; {form}')
    return int(value)  # type: ignore[arg-type]


def _pair(where: str, entry: Mapping[str, Any], key: str) -> tuple[int, int]:
    match entry.get(key):
        case [height, width] if _is_whole(height, 1) and _is_whole(width, 1):
            return height, width
        case value:
            raise fail(where, f'"{key}" is {shown(value)}; it must be a height and a width, for example [224, 224]')


def _is_whole(value: Any, least: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value < 10**_MOST_DIGITS
