"""The page of a running campaign on the loopback interface: made again when the journal grows."""

from __future__ import annotations

import os
import sys
import threading
import time
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from bitrift import Error
from bitrift.report.page import publish, render

ADDRESS = "127.0.0.1"
LOOK_SECONDS = 1.0
REST = 4
"""Times that rendering took, between two pages: a large journal shall not keep a core busy."""


class Pages:
    """The newest page. Threads read it while one makes the next."""

    def __init__(self, folder: str, output: Path | None) -> None:
        self._folder = Path(folder)
        self._output = output
        self._lock = threading.Lock()
        self._state = ""
        self._page = b""

    def _stamp(self) -> str:
        """Other files than these change nothing that the page shows."""
        seen = []
        for path in [
            self._folder / "campaign.json",
            self._folder / "trials.jsonl",
            self._folder / "rounds",
            self._folder / "incidents.jsonl",
            self._folder / "shards" / "merged.json",
        ]:
            try:
                status = path.stat()
                seen.append(f"{status.st_size:x}.{status.st_mtime_ns:x}")
            except FileNotFoundError:
                seen.append("none")
        return "-".join(seen)

    def refresh(self) -> bool:
        """Makes the page again if the campaign changed since; whether it did. Raises Error and OSError."""
        state = self._stamp()
        if state == self._state:
            return False
        page, _ = render(self._folder, state=state)
        if self._output is not None:
            publish(render(self._folder)[0], self._output)
        with self._lock:
            self._state, self._page = state, page.encode("utf-8", errors="replace")
        return True

    def newest(self) -> tuple[str, bytes]:
        """Its state and its bytes."""
        with self._lock:
            return self._state, self._page


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    pages: Pages

    def hosts(self) -> set[str]:
        port = self.server_address[1]
        return {f"{name}:{port}" for name in (ADDRESS, "localhost")}


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    timeout = 30

    def _answer(self, status: HTTPStatus, kind: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def do_GET(self) -> None:
        """The page, or the state that it shows. Another Host is refused: any name can resolve to loopback."""
        if self.headers.get("Host") not in self.server.hosts():
            self._answer(HTTPStatus.MISDIRECTED_REQUEST, "text/plain", b"this server answers only as 127.0.0.1\n")
            return
        state, page = self.server.pages.newest()
        if self.path == "/":
            self._answer(HTTPStatus.OK, "text/html", page)
        elif self.path == "/state":
            self._answer(HTTPStatus.OK, "text/plain", state.encode())
        else:
            self._answer(HTTPStatus.NOT_FOUND, "text/plain", b"no such page\n")

    do_HEAD = do_GET

    def log_message(self, format: str, *arguments: object) -> None:
        """Nothing: the terminal is for what happens to the campaign."""


def serve(folder: str | os.PathLike[str], output: Path | None, port: int) -> int:
    """Serves the page until Ctrl-C; port 0: a free one. The exit code. Raises Error and OSError before it serves."""
    pages = Pages(os.fspath(folder), output)
    pages.refresh()
    try:
        server = _Server((ADDRESS, port), _Handler)
    except OSError as error:
        raise OSError(f"port {port} of {ADDRESS}: {error.strerror}; choose another --port") from error
    server.pages = pages
    threading.Thread(target=server.serve_forever, daemon=True).start()
    print(f"report: http://{ADDRESS}:{server.server_address[1]}/ (Ctrl-C stops it)", flush=True)
    try:
        while True:
            time.sleep(LOOK_SECONDS)
            began = time.monotonic()
            try:
                if pages.refresh():
                    time.sleep(REST * (time.monotonic() - began))
            except (Error, OSError) as error:
                print(f"bitrift: warning: {error}; the page stays as it is", file=sys.stderr, flush=True)
    except KeyboardInterrupt:
        return 0
    finally:
        server.shutdown()
        server.server_close()
