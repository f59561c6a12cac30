"""A page of an explained network shows what its cables are worth and what failures cost."""

import treefold
from treefold.viewing import view


def test_the_tables_and_the_colours_are_those_of_the_explanation(opened):
    found = treefold.explain("b4")
    page = opened(view("b4", found, algorithm="mtree"))
    rows = page.page.locator(".summary .list button").all_inner_texts()
    worth, cost = found.links[0], found.failures[0]
    assert any(row.startswith(f"{worth.link} and") and f"+{worth.gain_fraction * 100:.1f}" in row for row in rows)
    assert any(row.startswith(cost.name) and f"{cost.time_factor:.2f} ×" in row for row in rows)
    assert "how much longer" in page.text(".legend")
    assert "1.50 ×" in page.text(".legend")
    page.page.get_by_role("button", name="Colour links by worth").click()
    page.settle()
    assert f"+{worth.gain_fraction * 100:.1f}" in page.text(".legend")
    page.page.locator(".summary .list button").first.click()
    page.settle()
    assert page.text(".details h2") in (f"{worth.source} → {worth.target}", f"{worth.target} → {worth.source}")


def test_a_failure_that_cuts_the_network_is_told_as_such(opened):
    page = opened(view("line:4", treefold.explain("line:4"), algorithm="mtree"))
    assert "nothing can be sent" in page.text(".summary")
    assert "these must grow together: GPU0 - GPU1" in page.text(".summary")
    assert "cut" in page.text(".legend")
