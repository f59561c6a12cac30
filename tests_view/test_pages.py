"""What pages say is what Python says, and everything that can be clicked, pressed and dragged works."""

import json
import math

import numpy as np
import pytest
from matplotlib.image import imread

import treefold
from treefold.viewing import Page, view

NETWORKS = [
    "line:5", "ring:8", "full:8", "torus:4x4", "torus:4x4x4", "twisted-torus:4x8", "mesh:5x5", "hypercube:4", "dgx1",
    "dgx2", "dgx2:planes=6", "fattree:8,2", "bigraph:4x8", "dragonfly:groups=5,routers=4", "hammingmesh:boards=2x2",
    "cluster:nodes=4,gpus=8,rails=8", "b4", "random:n=20,links=60,seed=1",
]  # fmt: skip


def close(one: float, other: float) -> bool:
    return math.isclose(one, other, rel_tol=1e-5, abs_tol=1e-15)


@pytest.mark.parametrize("network", NETWORKS)
def test_every_family_of_networks_says_what_python_says(opened, network):
    plan = treefold.plan(network, "multitree")
    trace = treefold.trace(plan, size_bytes="1MiB")
    page = opened(view(plan, size_bytes="1MiB"))
    assert close(page.fact("Time", 0), trace.time_s)
    assert close(page.fact("Bound", 0), treefold.bound_at(network, "1MiB").time_s)
    assert close(page.fact("Mean use of links", 0), trace.utilization.mean)
    assert page.fact("Idle links", 0) == sum(link.busy_s == 0 for link in trace.links())
    assert page.fact("Transfers", 0) == len(trace.transfers()["tree"])
    assert page.fact("Longest chain", 0) == trace.path_summary().transfers
    for number, link in enumerate(trace.links()[:3]):
        page.show(selected=f'{{"kind":"link","at":{number},"pane":0}}')
        assert page.text(".details h2") == f"{link.source} → {link.target}"
        assert close(page.fact("Busy"), link.busy_s)


def test_a_transfer_says_when_it_starts_and_what_it_waits_for(opened):
    plan = treefold.plan("b4", "multitree")
    trace = treefold.trace(plan, size_bytes="1MiB")
    columns, path = trace.columns(), trace.critical_path()
    page = opened(view(plan, size_bytes="1MiB"))
    names = {node.number: node.name for node in plan.topology.nodes()}
    for transfer in path[-3:]:
        page.show(selected=f'{{"kind":"transfer","at":{transfer},"pane":0}}')
        lane = columns["lane"][transfer]
        ends = (names[columns[f"lane_{end}"][lane]] for end in ("source", "target"))
        assert page.text(".details h2") == " → ".join(ends)
        for term, column in (("Starts", "start_s"), ("Is sent", "sent_s"), ("Is received", "received_s")):
            assert abs(page.fact(term) - columns[column][transfer]) < trace.time_s * 1e-6
        cause = columns["cause"][transfer]
        assert f"tree {columns['tree'][cause]}," in page.text(".details")


def test_busy_shares_of_a_window_are_those_of_python(opened):
    plan = treefold.plan("torus:4x4", "multitree")
    trace = treefold.trace(plan, size_bytes="1MiB")
    page = opened(view(plan, size_bytes="1MiB"))
    windows = trace.busy(256)
    for link in (0, 5):
        part = [trace.time_s * 64 / 256, trace.time_s * 128 / 256]
        page.show(window=f"[{part[0]},{part[1]}]", selected=f'{{"kind":"link","at":{link},"pane":0}}')
        assert abs(page.fact("In the window") - windows[link, 64:128].mean()) < 1e-3


