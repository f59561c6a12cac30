"""Makes networks whose shared capacities have other bandwidths."""

import json
from collections.abc import Mapping

from treefold._core import Topology

_FULL = 1 - 1e-9
"""A shared capacity limits nothing if it is at least this part of its links together: the rest is rounding."""


def with_shared_bandwidths(network: Topology, rates_Bps: Mapping[str, float]) -> Topology:
    """Return the network with other bandwidths of shared capacities, by name; one that limits nothing then is left out.

    Args:
        network: The network.
        rates_Bps: The bandwidths.

    """
    links = network.links()
    together_Bps = {shared.name: sum(links[link].bandwidth_Bps for link in shared.links) for shared in network.shared()}
    gone = {name for name, rate_Bps in rates_Bps.items() if rate_Bps >= together_Bps[name] * _FULL}
    document = json.loads(network.to_json())
    listed = [shared for shared in document["shared"] if shared["name"] not in gone]
    document["shared"] = [
        shared | {"bandwidth_Bps": rates_Bps.get(shared["name"], shared["bandwidth_Bps"])} for shared in listed
    ]
    for link in document["links"]:
        link["shares"] = [name for name in link.get("shares", ()) if name not in gone]
    return Topology.from_json(json.dumps(document))
