"""Packs columns of numbers for a page: gzip of a head in JSON and of the arrays, byte by byte.

The lowest bytes of all numbers come first, then the next ones, and whole numbers that grow are differences to the one
before: both compress better. `viewer/src/data/columns.ts` reads this.
"""

import gzip
import json
import struct
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

_LEVEL = 6
_TYPES = {"uint8": "u1", "uint16": "u2", "int32": "i4", "uint32": "u4", "float32": "f4", "float64": "f8"}


def pack(columns: Mapping[str, NDArray[Any]]) -> bytes:
    """Return a block with columns.

    Args:
        columns: One-dimensional arrays by name: unsigned integers of 1, 2 or 4 bytes, signed ones of 4, or floats.

    Example:
        >>> import numpy as np
        >>> from treefold.viewing.columns import pack, unpack
        >>> unpack(pack({"step": np.arange(3, dtype=np.uint16)}))
        {'step': array([0, 1, 2], dtype=uint16)}

    """
    heads, parts = [], []
    for name, values in columns.items():
        values = np.ascontiguousarray(values)
        differences = _grows(values)
        written = np.diff(values, prepend=values.dtype.type(0)) if differences else values
        heads.append(
            {"name": name, "type": _TYPES[values.dtype.name], "length": len(values), "differences": differences}
        )
        parts.append(_shuffled(written))
    head = json.dumps(heads, separators=(",", ":")).encode()
    return gzip.compress(b"".join([struct.pack("<I", len(head)), head, *parts]), _LEVEL, mtime=0)


def unpack(block: bytes) -> dict[str, NDArray[Any]]:
    """Return the columns of a block."""
    content = gzip.decompress(block)
    (length,) = struct.unpack_from("<I", content)
    at = 4 + length
    columns = {}
    for head in json.loads(content[4:at]):
        dtype = np.dtype(next(name for name, short in _TYPES.items() if short == head["type"]))
        end = at + head["length"] * dtype.itemsize
        planes = np.frombuffer(content[at:end], np.uint8).reshape(dtype.itemsize, head["length"])
        values = np.ascontiguousarray(planes.T).view(dtype).reshape(-1)
        columns[head["name"]] = np.cumsum(values, dtype=dtype) if head["differences"] else values
        at = end
    return columns


def _grows(values: NDArray[Any]) -> bool:
    """Tell whether differences of whole numbers are smaller than the numbers: sums of either say how much to write."""
    if values.dtype.kind != "u" or len(values) < 2:
        return False
    steps = np.abs(np.diff(values.astype(np.int64)))
    return bool(steps.sum() < values.sum(dtype=np.int64) and steps.max() < np.iinfo(values.dtype).max)


def _shuffled(values: NDArray[Any]) -> bytes:
    little = values.astype(values.dtype.newbyteorder("<"), copy=False)
    return little.view(np.uint8).reshape(len(values), values.dtype.itemsize).T.tobytes()
