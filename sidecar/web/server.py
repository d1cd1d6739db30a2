"""The page over HTTP/1.1, on loopback alone.

The daemon starts it when somebody asks for it over its own socket, which is the user's alone; it is gone again when
nobody has looked for a while.

Who may look: whoever knows the address, which has 256 random bits and is told over the daemon's socket only. Other
users of the machine can reach the port, and get 404 for everything. A page in the user's browser that would reach it

- by another name for 127.0.0.1 (DNS rebinding) is refused by its Host header,
- by a request of its own (CSRF) by Origin and Sec-Fetch-Site; and there is nothing to change here, only to look at.

Whoever does not know the address holds no place that somebody else needs: a request comes whole in time or not at all,
and of too many connections the oldest that has not named the address goes.

Answers are never stored, framed, or read across origins, and what they show names no output and no command line.
"""

import base64
import hashlib
import hmac
import io
import json
import logging
import os
import queue
import re
import secrets
import socket
import threading
import time
from collections.abc import Callable
from functools import cache
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib.resources import files
from typing import Any, Final

from sidecar import rendezvous
from sidecar.web.live import Live, Record, Viewer

log = logging.getLogger(__name__)

ADDRESS: Final = "127.0.0.1"
_READ_S: Final = 10.0
"""For a request to come whole, and for a viewer to take what it is sent."""
_KEEP_ALIVE_S: Final = 15.0
_VIEWERS_AT_MOST: Final = 16
_CONNECTIONS_AT_MOST: Final = 64
_UNUSED_S: Final = 600.0
_LOOK_S: Final = 1.0


class Web:
    """`start` once, by whom it is asked for; it starts anew where the last one was not used and ended.

    `trace_url`: an address with {traceId} in it, or None for no links to traces.
    """

    def __init__(
        self,
        socket_path: str,
        latest_ended: Callable[[], list[Record]],
        trace_url: str | None,
        unused_s: float = _UNUSED_S,
    ) -> None:
        self._live = Live(socket_path, latest_ended)
        self._trace_url = trace_url
        self._unused_s = unused_s
        self._server: _Server | None = None
        self._guard = threading.Lock()

    def answer(self) -> Record:
        """To the control request "web": where the page is."""
        with self._guard:
            if self._server is None:
                self._live.alone_since_s = time.monotonic()
                try:
                    self._server = _Server(self._live, self._trace_url)
                except OSError as error:
                    return {"type": "error", "message": f"no port on {ADDRESS} can be had: {error.strerror}"}
                threading.Thread(target=self._serve, args=(self._server,), name="web", daemon=True).start()
            return {"type": "web", "url": self._server.url}

    def _serve(self, server: "_Server") -> None:
        threading.Thread(target=server.serve_forever, name="web-accept", daemon=True).start()
        while self._live.viewers or time.monotonic() - self._live.alone_since_s < self._unused_s:
            time.sleep(min(_LOOK_S, self._unused_s))
        with self._guard:
            self._server = None
        server.shutdown()
        server.server_close()
        log.info("the web page was not used for %d s; its address is void", self._unused_s)


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    request_queue_size = rendezvous.LISTEN_BACKLOG
    """Not socketserver's 5: of a full queue the kernel drops each SYN, and who knows the address would wait for
    seconds (tcp_syn_retries of tcp(7)) behind strangers who came at once. It is capped by net.core.somaxconn."""

    def __init__(self, live: Live, trace_url: str | None) -> None:
        self.live = live
        self.token = secrets.token_urlsafe(32)
        self._guard = threading.Lock()
        self._connections = 0
        self._strangers: dict[socket.socket, None] = {}  # in the order in which they came
        super().__init__((ADDRESS, 0), _Handler)
        self.origins = tuple(f"http://{name}:{self.server_port}" for name in (ADDRESS, "localhost"))
        self.url = f"{self.origins[0]}/{self.token}/"
        self.page, self.policy = _page(trace_url)

    def process_request(self, request: Any, client_address: Any) -> None:
        with self._guard:
            oldest = None
            if self._connections >= _CONNECTIONS_AT_MOST:
                oldest = next(iter(self._strangers), None)
            if oldest is not None:
                self._end(oldest)
            has_room = self._connections < _CONNECTIONS_AT_MOST or oldest is not None
            # Those that were ended may not have gone yet.
            has_room = has_room and self._connections < 2 * _CONNECTIONS_AT_MOST
            if has_room:
                self._connections += 1
                self._strangers[request] = None
        if has_room:
            super().process_request(request, client_address)
        else:
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            with self._guard:
                self._connections -= 1
                self._strangers.pop(request, None)

    def known(self, request: socket.socket) -> None:
        """It has named the address."""
        with self._guard:
            self._strangers.pop(request, None)

    def _end(self, stranger: socket.socket) -> None:
        del self._strangers[stranger]
        try:
            stranger.shutdown(socket.SHUT_RDWR)
        except OSError:
            pass  # it is gone already

    def handle_error(self, request: Any, client_address: Any) -> None:
        log.debug("a viewer went away", exc_info=True)  # not to stderr, which is nobody's


class _Request(io.RawIOBase):
    """What a client sends, until `_READ_S` after `begin`: a byte now and then does not keep the connection."""

    def __init__(self, connection: socket.socket) -> None:
        self._connection = connection
        self.begin()

    def begin(self) -> None:
        self._until_s = time.monotonic() + _READ_S

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        left_s = self._until_s - time.monotonic()
        if left_s <= 0:
            raise TimeoutError
        self._connection.settimeout(left_s)
        try:
            return self._connection.recv_into(buffer)
        finally:
            self._connection.settimeout(_READ_S)


