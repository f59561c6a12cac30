"""Pages of plans: what is in them is what Python knows, they load nothing and run nothing but their own script."""

import base64
import hashlib
import html
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import treefold
from commands import command, refused
from treefold import TreefoldError
from treefold.viewing.columns import pack, unpack
from treefold.viewing.scenes import scene_columns, transfers_of, trees_that_fit

TYPES = ("uint8", "uint16", "int32", "uint32", "float32", "float64")
MEGABYTE = 10**6
HOSTILE = "</script><script>alert(1)</script><!--<img src=x onerror=\"alert('1')\">&amp;{document}{columns}"
ONCE = ("bytes", "sending", "latency")
"""The columns of transfers that hold no numbers of other transfers."""


class Elements(HTMLParser):
    """The elements of a page in their order, and the text in each that has an id, and in titles."""

    def __init__(self, page):
        super().__init__()
        self.tags, self.texts, self._within = [], {}, None
        self.feed(page)

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, tuple(sorted(name for name, _ in attrs))))
        self._within = dict(attrs).get("id", tag)

    def handle_endtag(self, tag):
        self._within = None

    def handle_data(self, data):
        self.texts[self._within] = self.texts.get(self._within, "") + data


def document_of(page):
    return json.loads(Elements(page.html).texts["document"])


def block_of(page, name):
    return unpack(base64.b64decode(Elements(page.html).texts[name]))


def hostile_network():
    """Returns a ring of four whose nodes and name are markup."""
    document = json.loads(treefold.topology("ring:4").to_json())
    names = {f"GPU{number}": f"{number}{HOSTILE}" for number in range(4)}
    for node in document["nodes"]:
        node["name"] = names[node["name"]]
    for link in document["links"]:
        link["source"], link["target"] = names[link["source"]], names[link["target"]]
    kept = {key: document[key] for key in ("format", "version", "nodes", "links")}
    return treefold.topology(kept | {"name": HOSTILE})


def numbers(kind):
    """Returns a strategy for lists of numbers of a type."""
    if kind.startswith("float"):
        return st.lists(st.floats(width=int(kind[5:]), allow_nan=False), max_size=40)
    limits = np.iinfo(kind)
    whole = st.integers(int(limits.min), int(limits.max))
    return st.one_of(st.lists(whole, max_size=40), st.lists(whole, max_size=40).map(sorted))


@given(st.lists(st.sampled_from(TYPES).flatmap(lambda kind: st.tuples(st.just(kind), numbers(kind))), max_size=5))
@settings(max_examples=100, derandomize=True, database=None, deadline=None)
def test_what_is_packed_is_unpacked(drawn):
    columns = {f"column {place}": np.array(values, kind) for place, (kind, values) in enumerate(drawn)}
    block = pack(columns)
    found = unpack(block)
    assert list(found) == list(columns)
    for name, values in columns.items():
        assert found[name].dtype == values.dtype
        assert found[name].tobytes() == values.tobytes()
    assert pack(columns) == block


def test_numbers_that_grow_take_little_room():
    growing = np.cumsum(np.arange(100_000) % 7).astype(np.uint32)
    assert len(pack({"a": growing})) < 10_000


@pytest.mark.parametrize("network", ["torus:4x4", "b4", "dgx2:planes=6", "random:n=8,links=12,seed=1"])
def test_a_page_loads_nothing_and_runs_its_own_script_only(network):
    page = treefold.view(network, algorithm="multitree", size_bytes="1MiB").html
    addresses = set(re.findall(r"\w+://[^\s\"'`<>)]*", page))
    assert all(address.startswith("http://www.w3.org/") for address in addresses), addresses
    policy = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page).group(1)
    allowed = dict(part.strip().split(" ", 1) for part in policy.split(";"))
    assert allowed["default-src"] == allowed["base-uri"] == allowed["form-action"] == "'none'"
    for directive, text in (("script", r"<script>(.*?)</script>"), ("style", r"<style>(.*?)</style>")):
        parts = re.findall(text, page, re.DOTALL)
        hashes = [base64.b64encode(hashlib.sha256(part.encode()).digest()).decode() for part in parts]
        assert allowed[f"{directive}-src"] == " ".join(f"'sha256-{each}'" for each in hashes)
    assert page.index("Content-Security-Policy") < page.index("<script")


