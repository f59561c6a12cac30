"""Finds dead links in the site: files that do not exist, and anchors that no page has."""

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """Collects the links and the anchors of a page."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.anchors: set[str] = set()
        self.feed(path.read_text(encoding="utf-8"))

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if name in ("href", "src") and value:
                self.links.append(value)
            elif name in ("id", "name") and value:
                self.anchors.add(value)


def dead(site: Path) -> list[str]:
    """Return a line for each link that leads nowhere within the site; links to other sites are left out."""
    pages = {path: _Page(path) for path in site.rglob("*.html")}
    return [
        f"{path.relative_to(site)}: {link}"
        for path, page in sorted(pages.items())
        for link in dict.fromkeys(page.links)
        if not _leads(path, link, pages)
    ]


def _leads(path: Path, link: str, pages: dict[Path, _Page]) -> bool:
    parts = urlsplit(link)
    if parts.scheme or parts.netloc or link.startswith("/"):
        return True
    target = path if not parts.path else (path.parent / unquote(parts.path)).resolve()
    target = target / "index.html" if target.is_dir() else target
    has_anchor = not parts.fragment or target not in pages or unquote(parts.fragment) in pages[target].anchors
    return target.is_file() and has_anchor


if __name__ == "__main__":
    lines = dead(Path(sys.argv[1]).resolve())
    print("\n".join(lines))
    sys.exit(bool(lines))
