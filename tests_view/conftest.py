"""A real browser, and pages opened in it."""

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Browser, Page, sync_playwright

from treefold import viewing

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_SOFTWARE = ["--no-sandbox", "--use-gl=angle", "--use-angle=swiftshader", "--enable-unsafe-swiftshader"]
_OPEN_MS = 60_000


def _launched(playwright: Any, arguments: list[str]) -> Browser:
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    assert found, "these tests need Chromium: make test-view installs it"
    return playwright.chromium.launch(executable_path=found, args=arguments)


@pytest.fixture(scope="session")
def playwright() -> Iterator[Any]:
    with sync_playwright() as started:
        yield started


@pytest.fixture(scope="session")
def browser(playwright: Any) -> Iterator[Browser]:
    launched = _launched(playwright, _SOFTWARE)
    yield launched
    launched.close()


@pytest.fixture(scope="session")
def browser_without_webgl(playwright: Any) -> Iterator[Browser]:
    launched = _launched(playwright, ["--no-sandbox", "--disable-gpu", "--disable-3d-apis"])
    yield launched
    launched.close()


class Opened:
    """A page in a browser, whose console must stay silent."""

    def __init__(self, page: Page, folder: Path) -> None:
        self.page = page
        self._folder = folder
        self.said: list[str] = []
        page.on("console", lambda message: self.said.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: self.said.append(f"error: {error}"))

    def go(self, address: str) -> "Opened":
        self.page.goto(address)
        self.page.wait_for_selector("#app[data-ready], #app[data-failed]", timeout=_OPEN_MS)
        assert self.page.get_attribute("#app", "data-failed") is None
        self.settle()
        return self

    def settle(self) -> None:
        """Let two frames pass, so that everything is drawn."""
        self.page.evaluate("new Promise(done => requestAnimationFrame(() => requestAnimationFrame(done)))")

    def show(self, **state: str) -> None:
        """Change what is shown, as a link to the page does; values are JSON."""
        text = "&".join(f"{name}={value}" for name, value in state.items())
        self.page.evaluate(
            "text => new Promise(done => {"
            "const drawn = () => requestAnimationFrame(() => requestAnimationFrame(done));"
            "addEventListener('hashchange', drawn, { once: true });"
            "location.hash = text; })",
            text,
        )

    def press(self, key: str) -> None:
        """Press a key, and let what it changes be drawn."""
        self.page.keyboard.press(key)
        self.settle()

    def fact(self, term: str, pane: int | None = None) -> float:
        """Return the exact value that the panel gives for a term."""
        where = ".details dd" if pane is None else f'.facts td[data-pane="{pane}"]'
        return float(self.page.get_attribute(f'{where}[data-term="{term}"]', "data-value") or "nan")

    def path(self, name: str) -> Path:
        """Return where a file of this page may be written."""
        return self._folder / f"{id(self)}-{name}"

    def text(self, selector: str) -> str:
        return self.page.inner_text(selector)


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Callable[..., Opened]]:
    """Open a page of `treefold.view`, and find at the end that the console has said nothing."""
    pages: list[Opened] = []

    def open_page(made: viewing.Page, state: str = "", within: Browser = browser, before: str = "") -> Opened:
        path = tmp_path / f"page-{len(pages)}.html"
        made.save(path)
        page = within.new_page(viewport={"width": 1280, "height": 800}, color_scheme="light")
        page.add_init_script(before)
        pages.append(Opened(page, tmp_path))
        return pages[-1].go(f"file://{path}#{state}")

    yield open_page
    for each in pages:
        assert each.said == []
        each.page.close()