def test_two_plans_share_a_clock(opened):
    page = opened(view("torus:8x8", algorithm="ring,multitree", size_bytes="1MiB"))
    assert page.page.locator(".pane").count() == page.page.locator(".timeline").count() == 2
    times = page.fact("Time", 0), page.fact("Time", 1)
    assert times[0] > 4 * times[1]
    assert f"{times[0] / times[1]:.3g} times as long" in page.text(".verdict")
    said = page.page.locator(".verdict p").all_inner_texts()
    assert said[0] == "ring uses 64 of 256 links; multitree uses all 256 links."
    assert "126 transfers, each of which waits for the one before, or for its link; that of multitree has 34" in said[1]
    page.press("End")
    assert page.text(".moment").startswith("148")


def test_keys_play_scrub_and_colour(opened):
    page = opened(view("torus:4x4", algorithm="multitree", size_bytes="1MiB"))
    page.press("Space")
    page.page.wait_for_timeout(500)
    page.press("Space")
    first = page.text(".moment")
    assert not first.startswith("0\u00a0s")
    page.press("ArrowRight")
    assert page.text(".moment") != first
    page.press("Home")
    assert page.text(".moment").startswith("0\u00a0s")
    for key, colour in (("t", "tree"), ("s", "step"), ("l", "limit"), ("b", "busy")):
        page.press(key)
        assert page.page.input_value("select[title='What colours mean']") == colour
    page.press("p")
    assert "Hide the critical path" in page.text(".summary")
    page.press("?")
    assert page.page.locator("dialog[open]").count() == 1
    page.press("Escape")
    assert page.page.locator("dialog[open]").count() == 0
    page.press("d")
    assert page.page.get_attribute("html", "data-theme") == "dark"


def test_the_pointer_finds_nodes_and_links(opened):
    page = opened(view("line:3", algorithm="dbtree", size_bytes="1MiB"))
    box = page.page.locator(".picture").bounding_box()
    found = set()
    for part in range(4, 97, 2):
        for shift in (-4, 0, 4):
            page.page.mouse.move(box["x"] + box["width"] * part / 100, box["y"] + box["height"] / 2 + shift)
            if page.page.locator(".tooltip").is_visible():
                found.add(page.text(".tooltip b"))
    assert {"GPU0", "GPU1", "GPU2"} <= found
    assert any("→" in name for name in found)
    page.page.mouse.click(box["x"] + box["width"] / 2, box["y"] + box["height"] / 2)
    assert page.text(".details h2") == "GPU1"
    assert "rank 1" in page.text(".details")


def test_a_tree_under_the_pointer_says_what_it_is_and_is_emphasised(opened):
    plan = treefold.plan("torus:4x4", "multitree")
    page = opened(view(plan, size_bytes="1MiB"), 'selected={"kind":"node","at":5,"pane":0}')
    before = _pixels(page)
    page.page.hover(".details .chip")
    page.settle()
    said = page.text(".tooltip")
    assert "Tree 5" in said and "root GPU5" in said and "64\u00a0KiB" in said
    assert f"{_depth(plan, 5)} edges deep, steps 1 to 10" in said
    assert np.abs(_pixels(page) - before).mean() > 0.005
    page.page.click(".details .chip")
    page.settle()
    assert page.text(".details h2") == "Tree 5"
    assert page.fact("Depth") == _depth(plan, 5)


def test_the_legend_has_the_colours_of_the_chosen_trees(opened):
    page = opened(view("torus:4x4", algorithm="multitree", size_bytes="1MiB"), "trees=[2,5]")
    assert page.page.locator(".legend [data-tree]").all_inner_texts() == ["tree 2", "tree 5"]
    before = _pixels(page)
    page.page.hover(".legend [data-tree='5']")
    page.settle()
    assert "root GPU5" in page.text(".tooltip")
    assert np.abs(_pixels(page) - before).mean() > 0.002
    page.page.click(".legend [data-tree='2']")
    page.settle()
    assert page.text(".details h2") == "Tree 2"


