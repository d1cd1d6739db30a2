"""The Collector's part in in_flight.py: takes everything in, and counts it.

Prints its endpoint first, and when it is terminated, as JSON, how many records of each signal came.
"""

import json
import signal
import time

from sidecar.testing.otlp import OtlpReceiver

counts = {"spans": 0, "logs": 0, "points": 0}


def count() -> None:
    counts["spans"] += len(receiver.spans)
    counts["logs"] += len(receiver.logs)
    counts["points"] += len(receiver.metrics)
    receiver.clear()


def end(*_: object) -> None:
    raise SystemExit


signal.signal(signal.SIGTERM, end)
with OtlpReceiver() as receiver:
    print(receiver.http_endpoint, flush=True)
    try:
        while True:
            time.sleep(1)
            count()
    finally:
        count()
        print(json.dumps(counts), flush=True)
