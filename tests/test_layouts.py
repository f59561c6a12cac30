"""Layouts: where nodes stand, by what a network is; no two at one place, and the same places each time."""

import itertools
import json

import numpy as np
import pytest

import treefold
from treefold.layouts import centre_longitude, layout, layouts
from treefold.viewing.columns import unpack
from treefold.viewing.pages import page_parts

pytestmark = pytest.mark.filterwarnings("ignore::treefold.importers.TopologyWarning")
KINDS = {
    "ring:8": "ring",
    "ring:2": "line",
    "line:1": "line",
    "line:5": "line",
    "full:8": "ring",
    "mesh:5x5": "grid",
    "mesh:1x4": "line",
    "torus:1x5": "ring",
    "torus:4x4": "grid",
    "torus:2x4": "grid",
    "twisted-torus:4x8": "grid",
    "torus:3x4x5": "space",
    "twisted-torus:4x4x8": "space",
    "hypercube:3": "space",
    "hypercube:4": "grid",
    "hypercube:5": "space",
    "hypercube:6": "space",
    "torus:3x3x3x3": "grid",
    "mesh:2x3x2x3x2": "grid",
    "dgx1": "force",
    "dgx2": "layers",
    "dgx2:planes=6": "layers",
    "fattree:8,2": "layers",
    "fattree:levels=3,radix=4": "layers",
    "fattree:radix=8,taper=2": "layers",
    "fattree128": "layers",
    "bigraph:4x8": "layers",
    "cluster:nodes=4,gpus=8,rails=8": "layers",
    "cluster:nodes=4,gpus=8,pods=2,spines=2,taper=1": "layers",
    "nvl72:nodes=2": "layers",
    "dragonfly:groups=9,routers=4": "ring",
    "hammingmesh:boards=2x2": "grid",
    "hammingmesh:board=3x2,boards=1x3": "grid",
    "hammingmesh:board=2x2,boards=1x1": "grid",
    "b4": "force",
    "idn-like": "force",
    "random:n=20,links=60,seed=1": "force",
    "random:n=1700,links=1800,seed=1": "force",
}


def ends(network):
    """Returns the places of the ends of each link, in the order of the layout."""
    place_of = {node.name: place for place, node in enumerate(network.nodes())}
    return np.array([(place_of[link.source], place_of[link.target]) for link in network.links()]).reshape(-1, 2)


def nearest(positions):
    distances = np.linalg.norm(positions[:, None] - positions[None], axis=2)
    np.fill_diagonal(distances, np.inf)
    return distances.min(axis=1)


@pytest.mark.parametrize("spec", KINDS)
def test_every_kind_has_a_place_for_each_node_and_the_same_one_each_time(spec):
    network = treefold.topology(spec)
    found = layout(network)
    assert found.kind == KINDS[spec]
    assert found.positions.shape == (len(network.nodes()), 3) and np.isfinite(found.positions).all()
    assert len(found.wraps) == len(found.stubs) == len(found.bends) == network.num_links
    assert len(np.unique(found.positions.round(4), axis=0)) == len(found.positions), "no two nodes at one place"
    again = layout(treefold.Topology.from_json(network.to_json()))
    for name in ("positions", "wraps", "stubs", "bends", "guessed"):
        assert getattr(found, name).tobytes() == getattr(again, name).tobytes()
    assert not found.guessed.any()


@pytest.mark.parametrize(
    "spec", ["ring:8", "line:5", "mesh:5x5", "torus:4x4", "torus:2x4", "torus:3x4x5", "hypercube:4"]
)
def test_neighbours_in_a_grid_are_one_apart(spec):
    network = treefold.topology(spec)
    found = layout(network)
    pairs = ends(network)[~found.wraps]
    lengths = np.linalg.norm(found.positions[pairs[:, 0]] - found.positions[pairs[:, 1]], axis=1)
    assert np.allclose(lengths, 1)
    assert spec == "hypercube:4" or np.allclose(nearest(found.positions), 1)


