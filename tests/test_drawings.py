"""Drawings: every kind of picture, in every format, the same bytes each time, and clear words for what is not there."""

import json
import re
import xml.etree.ElementTree as ElementTree
from itertools import pairwise

import numpy as np
import pytest

import treefold
from commands import command, refused
from treefold import TreefoldError
from treefold.report import coasts
from treefold.report.scenes import projected, scene
from treefold.report.strokes import dashes
from treefold.report.traffic import hops, loads

pytestmark = pytest.mark.filterwarnings("ignore::treefold.importers.TopologyWarning")
STARTS = {"png": b"\x89PNG\r\n\x1a\n", "svg": b"<?xml", "pdf": b"%PDF"}


def texts(svg: bytes) -> set[str]:
    """Return the texts of an SVG, which must parse: matplotlib puts each before its shapes as a comment."""
    parser = ElementTree.XMLParser(target=ElementTree.TreeBuilder(insert_comments=True))
    return {each.text.strip() for each in ElementTree.fromstring(svg, parser).iter(ElementTree.Comment)}


@pytest.mark.parametrize("format", STARTS)
@pytest.mark.parametrize(
    "asked", [{"step": 2}, {"tree": 3}, {"tree": [0, 1]}, {"loads": True}, {"limit": True}, {}], ids=str
)
def test_the_same_plan_gives_the_same_bytes(format, asked):
    plan = treefold.plan("torus:3x3", "multitree")
    first = treefold.draw(plan, format=format, **asked)
    assert first.startswith(STARTS[format])
    assert treefold.draw(plan, format=format, **asked) == first


@pytest.mark.parametrize(
    "spec",
    [
        "line:1",
        "line:2",
        "full:4",
        "torus:3x3x3",
        "dgx1",
        "dgx2",
        "fattree:4,2",
        "dragonfly:groups=3,routers=2",
        "hammingmesh:boards=2x2",
        "nvl72:nodes=2",
        "b4",
        "random:n=250,links=300,seed=1",
    ],
)
def test_every_network_has_a_picture(spec):
    said = texts(treefold.draw(spec))
    assert spec in said or any(spec.startswith(part) for part in said)


def test_the_default_is_coloured_trees_or_the_loads_of_many():
    assert any("tree 2: root" in text for text in texts(treefold.draw(treefold.plan("b4", "packing"))))
    many = texts(treefold.draw(treefold.plan("torus:4x4", "multitree")))
    assert "0 to 100 % of the busiest link" in many
    empty = texts(treefold.draw(treefold.plan("ring:1", "ring")))
    assert any("nothing is sent" in text for text in empty) or "ring:1" in empty


def test_a_step_tells_where_its_transfers_go():
    plan = treefold.plan("torus:4x4", "multitree")
    assert any(text.endswith("over links, towards the roots") for text in texts(treefold.draw(plan, step=1)))
    assert any(text.endswith("over links, from the roots") for text in texts(treefold.draw(plan, step=plan.steps)))
    found = texts(treefold.draw(treefold.plan("torus:3x3", "multitree").derive("reduce-scatter"), tree=0))
    assert any(text.endswith("tree 0, towards the roots") for text in found)
    phases = treefold.plan("torus:4x4", "ring2d")
    assert any("phase 0, step 3 of 6" in text for text in texts(treefold.draw(phases, step=3)))
    assert any("phase 1, step 3 of 6" in text for text in texts(treefold.draw(phases, step=3, phase=1)))


def test_trees_of_a_step_have_colours_of_their_own():
    many = treefold.plan("torus:4x4", "multitree")
    assert "tree 0 to tree 15; their roots are filled" in texts(treefold.draw(many, step=1))
    assert "tree 0 to tree 63" in texts(treefold.draw(treefold.plan("torus:4x4", "ring2d"), step=2))
    few = texts(treefold.draw(treefold.plan("torus:3x2", "multitree"), step=1))
    assert {f"tree {number}: root GPU{number}, 16.7 %" for number in range(6)} <= few
    colours = set(re.findall(rb"stroke: (#[0-9a-f]{6}); stroke-width", treefold.draw(many, step=1)))
    assert len(colours) >= 16, "each arrow has the colour of its tree"


