"""Do log events come in the order in which they were sent, after an outage of what takes them?

Loki refuses for good what is an hour behind the newest of its stream ("Accept out-of-order writes" in its manual).
"""

import json
import time
import urllib.request

from backends import Collector, eventually

from sidecar.testing.otlp import OtlpReceiver

COUNT = 8
# Loopback, whatever HTTP_PROXY says.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}))


def assert_in_order(into: Collector, backend: OtlpReceiver) -> None:
    """What is sent to `into` while `backend` refuses arrives there in order once it does not."""
    sent = [str(number) for number in range(COUNT)]
    backend.http_status = 503
    for each in sent:
        _send(into.http, each)
        # A request of its own: they are joined within a second (`flush_timeout`).
        time.sleep(1.1)
    eventually("a refusal", lambda: backend.requests)
    backend.http_status = 200

    def arrived() -> list[str]:
        found = [log.body for log in backend.logs if log.resource.get("service.name") == "numbered"]
        return found if len(found) >= COUNT else []

    assert eventually("all of them", arrived, 60) == sent


def _send(url: str, text: str) -> None:
    record = {"timeUnixNano": str(time.time_ns()), "body": {"stringValue": text}}
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "numbered"}}]}
    body = {"resourceLogs": [{"resource": resource, "scopeLogs": [{"logRecords": [record]}]}]}
    headers = {"Content-Type": "application/json"}
    _OPENER.open(urllib.request.Request(f"{url}/v1/logs", json.dumps(body).encode(), headers)).close()
