"""Lays networks out: where each node stands in a picture, for the drawings of papers and for the interactive viewer.

`place` chooses the kind of the layout: `grids` places lines, rings, grids and tori, `hamming` HammingMeshes, `circles`
complete networks and dragonflies, `layers` switch networks, `geography` networks with coordinates, and `stress` all
others. `graph` is the network that they place, `bends` finds the links that would run over a node, and
`kept` keeps the places of what is left of a network.
"""

from treefold.layouts.geography import centre_longitude
from treefold.layouts.kept import layouts
from treefold.layouts.place import Layout, layout

__all__ = ["Layout", "centre_longitude", "layout", "layouts"]