def test_the_same_plan_makes_the_same_page():
    pages = [treefold.view("b4", algorithm="multitree", size_bytes="1MiB").html for _ in range(2)]
    assert pages[0] == pages[1]


@pytest.mark.parametrize("size", ["1MiB", "64MiB"])
@pytest.mark.parametrize(
    ("network", "algorithm"),
    [
        ("torus:8x8", "multitree"),
        ("torus:8x8", "ring"),
        ("torus:8x8", "direct"),
        ("torus:4x4x4", "bucket"),
        ("cluster:nodes=8,gpus=8,rails=8", "hierarchical"),
    ],
)
def test_a_page_of_64_ranks_is_smaller_than_a_megabyte(network, algorithm, size):
    assert len(treefold.view(network, algorithm=algorithm, size_bytes=size).html) < MEGABYTE


@pytest.mark.slow
def test_a_page_of_a_quarter_of_a_million_transfers_is_smaller_than_a_megabyte():
    assert len(treefold.view("torus:8x8", algorithm="packing", size_bytes="1MiB").html) < MEGABYTE


def test_names_are_text_wherever_they_stand():
    plain = Elements(treefold.view("ring:4", algorithm="ring", size_bytes="1KiB").html)
    page = treefold.view(hostile_network(), algorithm="ring", size_bytes="1KiB")
    found = Elements(page.html)
    assert found.tags == plain.tags
    assert found.texts["title"] == page.title == f"{HOSTILE}: ring"
    document = document_of(page)
    assert document["networks"][0]["name"] == HOSTILE
    assert document["networks"][0]["nodes"] == [f"{number}{HOSTILE}" for number in range(4)]
    assert document["title"] == page.title
    frame = page._repr_html_()
    assert frame.count("<") == 2
    assert html.unescape(re.search(r'srcdoc="([^"]*)"', frame).group(1)) == page.html
    assert "allow-same-origin" not in frame


@pytest.mark.parametrize("of", ["topology", "plan", "trace"])
def test_sketches_are_pictures_in_which_names_are_text(of):
    def shown(network):
        plan = treefold.plan(network, "ring")
        return {"topology": network, "plan": plan, "trace": treefold.trace(plan, size_bytes="1KiB")}[of]._repr_html_()

    plain, found = shown(treefold.topology("ring:4")), shown(hostile_network())
    assert plain.count("<svg") == plain.count("</svg>") == 1
    assert plain.count("<circle") == 4 and plain.count("<path") == 8
    assert Elements(found).tags == Elements(plain).tags
    assert "script" not in {tag for tag, _ in Elements(found).tags}


@pytest.mark.parametrize(
    "network", ["line:1", "line:2", "torus:4x4", "torus:3x3x3", "b4", "fattree:4,2", "dgx2:planes=6"]
)
def test_every_kind_of_layout_has_a_sketch(network):
    topology = treefold.topology(network)
    sketch = topology._repr_html_()
    assert sketch.count("<circle") == sum(not node.is_switch for node in topology.nodes())
    assert sketch.count("<title>") == len(topology.nodes())
    places = [float(each) for each in re.findall(r'(?:[xy12]|cx|cy)="(-?[\d.]+)"', sketch)]
    assert all(0 <= place < 2000 for place in places)


def test_a_network_of_many_links_has_no_sketch_but_a_table():
    sketch = treefold.topology("torus:32x32")._repr_html_()
    assert "<svg" not in sketch and "torus:32x32" in sketch
    assert len(sketch) < 10_000