def test_roots_of_several_trees_are_said_only_where_there_are_any():
    said = "root of several of these trees"
    plan = treefold.plan("b4", "packing")
    roots = [tree.root for tree in plan.trees()]
    assert (len(set(roots)) < len(roots)) == (said in texts(treefold.draw(plan)))
    assert said not in texts(treefold.draw(plan, tree=0))
    assert said not in texts(treefold.draw(treefold.plan("torus:4x4", "multitree"), step=1))


def test_dashes_fill_a_line_from_end_to_end():
    for length in (0.5, 3.0, 9.7, 40.0):
        parts = dashes(np.array([[0.0, 0.0], [length / 3, 0.0], [length, 0.0]]))
        assert parts[0][0, 0] == 0 and parts[-1][-1, 0] == pytest.approx(length) and len(parts) > 1
        drawn = [float(dash[-1, 0] - dash[0, 0]) for dash in parts]
        assert drawn == pytest.approx([drawn[0]] * len(drawn))
        assert all(before[-1, 0] < after[0, 0] for before, after in pairwise(parts))


def test_a_step_draws_all_transfers_of_the_step():
    for network, algorithm in (("fattree:4,2", "ring"), ("torus:3x4", "multitree"), ("torus:4x4", "ring2d")):
        plan = treefold.plan(network, algorithm)
        place, trees = scene(plan.topology), plan.trees()
        expected = sorted(
            ((place.place_of[a], place.place_of[b]), number, to_root)
            for number, tree in enumerate(trees)
            for edges, to_root in ((tree.reduce(), True), (tree.broadcast(), False))
            for edge in edges
            if edge.step == 2
            for a, b in pairwise(edge.route)
        )
        assert sorted(map(tuple, hops(place, plan, range(len(trees)), 2))) == expected != []


@pytest.mark.parametrize("network", ["b4", "fattree:4,2", "dgx1"])
def test_loads_are_those_that_the_flow_simulator_finds(network):
    plan = treefold.plan(network, "ring" if network == "fattree:4,2" else "packing")
    found = loads(scene(plan.topology), plan, range(plan.num_trees))
    names = [node.name for node in plan.topology.nodes()]
    busy = {}
    for use in treefold.trace(plan, size_bytes="64MiB").links():
        busy.setdefault((use.source, use.target), []).append(use.full_rate_s)
    busy = {pair: sum(times) / len(times) for pair, times in busy.items() if sum(times)}
    most = max(busy.values())
    assert {(names[a], names[b]) for a, b in found} == set(busy)
    assert all(np.isclose(share, busy[names[a], names[b]] / most, rtol=0.02) for (a, b), share in found.items())


def test_the_limit_names_its_rate():
    said = " ".join(sorted(texts(treefold.draw("b4", limit=True)), key=len))
    assert "at most 37.5MB/s" in said and "limits the rate" in said
    treefold.draw(treefold.plan("ring:4", "ring"), limit=True)
    treefold.draw("line:1", limit=True)


def test_names_with_markup_are_drawn_as_they_are():
    names = ["$a_b$", "<b>&amp;", 'it\'s "quoted"', "\\frac{1}{0}", "日本", "x" * 60]
    document = {
        "format": "treefold-topology",
        "version": 1,
        "name": "$net$ <script>",
        "nodes": [{"name": name} for name in names],
        "links": [{"source": a, "target": b, "bandwidth_Bps": 1e9, "both_ways": True} for a, b in pairwise(names)],
    }
    network = treefold.Topology.from_json(json.dumps(document))
    for format in STARTS:
        treefold.draw(network, format=format)
    said = texts(treefold.draw(treefold.plan(network, "packing"), tree=0))
    assert "$net$ <script>" in {text.replace("&lt;", "<").replace("&gt;", ">") for text in said}


