"""The performance: start everything, show what arrives until all have ended and all has arrived, sum up."""

import os
import queue
import shlex
import shutil
import sys
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from sidecar.cli.demo_screen import Screen
from sidecar.cli.demo_stage import Running, Stage, own_argv
from sidecar.cli.demo_story import Fact, Part, Story
from sidecar.core.duration import format_duration
from sidecar.core.trace_context import format_traceparent
from sidecar.daemon import client
from sidecar.testing.otlp import OtlpReceiver
from sidecar.testing.received import ReceivedMetric

_INTERVAL_S: Final = 10.0
_METRIC_INTERVAL_NS: Final = 1_000_000_000  # the least that is allowed, so that the figures are seen to move
_METRIC_PAUSE_S: Final = 4.0
_TALK_LINES: Final = 24
_SILENT_S: Final = 25.0
_TIMEOUT_S: Final = 15.0
_POLL_S: Final = 0.1
# What is on its way when the last command ends gets this long: an exporter's batch may wait for 5 s.
_TAIL_TIMEOUT_S: Final = 12.0
# A command that is still there this long after it should have ended is a fault of the sidecar.
_OVERTIME_S: Final = 30.0

# When it came (monotonic ns), and what tells it to the story, given the seconds since the first command.
Arrival = tuple[int, Callable[[float], Fact | None]]


@dataclass(frozen=True, slots=True)
class Scene:
    """A command before it is started: what is expected of it, options of `sidecar run`, the command itself."""

    part: Part
    options: list[str]
    argv: list[str]


def perform(screen: Screen, scale: float) -> list[str]:
    """The whole demo, all durations times `scale`. Returns what did not arrive as it should, in words.

    Raises SidecarError where not even the daemon comes up. Leaves nothing behind, whatever happens.
    """
    scenes = scenes_of(scale)
    story = Story([scene.part for scene in scenes], _METRIC_PAUSE_S * scale)
    arrivals: queue.SimpleQueue[Arrival] = queue.SimpleQueue()
    points: queue.SimpleQueue[ReceivedMetric] = queue.SimpleQueue()
    receiver = OtlpReceiver(
        on_span=lambda span: arrivals.put((span.received_at_ns, partial(story.span, span))),
        on_log=lambda log: arrivals.put((log.received_at_ns, partial(story.log, log))),
        on_metric=points.put,
    )
    with receiver, Stage(own_argv()) as stage:
        screen.note("Starting a private daemon, and an OTLP receiver in this process as its backend.")
        pid = stage.start_daemon(receiver.http_endpoint, round(_INTERVAL_S * scale * 1e9), _METRIC_INTERVAL_NS)
        with client.subscribe(stage.socket_path) as subscription:
            relay = threading.Thread(target=_relay, args=(subscription, story, arrivals), name="demo-frames")
            relay.start()
            screen.note(f"Daemon {pid} is up. A heartbeat is due after each {_INTERVAL_S * scale:g} s without output.")
            for scene in scenes:
                screen.note(f"  {scene.part.name:<7} sidecar run {scene.part.shown_command}")
            screen.note("")
            started_ns = time.monotonic_ns()
            running = {scene.part.name: _start(scene, stage) for scene in scenes}
            _Watch(story, screen, running, arrivals, points, started_ns).until_all_is_there(scale)
            subscription.close()
            relay.join()
        for part in story.parts:
            _check_output(part, running[part.name].output())
    screen.end_table()
    missing = story.missing()
    if not missing:
        _sum_up(screen, story)
    return missing


def scenes_of(scale: float) -> list[Scene]:
    """The three commands, in the order of the table."""
    pause = f"{scale:g}"
    talk = f"i=0; while [ $i -lt {_TALK_LINES} ]; do i=$((i+1)); echo line $i; sleep {pause}; done"
    timeout = format_duration(round(_TIMEOUT_S * scale * 1000) * 1_000_000)
    return [
        _scene("talks", [], ["sh", "-c", talk], 0, "exited", 0),
        _scene("silent", [], ["sleep", f"{_SILENT_S * scale:g}"], 0, "exited", 2),
        _scene("hangs", ["--timeout", timeout], ["sleep", "3600"], 124, "timeout", 1),
    ]


def _scene(name: str, options: list[str], argv: list[str], exit_code: int, reason: str, beats: int) -> Scene:
    part = Part(
        name=name,
        shown_command=shlex.join([*options, "--", *argv]),
        trace_id=os.urandom(16).hex(),
        expected_exit=exit_code,
        expected_reason=reason,
        expected_beats=beats,
    )
    return Scene(part, options, argv)


def _talk_output() -> bytes:
    return b"".join(b"line %d\n" % number for number in range(1, _TALK_LINES + 1))


