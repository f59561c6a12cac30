"""Runs plans on real arrays."""

from treefold.runtime.arrays import OPERATORS, run

__all__ = ["OPERATORS", "run"]