def test_an_edge_of_a_drawn_tree_finds_its_tree(opened):
    page = opened(view("line:3", algorithm="dbtree", size_bytes="1MiB"), "trees=[1]")
    box = page.page.locator(".picture").bounding_box()
    page.page.mouse.move(box["x"] + box["width"] / 2 - 70, box["y"] + box["height"] / 2)
    page.page.wait_for_selector(".tooltip:visible")
    assert "Tree 1" in page.text(".tooltip")
    page.page.mouse.click(box["x"] + box["width"] / 2 - 70, box["y"] + box["height"] / 2)
    page.settle()
    assert page.text(".details h2") == "Tree 1"


def _depth(plan: treefold.Plan, tree: int) -> int:
    """Return the most edges between a root and a rank, by the broadcast half of the tree."""
    columns = plan.columns()
    start, end = columns["half_start"][2 * tree + 1 : 2 * tree + 3]
    lanes = columns["edge_lane"][start:end]
    parents = dict(zip(columns["lane_target"][lanes], columns["lane_source"][lanes], strict=True))
    depths = []
    for node in parents:
        way = [node]
        while way[-1] in parents:
            way.append(parents[way[-1]])
        depths.append(len(way) - 1)
    return max(depths)


_SITES = {
    "format": "treefold-topology",
    "version": 1,
    "name": "sites",
    "nodes": [
        *[{"name": each, "latitude": 48 + at, "longitude": 2 + 3 * at} for at, each in enumerate("abc")],
        {"name": "lost"},
        {"name": "adds", "kind": "switch", "reduces": True, "multicasts": True, "latitude": 50, "longitude": 4},
    ],
    "links": [
        {"source": "adds", "target": each, "bandwidth_Bps": 1e10, "latency_s": 1e-6, "both_ways": True}
        for each in ("a", "b", "c", "lost")
    ],
}


def test_guessed_places_and_reducing_switches_are_named(opened):
    network = treefold.Topology.from_json(json.dumps(_SITES))
    page = opened(view(network, algorithm="multitree", size_bytes="1MiB"))
    legend = page.text(".legend")
    for name in ("accelerator", "switch that reduces", "place guessed"):
        assert name in legend
    page.show(selected='{"kind":"node","at":3,"pane":0}')
    assert "guessed" in page.text(".details")
    assert "place guessed" not in opened(view("torus:4x4", size_bytes="1MiB")).text(".legend")


def test_filters_show_a_tree_and_refuse_what_is_none(opened):
    page = opened(view("torus:4x4", algorithm="multitree", size_bytes="1MiB"))
    field = page.page.locator("#trees")
    field.fill("2-3")
    field.press("Enter")
    assert "trees=%5B2%2C3%5D" in _hash(page)
    page.page.locator("#trees").fill("GPU5")
    page.page.locator("#trees").press("Enter")
    assert "trees=%22GPU5%22" in _hash(page)
    assert "GPU5: blue towards the root" in page.text(".legend")
    page.page.locator("#trees").fill("99")
    page.page.locator("#trees").press("Enter")
    assert "Trees are 0 to 15" in page.page.evaluate("document.querySelector('#trees').validationMessage")
    assert "trees=%22GPU5%22" in _hash(page)


def _hash(page) -> str:
    page.page.wait_for_timeout(300)
    return page.page.evaluate("location.hash")


def test_a_link_to_a_page_brings_back_what_was_shown(opened):
    made = view("torus:4x4", algorithm="ring,multitree", size_bytes="1MiB")
    page = opened(made, 'shown=[1]&colour="tree"&time=1e-5&theme="dark"&nonsense=3&half=7&window=[3]')
    assert page.page.locator(".pane").count() == 1
    assert page.page.input_value("select[title='What colours mean']") == "tree"
    assert page.text(".moment").startswith("10\u00a0µs")
    assert page.page.get_attribute("html", "data-theme") == "dark"


