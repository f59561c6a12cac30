"""PyTorch: the backend `treefold` of torch.distributed, and a communication hook for DDP.

`dist.init_process_group("treefold")` (or `"cpu:treefold"`) gives process groups that run large all-reduces of CPU
tensors by a plan for the network at hand and pass everything else, CUDA tensors among it, to the backend they wrap
(gloo, nccl). A plan or a topology comes from TREEFOLD_PLAN or TREEFOLD_TOPOLOGY, from `configure`, or from `Options`
given as `pg_options`; without one everything is passed on. The logger `treefold.torch` tells which it is, and `status`
when asked.
"""

from treefold.torch.versions import OLDEST_TORCH, check_torch

check_torch()  # before the modules that import torch

from treefold.torch.group import ProcessGroup, register  # noqa: E402
from treefold.torch.hook import comm_hook, status  # noqa: E402
from treefold.torch.options import Options, configure  # noqa: E402
from treefold.torch.telling import Status  # noqa: E402
from treefold.workers.group import RankLostError  # noqa: E402

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
