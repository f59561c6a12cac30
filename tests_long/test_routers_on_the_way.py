"""On a WAN in a box (root): an ordinary user's traceroute finds the routers, also where some are silent."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

if os.geteuid():
    pytest.skip("needs root, for network namespaces", allow_module_level=True)

from tools import wan_box
from tools.wan_box import network
from treefold.probe.routers import shared_ways

WAN = Path(__file__).resolve().parent.parent / "bench" / "wan"
NETWORKS = [WAN / "underlays" / "router-mesh.json", WAN / "underlays" / "provider.json"]
NETWORKS += [WAN / "underlays" / "asymmetric-conduits.json", WAN / "topologies" / "six-delayed.json"]
NOBODY = ["setpriv", "--reuid", "65534", "--clear-groups"]
ASK = """
import json, sys
from treefold.probe import routers
routers._DATA_BYTES = int(sys.argv[1])
print(json.dumps(routers.routes_to(sys.argv[2:], 3.0)))
"""
SILENT = ["iptables-legacy", "-A", "OUTPUT", "-p", "icmp", "-j", "DROP"]


def found(box, data_bytes=16):
    """The routers by name on the way of each pair of workers, all workers at once."""
    names, pipe = {box.address(node): node for node in box.network.nodes}, subprocess.PIPE
    asking = {}
    for worker in box.workers:
        others = [box.address(other) for other in box.workers if other != worker]
        command = [*NOBODY, sys.executable, "-c", ASK, str(data_bytes), *others]
        asking[worker] = box.popen(worker, command, stdout=pipe, text=True)
    routes = {}
    for worker, process in asking.items():
        others = [other for other in box.workers if other != worker]
        for other, route in zip(others, json.loads(process.communicate()[0]), strict=True):
            routes[worker, other] = [names.get(address) for address in route]
    return routes


def true_routes(box):
    hops, nodes = network.next_hops(box.network), box.network.nodes
    return {
        (a, b): [nodes[end] for _, end in network.route(hops, nodes.index(a), nodes.index(b))][:-1]
        for a in box.workers
        for b in box.workers
        if a != b
    }


@pytest.mark.parametrize("path", NETWORKS, ids=lambda path: path.stem)
def test_an_ordinary_user_finds_all_routers(path):
    with wan_box.up(path, "routers") as box:
        routes = found(box)
        assert routes == true_routes(box)
        if path.stem == "provider":
            assert frozenset({("w0", "w2"), ("w0", "w3"), ("w1", "w2")}) in shared_ways(routes)


def test_silent_routers_and_targets():
    with wan_box.up(NETWORKS[0], "routers") as box:
        for node in ("r0", "w3"):
            box.run(node, SILENT)
        truth = true_routes(box)
        for (source, target), route in found(box).items():
            wanted = [None if router == "r0" else router for router in truth[source, target]]
            while target == "w3" and wanted and wanted[-1] is None:
                wanted.pop()
            assert route == [*wanted, *([None] if target == "w3" else [])]


def test_routers_that_quote_no_data():
    """They answer six questions at once, and of the second round one a second, so that three targets are few enough."""
    with wan_box.up(NETWORKS[1], "routers") as box:
        truth = true_routes(box)
        for pair, route in found(box, data_bytes=0).items():
            assert len(route) == len(truth[pair])
            assert all(router in (None, true) for router, true in zip(route, truth[pair], strict=True))