PLANS = [
    ("torus:4x4", "multitree", "flow"),
    ("torus:4x4", "halving-doubling", "flow"),  # a message carries parts of several trees
    ("b4", "packing", "flow"),  # streams in chunks
    ("full:4", "exchange", "flow"),
    ("torus:3x3", "dbtree", "packet"),
]


def starts(columns):
    """Return when each transfer starts, in ticks: its gap after the end of its cause."""
    edge_of = np.full(len(columns["gap"]), -1)
    for edge in reversed(range(len(columns["edge_lane"]))):
        if (first := int(columns["edge_transfer"][edge])) != 0xFFFFFFFF:
            edge_of[first : first + int(columns["edge_chunks"][edge])] = edge
    lane = columns["edge_lane"][edge_of]
    sources, targets = (columns[f"lane_{end}"][lane] for end in ("source", "target"))
    found: dict[int, int] = {}

    def start(at: int) -> int:
        if at not in found:
            cause, end = at - int(columns["cause"][at]), 0
            if cause != at:
                end = start(cause) + int(columns["sending"][cause])
                end += int(columns["latency"][cause]) if targets[cause] == sources[at] else 0
            found[at] = end + int(columns["gap"][at])
        return found[at]

    return np.array([start(at) for at in range(len(lane))], float)


@pytest.mark.parametrize(("network", "algorithm", "simulator"), PLANS)
@pytest.mark.parametrize("every", [1, 2, 3])
def test_columns_of_some_trees_are_a_part_of_those_of_all(network, algorithm, simulator, every):
    [scene] = treefold.view(network, algorithm=algorithm, size_bytes="64KiB", simulator=simulator).scenes
    trees = range(0, scene.plan.num_trees, every)
    whole, part = scene_columns(scene), scene_columns(scene, trees)
    edges = np.flatnonzero(np.isin(whole["edge_tree"], trees))
    for name in ("edge_tree", "edge_reduces", "edge_lane", "edge_step", "edge_chunks"):
        assert np.array_equal(part[name], whole[name][edges])
    places = {}
    for here, there, count in zip(
        part["edge_transfer"], whole["edge_transfer"][edges], part["edge_chunks"], strict=True
    ):
        assert (here == 0xFFFFFFFF) == (there == 0xFFFFFFFF)
        places |= {int(there) + each: int(here) + each for each in range(count)}
    kept = sorted(places)
    assert [places[each] for each in kept] == list(range(len(part["bytes"])))
    assert transfers_of(scene, trees) == len(kept)
    for name in ONCE:
        assert np.array_equal(part[name], whole[name][kept])
    assert np.abs(starts(part) - starts(whole)[kept]).max() <= len(kept)
    causes = [each - back if (back := int(whole["cause"][each])) else None for each in kept]
    expected = [place - places[cause] if cause in places else 0 for place, cause in enumerate(causes)]
    assert part["cause"].tolist() == expected
    assert part["path"].tolist() == [places[each] for each in whole["path"].tolist() if each in places]
    for name in ("lane_links", "tree_root", "busy_s", "used", "heat"):
        assert np.array_equal(part[name], whole[name])


@pytest.mark.parametrize(("network", "algorithm", "simulator"), PLANS)
def test_columns_are_those_of_the_trace(network, algorithm, simulator):
    page = treefold.view(network, algorithm=algorithm, size_bytes="64KiB", simulator=simulator)
    [scene] = page.scenes
    trace, columns, found = scene.trace, scene.trace.columns(), block_of(page, "scene-0")
    tick = trace.time_s / (1 << 30)
    start = starts(found)
    times = {"start_s": start, "sent_s": start + found["sending"]}
    times["received_s"] = times["sent_s"] + found["latency"]
    for name, ticks in times.items():
        assert np.abs(ticks * tick - columns[name]).max() <= len(start) * tick
    order = np.arange(len(found["cause"]))
    assert np.array_equal(np.where(found["cause"] == 0, -1, order - found["cause"]), columns["cause"])
    assert np.array_equal(found["path"], trace.critical_path())
    assert found["busy_s"].tolist() == [link.busy_s for link in trace.links()]
    document = document_of(page)["scenes"][0]
    assert document["time_s"] == trace.time_s and document["simulator"] == simulator
    assert document["transfers"] == len(found["bytes"]) == len(trace.transfers()["tree"])
    assert document["trees"] == document["trees_here"] == scene.plan.num_trees
    assert document["mean_utilization"] == trace.utilization.mean
    assert document["path"]["transfers"] == trace.path_summary().transfers
    bound = treefold.bound_at(network, "64KiB")
    assert document["bound_s"] == bound.time_s and document["limited_by"] == bound.limited_by


