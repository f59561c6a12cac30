"""A page says what links share, and how much of it is used."""

import treefold
from treefold.viewing import view


def test_links_say_what_they_share(opened):
    plan = treefold.plan(treefold.topology("full:3", node_cap="20GB/s"), "multitree")
    page = opened(view(plan))
    listed = page.page.locator("table.shared tr").all_inner_texts()
    assert len(listed) == 7 and any(row.startswith("GPU0 egress\t20\u00a0GB/s\t") for row in listed)
    page.show(selected='{"kind":"link","at":0,"pane":0}')
    link = plan.topology.links()[0]
    assert f"{link.source} egress (20\u00a0GB/s, used " in page.text(".details")
    assert f"{link.target} ingress (20\u00a0GB/s, used " in page.text(".details")