class _Handler(BaseHTTPRequestHandler):
    server: _Server
    protocol_version = "HTTP/1.1"
    timeout = _READ_S

    def setup(self) -> None:
        super().setup()
        self.rfile.close()
        self._request = _Request(self.connection)
        self.rfile = io.BufferedReader(self._request)

    def handle_one_request(self) -> None:
        self._request.begin()
        super().handle_one_request()

    def do_GET(self) -> None:
        self._answer(body=True)

    def do_HEAD(self) -> None:
        self._answer(body=False)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:
        """In a line, and without an echo of what was asked."""
        text, has_body = f"{HTTPStatus(code).phrase}\n", self.command != "HEAD"
        self._send(HTTPStatus(code), text.encode(), "text/plain; charset=utf-8", body=has_body)
        self.close_connection = True

    def version_string(self) -> str:
        """The header Server, which a stranger is told too."""
        return "sidecar"

    def log_message(self, format: str, *arguments: object) -> None:
        """Addresses hold the token: they are for no log."""

    def _answer(self, *, body: bool) -> None:
        if not self._is_simple():
            self.send_error(HTTPStatus.BAD_REQUEST)
            return
        if not self._is_for_us():
            self.send_error(HTTPStatus.MISDIRECTED_REQUEST)
            return
        _, token, rest = (*self.path.split("/", 2), "", "")[:3]
        if not hmac.compare_digest(token.encode("utf-8", "replace"), self.server.token.encode()):
            self.send_error(HTTPStatus.NOT_FOUND)
            return
        self.server.known(self.connection)
        if rest == "":
            self._send(HTTPStatus.OK, self.server.page, "text/html; charset=utf-8", body=body)
        elif rest == "events" and body:
            self._stream()
        else:
            self.send_error(HTTPStatus.NOT_FOUND)

    def _is_simple(self) -> bool:
        """One Host, headers that are some, and no body: what would follow it is no request of its own."""
        return (
            not self.headers.defects
            and len(self.headers.get_all("Host", ())) == 1
            and "Transfer-Encoding" not in self.headers
            and self.headers.get_all("Content-Length", ["0"]) == ["0"]
        )

    def _is_for_us(self) -> bool:
        """By the names that only a request from our own page, or from the address line, has."""
        origin = self.headers.get("Origin")
        return (
            f"http://{self.headers.get('Host', '')}" in self.server.origins
            and (origin is None or origin in self.server.origins)
            and self.headers.get("Sec-Fetch-Site", "none") in ("none", "same-origin")
        )

    def _send(self, status: HTTPStatus, content: bytes, kind: str, *, body: bool) -> None:
        self.send_response(status)
        self._common_headers(kind)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        if body:
            self.wfile.write(content)

    def _common_headers(self, kind: str) -> None:
        for name, value in (
            ("Content-Type", kind),
            ("Content-Security-Policy", self.server.policy),
            ("Cache-Control", "no-store"),
            ("Referrer-Policy", "no-referrer"),
            ("X-Content-Type-Options", "nosniff"),
            ("X-Frame-Options", "DENY"),
            ("Cross-Origin-Resource-Policy", "same-origin"),
            ("Cross-Origin-Opener-Policy", "same-origin"),
        ):
            self.send_header(name, value)

    def _stream(self) -> None:
        """Server-sent events (the HTML standard, 9.2), until the viewer leaves."""
        if self.server.live.viewers >= _VIEWERS_AT_MOST:
            self.send_error(HTTPStatus.SERVICE_UNAVAILABLE)
            return
        self.close_connection = True
        viewer = self.server.live.join()
        try:
            self.send_response(HTTPStatus.OK)
            self._common_headers("text/event-stream; charset=utf-8")
            self.send_header("Connection", "close")
            self.end_headers()
            self._send_events(viewer)
        except OSError:
            pass  # it has left
        finally:
            self.server.live.leave(viewer)

    def _send_events(self, viewer: Viewer) -> None:
        while True:
            try:
                message = viewer.next(_KEEP_ALIVE_S)
            except queue.Empty:
                self.wfile.write(b":\n\n")  # a comment: whether somebody is still there
                continue
            if message is None:
                return
            # JSON has no line breaks of its own.
            self.wfile.write(f"data: {message}\n\n".encode("utf-8", "replace"))


@cache
def _page(trace_url: str | None) -> tuple[bytes, str]:
    """The page, and its Content-Security-Policy: its own script and style by their digests, and nothing else at all."""
    text = (files("sidecar.web") / "page.html").read_text(encoding="utf-8")
    settings = json.dumps({"traceUrl": trace_url, "pid": os.getpid()}).replace("<", "\\u003c")
    text = text.replace("__SETTINGS__", settings)
    digests = {
        tag: " ".join(
            f"'sha256-{_digest(content)}'" for content in re.findall(rf"<{tag}>(.*?)</{tag}>", text, re.DOTALL)
        )
        for tag in ("script", "style")
    }
    policy = (
        f"default-src 'none'; script-src {digests['script']}; style-src {digests['style']}; connect-src 'self'; "
        "img-src data:; "  # the icon, which is none
        "base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
    return text.encode(), policy


def _digest(content: str) -> str:
    return base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
