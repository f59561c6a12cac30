"""How sums cross lines: in a smaller type, and with error feedback, which keeps what rounding takes from gradients.

A residual belongs to the memory of a tensor, and ends with it: DDP has its buckets in the same memory at each step, but
memory that is given back may next hold other parameters. So all tensors in one piece of memory share one residual.
"""

from typing import Any

import numpy as np
import torch
from torch import distributed as dist
from torch.multiprocessing.reductions import StorageWeakRef

_SUMS = (dist.ReduceOp.RedOpType.SUM, dist.ReduceOp.RedOpType.AVG)
_ROUNDED = (torch.float32, torch.bfloat16)


class Crossing:
    """The type in which sums of a process group cross lines, and the residuals if there is error feedback.

    Operations of a group run one after the other, and so do the calls of its methods.
    """

    def __init__(self, wire: str | None = None, error_feedback: bool = False, least_bytes: int = 0) -> None:
        self.wire, self.error_feedback, self._least_bytes = wire, error_feedback, least_bytes
        self._residuals: dict[tuple[Any, torch.dtype], tuple[StorageWeakRef, torch.Tensor]] = {}

    def wire_of(self, tensor: torch.Tensor, operator: Any) -> str | None:
        """Return the type in which the numbers of a tensor cross lines; None if they cross as they are."""
        is_rounded = operator in _SUMS and tensor.dtype in _ROUNDED and tensor.nbytes >= self._least_bytes
        return self.wire if is_rounded else None

    def residual_of(self, tensor: torch.Tensor, operator: Any) -> torch.Tensor | None:
        """Return the residual of a tensor, as a view of its shape and strides; None without error feedback."""
        if not self.error_feedback or self.wire_of(tensor, operator) is None:
            return None
        storage = tensor.untyped_storage()
        key = (storage._cdata, tensor.dtype)
        if key not in self._residuals:
            self._residuals = {each: kept for each, kept in self._residuals.items() if not kept[0].expired()}
            # Pages of it that are not used take no memory.
            zeros = np.zeros(storage.nbytes() // tensor.element_size(), np.float32)
            self._residuals[key] = StorageWeakRef(storage), torch.from_numpy(zeros)
        kept = self._residuals[key][1]
        return kept.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset())

    @property
    def kept_bytes(self) -> int:
        """The bytes that the residuals have."""
        return sum(kept.nbytes for _, kept in self._residuals.values())
