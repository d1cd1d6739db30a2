"""OTLP over HTTP: one request, one try."""

from __future__ import annotations

import gzip
import threading
import time
import zlib
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

import requests  # the OTLP exporter's own dependency, at the version it asks for

from sidecar import __version__
from sidecar.telemetry.answers import Answer, Outcome, of_http

if TYPE_CHECKING:
    from sidecar.telemetry.targets import Signal, Target

_MAX_ANSWER_BYTES = 64 * 1024
_SHORTEST_S = 0.05
_MAX_WORDS_CHARS = 200


class OverHttp:
    """Sends serialized requests of one signal to one target. For one thread at a time."""

    def __init__(self, signal: Signal, target: Target) -> None:
        self._signal = signal
        self._target = target
        self._session = requests.Session()
        # HTTP_PROXY and the like capture even 127.0.0.1; a Collector on this host is never behind a proxy.
        self._session.trust_env = not target.loopback
        self._session.verify = target.tls.certificate or True
        if target.tls.client_certificate:
            key = target.tls.client_key
            self._session.cert = (target.tls.client_certificate, key) if key else target.tls.client_certificate
        self._headers = {
            "content-type": "application/x-protobuf",
            "user-agent": f"OTel-OTLP-Exporter-Python-sidecar/{__version__}",
            **target.headers,
        }
        if target.compression != "none":
            self._headers["content-encoding"] = target.compression
        self._late: threading.Thread | None = None

    def send(self, body: bytes, timeout_s: float) -> Answer:
        """One try, which is over after `timeout_s`. Never raises.

        `requests` bounds each wait for the other side, and not their sum: many addresses, or an answer that trickles,
        would take any time. So it works on a thread, at most one, which is left behind when the time is up; until it
        has ended there is no other try.
        """
        bound_s = max(timeout_s, _SHORTEST_S)
        deadline_s = time.monotonic() + bound_s
        late = Answer(Outcome.LATER, f"timed out: no whole answer within {bound_s:g} s", TimeoutError.__qualname__)
        if self._late is not None:
            self._late.join(bound_s)
            if self._late.is_alive():
                return late
            self._late = None
        answers: list[Answer] = []
        thread = threading.Thread(
            target=lambda: answers.append(self._try(body, bound_s)), name="sidecar-post", daemon=True
        )
        try:
            thread.start()
        except RuntimeError:  # no thread is left, or the interpreter ends
            return self._try(body, bound_s)
        thread.join(max(0.0, deadline_s - time.monotonic()))
        if answers:
            return answers[0]
        self._late = thread
        return late

    def _try(self, body: bytes, wait_s: float) -> Answer:
        try:
            return self._post(self._compressed(body), wait_s)
        except Exception as error:  # noqa: BLE001 - of requests, urllib3, ssl or the file system, and worth a later try
            return Answer(Outcome.LATER, self._without_secrets(_in_words(error)), type(error).__qualname__)

    def _without_secrets(self, words: str) -> str:
        """Some errors show the header or the URL that they are about."""
        user_info = urlsplit(self._target.endpoint).netloc.rpartition("@")[0]
        secrets = {*self._target.headers.values(), *map(str.strip, self._target.headers.values()), user_info} - {""}
        for secret in sorted(secrets, key=len, reverse=True):
            words = words.replace(secret, "****")
        return words[:_MAX_WORDS_CHARS]

    def _post(self, body: bytes, timeout_s: float) -> Answer:
        response = self._session.post(
            self._target.endpoint,
            data=body,
            headers=self._headers,
            timeout=timeout_s,
            allow_redirects=False,
            stream=True,
        )
        try:
            # Bounded, and read whole where it is of the usual size, so that the connection can be used again.
            answer: bytes = response.raw.read(_MAX_ANSWER_BYTES, decode_content=True)
        finally:
            response.close()
        return of_http(self._signal, response.status_code, response.headers.get("retry-after"), answer)

    def _compressed(self, body: bytes) -> bytes:
        if self._target.compression == "gzip":
            return gzip.compress(body)
        return zlib.compress(body) if self._target.compression == "deflate" else body


def _in_words(error: Exception) -> str:
    """The first cause: what `requests` and urllib3 wrap around it names objects, not what is wrong."""
    cause: BaseException = error
    while (inner := cause.__cause__ or cause.__context__) is not None:
        cause = inner
    return f"{getattr(cause, 'strerror', None) or cause or type(cause).__name__}"
