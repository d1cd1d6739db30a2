"""The HTTP session of the OTLP exporters: no proxy to this host, and no second try at the end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import requests  # the OTLP exporter's dependency, at the version it asks for

if TYPE_CHECKING:
    from sidecar.telemetry.exporters import Closing

_SHORTEST_S = 0.05
_FIRST_ERROR_STATUS = 400


class GivenUpError(Exception):
    """An export failed at the end. Of a class the exporter takes for final: others it tries again for seconds."""


class Session(requests.Session):
    """A session for one exporter.

    HTTP_PROXY and the like are read by `requests` and capture even 127.0.0.1; a Collector on this host is never
    behind a proxy. Once `closing` has a deadline, no request waits beyond it, and what fails is not repeated.
    """

    def __init__(self, closing: Closing, *, loopback: bool) -> None:
        super().__init__()
        self._closing = closing
        if loopback:
            self.trust_env = False

    # The base class has sixteen options; they are passed on as they come.
    def request(  # type: ignore[override]
        self, method: str, url: str, **options: Any
    ) -> requests.Response:
        deadline_s = self._closing.deadline_s
        if deadline_s is None:
            return super().request(method, url, **options)
        left_s = max(_SHORTEST_S, deadline_s - time.monotonic())
        options["timeout"] = min(options.get("timeout") or left_s, left_s)
        try:
            response = super().request(method, url, **options)
        except requests.RequestException as error:
            raise GivenUpError(str(error)) from error
        if response.status_code >= _FIRST_ERROR_STATUS:
            raise GivenUpError(f"{response.status_code} {response.reason}")
        return response
