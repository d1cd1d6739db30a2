"""All the producers, and the subscriber, of in_flight.py: `in_flight_traffic.py SOCKET COMMANDS WARM_UP_S`.

Runs until its stdin ends; then settles every command and prints, as JSON, how long frames took to the subscriber
after the warm-up.
"""

import json
import os
import select
import socket
import sys
import threading
import time

from sidecar.core import frame as wire

INTERVAL_S = 10.0
PAST_BEATS = 180
"""Each command has been silent for half an hour before, so that the daemon has all it will ever keep of one."""
VERDICTS = ("sleeping", "network_wait", "computing", "lock_wait")


class Producer:
    """One command's connection."""

    def __init__(self, path: str, number: int) -> None:
        self.number = number
        self.id = f"0190{number:04x}-0000-7000-8000-{os.urandom(6).hex()}"
        self._seq = -1
        past_ns = int(PAST_BEATS * INTERVAL_S * 1e9)
        self._started_ns = time.monotonic_ns() - past_ns
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        identity = {
            "traceId": os.urandom(16).hex(),
            "spanId": os.urandom(8).hex(),
            "parentSpanId": os.urandom(8).hex(),
            "traceFlags": "03",
            "pid": 100_000 + number,
            "supervisorPid": 200_000 + number,
            "program": ("make", "pytest", "npm", "curl", "some-tool")[number % 5],
            "toolName": "Bash",
            "toolCallId": f"call_{number}",
            "sessionId": f"session-{number % 20}",
            "timeoutMs": 7_200_000,
            "heartbeatIntervalMs": int(INTERVAL_S * 1000),
            "io": "pipe",
            "startUnixMs": (time.time_ns() - past_ns) // 1_000_000,
            "startMonotonicMs": self._started_ns // 1_000_000,
        }
        self._send(wire.STARTED, identity)
        for beat in range(1, PAST_BEATS + 1):
            self._send(wire.PROGRESS, {**self._heartbeat(int(beat * INTERVAL_S * 1000)), "replay": True})

    def beat(self) -> tuple[tuple[str, int], int]:
        """Returns ((command id, seq), when it was sent on the monotonic clock in ns)."""
        fields = self._heartbeat(self._elapsed_ms())
        sent_ns = time.monotonic_ns()
        self._send(wire.PROGRESS, fields)
        return (self.id, self._seq), sent_ns

    def _heartbeat(self, elapsed_ms: int) -> dict[str, object]:
        output_age_ms = elapsed_ms if self.number % 2 else None
        beats = self._seq + 1
        return {
            "shellProgress": wire.progress_payload(
                elapsed_ms, last_output_age_ms=output_age_ms, total_lines=12, total_bytes=840, timeout_ms=7_200_000
            ),
            "heartbeatCount": beats,
            "longestSilenceMs": elapsed_ms,
            "verdict": VERDICTS[(self.number + beats // 12) % len(VERDICTS)],
            "evidence": ["python3 (4711) waits in read(2) on a socket", f"last byte {elapsed_ms / 1000:.0f} s ago"],
        }

    def settle(self) -> None:
        fields = {
            "reason": "exited",
            "exitCode": 0,
            "elapsedMs": self._elapsed_ms(),
            "totalBytes": 840,
            "totalLines": 12,
            "heartbeatCount": self._seq,
            "longestSilenceMs": self._elapsed_ms(),
            "descendantsLeft": 0,
        }
        self._send(wire.SETTLED, fields)

    def _elapsed_ms(self) -> int:
        return (time.monotonic_ns() - self._started_ns) // 1_000_000

    def _send(self, kind: str, fields: dict[str, object]) -> None:
        self._seq += 1
        line = wire.encode({"v": wire.VERSION, "type": kind, "commandId": self.id, "seq": self._seq, **fields})
        self._socket.sendall(line)


class Subscriber(threading.Thread):
    """Notes when each line came; what it says is read afterwards."""

    def __init__(self, path: str) -> None:
        super().__init__(daemon=True)
        self.lines: list[tuple[bytes, int]] = []
        self._socket = socket.socket(socket.AF_UNIX)
        self._socket.connect(path)
        self._socket.sendall(b'{"subscribe": {}}\n')

    def run(self) -> None:
        rest = b""
        while chunk := self._socket.recv(65536):
            now_ns = time.monotonic_ns()
            *whole, rest = (rest + chunk).split(b"\n")
            self.lines += [(line, now_ns) for line in whole]

    def arrivals(self) -> dict[tuple[str, int], int]:
        """(command id, seq) -> when, of the heartbeats."""
        found = {}
        for line, now_ns in self.lines:
            meta = json.loads(line).get("_meta", {}).get("sidecar")
            if meta is not None:
                found[meta["commandId"], meta["seq"]] = now_ns
        return found


def main() -> None:
    path, count, warm_up_s = sys.argv[1], int(sys.argv[2]), float(sys.argv[3])
    began_s = time.monotonic()
    producers = [Producer(path, number) for number in range(count)]
    subscriber = Subscriber(path)
    subscriber.start()
    sent = []
    step_s = INTERVAL_S / count
    spread_s, turn = time.monotonic(), 0
    while not select.select([sys.stdin], [], [], max(0.0, spread_s + turn * step_s - time.monotonic()))[0]:
        beat = producers[turn % count].beat()
        if time.monotonic() - began_s > warm_up_s:
            sent.append(beat)
        turn += 1
    time.sleep(1)
    for producer in producers:
        producer.settle()
    arrived = subscriber.arrivals()
    late_ms = sorted((arrived[key] - sent_ns) / 1e6 for key, sent_ns in sent if key in arrived)
    print(
        json.dumps(
            {
                "beats": len(sent),
                "missing": len(sent) - len(late_ms),
                "p50_ms": late_ms[len(late_ms) // 2],
                "p99_ms": late_ms[len(late_ms) * 99 // 100],
                "worst_ms": late_ms[-1],
            }
        )
    )


if __name__ == "__main__":
    main()
