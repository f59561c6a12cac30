"""A page of an explained network shows what its cables are worth and what failures cost."""

import numpy as np
from matplotlib.image import imread

import treefold
from treefold.viewing import view

_COSTLIEST = (110, 16, 20)
"""The colour at the end of the scale."""


def _rows(page) -> list[str]:
    return page.page.locator(".summary p.list").all_inner_texts()


def _selects(page, of: str, name: str) -> None:
    """Click a name in the row that begins with these words."""
    page.page.locator(".summary p.list", has_text=of).get_by_role("button", name=name, exact=True).first.click()
    page.settle()


def test_the_tables_and_the_colours_are_those_of_the_explanation(opened):
    found = treefold.explain("b4")
    page = opened(view("b4", found, algorithm="mtree"))
    worth, cost = found.links[0], found.failures[0]
    gain, factor = f"+{worth.gain_fraction * 100:.1f}\u00a0%", f"{cost.time_factor:.2f} ×"
    useful = [each.link for each in found.links if each.gain_fraction > 0]
    rows = _rows(page)
    assert rows[0].startswith("10 % more of any one of") and rows[0].endswith(f": {gain}")
    assert ", ".join(useful) in rows[0]
    assert any(row.startswith("Without any one of the links") and cost.name in row and factor in row for row in rows)
    assert "how much longer" in page.text(".legend")
    assert "1.50 ×" in page.text(".legend")
    page.page.get_by_role("button", name="Colour links by worth").click()
    page.settle()
    assert "raises the best possible rate" in page.text(".legend") and gain in page.text(".legend")


def test_names_in_the_tables_select_and_colour(opened):
    found = treefold.explain("b4")
    page = opened(view("b4", found, algorithm="mtree"))
    worth = found.links[1]
    _selects(page, "10 % more of", worth.link)
    assert page.text(".details h2") in (f"{worth.source} → {worth.target}", f"{worth.target} → {worth.source}")
    assert page.page.input_value("select[title='What colours mean']") == "worth"
    assert abs(page.fact("10 % more of it") - worth.gain_fraction) < 1e-9
    costs = {each.name: each for each in found.failures}
    assert abs(page.fact("Without it") - costs[worth.link].time_factor) < 1e-9
    _selects(page, "of the nodes", "site3")
    assert page.text(".details h2") == "site3"
    assert page.page.input_value("select[title='What colours mean']") == "failures"
    assert f"{costs['site3'].time_factor:.2f} × the time" in page.text(".details")


def test_the_worst_failure_has_the_colour_at_the_end_of_the_scale(opened):
    page = opened(view("b4", treefold.explain("b4"), algorithm="mtree"))
    page.page.locator(".picture").screenshot(path=page.path("shot.png"))
    pixels = np.round(imread(page.path("shot.png"))[..., :3] * 255)
    assert (np.abs(pixels - _COSTLIEST).max(axis=2) <= 2).sum() > 200


def test_the_words_of_the_tables_are_in_the_saved_picture(opened):
    page = opened(view("b4", treefold.explain("b4"), algorithm="mtree"))
    box = page.page.locator(".summary p.list .chip").first.bounding_box()
    with page.page.expect_download() as download:
        page.page.click("text=PNG")
    saved = imread(download.value.path())[..., :3]
    x, y, width, height = (round(box[key]) for key in ("x", "y", "width", "height"))
    assert saved[y + 3 : y + height - 3, x + 3 : x + width - 3].std() > 0.05


def test_a_failure_that_cuts_the_network_is_told_as_such(opened):
    page = opened(view("line:4", treefold.explain("line:4"), algorithm="mtree"))
    assert "cuts the network" in page.text(".summary")
    assert _rows(page)[0].endswith("these must grow together: GPU0 - GPU1, GPU1 - GPU2, GPU2 - GPU3")
    assert "nothing can be sent" in page.text(".legend")


def test_the_changed_network_stands_beside_that_of_now(opened):
    b4 = treefold.topology("b4")
    found = treefold.explain(b4, "mtree", without="site9", size_bytes="1MiB")
    changed = b4.without_nodes(["site9"])
    page = opened(treefold.viewing.view_answer(b4, changed, found, label="without site9", root="site0"))
    assert page.page.locator("figcaption").all_inner_texts() == ["now", "without site9"]
    assert "node site9 is gone" in page.text(".verdict")
    assert "“without site9” takes" in page.text(".verdict h2")
    assert page.page.input_value("select[title='What colours mean']") == "busy"


def test_an_answer_beside_the_whole_explanation_has_its_tables_once(opened):
    b4 = treefold.topology("b4")
    found = treefold.explain(b4, "mtree", upgrade={"site0 - site1": "50MB/s"}, size_bytes="1MiB", is_whole=True)
    changed = b4.with_bandwidths({("site0", "site1"): "50MB/s"})
    page = opened(treefold.viewing.view_answer(b4, changed, found, label="with 50MB/s", root="site0"))
    assert page.page.input_value("select[title='What colours mean']") == "busy"
    assert page.text(".summary").count("What a failure costs") == 1


def test_a_trace_that_was_given_says_what_its_bound_and_latency_are(opened):
    plan = treefold.plan("full:4", "ring")
    page = opened(view(plan, treefold.trace(plan, size_bytes="64KiB"), size_bytes="64KiB"))
    cells = page.page.locator(".facts td[data-term=Simulator]").all_inner_texts()
    assert cells == ["flow", "a given trace"]
    said = page.text(".summary div[data-pane='1']")
    assert "local workers do not cross" in said and "until the receiver reads" in said
    assert "receiver" not in page.text(".summary div[data-pane='0']")


def test_the_legend_says_what_is_black_and_what_is_blue(opened):
    page = opened(view("ring:4", algorithm="ring", size_bytes="1MiB"), "time=1e-6")
    assert "rows: towards a root" in page.text(".legend")
    assert "transfer under way" in page.text(".legend")
    page.press("?")
    assert "They are black, or white in the dark" in page.text("dialog")
