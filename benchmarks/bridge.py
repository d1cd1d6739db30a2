"""The bridges: 100 MB of an agent's messages through one, over the same through `cat` in its place.

Throughput: as fast as they come from a file, from the first byte to the last, so that no start-up is in it. Latency:
100 MB at 25 MB/s from an agent that says in each message when it was written; what is told is by how much the 99th
percentile of the bridge is above that of `cat`, round by round. The messages are those of a busy agent: pieces of an
answer, mostly; calls, their updates and results, some of which are large.
"""

import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from typing import Any

from benchmarks.installation import Installation

BYTES = 100_000_000
ROUNDS = 5
LIMIT = 0.05
LATENCY_LIMIT_MS = 5.0
_READ_BYTES = 1 << 16

_AGENT = """
import sys, time
lines = open(sys.argv[1], 'rb').read().splitlines(keepends=True)
left, rate = int(sys.argv[2]), int(sys.argv[3])
started_s, written = time.monotonic(), 0
while written < left:
    for line in lines:
        late_s = written / rate - (time.monotonic() - started_s)
        if late_s > 0.0005:
            time.sleep(late_s)
        data = b'{"t":%020d,' % time.monotonic_ns() + line[1:]
        sys.stdout.buffer.raw.write(data)
        written += len(data)
        if written >= left:
            break
"""


def acp(installed: Installation) -> dict[str, Any]:
    """For `sidecar bridge acp`."""
    return _measure(installed, "acp", _acp_messages)


def stream_json(installed: Installation) -> dict[str, Any]:
    """For `sidecar bridge stream-json`."""
    return _measure(installed, "stream-json", _stream_json_messages)


def _measure(installed: Installation, protocol: str, messages: Callable[[int], Iterator[Any]]) -> dict[str, Any]:
    bridge = [installed.sidecar, "bridge", protocol, "--"]
    in_its_place = ["/bin/sh", "-c", '"$@" | cat', "sh"]
    with tempfile.TemporaryDirectory(prefix="sidecar-benchmark-") as folder:
        path, agent = f"{folder}/messages", f"{folder}/agent.py"
        with open(agent, "w") as file:
            file.write(_AGENT)
        _write(path, messages)
        rates: dict[str, list[float]] = {"bridge": [], "cat": []}
        p99_ms: dict[str, list[float]] = {"bridge": [], "cat": []}
        medians_ms: dict[str, list[float]] = {"bridge": [], "cat": []}
        for _ in range(ROUNDS):
            for name, words in (("bridge", bridge), ("cat", in_its_place)):
                rates[name].append(_rate([*words, "cat", path], installed.environ))
                paced = [sys.executable, "-IS", agent, path, str(BYTES // ROUNDS), "25000000"]
                delays_ms = _delays_ms([*words, *paced], installed.environ)
                p99_ms[name].append(statistics.quantiles(delays_ms, n=100)[98])
                medians_ms[name].append(statistics.median(delays_ms))
    rate = {name: statistics.median(values) / 1e6 for name, values in rates.items()}
    ratio = rate["bridge"] / rate["cat"]
    added_ms = statistics.median(ours - plain for ours, plain in zip(p99_ms["bridge"], p99_ms["cat"], strict=True))
    p99, median = ({name: statistics.median(each[name]) for name in each} for each in (p99_ms, medians_ms))
    return {
        "name": f"bridge-{protocol}",
        "what": f"throughput of {BYTES // 1_000_000} MB of messages through the bridge / through cat; latency added",
        "ratio": round(ratio, 2),
        "limit": f">= {LIMIT}",
        "ok": ratio >= LIMIT and added_ms < LATENCY_LIMIT_MS,
        "addedP99Ms": round(added_ms, 2),
        "detail": f"{rate['bridge']:.0f} MB/s / {rate['cat']:.0f} MB/s, median of {ROUNDS} interleaved rounds; "
        f"at 25 MB/s p99 {p99['bridge']:.2f} ms / {p99['cat']:.2f} ms, added {added_ms:.2f} ms (limit "
        f"{LATENCY_LIMIT_MS:g} ms), median {median['bridge']:.2f} ms / {median['cat']:.2f} ms",
    }


def _rate(argv: list[str], environ: dict[str, str]) -> float:
    """Bytes a second, from the first that is read to the last."""
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environ, bufsize=0) as process:
        assert process.stdout is not None
        descriptor, total = process.stdout.fileno(), 0
        os.read(descriptor, _READ_BYTES)
        started_s = time.perf_counter()
        while data := os.read(descriptor, _READ_BYTES):
            total += len(data)
        return total / (time.perf_counter() - started_s)


def _delays_ms(argv: list[str], environ: dict[str, str]) -> list[float]:
    """How long each message was on its way, from before it was written to when its end was read."""
    found = []
    with subprocess.Popen(argv, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, env=environ, bufsize=0) as process:
        assert process.stdout is not None
        descriptor, rest = process.stdout.fileno(), b""
        while data := os.read(descriptor, _READ_BYTES):
            now_ns = time.monotonic_ns()
            *lines, rest = (rest + data).split(b"\n")
            found += [(now_ns - int(line[5:25])) / 1e6 for line in lines]
    return found


def _write(path: str, messages: Callable[[int], Iterator[Any]]) -> None:
    with open(path, "wb") as file:
        number = 0
        while file.tell() < BYTES:
            for message in messages(number):
                file.write(json.dumps(message, separators=(",", ":")).encode() + b"\n")
            number += 1


def _acp_messages(number: int) -> Iterator[Any]:
    call, text = f"call_{number}", {"type": "text", "text": "so the test fails in its set-up, and "}

    def update(name: str, **keys: Any) -> dict[str, Any]:
        params = {"sessionId": "s", "update": {"sessionUpdate": name, **keys}}
        return {"jsonrpc": "2.0", "method": "session/update", "params": params}

    for _ in range(200):
        yield update("agent_message_chunk", content=text)
    yield update("tool_call", toolCallId=call, title="Shell", kind="execute", status="pending")
    yield update("tool_call_update", toolCallId=call, status="in_progress", rawInput={"command": f"make {number}"})
    output = {"type": "content", "content": {"type": "text", "text": "a line of output\n" * _lines(number)}}
    yield update("tool_call_update", toolCallId=call, status="completed", content=[output])


def _stream_json_messages(number: int) -> Iterator[Any]:
    call = f"call_{number}"

    def said(kind: str, **keys: Any) -> dict[str, Any]:
        return {"type": kind, "session_id": "s", "parent_tool_use_id": None, **keys}

    delta = {"type": "text_delta", "text": "so the test fails in its set-up, and "}
    for _ in range(200):
        yield said("stream_event", event={"type": "content_block_delta", "index": 0, "delta": delta})
    use = {"type": "tool_use", "id": call, "name": "Bash", "input": {"command": f"make {number}"}}
    yield said("assistant", message={"role": "assistant", "content": [use]})
    output = "a line of output\n" * _lines(number)
    result = {"type": "tool_result", "tool_use_id": call, "content": output}
    yield said("user", message={"role": "user", "content": [result]})


def _lines(number: int) -> int:
    """Output of some KB, every tenth of 170 KB."""
    return 10_000 if number % 10 == 0 else 200
