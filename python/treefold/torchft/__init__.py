"""torchft: a process group that plans for the sites of each quorum.

`ProcessGroupTreefold` takes the place of torchft's `ProcessGroupGloo` in a `torchft.Manager`. The replica's id says at
which site of the topology it is, so every quorum gets a plan for just the sites that are in it.
"""

from treefold.torchft.versions import check_torchft

check_torchft()  # before the modules that import torchft

from treefold.torchft.group import ProcessGroupTreefold  # noqa: E402

__all__ = ["ProcessGroupTreefold"]
