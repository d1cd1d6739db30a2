"""OTLP over HTTP: one request, one try."""

from __future__ import annotations

import gzip
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

    def send(self, body: bytes, timeout_s: float) -> Answer:
        """One try. `timeout_s` bounds each wait for the other side, not their sum. Never raises."""
        try:
            return self._post(self._compressed(body), max(timeout_s, _SHORTEST_S))
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
