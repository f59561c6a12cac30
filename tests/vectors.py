"""Arrays for the ranks, and what NumPy itself makes of them."""

import numpy as np

DTYPES = (
    *("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "bool"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
UFUNCS = {
    **{"sum": np.add, "prod": np.multiply, "min": np.minimum, "max": np.maximum},
    **{"band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor},
}


def operators(dtype):
    """Return the operators for numbers of this type: floats have no bits, complex numbers no order."""
    return list(UFUNCS)[: {"f": 4, "c": 2}.get(np.dtype(dtype).kind)]


def vectors(random, ranks, shape, dtype):
    """Returns an array a rank of small whole numbers, so that sums and products are exact in any order."""
    generator = np.random.default_rng(random.getrandbits(64))
    values = generator.integers(-2, 3, (ranks, *shape) if isinstance(shape, tuple) else (ranks, shape))
    if np.dtype(dtype).kind == "c":
        values = values + 1j * generator.integers(-1, 2, values.shape)
    return list(values.astype(dtype))


def combined(arrays, op):
    """NumPy's own reduction over the ranks, in the arrays' type."""
    return UFUNCS[op].reduce(np.stack(arrays), axis=0, dtype=arrays[0].dtype)


def block(size, ranks, rank):
    """The elements of rank `rank`'s block of a vector of `size`: every cut rounded down."""
    return slice(size * rank // ranks, size * (rank + 1) // ranks)


def expected(collective, arrays, op, root):
    """Return the result of each rank; None for those that end with nothing."""
    ranks, flat = len(arrays), [array.reshape(-1) for array in arrays]
    own = [block(flat[0].size, ranks, rank) for rank in range(ranks)]
    match collective:
        case "all-reduce":
            return [combined(arrays, op)] * ranks
        case "reduce":
            return [combined(arrays, op) if rank == root else None for rank in range(ranks)]
        case "broadcast":
            return [arrays[root]] * ranks
        case "reduce-scatter":
            return [combined(flat, op)[part] for part in own]
        case "all-gather":
            return [np.concatenate(flat)] * ranks
        case "all-to-all":
            return [np.concatenate([array[part] for array in flat]) for part in own]
    raise AssertionError(collective)


def assert_same(got, wanted):
    """Compares results rank by rank: values, shapes and types."""
    assert len(got) == len(wanted)
    for one, other in zip(got, wanted, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert one.dtype == other.dtype
            assert one.shape == other.shape
            np.testing.assert_array_equal(one, other)