def _check_output(part: Part, output: bytes) -> None:
    """The talker's lines came through, and nobody wrote anything else: the sidecar itself least of all."""
    if output != (_talk_output() if part.name == "talks" else b""):
        last = output.decode(errors="replace").strip().rpartition("\n")[2]
        part.faults.append(f"its output did not come through as it was written; it ends in {last!r:.200}")


def _start(scene: Scene, stage: Stage) -> Running:
    # What an agent would do: its own id of the call, and its own span as the parent.
    options = ["--tool-call-id", scene.part.tool_call_id, "--tool-name", "shell", *scene.options]
    traceparent = format_traceparent(scene.part.trace_id, os.urandom(8).hex(), 1)
    return stage.start(options, scene.argv, scene.part.name, traceparent)


def _relay(subscription: client.Subscription, story: Story, arrivals: "queue.SimpleQueue[Arrival]") -> None:
    for record in subscription:
        arrivals.put((time.monotonic_ns(), partial(story.frame, record)))


class _Watch:
    """The loop of the main thread: whatever came, whoever ended, goes to the story and onto the screen."""

    def __init__(
        self,
        story: Story,
        screen: Screen,
        running: dict[str, Running],
        arrivals: "queue.SimpleQueue[Arrival]",
        points: "queue.SimpleQueue[ReceivedMetric]",
        started_ns: int,
    ) -> None:
        self._story = story
        self._screen = screen
        self._running = running
        self._arrivals = arrivals
        self._points = points
        self._started_ns = started_ns
        self._export: list[ReceivedMetric] = []

    def until_all_is_there(self, scale: float) -> None:
        """Until every command has ended and nothing is missing, or no more can be waited for."""
        overtime_s = _SILENT_S * scale + _OVERTIME_S
        while self._story.running and self._now_s() < overtime_s:
            self._step()
        deadline_s = self._now_s() + _TAIL_TIMEOUT_S
        while self._story.missing() and self._story.exits_as_expected and self._now_s() < deadline_s:
            self._step()

    def _step(self) -> None:
        self._take_arrivals()
        self._take_points()
        for part in self._story.parts:
            exit_code = self._running[part.name].exit_code()
            if part.exit_code is None and exit_code is not None:
                self._screen.fact(self._story.exited(part, exit_code, self._now_s()))
        self._screen.table(self._story.parts, self._now_s())

    def _take_arrivals(self) -> None:
        """Wait for one arrival, for a moment, and take in all that are there."""
        timeout_s = _POLL_S
        while True:
            try:
                at_ns, tell = self._arrivals.get(timeout=timeout_s)
            except queue.Empty:
                return
            timeout_s = 0.0
            self._show(tell((at_ns - self._started_ns) / 1e9))

    def _take_points(self) -> None:
        """The points of one export come one by one, and have the time of their arrival in common."""
        while not self._points.empty():
            point = self._points.get()
            if self._export and self._export[0].received_at_ns != point.received_at_ns:
                self._flush_export()
            self._export.append(point)
        if self._export and time.monotonic_ns() - self._export[0].received_at_ns > _POLL_S * 1e9:
            self._flush_export()

    def _flush_export(self) -> None:
        at_s = (self._export[0].received_at_ns - self._started_ns) / 1e9
        self._show(self._story.metrics(self._export, at_s))
        self._export = []

    def _show(self, fact: Fact | None) -> None:
        if fact is not None:
            self._screen.fact(fact)

    def _now_s(self) -> float:
        return (time.monotonic_ns() - self._started_ns) / 1e9


def _typed() -> str:
    """What a user types to get this sidecar: its name where PATH leads here, else the script as it was called."""
    called = sys.argv[0]
    if os.path.basename(called) != "sidecar":
        return "sidecar"
    on_path = shutil.which("sidecar")
    return "sidecar" if on_path and os.path.realpath(on_path) == os.path.realpath(called) else called


def _sum_up(screen: Screen, story: Story) -> None:
    sidecar = _typed()
    live = sum(part.live_spans for part in story.parts)
    in_time = sum(part.live_spans_in_time for part in story.parts)
    for line in (
        "",
        f"{len(story.parts)} commands, {story.heartbeats} heartbeats: frames and metrics agree.",
        f"{in_time} of {live} live spans arrived before their command had ended: that is how a hang",
        "shows while it lasts. The commands' own spans came at the end, as spans do.",
        "",
        "What to type next:",
        f"  {sidecar} run --timeout 2m -- CMD    wrap a command of your own",
        f"  {sidecar} ps                         in another terminal: what runs now",
        f"  {sidecar} watch                      the frames, as they happen",
        "A daemon starts by itself. It sends OTLP to localhost:4318, or to where",
        "OTEL_EXPORTER_OTLP_ENDPOINT says.",
    ):
        screen.note(line)