def test_as_many_trees_fit_as_have_few_transfers():
    [scene] = treefold.view("torus:4x4", algorithm="multitree", size_bytes="1MiB").scenes
    each = 2 * 15
    for most, trees in ((0, 0), (each - 1, 0), (each, 1), (3 * each + 1, 3), (16 * each, 16), (10**9, 16)):
        assert trees_that_fit(scene, most) == trees
        assert transfers_of(scene, range(trees)) <= most


def test_a_page_without_some_trees_still_counts_all(monkeypatch):
    monkeypatch.setattr("treefold.viewing.pages.trees_that_fit", lambda _: 2)
    page = treefold.view("torus:4x4", algorithm="multitree", size_bytes="1MiB")
    document, found = document_of(page)["scenes"][0], block_of(page, "scene-0")
    assert (document["trees_here"], document["trees"], document["transfers"]) == (2, 16, 480)
    assert len(found["bytes"]) == 60 and set(found["edge_tree"]) == {0, 1}
    assert found["busy_s"].min() > 0


def test_traces_show_the_same_whether_simulated_or_loaded(tmp_path):
    plan = treefold.plan("torus:3x3", "multitree")
    trace = treefold.trace(plan, size_bytes="64KiB")
    treefold.save(trace, tmp_path / "trace.json")
    loaded = treefold.load_trace(tmp_path / "trace.json", plan)
    pages = [treefold.view(each) for each in (trace, loaded)]
    assert pages[0].html == pages[1].html
    assert document_of(pages[0])["scenes"][0]["size_bytes"] == 1 << 16
    both = treefold.view(plan, loaded, size_bytes="64KiB")
    documents = document_of(both)["scenes"]
    assert [each["network"] for each in documents] == [0, 0]
    assert documents[0]["time_s"] == documents[1]["time_s"]


def test_scenes_of_several_networks_algorithms_and_sizes():
    page = treefold.view("ring:4", "line:3", algorithm="ring, dbtree,ring", size_bytes=["1KiB", 2048, "1KiB"])
    labels = [scene.label for scene in page.scenes]
    sizes = [scene.trace.size_bytes for scene in page.scenes]
    assert len(set(labels)) == len(labels) == 8 and sorted(sizes) == [1024] * 4 + [2048] * 4
    document = document_of(page)
    assert [each["name"] for each in document["networks"]] == ["ring:4", "line:3"]
    assert document["shown"] == [0, 1]
    assert repr(page) == "Page(ring:4, line:3: ring, dbtree)"
    assert treefold.view("ring:4", algorithm=["ring"], title="Mine", size_bytes=0).title == "Mine"


@pytest.mark.parametrize("size", [0, 1, "1KiB"])
def test_one_rank_has_a_page(size):
    document = document_of(treefold.view("ring:1", algorithm="ring", size_bytes=size))
    assert document["scenes"][0]["transfers"] == 0 and document["scenes"][0]["path"] is None
    assert document["networks"][0]["nodes"] == ["GPU0"]


def test_a_plan_without_trees_is_a_page_where_it_is_right_and_refused_where_not():
    plans = {}
    for network in ("ring:1", "ring:2"):
        document = json.loads(treefold.plan(network, "ring").to_json())
        plans[network] = treefold.Plan.from_json(json.dumps(document | {"phases": []}))
        assert plans[network].num_trees == 0
    assert document_of(treefold.view(plans["ring:1"]))["scenes"][0]["trees"] == 0
    with pytest.raises(TreefoldError, match="the plan is wrong and can only be checked"):
        treefold.view(plans["ring:2"])


