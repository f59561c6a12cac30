"""The server of a page: what it sends, to whom, and what it refuses."""

import threading
from collections.abc import Iterator
from urllib.error import HTTPError
from urllib.request import Request, urlopen

import pytest

import treefold
from treefold.viewing import scenes, view
from treefold.viewing.columns import unpack
from treefold.viewing.server import PageServer


@pytest.fixture
def served() -> Iterator[PageServer]:
    server = PageServer(view("torus:8x8", algorithm="multitree", size_bytes="1MiB"))
    thread = threading.Thread(target=server.serve, daemon=True)
    thread.start()
    yield server
    server.close()
    thread.join(10)


def test_a_browser_shows_a_served_page_and_asks_for_the_trees_that_are_named(served, monkeypatch, browser):
    monkeypatch.setattr(scenes, "MOST_TRANSFERS", 1000)
    page = browser.new_page(viewport={"width": 1280, "height": 800})
    said: list[str] = []
    page.on("console", lambda message: said.append(message.text))
    page.goto(served.address)
    page.wait_for_selector("#app[data-ready]")
    with page.expect_response("**/scenes/0?trees=60") as answer:
        page.fill("#trees", "60")
        page.press("#trees", "Enter")
    columns = unpack(answer.value.body())
    assert set(columns["edge_tree"].tolist()) == {60}
    assert len(columns["bytes"]) == 126
    page.wait_for_function("document.querySelector('.summary')")
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
