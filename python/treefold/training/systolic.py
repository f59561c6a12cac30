"""Compute time of the MultiTree paper's accelerator: systolic arrays with stationary outputs, each on its own sample.

Sources: MultiTree (Huang et al., ISCA 2021), section V and Table III, and the cycles that its authors' public extension
of SCALE-Sim counts. A product has P outputs for each of F filters; each output is a sum of W terms. An array computes
32 x 32 outputs at a time, which is a fold. A fold takes W cycles; each row and each column starts a cycle after the one
before it. A pass takes the longer of two times: reading all operands, and writing all results.

| pass | P | W | F |
|---|---|---|---|
| forward | output pixels | window x channels | filters |
| input gradient | input pixels | window x filters | channels |
| filter gradient | window x channels | output pixels | filters |

The input gradient is computed with zeros between the outputs, so that a stride saves nothing, and also for the first
layer, which does not need it.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

from treefold import checks
from treefold.errors import TreefoldError
from treefold.training.layers import Layer, LayerTime, check_launch, check_positive

_MOST = 10**9
"""Larger counts and sizes are taken for typing errors."""


class PassCycles(NamedTuple):
    """The clock cycles that a layer takes in each of the three passes."""

    forward: int
    input_gradient: int
    filter_gradient: int


@dataclass(frozen=True, kw_only=True)
class Systolic:
    """Several systolic arrays, each working on one sample at a time; the defaults are those of MultiTree's Table III.

    Elementwise work and the optimizer's update take no time, since memory keeps up with the arrays.

    Attributes:
        arrays: The accelerator has this many arrays; the batch must be a multiple of it.
        rows: Each array has this many rows. It computes rows x columns outputs at a time, which is a fold: a row for
            each position of the output (a pixel, a token), and a column for each filter.
        columns: Each array has this many columns, one for each filter of a fold.
        clock_hz: The arrays run at this many cycles per second.
        name: Tables and errors call the accelerator by this name.
        number_bytes: The size of each weight and of each activation, in bytes.
        gradient_bytes: The gradient of each parameter has this many bytes.
        launch_s: The launch of a collective takes this many seconds, at least 0; by default none, as the network
            interfaces hold the schedule.
        compute_overhead: An all-reduce takes this fraction of the compute while it runs, from 0 to below 1.

    Raises:
        TreefoldError: If a number is not in its range; arrays, rows, columns and sizes are whole numbers of at least 1.

    Example:
        >>> import treefold
        >>> from treefold.training import Systolic
        >>> report = treefold.train("resnet50", "ring:4", "ring", accelerator=Systolic(arrays=8), batch=8)
        >>> report[0].accelerator
        'systolic'

    """

    arrays: int = 16
    rows: int = 32
    columns: int = 32
    clock_hz: float = 1e9
    name: str = "systolic"
    number_bytes: int = 4
    gradient_bytes: int = 4
    launch_s: float = 0.0
    compute_overhead: float = 0.0

    def __post_init__(self) -> None:
        check_positive(f"{self.name}'s clock_hz", self.clock_hz)
        for name in ("arrays", "rows", "columns", "number_bytes", "gradient_bytes"):
            checks.whole(f"{self.name}'s {name}", getattr(self, name), 1, _MOST)
        check_launch(self.name, self.launch_s, self.compute_overhead)

    @property
    def peak_flops(self) -> float:
        """The most floating-point operations that all arrays compute in a second: two for each cell and cycle."""
        return 2.0 * self.arrays * self.rows * self.columns * self.clock_hz

    def check_batch(self, batch: int) -> None:
        """Refuse a batch that does not keep all arrays equally busy.

        Raises:
            TreefoldError: If the batch is not a multiple of `arrays`.

        Example:
            >>> from treefold.training import Systolic
            >>> Systolic(arrays=8).check_batch(12)
            Traceback (most recent call last):
                ...
            treefold.TreefoldError: batch 12 does not divide over systolic's 8 arrays; take 16, or another accelerator

        """
        if batch % self.arrays:
            least = max(1, round(batch / self.arrays)) * self.arrays
            arrays = f"{self.name}'s {self.arrays} arrays"
            raise TreefoldError(f"batch {batch} does not divide over {arrays}; take {least}, or another accelerator")

    def layer_cycles(self, layer: Layer, batch: int) -> PassCycles:
        """Return the cycles of the passes of a layer, as `(forward, input_gradient, filter_gradient)`.

        Example:
            >>> from treefold.training import Systolic, linear
            >>> Systolic().layer_cycles(linear("fc", 512, 1000), batch=16)
            PassCycles(forward=16392, input_gradient=16031, filter_gradient=16416)

        """
        if not layer.macs:
            return PassCycles(0, 0, 0)
        of_a_sample = self._sample_cycles(layer)
        return PassCycles(*(cycles * layer.copies * batch // self.arrays for cycles in of_a_sample))

    def cycles(self, layers: Iterable[Layer], batch: int) -> int:
        """Return the cycles of all passes of all layers.

        Example:
            >>> from treefold.training import Systolic, load
            >>> Systolic().cycles(load("alexnet").layers, batch=16)
            19601806

        """
        return sum(sum(self.layer_cycles(layer, batch)) for layer in layers)

    def layer_time(self, layer: Layer, batch: int) -> LayerTime:
        """Return the seconds that the passes of a layer take, as `(forward_s, backward_s)`.

        Example:
            >>> from treefold.training import Systolic, linear
            >>> Systolic().layer_time(linear("fc", 512, 1000), batch=16).forward_s
            1.6392e-05

        """
        cycles = self.layer_cycles(layer, batch)
        return LayerTime(
            cycles.forward / self.clock_hz, (cycles.input_gradient + cycles.filter_gradient) / self.clock_hz
        )

    def aggregation_s(self, parameters: int) -> float:
        """Return the seconds that the arrays take to add up gradients; each array adds a share of the parameters.

        Example:
            >>> from treefold.training import Systolic
            >>> Systolic().aggregation_s(1 << 20)
            3.2768e-05

        """
        share = -(-parameters // self.arrays)
        return -(-share // self.columns) * self.arrays / self.clock_hz

    def _sample_cycles(self, layer: Layer) -> PassCycles:
        array = _Array(self.rows, self.columns)
        covered = layer.window * layer.channels
        forward = _Product(layer.outputs, covered, layer.filters)
        input_gradient = _Product(layer.inputs, layer.window * layer.filters, layer.channels)
        filter_gradient = _Product(covered, layer.outputs, layer.filters)
        # The authors' model writes the input's gradient as if its sums had the terms of the window alone, and it reads
        # the filters' gradient as if columns were never the last to be done.
        written = input_gradient._replace(terms=layer.window)
        return PassCycles(
            max(_read(forward, array), _write(forward, array, min(self.columns, layer.filters), by_columns=True)),
            max(_read(input_gradient, array), _write(written, array, min(self.rows, layer.inputs))),
            max(_rows_done(filter_gradient, array), _write(filter_gradient, array, min(self.rows, covered))),
        )


class _Array(NamedTuple):
    rows: int
    columns: int


class _Product(NamedTuple):
    """A product as a pass computes it: P, W and F of the table above."""

    outputs: int
    terms: int
    filters: int


class _Folds(NamedTuple):
    """The folds of a product on an array."""

    down: int
    """This many folds cover the outputs."""
    across: int
    """This many folds cover the filters."""
    last_rows: int
    """The last fold of the outputs uses this many rows."""
    last_columns: int
    """The last fold of the filters uses this many columns."""


def _folds(product: _Product, array: _Array) -> _Folds:
    down, across = -(-product.outputs // array.rows), -(-product.filters // array.columns)
    last_rows = product.outputs - (down - 1) * array.rows
    return _Folds(down, across, last_rows, product.filters - (across - 1) * array.columns)


def _rows_done(product: _Product, array: _Array) -> int:
    """Return the cycle in which the last row has read its operands."""
    folds = _folds(product, array)
    count = folds.down * folds.across
    earlier = (count - 1) * product.terms + array.rows - 1 if folds.down > 1 else 0
    return max(count * product.terms + folds.last_rows - 1, earlier)


def _read(product: _Product, array: _Array) -> int:
    """Return the cycle in which the last row and the last column have read their operands."""
    folds = _folds(product, array)
    earlier = folds.down * (folds.across - 1) * product.terms + array.columns - 1 if folds.across > 1 else 0
    columns_done = max(folds.down * folds.across * product.terms + folds.last_columns - 1, earlier)
    # A sum of one term takes one cycle, so that the rows are done when the columns are.
    return columns_done if product.terms == 1 else max(columns_done, _rows_done(product, array))


def _write(product: _Product, array: _Array, fill: int, *, by_columns: bool = False) -> int:
    """Return the cycle in which the last result is written.

    A fold writes a row of results in each cycle, beginning `fill` cycles after its first sum.
    """
    folds, terms = _folds(product, array), product.terms
    earlier_rows = (folds.down - 1) * max(terms, array.rows)
    # The results of a fold are written `last_rows` cycles after its last row began; those of the next fold follow them.
    back = terms - (folds.last_rows + array.columns - 1)
    middle = earlier_rows + max(back + fill, folds.last_rows)
    last_fill = folds.last_columns if by_columns else fill
    last = earlier_rows + max(back + last_fill, folds.last_rows) if folds.across > 1 else 0
    return terms + fill - 1 + max(0, folds.across - 2) * middle + last + earlier_rows + folds.last_rows