def test_a_drag_on_the_ruler_asks_for_the_busy_shares_of_a_part(opened):
    page = opened(view("ring:8", algorithm="ring", size_bytes="1MiB"))
    box = page.page.locator(".ruler").bounding_box()
    page.page.mouse.move(box["x"] + 400, box["y"] + 10)
    page.page.mouse.down()
    page.page.mouse.move(box["x"] + 700, box["y"] + 10, steps=4)
    page.page.mouse.up()
    assert page.text(".transport .window").startswith("Busy shares from")
    page.page.click(".transport .window button")
    assert "Drag on the ruler" in page.text(".transport .window")


def test_a_click_on_the_timeline_selects_a_transfer(opened):
    page = opened(view("ring:4", algorithm="ring", size_bytes="1MiB"))
    box = page.page.locator(".timeline").bounding_box()
    page.page.mouse.click(box["x"] + 200, box["y"] + 7 + 15)
    assert "partial sum towards the root" in page.text(".details")
    page.press("Escape")
    assert page.page.locator(".details").count() == 0


def test_algorithms_against_size_are_linked_to_their_plans(opened):
    page = opened(view("ring:4", algorithm="ring,dbtree", size_bytes="64KiB:256KiB"))
    assert page.page.locator(".chart").count() == 1
    assert page.page.locator("select[title='The plan that is shown'] option").count() == 6
    page.page.locator(".u-over").scroll_into_view_if_needed()
    plot = page.page.locator(".u-over").bounding_box()
    page.page.mouse.move(plot["x"] + plot["width"] - 3, plot["y"] + 20)
    page.page.mouse.click(plot["x"] + plot["width"] - 3, plot["y"] + 20)
    page.settle()
    assert "256" in page.text(".summary h2")


@pytest.mark.parametrize("name", ["png", "svg"])
def test_the_picture_can_be_saved(opened, name):
    page = opened(view("torus:4x4", algorithm="multitree", size_bytes="1MiB"))
    with page.page.expect_download() as download:
        page.page.click(f"text={name.upper()}")
    content = download.value.path().read_bytes()
    assert content.startswith(b"\x89PNG" if name == "png" else b"<svg")
    assert len(content) > 5_000


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_the_png_is_what_is_on_the_screen(opened, theme):
    made = view("torus:4x4", algorithm="ring,multitree", size_bytes="1MiB")
    page = opened(made, f'time=2e-5&theme="{theme}"&selected={{"kind":"node","at":3,"pane":1}}')
    with page.page.expect_download() as download:
        page.page.click("text=PNG")
    saved = imread(download.value.path())[..., :3]
    page.page.screenshot(path=page.path("screen.png"))
    screen = imread(page.path("screen.png"))[..., :3]
    assert saved.shape == screen.shape
    for part in ("h1", ".picture", ".legend", ".moment", ".ruler", ".timelines"):
        x, y, width, height = (round(page.page.locator(part).first.bounding_box()[key]) for key in _BOX)
        one, other = (picture[y : y + height, x : x + width] for picture in (saved, screen))
        assert other.std() > 0.01, part
        assert np.abs(one - other).mean() < 0.02, part


_BOX = ("x", "y", "width", "height")


def test_a_picture_goes_on_without_the_gpu_that_is_taken_away(opened):
    made = view("torus:4x4", algorithm="multitree", size_bytes="1MiB")
    page = opened(made, "time=2e-5", before=_WITH_SOFTWARE)
    assert page.page.get_attribute(".picture", "data-painter") == "gpu"
    before = _pixels(page)
    page.said.clear()  # the driver speaks of its performance
    page.page.evaluate(
        "const gl = document.querySelector('.picture canvas').getContext('webgl2');"
        "gl.getExtension('WEBGL_lose_context').loseContext();"
    )
    page.page.wait_for_selector(".picture[data-painter=canvas]")
    page.settle()
    assert np.abs(_pixels(page) - before).mean() < 0.01
    page.press("End")
    assert np.abs(_pixels(page) - before).mean() > 0.001
    assert not any("error" in said.lower() for said in page.said)


