"""treefold: give it your network; get the fastest all-reduce for it."""

from treefold._core import TreefoldError

__all__ = ["TreefoldError"]
