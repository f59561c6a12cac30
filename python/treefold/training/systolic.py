"""Compute time of the MultiTree paper's accelerator: systolic arrays with stationary outputs, a sample on each.

Source: MultiTree (ISCA 2021), section V and Table III, and what its authors' extension of SCALE-Sim counts
(shared/reference/multitree-authors.md). A product has P outputs a filter, each a sum of W terms, for F filters. The
array computes 32 x 32 of them at a time; one fold takes W cycles, rows and columns start a cycle after each other. A
pass takes the longer of reading operands and writing results.

| pass | P | W | F |
|---|---|---|---|
| forward | output pixels | window x channels | filters |
| input gradient | input pixels | window x filters | channels |
| filter gradient | window x channels | output pixels | filters |

The input gradient is computed with zeros between outputs (a stride saves nothing) and for the first layer, too.
"""

from dataclasses import dataclass

from treefold.errors import TreefoldError
from treefold.training.layers import Layer, positive


@dataclass(frozen=True, kw_only=True)
class Systolic:
    """Arrays that work on a sample each; the defaults are Table III."""

    arrays: int = 16
    rows: int = 32
    columns: int = 32
    clock_hz: float = 1e9
    name: str = "systolic"
    number_bytes: int = 4
    """Of weights and activations."""
    gradient_bytes: int = 4
    """Of each parameter."""
    launch_s: float = 0.0
    """Network interfaces hold the schedule."""
    stolen: float = 0.0
    """Part of the compute that an all-reduce takes away."""

    def __post_init__(self) -> None:
        for name in ("arrays", "rows", "columns", "clock_hz", "number_bytes", "gradient_bytes"):
            positive(f"{self.name}'s {name}", getattr(self, name))

    def check(self, batch: int) -> None:
        """Refuse a batch that does not keep all arrays equally busy."""
        if batch % self.arrays:
            least = max(1, round(batch / self.arrays)) * self.arrays
            raise TreefoldError(
                f"batch {batch} does not divide over the accelerator's {self.arrays} arrays; take for example {least}"
            )

    def cycles(self, layer: Layer, batch: int) -> tuple[int, int, int]:
        """Return the cycles of a layer's forward pass, input gradient and filter gradient."""
        if not layer.macs:
            return 0, 0, 0
        each = [cycles * layer.copies * batch // self.arrays for cycles in self._of_a_sample(layer)]
        return each[0], each[1], each[2]

    def _of_a_sample(self, layer: Layer) -> tuple[int, int, int]:
        array = (self.rows, self.columns)
        covered = layer.window * layer.channels
        forward = max(
            _read(layer.outputs, covered, layer.filters, array),
            _write(layer.outputs, covered, layer.filters, array, min(self.columns, layer.filters), by_columns=True),
        )
        # Here the authors' model takes the window alone, or the outputs, for the time of a result.
        to_input = max(
            _read(layer.inputs, layer.window * layer.filters, layer.channels, array),
            _write(layer.inputs, layer.window, layer.channels, array, min(self.rows, layer.inputs)),
        )
        to_filters = max(
            _rows_done(covered, layer.outputs, layer.filters, array),
            _write(covered, layer.outputs, layer.filters, array, min(self.rows, covered)),
        )
        return forward, to_input, to_filters

    def seconds(self, layer: Layer, batch: int, is_reached: bool) -> tuple[float, float]:
        """Return the time of a layer's forward pass, and of its backward pass; elementwise work is free."""
        forward, *backward = self.cycles(layer, batch)
        return forward / self.clock_hz, sum(backward) / self.clock_hz

    def aggregation_s(self, parameters: int) -> float:
        """Return how long the gradients of all arrays take to become one: each array adds a share of them."""
        share = -(-parameters // self.arrays)
        return -(-share // self.columns) * self.arrays / self.clock_hz

    def optimizer_s(self, parameters: int, optimizer_bytes: int) -> float:
        """Memory keeps up, so an update takes no time of its own."""
        return 0.0


def _folds(outputs: int, filters: int, array: tuple[int, int]) -> tuple[int, int, int, int]:
    """Return folds over rows and columns, and how many rows and columns the last of each uses."""
    rows, columns = -(-outputs // array[0]), -(-filters // array[1])
    return rows, columns, outputs - (rows - 1) * array[0], filters - (columns - 1) * array[1]


def _rows_done(outputs: int, terms: int, filters: int, array: tuple[int, int]) -> int:
    """Return when the last row has read what it needs."""
    down, across, last, _ = _folds(outputs, filters, array)
    earlier = (down * across - 1) * terms + array[0] - 1 if down > 1 else 0
    return max(down * across * terms + last - 1, earlier)


def _read(outputs: int, terms: int, filters: int, array: tuple[int, int]) -> int:
    """Return when the last row and the last column have read what they need."""
    down, across, _, last = _folds(outputs, filters, array)
    earlier = down * (across - 1) * terms + array[1] - 1 if across > 1 else 0
    columns_done = max(down * across * terms + last - 1, earlier)
    # With one term a sum there is nothing that a row could still be in the middle of.
    return columns_done if terms == 1 else max(columns_done, _rows_done(outputs, terms, filters, array))


def _write(
    outputs: int, terms: int, filters: int, array: tuple[int, int], fill: int, *, by_columns: bool = False
) -> int:
    """Return when the last result is written: a row of results a cycle, `fill` cycles after a fold's first sum."""
    down, across, last, last_columns = _folds(outputs, filters, array)
    fold = (down - 1) * max(terms, array[0])
    # All columns' results of a fold are written `last` cycles after its last row began, and the next fold's no earlier.
    back = terms - (last + array[1] - 1)
    turn = fold + max(back + fill, last)
    last_turn = fold + max(back + (last_columns if by_columns else fill), last)
    return terms + fill - 1 + max(0, across - 2) * turn + (last_turn if across > 1 else 0) + fold + last
