"""Where nodes are, and which of them are ranks."""

import pytest

import treefold
from commands import command
from reading import put, refused
from treefold import TreefoldError, importers
from treefold.ranks import places_of

pytestmark = pytest.mark.filterwarnings("ignore::treefold.importers.TopologyWarning")


# Where things are


ZOO = """<graphml><key id="y" for="node" attr.name="Latitude" attr.type="double"/>
<key id="x" for="node" attr.name="Longitude" attr.type="double"/><key id="l" for="node" attr.name="label"/>
<graph><node id="0"><data key="y">38.9</data><data key="x">-77.0</data><data key="l">Washington, DC</data></node>
<node id="1"><data key="l">Nowhere</data></node><edge source="0" target="1"/></graph></graphml>"""
GML = 'graph [ node [ id 0 label "Washington, DC" Latitude 38.9 Longitude -77.0 ] node [ id 1 label "Nowhere" ] {} ]'
NODE_LINK = """{"nodes": [{"id": "Washington, DC", "latitude": 38.9, "longitude": -77}, {"id": "Nowhere"}],
"edges": [{"source": "Nowhere", "target": "Washington, DC"}]}"""


@pytest.mark.parametrize(
    ("name", "content"),
    [("z.graphml", ZOO), ("z.gml", GML.format("edge [ source 0 target 1 ]")), ("z.json", NODE_LINK)],
)
@pytest.mark.parametrize("extension", ["json", "graphml", "dot"])
def test_positions_are_read_and_written(tmp_path, name, content, extension):
    places = [("Washington, DC", 38.9, -77.0), ("Nowhere", None, None)]
    out = tmp_path / f"out.{extension}"
    given = put(tmp_path, name, content)
    result = command("topology", str(given), "--bandwidth", "1GB/s", "--latency", "1ms", "-o", str(out))
    assert result.returncode == 0, result.stderr
    for path in (given, out):
        nodes = importers.read(path, bandwidth_Bps=1.0, latency_s=0.0)["nodes"]
        assert [(node["name"], node.get("latitude"), node.get("longitude")) for node in nodes] == places


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        ("Latitude 38.9", "has latitude only; give latitude and longitude, or neither"),
        ("latitude 91 longitude 0", "latitude '91' is not in degrees from -90 to 90"),
        ("latitude 0 longitude -180.5", "longitude '-180.5' is not in degrees from -180 to 180"),
        ("latitude NAN longitude 0", "latitude 'NAN' is not in degrees"),
    ],
)
def test_positions_that_are_none(tmp_path, position, expected):
    assert expected in refused(put(tmp_path, "p.gml", f"graph [ node [ id 0 {position} ] ]"))


# Which ranks


CITIES = ["Washington, DC", "Denver", "DC", "Amsterdam", "Seattle, WA, USA", "5"]


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ("Washington, DC,Denver", [0, 1]),
        ("Denver, DC , Seattle, WA, USA", [1, 2, 4]),
        ("0-2,Amsterdam", [0, 1, 2, 3]),
        ("5,4", [5, 4]),
        (["Washington, DC", 3], [0, 3]),
    ],
)
def test_names_of_ranks_may_hold_commas(ranks, expected):
    assert places_of(ranks, CITIES) == expected


@pytest.mark.parametrize(
    ("ranks", "expected"),
    [
        ("amsterdam", "rank 'amsterdam' does not exist; did you mean Amsterdam?"),
        ("Denvr", "did you mean Denver?"),
        ("Paris", "rank 'Paris' does not exist; write indices or names such as 0-7,12 or Washington, DC"),
        ("9" * 5000, f"no accelerator has index '{'9' * 76}...: the network has 6; write indices from 0 to 5"),
        (f"0-{'9' * 5000}", f"no accelerator has index '{'9' * 76}...: the network has 6"),
        ("x" * 5000, f"rank '{'x' * 76}... does not exist"),
        ("2-1", "rank range '2-1' runs backwards; write 1-2"),
    ],
)
def test_ranks_that_do_not_exist(ranks, expected):
    with pytest.raises(TreefoldError) as caught:
        places_of(ranks, CITIES)
    assert expected in str(caught.value)


def test_ranges_that_repeat_cost_nothing():
    with pytest.raises(TreefoldError, match="'GPU0' is listed twice"):
        treefold.topology("full:64", ranks=",".join(["0-63"] * 20_000))
