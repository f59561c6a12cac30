"""PyTorch: the backend `treefold` of torch.distributed, and a communication hook for DDP.

`import treefold.torch; dist.init_process_group("treefold")` (or `"cpu:treefold"`) gives process groups that run large
all-reduces of CPU tensors by a plan for the network at hand and pass everything else to the backend they wrap (gloo).
A plan or a topology comes from TREEFOLD_PLAN or TREEFOLD_TOPOLOGY, from `configure`, or from `Options` given as
`pg_options`; without one everything is passed on.
"""

from treefold.torch.versions import OLDEST_TORCH, check_torch

check_torch()  # before the modules that import torch

from treefold.torch.group import ProcessGroup, register  # noqa: E402
from treefold.torch.hook import comm_hook  # noqa: E402
from treefold.torch.options import Options, configure  # noqa: E402

register()

__all__ = ["OLDEST_TORCH", "Options", "ProcessGroup", "comm_hook", "configure", "register"]
