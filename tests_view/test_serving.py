"""The server of a page: what it sends, to whom, and what it refuses."""

import threading
from collections.abc import Iterator
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

import treefold
from treefold.viewing import pages, server, view
from treefold.viewing.columns import unpack
from treefold.viewing.server import PageServer


@pytest.fixture
def served(monkeypatch) -> Iterator[PageServer]:
    """Serve a plan of 64 trees, of which a page has 8 at first, and at most 20 at once."""
    monkeypatch.setattr(pages, "trees_that_fit", lambda scene: 8)
    monkeypatch.setattr(server, "trees_that_fit", lambda scene: 8)
    monkeypatch.setattr(server, "MOST_TRANSFERS", 20 * 126)
    started = PageServer(view("torus:8x8", algorithm="multitree", size_bytes="1MiB"))
    thread = threading.Thread(target=started.serve, daemon=True)
    thread.start()
    yield started
    started.close()
    thread.join(10)


def test_a_browser_asks_for_the_trees_that_are_named_and_says_what_is_refused(served, browser):
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    said: list[str] = []
    page.on("pageerror", lambda error: said.append(str(error)))
    page.goto(served.address)
    page.wait_for_selector("#app[data-ready]")
    assert "8 trees of 64" in page.inner_text(".summary")
    with page.expect_response("**/scenes/0?trees=5,60") as answer:
        page.fill("#trees", "5,60")
        page.press("#trees", "Enter")
    columns = unpack(answer.value.body())
    assert set(columns["edge_tree"].tolist()) == {5, 60}
    assert len(columns["bytes"]) == 2 * 126
    page.fill("#trees", "0-63")
    page.press("#trees", "Enter")
    page.wait_for_selector(".refused")
    assert "8,064 transfers, and a page shows 2,520 at most" in page.inner_text(".refused")
    assert page.input_value("#trees") == ""
    assert said == []
    page.close()


def _status(address: str, **headers: str) -> tuple[int, str]:
    try:
        with urlopen(Request(address, headers=headers), timeout=10) as answer:
            return answer.status, answer.read().decode(errors="replace")
    except HTTPError as error:
        return error.code, error.read().decode()


def test_the_server_refuses_strangers_and_what_it_does_not_have(served):
    root = f"http://127.0.0.1:{served.port}"
    assert _status(served.address)[0] == 200
    assert _status(root + "/")[0] == 404
    assert _status(root + "/guess/scenes/0")[0] == 404
    assert _status(served.address, Host="evil.example")[0] == 403
    for wrong in (
        "scenes/1",
        "scenes/x",
        "scenes/-1",
        "../etc/passwd",
        "nothing",
        "scenes/0?trees=64",
        "scenes/0?trees=a",
    ):
        assert _status(served.address + wrong)[0] == 404, wrong


def test_a_port_that_is_taken_is_named(served):
    with pytest.raises(treefold.OutsideError, match=f"port {served.port}"):
        PageServer(view("ring:4", size_bytes="1KiB"), served.port)
