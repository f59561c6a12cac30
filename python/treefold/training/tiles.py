"""How long the arithmetic of a matrix product takes on multiprocessors that each compute a tile of the output.

Idea: the output is cut into tiles, and a multiprocessor works on one tile at a time, over the whole depth of the sum.
So a product takes as many waves as it has tiles a multiprocessor, rounded up, and each tile costs its full area,
however little of it the output fills. Small products lose by both, which NVIDIA calls tile and wave quantisation
("Matrix Multiplication Background User's Guide", DU-09799, chapter 3). A library picks the tile that suits best among a
few (cuBLAS: section 2.3 of the guide), and if there are fewer tiles than multiprocessors, it can cut the depth, too,
and add up the parts (split-K), for which they go through memory.

A smaller tile reads more operands for each operation: a tile of a x b reads a + b numbers for a x b products. We take
the largest tile to be in balance, so that a smaller one reaches the part (a b / (a + b)) / (128 256 / (128 + 256)) of
its rate: 75 % for 128 x 128, and 38 % for 64 x 64.

Cost: one closed form for each of eight tiles and two depths.
"""

from collections.abc import Iterator
from typing import NamedTuple

TILES = ((128, 256), (256, 128), (128, 128), (64, 256), (256, 64), (64, 128), (128, 64), (64, 64))
"""The tiles of cuBLAS, in rows and columns of the output (section 2.3 of the guide)."""
_STEP = 32
"""A tile adds up this many terms at a time (the same guide, section 2.1)."""
_PARTIAL_BYTES = 8
"""A partial sum of 32 bits is written and read."""


class Product(NamedTuple):
    """A matrix product: `copies` outputs of `rows` x `columns`, each number a sum of `depth` terms."""

    rows: int
    columns: int
    depth: int
    copies: int = 1


class Work(NamedTuple):
    """A way to compute a product."""

    flops: float
    """All multiprocessors together could compute this many floating-point operations meanwhile, in the largest tile."""
    partial_bytes: int
    """Partial sums move this many bytes through memory."""


def ways(product: Product, multiprocessors: int) -> Iterator[Work]:
    """Yield the work of a product for each tile, with the whole depth and with a depth that is cut."""
    largest = _intensity(*TILES[0])
    for rows, columns in TILES:
        tiles = -(-product.rows // rows) * -(-product.columns // columns) * product.copies
        for cuts in sorted({1, max(1, min(multiprocessors // tiles, product.depth // _STEP))}):
            waves = -(-tiles * cuts // multiprocessors)
            depth = _STEP * -(-product.depth // (cuts * _STEP))
            flops = 2 * rows * columns * depth * waves * multiprocessors * largest / _intensity(rows, columns)
            numbers = product.rows * product.columns * product.copies * (cuts if cuts > 1 else 0)
            yield Work(flops, numbers * _PARTIAL_BYTES)


def _intensity(rows: int, columns: int) -> float:
    """Return how many products a tile computes for each number that it reads."""
    return rows * columns / (rows + columns)