@pytest.mark.parametrize("sides", [(4, 4), (2, 5), (3, 4), (3, 4, 5), (3, 3, 3, 3)])
def test_the_links_that_leave_the_picture_are_those_around_an_edge(sides):
    network = treefold.topology(f"torus:{'x'.join(map(str, sides))}")
    found = layout(network)
    cells = np.array(list(itertools.product(*map(range, sides))))
    moves = cells[ends(network)[:, 1]] - cells[ends(network)[:, 0]]
    assert np.array_equal(found.wraps, np.abs(moves).sum(axis=1) > 1)
    assert (found.stubs[~found.wraps] == 0).all()
    lengths = np.linalg.norm(found.stubs[found.wraps], axis=1)
    assert np.allclose(lengths, 0.5)
    # A stub goes away from the other end, and both directions of a cable have opposite ones.
    along = found.positions[ends(network)[:, 1]] - found.positions[ends(network)[:, 0]]
    assert ((along * found.stubs).sum(axis=1)[found.wraps] < 0).all()
    stub_of = {tuple(pair): tuple(stub) for pair, stub in zip(ends(network).tolist(), found.stubs, strict=True)}
    assert all(np.allclose(stub_of[pair], np.negative(stub_of[pair[::-1]])) for pair in stub_of)


def test_twisted_tori_leave_at_the_edge_that_they_run_around():
    network = treefold.topology("twisted-torus:4x8")
    found = layout(network)
    assert found.wraps.sum() == 2 * (8 + 4)
    upwards = {tuple(pair) for pair in ends(network)[found.stubs[:, 1] > 0].tolist()}
    assert upwards == {(column, 24 + (column + 4) % 8) for column in range(8)}


def test_a_grid_stays_a_grid_when_a_link_fails_and_when_nodes_are_capped():
    torus = treefold.topology("torus:4x4")
    whole = layout(torus).positions
    assert np.array_equal(layout(torus.without_links([("GPU0", "GPU1")])).positions, whole)
    assert np.array_equal(layout(torus.with_ranks([5, 3])).positions, whole)
    assert np.array_equal(layout(treefold.topology("torus:4x4", node_cap="1GB/s")).positions, whole)
    assert layout(treefold.topology("ring:8").renamed("torus:2x4")).kind == "ring", "a name is only a guess"
    assert layout(treefold.topology("b4").renamed("torus:3x4")).kind == "force"


@pytest.mark.parametrize("spec", [spec for spec, kind in KINDS.items() if kind == "layers"])
def test_switches_stand_beyond_their_accelerators(spec):
    """Switches are above their accelerators, or below all of them; of two halves one hangs upside down."""
    network = treefold.topology(spec)
    found, nodes = layout(network), network.nodes()
    height = {}
    for source, target in ends(network):
        if not nodes[source].is_switch and nodes[target].is_switch:
            side = np.sign(found.positions[target, 1] - found.positions[source, 1])
            assert side and height.setdefault(target, side) == side
    if spec.startswith("fattree"):
        assert set(height.values()) == {1}
    for one, other in ends(network):
        assert found.positions[one, 1] != found.positions[other, 1], "no link runs along a layer"


def sites(coordinates, links):
    nodes = [
        {"name": name} | ({} if at is None else {"latitude": at[0], "longitude": at[1]})
        for name, at in coordinates.items()
    ]
    cables = [{"source": a, "target": b, "bandwidth_Bps": 1e9, "both_ways": True} for a, b in links]
    document = {"format": "treefold-topology", "version": 1, "name": "sites", "nodes": nodes, "links": cables}
    return treefold.Topology.from_json(json.dumps(document))


def test_maps_have_degrees_and_guess_what_is_missing_from_neighbours():
    at = {"Suva": (-18, 178), "Apia": (-14, -172), "Nadi": (-18, 178), "near": None, "beyond": None}
    links = [("Suva", "Apia"), ("Apia", "near"), ("Suva", "near"), ("near", "beyond"), ("Nadi", "Suva")]
    found = layout(sites(at, links))
    assert found.kind == "map" and found.guessed.tolist() == [False, False, False, True, True]
    assert found.positions[:2, :2].tolist() == [[178, -18], [-172, -14]]
    near = found.positions[3]
    assert abs(near[0]) > 170 and -20 < near[1] < -12, "the mean of places on both sides of the antimeridian"
    assert len(np.unique(found.positions.round(6), axis=0)) == 5
    assert abs(centre_longitude(found.positions[:, 0])) > 170
    assert layout(sites({"a": (1, 2), "b": None, "c": None}, [("a", "b"), ("b", "c")])).kind == "force"
    assert layout(sites({"a": (1, 2)}, [])).kind == "map"


