"""Says what limits a network, and what changes of it are worth.

`network` gathers the answer, `cables` names cables, `questions` reads changes, `what_if` bounds and plans a changed
network, and `limits` prices limits on trees.
"""

from treefold.explaining.network import QUICK, explain

__all__ = ["QUICK", "explain"]
