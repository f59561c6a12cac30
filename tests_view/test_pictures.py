"""Pictures of the page beside accepted ones: `python -m tests_view.test_pictures` accepts those of now."""

import io
from pathlib import Path

import numpy as np
import pytest
from matplotlib.image import imread, imsave
from playwright.sync_api import Page as BrowserPage

from treefold.viewing import Page, view

_ACCEPTED = Path(__file__).with_name("accepted")
_CLEAR, _MOST = 0.1, 0.0015
"""A channel that differs by more than the first is clearly different; so much of the picture may be, for its labels."""

VIEWS: dict[str, tuple[str, str, str]] = {
    "ring-and-multitree": ("torus:8x8", "ring,multitree", "time=1.2e-5&colour=%22tree%22"),
    "one-tree-dark": ("torus:8x8", "multitree", "trees=[9]&theme=%22dark%22"),
    "path-in-space": ("torus:4x4x4", "ring", "path=true"),
    "layers": ("fattree:8,2", "multitree", "time=4e-5&colour=%22step%22"),
    "limit": ("random:n=20,links=60,seed=1", "multitree", "colour=%22limit%22"),
    "transfer": ("b4", "multitree", "selected=%7B%22kind%22:%22transfer%22,%22at%22:100,%22pane%22:0%7D"),
    "window": ("cluster:nodes=4,gpus=8,rails=8", "multitree", "window=[2e-6,4e-6]"),
}


def made(name: str) -> Page:
    network, algorithm, _ = VIEWS[name]
    return view(network, algorithm=algorithm, size_bytes="1MiB")


@pytest.mark.parametrize("name", VIEWS)
def test_views_look_as_accepted(opened, name):
    page = opened(made(name), VIEWS[name][2])
    now = shot(page.page)
    assert _different(now, name) <= _MOST


def test_other_views_look_different(opened):
    """Without the tree, the path or what moves, it is another picture."""
    for name, (_, _, state) in VIEWS.items():
        if state.startswith(("trees", "path", "time", "selected")):
            page = opened(made(name), state.partition("&")[2])
            assert _different(shot(page.page), name) > _MOST, name


def shot(page: BrowserPage) -> np.ndarray:
    """Return the pictures of the networks and their legend, without the words beside them."""
    return imread(io.BytesIO(page.locator(".stage").screenshot()))[..., :3]


def _different(now: np.ndarray, name: str) -> float:
    """Return how much of a picture clearly differs from the accepted one, from 0 to 1."""
    accepted = imread(_ACCEPTED / f"{name}.png")[..., :3]
    return float((np.abs(_small(now) - accepted).max(axis=2) > _CLEAR).mean())


def _small(picture: np.ndarray) -> np.ndarray:
    """Return the picture at a quarter of its size, where a shift by a pixel counts little."""
    height, width = (length // 4 * 4 for length in picture.shape[:2])
    return picture[:height, :width].reshape(height // 4, 4, width // 4, 4, 3).mean(axis=(1, 3))


def accept() -> None:
    """Write the pictures of now as those that are accepted. Look at each before you commit it."""
    from playwright.sync_api import sync_playwright

    from tests_view.conftest import _SOFTWARE, Opened, _launched

    with sync_playwright() as playwright:
        browser = _launched(playwright, _SOFTWARE)
        for name, (*_, state) in VIEWS.items():
            path = Path(f"/tmp/{name}.html")
            made(name).save(path)
            page = browser.new_page(viewport={"width": 1280, "height": 800}, color_scheme="light")
            Opened(page, path.parent).go(f"file://{path}#{state}")
            imsave(_ACCEPTED / f"{name}.png", _small(shot(page)))
        browser.close()


if __name__ == "__main__":
    accept()
