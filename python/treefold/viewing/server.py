"""Serves a page, and the transfers of those trees that its reader asks for, on the loopback address only.

A plan of millions of transfers is too large for a browser as a whole: the page asks for the trees that are shown. The
address has a secret part, so that other users of the machine cannot read it, and requests by another name are refused,
so that no page of another site can (DNS rebinding).
"""

import html
import secrets
from contextlib import suppress
from functools import partial
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, urlsplit

from treefold.errors import OutsideError, TreefoldError
from treefold.viewing.columns import pack
from treefold.viewing.pages import Page, page_parts, page_text
from treefold.viewing.scenes import MOST_TRANSFERS, Scene, scene_columns, transfers_of, trees_that_fit

LOOPBACK = "127.0.0.1"


class PageServer:
    """A server of one page; `address` is what a browser opens."""

    def __init__(self, page: Page, port: int = 0) -> None:
        if not 0 <= port < 1 << 16:
            raise TreefoldError(f"port {port} is not a port; choose one between 1024 and 65535, or 0 for any")
        self._secret = secrets.token_urlsafe(12)
        document, blocks = page_parts(page.title, page.scenes, is_served=True)
        self._text = page_text(document, blocks).encode()
        self._scenes = page.scenes
        self._lock = Lock()
        try:
            self._server = ThreadingHTTPServer((LOOPBACK, port), partial(_Handler, self))
        except OSError as error:
            raise OutsideError(f"port {port} of {LOOPBACK} cannot be served ({error.strerror}); name another") from None
        self._server.daemon_threads = True
        self.port = int(self._server.server_address[1])
        self.address = f"http://{LOOPBACK}:{self.port}/{self._secret}/"

    def serve(self) -> None:
        """Serve until somebody interrupts, or `close` is called from another thread."""
        try:
            self._server.serve_forever(poll_interval=0.2)
        finally:
            self._server.server_close()

    def close(self) -> None:
        """Let `serve` end."""
        self._server.shutdown()

    def answer(self, path: str) -> tuple[bytes, str]:
        """Return the content at a path, and its type.

        Raises:
            TreefoldError: If there is nothing at this path.

        """
        parts = urlsplit(path)
        secret, _, rest = parts.path.removeprefix("/").partition("/")
        if not secrets.compare_digest(secret.encode(), self._secret.encode()):
            raise TreefoldError("this address is not that of the page; copy it again")
        if rest == "":
            return self._text, "text/html; charset=utf-8"
        kind, _, number = rest.partition("/")
        if kind != "scenes" or number not in map(str, range(len(self._scenes))):
            raise TreefoldError(f"the page has no {html.escape(rest[:80])}")
        with self._lock:  # Several requests at once would need the memory of all of them.
            columns = _columns(self._scenes[int(number)], parse_qs(parts.query))
        return pack(columns), "application/octet-stream"


def _columns(scene: Scene, query: dict[str, list[str]]) -> dict[str, Any]:
    """Return the columns of the trees that a query names, or of as many as fit."""
    count = scene.plan.num_trees
    if "trees" not in query:
        here = trees_that_fit(scene)
        return scene_columns(scene, None if here == count else range(here))
    try:
        trees = sorted({int(tree) for tree in query["trees"][0].split(",")})
    except ValueError:
        raise TreefoldError("trees are numbers, separated by commas") from None
    if not 0 <= trees[0] <= trees[-1] < count:
        raise TreefoldError(f"the plan has the trees 0 to {count - 1}")
    transfers = transfers_of(scene, trees)
    if transfers > MOST_TRANSFERS:
        raise TreefoldError(f"these trees have {transfers:,} transfers, and a page shows {MOST_TRANSFERS:,} at most")
    return scene_columns(scene, trees)


class _Handler(BaseHTTPRequestHandler):
    """Answers requests of a browser."""

    server_version = "treefold"
    sys_version = ""

    def __init__(self, owner: PageServer, *arguments: Any) -> None:
        self._owner = owner
        super().__init__(*arguments)

    def handle(self) -> None:
        """Answer what a browser asks for; one that goes away is no error."""
        with suppress(ConnectionError):
            super().handle()

    def do_GET(self) -> None:
        """Answer a request, or say what is wrong with it."""
        if self.headers.get("Host") not in (f"{LOOPBACK}:{self._owner.port}", f"localhost:{self._owner.port}"):
            return self._reply(HTTPStatus.FORBIDDEN, b"the page is served on the loopback address only", "text/plain")
        try:
            content, kind = self._owner.answer(self.path)
        except TreefoldError as error:
            return self._reply(HTTPStatus.NOT_FOUND, str(error).encode(), "text/plain; charset=utf-8")
        return self._reply(HTTPStatus.OK, content, kind)

    def _reply(self, status: HTTPStatus, content: bytes, kind: str) -> None:
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: Any) -> None:
        """Log nothing: the terminal shows the address and nothing else."""
