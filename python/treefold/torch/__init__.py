"""PyTorch: the backend `treefold` of torch.distributed, and a communication hook for DDP.

`dist.init_process_group("treefold")` (or `"cpu:treefold"`) gives process groups that run collectives of tensors of
4 KiB or more (`least_bytes`) by a plan for the network at hand. PyTorch 2.14 and later find the backend by themselves.
With older versions, of which 2.10 is the oldest that works, `import treefold.torch` first.

The planned calls are `all_reduce`, `all_reduce_coalesced`, `broadcast`, `reduce`, `all_gather_into_tensor`,
`reduce_scatter_tensor`, and `all_to_all_single`. The groups pass everything else,
`all_gather` with a list included, to the backend that they wrap (gloo, nccl). With certificates (TREEFOLD_TLS), calls
of any size are planned, and so are `all_gather` with a list and `barrier`, as only planned calls are encrypted. With a
plan of `ring2d`, `p2p`, `exchange`, `hierarchical` or `recursive-doubling`, only the all-reduces are planned calls.

The options of a group are those of `pg_options=Options(...)`, else those of `configure`, else those of the environment
(TREEFOLD_PLAN, TREEFOLD_TOPOLOGY and others). Only one of the three counts: with options from elsewhere, the
environment's are ignored. TREEFOLD_NAME and TREEFOLD_INTERFACE are no options, and are always read. With neither a plan
nor a topology, everything is passed on. The logger `treefold.torch` says which plan is used, or why none is, and so
does `status`.

A rank here is torch's: the number of a process. The rest of treefold calls it a worker, and so do errors about lost
processes.
"""

from treefold.torch.versions import OLDEST_TORCH, check_torch

check_torch()  # before the modules that import torch

from treefold.runtime.faults import RankLostError  # noqa: E402
from treefold.torch.group import ProcessGroup, register  # noqa: E402
from treefold.torch.hook import comm_hook, status  # noqa: E402
from treefold.torch.options import Options, configure  # noqa: E402
from treefold.torch.reporting import Status  # noqa: E402
from treefold.torch.statistics import CallStatistics, GroupStatistics, statistics  # noqa: E402

register()

__all__ = [
    "OLDEST_TORCH",
    "CallStatistics",
    "GroupStatistics",
    "Options",
    "ProcessGroup",
    "RankLostError",
    "Status",
    "comm_hook",
    "configure",
    "register",
    "statistics",
    "status",
]
