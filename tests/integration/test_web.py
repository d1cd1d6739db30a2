"""The web page's server: who may look, what is answered, what it costs to be rude to it."""

import http.client
import json
import re
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import ExitStack, closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
from supervised import WAIT_S, Installation, until

from sidecar import rendezvous
from sidecar.daemon import feed
from sidecar.web import server
from sidecar.web.live import INTERVAL_S, Live, Viewer
from sidecar.web.server import _CONNECTIONS_AT_MOST, _VIEWERS_AT_MOST, Web


@pytest.fixture
def url(sidecar: Installation) -> str:
    return address(sidecar)


def address(sidecar: Installation) -> str:
    words = [str(sidecar.script), "top", "--web"]
    return subprocess.run(words, capture_output=True, text=True, env=sidecar.environ, check=True).stdout.strip()


class Answer:
    def __init__(self, url: str, path: str | None = None, method: str = "GET", **headers: str) -> None:
        parts = urlsplit(url)
        assert parts.hostname is not None
        connection = http.client.HTTPConnection(parts.hostname, parts.port, timeout=WAIT_S)
        names = {name.replace("_", "-"): value for name, value in headers.items()}
        connection.request(method, parts.path if path is None else path, headers=names)
        answer = connection.getresponse()
        self.status, self.headers, self.body = answer.status, dict(answer.getheaders()), answer.read()
        connection.close()


