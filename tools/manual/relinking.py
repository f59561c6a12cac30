"""Links of the pages in `docs/` to other files of the repository, which lead to pages of the site instead."""

import posixpath
import re

from tools.manual.repository import DOCUMENTS, PAPERS

PAGES = {
    "crates/treefold/src/planners": "algorithms/index.md",
    "python/treefold/environment.py": "reference/environment.md",
    "reproduction/README.md": "validation/index.md",
    "tools/manual/json_keys.py": "reference/json.md",
    "tools/manual/winners.py": "algorithms/index.md",
    **{f"reproduction/results/{paper}": f"validation/{paper}.md" for paper in PAPERS},
    **{name: f"development/{name.lower()}" for name in DOCUMENTS},
}
"""The page of the site that shows what a file or a folder of the repository holds."""
COPIED = "schema/"
"""The site has copies of the files in this folder."""


def relinked(text: str, page: str) -> str:
    """Return the Markdown of a page, named by its path in `docs/`, with links to files that the site has."""
    folder = posixpath.dirname(page)

    def link(found: re.Match[str]) -> str:
        path, hash_, anchor = found[1].partition("#")
        target = posixpath.normpath(posixpath.join("docs", folder, path))
        if target.startswith("docs/"):
            return found[0]
        assert target in PAGES or target.startswith(COPIED), f"docs/{page}: no page of the site shows {target}"
        return f"]({posixpath.relpath(PAGES.get(target, target), folder or '.')}{hash_}{anchor})"

    return re.sub(r"\]\((?![a-z]+:|#)([^)\s]+)\)", link, text)
