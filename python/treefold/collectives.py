"""The collectives by name: what ranks hold before and after each, as the core defines them."""

from treefold import _core

COLLECTIVES = {each.name: each for each in _core.collectives()}
"""Every collective."""