def test_in_network_plans_show_what_was_sampled():
    page = treefold.view("dgx2:planes=6", algorithm="innet", size_bytes="64KiB", simulator="packet")
    document, found = document_of(page)["scenes"][0], block_of(page, "scene-0")
    assert document["transfers"] == 0 and document["path"] is None
    [tables] = [each for each in document["series"] if each["name"] == "tables"]
    assert tables["largest"] > 0 and found["series-tables"].max() == 65535
    assert len(found["series-tables"]) == len(document_of(page)["networks"][0]["nodes"]) * tables["windows"]


@pytest.mark.parametrize(
    ("sources", "asked", "message"),
    [
        ([], {}, "there is nothing to view; give a plan, or a network such as torus:8x8"),
        ([3], {}, "network 3 is not a network"),
        (
            [treefold.plan("ring:4", "ring"), "ring"],
            {},
            "ring is an algorithm, and no network; name a network, and write",
        ),
        (["auto"], {}, 'write algorithm="auto"'),
        (["nowhere"], {}, "topology 'nowhere': neither a file nor a known spec"),
        (["ring:4"], {"algorithm": "ring,rign"}, "algorithm 'rign' is unknown; did you mean ring?"),
        (["ring:4"], {"algorithm": ""}, "the name of the algorithm is empty"),
        (["ring:4"], {"algorithm": []}, "no algorithm is named; name at least one, such as multitree"),
        (["ring:4"], {"simulator": "analytic"}, "the analytic simulator has no trace; use flow or packet"),
        (["ring:4"], {"size_bytes": "big"}, "size 'big': write a number and a unit"),
        (["ring:4"], {"size_bytes": -1}, "size -1: must be a whole number of bytes"),
        (["ring:4"], {"size_bytes": []}, "no size is given; give at least one, such as 1MiB"),
        (["ring:4"], {"size_bytes": "2MiB:1MiB"}, "the range must rise"),
        (["ring:4"], {"link_model": "slow"}, "link model 'slow' is unknown"),
        (["ring:4"], {"hight": 3}, "plan has no argument 'hight'; did you mean height"),
        ([treefold.plan("ring:4", "ring")], {"trees": 3}, "trees is asked of a network, and these are plans; drop it"),
    ],
    ids=str,
)
def test_what_cannot_be_viewed_is_refused(sources, asked, message):
    with pytest.raises(TreefoldError, match=re.escape(message)):
        treefold.view(*sources, **asked)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Goes to a folder with a plan, a trace of it, and a trace of another plan."""
    monkeypatch.chdir(tmp_path)
    plan = treefold.plan("ring:4", "ring")
    treefold.save(plan, "plan.json")
    treefold.save(treefold.trace(plan, size_bytes="2KiB"), "trace.json")
    treefold.save(treefold.trace(treefold.plan("ring:4", "dbtree"), size_bytes="2KiB"), "other.json")
    return tmp_path


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ("plan.json --trees 2 -o x.html", "plan.json is already a plan; drop --trees"),
        ("plan.json -a ring -o x.html", "plan.json is already a plan; drop --algorithm"),
        ("plan.json --bandwidth 1GB/s -o x.html", "plan.json is already a plan; drop --bandwidth"),
        ("plan.json -o x.html --serve", "--serve and -o x.html: a page is served or written; drop one of the two"),
        ("plan.json -o x.html --port 0", "--port 0 and -o x.html: a page is served or written; drop one of the two"),
        ("plan.json --port 65536", "port 65536 is not a port"),
        ("plan.json -o nowhere/x.html", "nowhere/x.html: cannot be written: there is no folder 'nowhere'"),
        ("plan.json -o x.svg", "x.svg: its extension '.svg' is not the extension of pages; write x.html"),
        ("plan.json -o x.html --simulator analytic", "the analytic simulator has no trace"),
        ("plan.json -o x.html --size big", "size 'big'"),
        ("plan.json -o x.html --trace other.json", "other.json: "),
        ("plan.json -o x.html --trace plan.json", "it is a plan; give a trace, which 'treefold run --trace' writes"),
        ("ring:4 -o x.html --trace trace.json", "--trace trace.json: give the file of the one plan that was run"),
        ("plan.json plan.json -o x.html --trace trace.json", "--trace trace.json: give the file of the one plan"),
        ("ring:4 dbtree -o x.html", "dbtree is an algorithm, and no network; name a network, and write -a dbtree"),
        ("ring:4 -a rign -o x.html", "algorithm 'rign' is unknown; did you mean ring?"),
        ("ring:4 -a ring --trees 2 -o x.html", "ring has no option trees"),
        ("trace.json -o x.html", "trace.json is a trace; name the file of its plan, and add --trace trace.json"),
    ],
)
def test_the_command_refuses_what_cannot_be_shown(folder, words, message):
    assert message in refused("view", *words.split())
    assert not (folder / "x.html").exists()


def test_the_command_writes_the_page_that_python_makes(folder):
    done = command("view", "plan.json", "--size", "2KiB", "-o", "page.html")
    assert (done.returncode, done.stdout) == (0, "")
    assert "wrote page.html; open it in a browser" in done.stderr
    plan = treefold.load_plan("plan.json")
    assert (folder / "page.html").read_text(encoding="utf-8") == treefold.view(plan, size_bytes="2KiB").html
    assert command("view", "plan.json", "--trace", "trace.json", "-o", "page.html").returncode == 0
    both = treefold.view(plan, treefold.load_trace("trace.json", plan), size_bytes="2KiB")
    assert (folder / "page.html").read_text(encoding="utf-8") == both.html


def test_equal_plans_are_told_apart_by_names_or_numbers():
    ring, tree = treefold.plan("ring:4", "ring"), treefold.plan("ring:4", "multitree")

    def labels(*sources, **given) -> list[str]:
        return [each.label for each in treefold.view(*sources, size_bytes=1024, **given).scenes]

    assert labels(ring, tree) == ["ring, 1KiB", "multitree, 1KiB"]
    assert labels(ring, tree, names=["a", "b"]) == ["ring, 1KiB", "multitree, 1KiB"]
    assert labels(ring, ring, tree) == ["ring, 1KiB (1)", "ring, 1KiB (2)", "multitree, 1KiB"]
    assert labels(ring, ring, names=["a.json", "b.json"]) == ["ring, 1KiB (a.json)", "ring, 1KiB (b.json)"]
    assert labels(ring, ring, names=["a", "a"]) == ["ring, 1KiB (a) (1)", "ring, 1KiB (a) (2)"]
    with pytest.raises(treefold.TreefoldError, match="of length 1; give a list"):
        labels(ring, ring, names=["a"])
    with pytest.raises(treefold.TreefoldError, match="names is a text; give a list"):
        labels(ring, ring, names="ab")


def test_a_simulated_trace_is_not_called_measured():
    plan = treefold.plan("ring:4", "ring")
    trace = treefold.trace(plan, size_bytes="1KiB")
    page = treefold.view(plan, trace, size_bytes="1KiB")
    assert [scene.label for scene in page.scenes] == ["predicted: ring, 1KiB", "trace: ring, 1KiB"]
    assert [each["simulator"] for each in document_of(page)["scenes"]] == ["flow", "trace"]


def test_spaces_are_turned_in_pages_as_in_sketches():
    from treefold.viewing.networks import TURN

    (network,) = document_of(treefold.view("torus:2x2x2", algorithm="ring", size_bytes=1))["networks"]
    assert network["layout"] == "space" and tuple(network["turn"]) == TURN