def events(url: str) -> Iterator[dict[str, Any]]:
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=WAIT_S) as connection:
        connection.sendall(f"GET {parts.path}events HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
        with connection.makefile("rb") as lines:
            for line in lines:
                if line.startswith(b"data: "):
                    yield json.loads(line[6:])


def test_the_page_is_whole_and_asks_for_nothing_elsewhere(url: str) -> None:
    answer = Answer(url)
    assert answer.status == 200
    text = answer.body.decode()
    assert "__SETTINGS__" not in text
    assert not re.search(r"""(src|href)=["']?(https?:)?//""", text)
    policy = answer.headers["Content-Security-Policy"]
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    assert "unsafe" not in policy
    assert answer.headers["Cache-Control"] == "no-store"
    assert answer.headers["Referrer-Policy"] == "no-referrer"


def test_the_address_is_the_same_while_it_is_used_and_not_to_be_guessed(url: str, sidecar: Installation) -> None:
    assert address(sidecar) == url
    assert len(urlsplit(url).path) >= 43
    assert urlsplit(url).hostname == "127.0.0.1"


@pytest.mark.parametrize(
    "path",
    ["/", "/events", "/wrong/", "/wrong/events", "//", "/..", "/%2e%2e/", "", "*"],
)
def test_without_the_token_there_is_nothing(url: str, path: str) -> None:
    assert Answer(url, path).status in (400, 404)


def test_beside_the_page_there_is_nothing_either(url: str) -> None:
    base = urlsplit(url).path
    for path in (f"{base}page.html", f"{base}../", f"{base}events/", base[:-1] + "x/", base.swapcase()):
        assert Answer(url, path).status == 404


@pytest.mark.parametrize(
    "headers",
    [
        {"Host": "evil.example"},  # DNS rebinding: the browser thinks that it talks to evil.example
        {"Host": "evil.example:{port}"},
        {"Host": "127.0.0.1"},
        {"Host": "127.0.0.1:{port}.evil.example"},
        {"Origin": "http://evil.example"},  # CSRF
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Origin": "https://127.0.0.1:{port}"},
        {"Sec_Fetch_Site": "cross-site"},
        {"Sec_Fetch_Site": "same-site"},
    ],
)
@pytest.mark.parametrize("rest", ["", "events"])
def test_a_page_from_elsewhere_is_refused(url: str, headers: dict[str, str], rest: str) -> None:
    port = urlsplit(url).port
    filled = {name: value.replace("{port}", str(port)) for name, value in headers.items()}
    assert Answer(url, urlsplit(url).path + rest, **filled).status == 421


@pytest.mark.parametrize(
    "further",
    [
        "Content-Length: 5\r\n",
        "Content-Length: 0\r\nContent-Length: 0\r\n",
        "Transfer-Encoding: chunked\r\n",
        "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n",
        "Host: evil.example\r\n",
        "Host : evil.example\r\n",
    ],
)
def test_what_another_server_might_read_otherwise_is_refused(url: str, further: str) -> None:
    """A body would be taken for a second request; of two hosts one is a lie. One answer, and the end."""
    parts = urlsplit(url)
    request = f"GET {parts.path} HTTP/1.1\r\nHost: {parts.netloc}\r\n"
    answers = spoken(url, request + further + "\r\n" + request + "\r\n")
    assert re.findall(rb"HTTP/1.1 (\d+)", answers) == [b"400"]


def spoken(url: str, text: str) -> bytes:
    """All that is answered, until the server closes."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=WAIT_S) as connection:
        connection.sendall(text.encode())
        with connection.makefile("rb") as answers:
            return answers.read()


def test_without_a_host_it_is_refused(url: str) -> None:
    assert b" 400 " in spoken(url, f"GET {urlsplit(url).path} HTTP/1.1\r\n\r\n")


def test_a_byte_now_and_then_does_not_keep_a_connection(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(server, "_READ_S", 0.5)
    web = Web(str(tmp_path / "no.sock"), list, None, unused_s=60.0)
    parts = urlsplit(web.answer()["url"])
    with socket.create_connection((parts.hostname, parts.port), timeout=0.1) as slow:
        slow.sendall(b"GET / HTTP/1.1\r\nX: ")

        def has_ended() -> bool:
            try:
                slow.sendall(b"x")
                return slow.recv(1) == b""
            except TimeoutError:
                return False
            except ConnectionError:
                return True

        until(has_ended)


def test_strangers_hold_no_place(url: str) -> None:
    """However many connect, and say nothing: who knows the address is answered."""
    parts = urlsplit(url)
    silent = [socket.create_connection((parts.hostname, parts.port)) for _ in range(_CONNECTIONS_AT_MOST)]
    viewer = events(url)
    try:
        assert next(viewer)["type"] == "ended"
        for _ in range(3):
            silent += [socket.create_connection((parts.hostname, parts.port)) for _ in range(_CONNECTIONS_AT_MOST)]
            until(lambda: _is_served(url))
        assert next(viewer)["type"] == "commands"  # and who looks already goes on to
    finally:
        viewer.close()  # type: ignore[attr-defined]  # a generator's
        for connection in silent:
            connection.close()


def test_however_many_come_at_once_none_has_to_knock_twice(tmp_path: Any) -> None:
    """Nobody accepts here, as while the machine is busy: what comes waits in the kernel's queue. Of a full one it would
    drop the handshake, and the client's next try would come a second later, and the next two seconds after that."""
    most = int(Path("/proc/sys/net/core/somaxconn").read_text())
    live = Live(str(tmp_path / "no.sock"), list)
    with server._Server(live, None) as held, ExitStack() as stack:
        for _ in range(min(most, 2 * _CONNECTIONS_AT_MOST)):
            # On loopback a handshake is done before connect(2) returns, and no limit of time decides.
            stack.enter_context(socket.create_connection(held.server_address, timeout=WAIT_S))


def test_no_header_says_more_than_it_has_to(url: str) -> None:
    parts = urlsplit(url)
    for path in (parts.path, "/"):
        head = spoken(url, f"GET {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n")
        lines = head.partition(b"\r\n\r\n")[0].decode().split("\r\n")
        assert "Server: sidecar" in lines
        assert [line for line in lines if line != line.strip() or line.endswith(":")] == []


def test_by_both_names_of_loopback_it_is_ours(url: str) -> None:
    port = urlsplit(url).port
    for name in ("127.0.0.1", "localhost"):
        ours = {"Host": f"{name}:{port}", "Origin": f"http://{name}:{port}", "Sec_Fetch_Site": "same-origin"}
        assert Answer(url, **ours).status == 200


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"])
def test_there_is_nothing_to_change(url: str, method: str) -> None:
    answer = Answer(url, method=method)
    assert answer.status == 501
    assert "Access-Control-Allow-Origin" not in answer.headers


def test_a_refusal_does_not_repeat_what_was_asked(url: str) -> None:
    answer = Answer(url, "/<script>alert(1)</script>")
    assert b"script" not in answer.body


def test_head_has_no_body(url: str) -> None:
    parts = urlsplit(url)
    for path, status in ((parts.path, 200), ("/", 404), (f"{parts.path}events", 404)):
        answer = spoken(url, f"HEAD {path} HTTP/1.1\r\nHost: {parts.netloc}\r\nConnection: close\r\n\r\n")
        assert answer.startswith(f"HTTP/1.1 {status} ".encode())
        assert answer.endswith(b"\r\n\r\n")


def test_what_runs_comes_live_and_its_end_at_once(url: str, sidecar: Installation) -> None:
    flags = ("--verdict-after", "200ms", "--heartbeat-interval", "500ms", "--session-id", "of-the-page")
    with sidecar.started("sleep", "60", flags=flags) as process:
        seen = None
        for message in events(url):
            found = [one for one in message.get("commands", ()) if one.get("sessionId") == "of-the-page"]
            if message["type"] == "commands" and found and found[0]["silences"] and seen is None:
                bands = found[0]["silences"][-1][2]
                if bands and bands[-1][1:] == ["sleeping", "waiting"]:  # at first it may still load from a slow disk
                    seen = found[0]
                    assert "cpuPercent" in seen
                    assert seen["next"][0].startswith("Wait, if the time that is left is worth it")
                    process.terminate()
            if message["type"] == "ended" and found:
                assert found[0]["program"] == "sleep"
                assert found[0]["reason"] == "cancelled"
                assert found[0]["next"][0].startswith("Ask the sender of the signal")
                break
        assert seen is not None
    until(lambda: any(one.get("sessionId") == "of-the-page" for one in first_told(url)["commands"]))


def first_told(url: str) -> dict[str, Any]:
    """What had ended before this one looked; nothing while there is no room for another viewer."""
    told = events(url)
    message = next(told, {"type": "ended", "commands": []})
    told.close()  # type: ignore[attr-defined]  # a generator's
    assert message["type"] == "ended"
    return message


def test_rude_clients_cost_nobody_else_anything(url: str) -> None:
    parts = urlsplit(url)
    rude = [socket.create_connection((parts.hostname, parts.port)) for _ in range(_CONNECTIONS_AT_MOST - 8)]
    try:
        for number, connection in enumerate(rude):
            connection.sendall(b"GET / HTTP/1.1\r\nX: " if number % 2 else b"\x00\xff" * 100)
        assert Answer(url).status == 200
        over = [socket.create_connection((parts.hostname, parts.port)) for _ in range(3 * _CONNECTIONS_AT_MOST)]
        for connection in over:
            connection.close()
    finally:
        for connection in rude:
            connection.close()
    until(lambda: _is_served(url))


def _is_served(url: str) -> bool:
    try:
        return Answer(url).status == 200
    except (OSError, http.client.HTTPException):
        return False


def test_too_many_viewers_are_told_so(tmp_path: Any) -> None:
    # Of its own: viewers of another test may not have been noticed to be gone.
    url = Web(str(tmp_path / "no.sock"), list, None, unused_s=60.0).answer()["url"]
    viewers = [events(url) for _ in range(_VIEWERS_AT_MOST)]
    for viewer in viewers:
        next(viewer)
    assert Answer(url, urlsplit(url).path + "events").status == 503
    for viewer in viewers:
        viewer.close()  # type: ignore[attr-defined]  # a generator's
    # One that has gone is noticed at the next message.
    until(lambda: _stream_status(url) == 200)


def _stream_status(url: str) -> int:
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=WAIT_S) as connection:
        connection.sendall(f"GET {parts.path}events HTTP/1.1\r\nHost: {parts.netloc}\r\n\r\n".encode())
        return int(connection.recv(4096).split()[1])


