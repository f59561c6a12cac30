"""PyTorch: the backend `treefold` of torch.distributed, and a communication hook for DDP.

`dist.init_process_group("treefold")` (or `"cpu:treefold"`) gives process groups that run large collectives of CPU
tensors by a plan for the network at hand. They pass everything else, CUDA tensors included, to the backend that they
wrap (gloo, nccl). A plan or a topology comes from TREEFOLD_PLAN or TREEFOLD_TOPOLOGY, from `configure`, or from
`Options` given as `pg_options`; without one everything is passed on. The logger `treefold.torch` says which plan is
used, or why none is, and so does `status`.
"""

from treefold.torch.versions import OLDEST_TORCH, check_torch

check_torch()  # before the modules that import torch

from treefold.runtime.faults import RankLostError  # noqa: E402
from treefold.torch.group import ProcessGroup, register  # noqa: E402
from treefold.torch.hook import comm_hook, status  # noqa: E402
from treefold.torch.options import Options, configure  # noqa: E402
from treefold.torch.reporting import Status  # noqa: E402

register()

__all__ = [
    "OLDEST_TORCH",
    "Options",
    "ProcessGroup",
    "RankLostError",
    "Status",
    "comm_hook",
    "configure",
    "register",
    "status",
]