def test_stress_layouts_show_distances():
    network = treefold.topology("random:n=40,links=50,seed=2")
    found = layout(network)
    pairs = ends(network)
    lengths = np.linalg.norm(found.positions[pairs[:, 0]] - found.positions[pairs[:, 1]], axis=1)
    assert np.isclose(lengths.mean(), 1, atol=0.01) and lengths.max() < 2.5
    path = layout(treefold.topology("line:30").renamed("path").without_links([]))
    assert path.kind == "line"


def test_links_bend_around_nodes_that_they_would_cover():
    row = [f"n{place}" for place in range(3)]
    links = [*itertools.pairwise(row), ("n0", "n2")]
    found = layout(treefold.topology("line:3"))
    assert not found.bends.any()
    bent = layout(treefold.topology("torus:3x3x3x3"))
    network = treefold.topology("torus:3x3x3x3")
    bend_of = {tuple(pair): bend for pair, bend in zip(ends(network).tolist(), bent.bends, strict=True)}
    assert any(bend_of.values())
    assert all(bend_of[pair] == -bend_of[pair[::-1]] for pair in bend_of), "both directions are one curve"
    assert len(links) == 3


def test_networks_in_parts_have_a_layout():
    network = treefold._core.described_topology(
        json.dumps(
            {
                "format": "treefold-topology",
                "version": 1,
                "nodes": [{"name": name} for name in "abcd"],
                "links": [{"source": "a", "target": "b", "bandwidth_Bps": 1e9, "both_ways": True}],
            }
        )
    )[0]
    assert len(np.unique(layout(network).positions.round(3), axis=0)) == 4


@pytest.mark.parametrize("spec", ["b4", "torus:4x4", "torus:3x4x5", "ring:8", "dgx1", "cluster:nodes=4,gpus=8,rails=8"])
@pytest.mark.parametrize("is_whole_first", [True, False])
def test_what_is_left_of_a_network_stands_where_it_stood(spec, is_whole_first):
    whole = treefold.topology(spec)
    part = whole.without_nodes([whole.rank_names[1]])
    if spec != "ring:8":  # which is a line by now
        link = part.links()[-1]
        part = part.without_links([(link.source, link.target)], one_way=True)
    pair = [whole, part] if is_whole_first else [part, whole]
    found = dict(zip(("whole", "part") if is_whole_first else ("part", "whole"), layouts(pair), strict=True))
    before, after = found["whole"][0], found["part"][0]
    assert found["part"][1] == found["whole"][1] == pair.index(whole)
    places = {node.name: position for node, position in zip(whole.nodes(), before.positions.tolist(), strict=True)}
    assert [places[node.name] for node in part.nodes()] == after.positions.tolist()
    looks = {}
    for network, placed in ((whole, before), (part, after)):
        by_link = zip(network.links(), placed.wraps.tolist(), placed.stubs.tolist(), placed.bends.tolist(), strict=True)
        looks[network] = {((link.source, link.target), wraps, *stub, bend) for link, wraps, stub, bend in by_link}
    assert looks[part] <= looks[whole]
    assert np.array_equal(before.positions, layout(whole).positions)


@pytest.mark.parametrize(("one", "other"), [("torus:4x4", "ring:16"), ("torus:4x4", "full:16"), ("b4", "ring:12")])
def test_networks_that_are_not_left_of_each_other_have_their_own_layouts(one, other):
    pair = [treefold.topology(one), treefold.topology(other)]
    for network, (found, place) in zip(pair, layouts(pair), strict=True):
        assert pair[place] == network
        assert np.array_equal(found.positions, layout(network).positions)


def test_a_page_has_room_for_what_is_gone():
    b4 = treefold.topology("b4")
    page = treefold.view(b4, b4.without_nodes(["site9"]), algorithm="mtree", size_bytes="1MiB", names=["now", "then"])
    assert [scene.label for scene in page.scenes] == ["mtree, 1MiB (now)", "mtree, 1MiB (then)"]
    document, blocks = page_parts(page.title, page.scenes)
    whole, part = (unpack(blocks[network["columns"]]) for network in document["networks"])
    assert len(whole["frame"]) == 0 and np.array_equal(part["frame"], whole["positions"])
    names, left = (network["nodes"] for network in document["networks"])
    places = [names.index(name) for name in left]
    assert np.array_equal(whole["positions"].reshape(-1, 3)[places], part["positions"].reshape(-1, 3))