def test_unused_it_ends_and_the_old_address_is_void(tmp_path: Any) -> None:
    web = Web(str(tmp_path / "no.sock"), list, None, unused_s=2.0)
    first = web.answer()["url"]
    assert Answer(first).status == 200

    def gone() -> bool:
        try:
            Answer(first)
        except OSError:
            return True
        return False

    until(gone)
    assert web.answer()["url"] != first


def test_without_a_daemon_the_page_says_so(tmp_path: Any) -> None:
    web = Web(str(tmp_path / "no.sock"), lambda: [{"commandId": "a"}], None, unused_s=60.0)
    told = events(web.answer()["url"])
    assert next(told) == {"type": "ended", "commands": [{"commandId": "a"}]}
    gone = next(told)
    assert (gone["type"], "no daemon is running" in gone["why"]) == ("gone", True)
    told.close()  # type: ignore[attr-defined]


def test_a_daemon_that_does_not_answer_is_another_thing_than_none(
    tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As one whose loop does not turn: its threads serve the page all the same."""
    monkeypatch.setattr(feed, "_ANSWER_S", 0.1)
    path = str(tmp_path / "s.sock")
    with closing(rendezvous.bind_and_listen(path)):
        told = events(Web(path, list, None, unused_s=60.0).answer()["url"])
        assert [next(told)["type"], next(told)] == [
            "ended",
            {"type": "silent", "why": "the daemon did not answer within 0.1 s"},
        ]
        told.close()  # type: ignore[attr-defined]


def test_a_viewer_that_does_not_read_is_dropped(tmp_path: Any) -> None:
    live = Live(str(tmp_path / "no.sock"), list)
    viewer = live.join()
    deadline_s = time.monotonic() + WAIT_S
    for number in range(100):
        viewer.put(str(number))
    assert viewer.dropped
    while (message := viewer.next(INTERVAL_S)) is not None:
        assert time.monotonic() < deadline_s
        assert message != "99"
    live.leave(viewer)
    assert live.viewers == 0
    assert Viewer().dropped is False
