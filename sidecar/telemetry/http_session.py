"""The HTTP session of the OTLP exporters: no proxy to this host, and no wait beyond the end."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import requests  # the OTLP exporter's dependency, at the version it asks for

if TYPE_CHECKING:
    from sidecar.telemetry.exporters import Closing

_SHORTEST_S = 0.05


class Session(requests.Session):
    """A session for one exporter.

    HTTP_PROXY and the like are read by `requests` and capture even 127.0.0.1; a Collector on this host is never
    behind a proxy. Once `closing` has a deadline, no request waits beyond it.
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
        if deadline_s is not None:
            left_s = max(_SHORTEST_S, deadline_s - time.monotonic())
            options["timeout"] = min(options.get("timeout") or left_s, left_s)
        return super().request(method, url, **options)