def test_coasts_are_drawn_where_there_are_any(tmp_path, monkeypatch):
    at = [("a", -9, 178), ("b", 0, -170), ("c", 5, 175)]
    document = {
        "format": "treefold-topology",
        "version": 1,
        "nodes": [{"name": name, "latitude": up, "longitude": across} for name, up, across in at],
        "links": [{"source": a, "target": b, "bandwidth_Bps": 1e9, "both_ways": True} for a, b in ("ab", "bc")],
    }
    network = treefold.Topology.from_json(json.dumps(document))
    monkeypatch.setattr(coasts, "COASTS", tmp_path / "coasts.json")
    bare = treefold.draw(network)
    coasts.COASTS.write_text(json.dumps([[[176, -5], [-176, 2]], [[-10, 0], [10, 0]]]))
    assert treefold.draw(network) != bare
    flat = projected(scene(network).laid.positions[:, :2], scene(network).laid.positions[:, :2])
    assert np.ptp(flat[:, 0]) == pytest.approx(15), "the sites stand side by side across the antimeridian"


@pytest.mark.parametrize(
    ("source", "asked", "words"),
    [
        ("plan", {"step": 99}, "step 99 does not exist; the last step is 6"),
        ("plan", {"step": 0}, "step 0 does not exist"),
        ("plan", {"tree": 9}, "tree 9 does not exist; the plan has 9 trees, 0 to 8"),
        ("plan", {"tree": -1}, "tree -1 does not exist"),
        ("plan", {"tree": []}, "no tree is named"),
        ("plan", {"tree": list(range(9))}, "only 8 can be told apart"),
        ("plan", {"phase": 1}, "phase 1 does not exist; the plan has only phase 0"),
        ("plan", {"step": 1, "loads": True}, "drop one of the two"),
        ("plan", {"limit": True, "tree": 1}, "drop one of the two"),
        ("plan", {"format": "gif"}, "use one of png, svg, pdf"),
        ("stream", {"step": 1}, "have no steps"),
        ("empty", {"step": 1}, "step 1 does not exist; nothing is sent"),
        ("empty", {"tree": 1}, "tree 1 does not exist"),
        ("ring:4", {"step": 1}, "plan on it first"),
        ("rong:4", {}, "neither a file nor a known spec"),
    ],
)
def test_what_cannot_be_drawn_is_told(source, asked, words):
    plans = {"plan": ("torus:3x3", "multitree"), "stream": ("b4", "packing"), "empty": ("ring:1", "ring")}
    drawn = treefold.plan(*plans[source]) if source in plans else source
    with pytest.raises(TreefoldError) as error:
        treefold.draw(drawn, **asked)
    assert words in str(error.value) and str(error.value).isprintable()


def drawn(*arguments):
    """Return what a command says on its second stream, when it has drawn; it says nothing on the first."""
    done = command("draw", *arguments)
    assert (done.returncode, done.stdout) == (0, ""), done.stderr
    return done.stderr


def test_the_command_draws_networks_plans_and_files(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert drawn("b4", "-o", "b4.pdf") == "wrote b4.pdf\n"
    assert (tmp_path / "b4.pdf").read_bytes() == treefold.draw("b4", format="pdf")
    plan = treefold.plan("torus:3x3", "multitree")
    drawn("torus:3x3", "-a", "multitree", "--tree", "0-1,4", "-o", "trees.svg")
    assert (tmp_path / "trees.svg").read_bytes() == treefold.draw(plan, tree=[0, 1, 4])
    treefold.save(plan, "plan.json")
    drawn("plan.json", "--step", "3", "-o", "step.png")
    assert (tmp_path / "step.png").read_bytes() == treefold.draw(plan, step=3, format="png")
    drawn("line:3", "--loads", "-o", "loads.svg")
    assert "already a plan; drop --algorithm" in refused("draw", "plan.json", "-a", "ring", "-o", "x.svg")
    assert "use one of .png, .svg, .pdf" in refused("draw", "b4", "-o", "x.jpg")
    assert "has no extension" in refused("draw", "b4", "-o", "x")
    for text in ("x", "1-", "3-1", "0-99999999999", "1,,2", "²"):
        assert f"--tree {text}" in refused("draw", "plan.json", "--tree", text, "-o", "x.svg")
    assert "--limit marks links" in refused("draw", "plan.json", "--limit", "--tree", "1", "-o", "x.svg")
    assert "--loads draws all" in refused("draw", "plan.json", "--loads", "--step", "1", "-o", "x.svg")
    assert command("draw", "b4").returncode == 2
    assert not (tmp_path / "x.svg").exists()
