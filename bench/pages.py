"""Times pages of `treefold view` in a browser: how soon they open, and how many frames a second they play.

    .venv-view/bin/python -m bench.pages [NETWORK...]

It needs what `make test-view` installs. The browser draws in software, at 1280x800: a graphics card makes it better.
"""

import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import NamedTuple

from playwright.sync_api import Browser, sync_playwright

import treefold

_NETWORKS = ["torus:8x8", "torus:32x32", "torus:64x64"]
_HEADER = "MultiTree, flow, 16 MiB      MB  made (CPU s)  seen (s)  whole (s)  frames/s"
_SECONDS = 5
_FRAMES = """seconds => new Promise(done => {
  let frames = 0;
  const first = performance.now();
  const next = now => {
    frames++;
    if (now - first < 1000 * seconds) requestAnimationFrame(next);
    else done(1000 * frames / (now - first));
  };
  requestAnimationFrame(next);
})"""


class Played(NamedTuple):
    """How a page did in the browser."""

    seen_s: float
    """The seconds from opening until the network is seen."""
    whole_s: float
    """The seconds from opening until the transfers are there."""
    frames: float
    """How many frames a second it draws while it plays."""


def main() -> None:
    """Print a line for each network."""
    print(_HEADER)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=["--no-sandbox"])
        for network in sys.argv[1:] or _NETWORKS:
            page, before_s = Path(folder) / "page.html", time.process_time()
            treefold.view(network, algorithm="multitree", size_bytes="16MiB").save(page)
            made_s = time.process_time() - before_s
            size, (seen_s, whole_s, frames) = page.stat().st_size / 1e6, _played(browser, page)
            print(f"{network:24}{size:7.2f}{made_s:14.1f}{seen_s:10.2f}{whole_s:11.2f}{frames:10.0f}", flush=True)
        browser.close()


def _played(browser: Browser, file: Path) -> Played:
    shown = browser.new_page(viewport={"width": 1280, "height": 800})
    shown.goto(f"file://{file}")
    shown.wait_for_selector("#app[data-ready]", timeout=120_000)
    seen_s, whole_s = (float(shown.get_attribute("#app", name) or "nan") / 1e3 for name in ("data-first", "data-ready"))
    shown.keyboard.press("Space")
    frames = shown.evaluate(_FRAMES, _SECONDS)
    shown.close()
    return Played(seen_s, whole_s, frames)


if __name__ == "__main__":
    main()