@pytest.mark.parametrize("network", ["torus:8x8", "torus:4x4x4"])
def test_zoom_and_turn_are_kept_in_the_address(opened, network):
    page = opened(view(network, algorithm="ring,multitree", size_bytes="1MiB"))
    box = page.page.locator(".picture").nth(1).bounding_box()
    x, y = box["x"] + box["width"] / 3, box["y"] + box["height"] / 3
    whole = _pixels(page, 1)
    page.page.mouse.move(x, y)
    page.page.mouse.wheel(0, -300)
    page.page.mouse.down()
    page.page.mouse.move(x + 60, y + 40, steps=4)
    page.page.mouse.up()
    page.page.mouse.move(1, 1)
    page.page.wait_for_timeout(300)
    shown, other = _pixels(page, 1), _pixels(page, 0)
    assert np.abs(shown - whole).mean() > 0.01
    page.page.reload()
    page.page.wait_for_selector("#app[data-ready]")
    page.settle()
    assert np.abs(_pixels(page, 1) - shown).mean() < 0.002
    assert np.abs(_pixels(page, 0) - other).mean() < 0.002
    page.press("0")
    assert np.abs(_pixels(page, 1) - whole).mean() < 0.002
    assert "cameras" not in _hash(page)


def test_names_with_markup_stay_text_and_nothing_runs(opened):
    evil = '</script><script>window.pwned=1</script><img src=x onerror="window.pwned=2">"\'&'
    network = treefold.topology("ring:4").renamed(evil, nodes={"GPU0": evil})
    page = opened(Page(evil, view(network, algorithm="ring", size_bytes="1MiB").scenes))
    page.show(selected='{"kind":"node","at":0,"pane":0}')
    assert page.text(".details h2") == evil
    assert page.text("h1") == evil
    assert page.page.evaluate("window.pwned") is None
    page.page.evaluate(
        "const script = document.createElement('script'); script.textContent = 'window.pwned = 3';"
        "document.body.append(script);"
    )
    assert page.page.evaluate("window.pwned") is None
    assert any("Content Security Policy" in said for said in page.said)
    page.said.clear()


def _pixels(page, pane: int = 0) -> np.ndarray:
    page.page.locator(".picture").nth(pane).screenshot(path=page.path("shot.png"))
    return imread(page.path("shot.png"))[..., :3]


def test_the_gpu_and_the_canvas_draw_the_same(opened, browser, browser_without_webgl):
    """The page prefers the canvas where WebGL is computed in software; here it is made to use the ways of the GPU."""
    made = view("torus:4x4", algorithm="multitree", size_bytes="1MiB")
    state = "time=2e-5&colour=%22tree%22&selected=%7B%22kind%22:%22node%22,%22at%22:5,%22pane%22:0%7D"
    pages = {
        "gpu": opened(made, state, within=browser, before=_WITH_SOFTWARE),
        "canvas": opened(made, state, within=browser_without_webgl),
    }
    for painter, page in pages.items():
        assert page.page.get_attribute(".picture", "data-painter") == painter
    gpu, canvas = (_pixels(page) for page in pages.values())
    assert len(np.unique(canvas.reshape(-1, 3), axis=0)) > 50
    assert np.abs(gpu - canvas).mean() < 0.01
    pages["gpu"].said.clear()  # the driver speaks of its performance


_WITH_SOFTWARE = """
    const before = WebGL2RenderingContext.prototype.getParameter;
    WebGL2RenderingContext.prototype.getParameter = function (name) {
        return name === 0x9246 ? "a GPU" : before.call(this, name);
    };
"""


def test_one_rank_and_nothing_to_send_still_make_a_page(opened):
    one = treefold.topology("ring:4", ranks="0")
    page = opened(view(one, algorithm="ring", size_bytes="1MiB"))
    assert page.fact("Time", 0) == 0
    assert page.fact("Transfers", 0) == 0
