"""Makes the README's first picture: `treefold view` of a ring beside MultiTree, as a browser shows it.

Run it with `make picture` after a change of the viewer, and look at what came out.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

import treefold

_STATE = "time=0.0000112"


def main(target: Path) -> None:
    """Write the picture to a file."""
    page = treefold.view("torus:8x8", algorithm="ring,multitree", size_bytes="1MiB")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = Path(folder) / "torus.html"
        page.save(file)
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": 1400, "height": 860}, color_scheme="light")
        shown.goto(f"file://{file}#{_STATE}")
        shown.wait_for_selector("#app[data-ready]")
        shown.wait_for_timeout(500)
        shown.screenshot(path=target)
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]))
