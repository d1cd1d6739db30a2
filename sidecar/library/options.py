"""What a command is started with: the options, and the words of the supervisor that they become."""

import math
import os
import sys
import sysconfig
from collections.abc import Mapping, Sequence
from typing import TypedDict

from sidecar.core.errors import UsageError

Words = str | Sequence[str]
"""A command: a list of words is run as it is, a text by a shell (`-c`)."""

_MAIN = "import sys; sys.path.insert(0, {root!r}); from sidecar.launch import main; sys.exit(main())"


class Options(TypedDict, total=False):
    """Each may be left out. What is not given here is as the configuration of the sidecar has it.

    cwd                   the folder to run in
    env                   the command's whole environment; else ours
    input                 what the command reads on its stdin; else it is empty
    merge_stderr          stderr goes where stdout goes, in the order written; `Result.stderr` is then empty
    pty                   its stdout is a terminal, with merge_stderr its stderr too
    timeout_s             the tree is stopped after so long; None = never
    silence_timeout_s     the tree is stopped after so long without output; None = never
    kill_after_s          from TERM to KILL
    heartbeat_interval_s  0 = no heartbeats
    on_verdict            as --on-verdict: "awaiting_input:60s=cancel"
    tool_call_id, tool_name, session_id   the agent's names of the call, for frames and spans
    shell                 an absolute path: what runs a text
    inline                telemetry without a daemon
    max_output_bytes      how much of each stream is kept, half of it from the start and half from the end; None = all
    """

    cwd: str | os.PathLike[str] | None
    env: Mapping[str, str] | None
    input: bytes | None
    merge_stderr: bool
    pty: bool | None
    timeout_s: float | None
    silence_timeout_s: float | None
    kill_after_s: float | None
    heartbeat_interval_s: float | None
    on_verdict: str | Sequence[str] | None
    tool_call_id: str | None
    tool_name: str | None
    session_id: str | None
    shell: str | None
    inline: bool | None
    max_output_bytes: int | None


_DURATIONS = {
    "timeout_s": "--timeout",
    "silence_timeout_s": "--silence-timeout",
    "kill_after_s": "--kill-after",
    "heartbeat_interval_s": "--heartbeat-interval",
}
_TEXTS = {
    "tool_call_id": "--tool-call-id",
    "tool_name": "--tool-name",
    "session_id": "--session-id",
    "shell": "--shell",
}
_SWITCHES = {"pty": "pty", "inline": "inline"}


def supervisor_words(command: Words, options: Options, frames_fd: int) -> list[str]:
    """The supervisor's command line. Raises UsageError for what cannot be said there."""
    unknown = set(options) - set(Options.__annotations__)
    if unknown:
        raise UsageError(f"no such option: {', '.join(sorted(unknown))}")
    _check(command, options)
    given: Mapping[str, object] = {name: value for name, value in options.items() if value is not None}
    words = [*_program(), "run", f"--frames-fd={frames_fd}"]
    for name, flag in _DURATIONS.items():
        if name in given:
            words.append(f"{flag}={_duration(name, given[name])}")
    for name, flag in _TEXTS.items():
        if name in given:
            words.append(f"{flag}={given[name]}")
    for name, flag in _SWITCHES.items():
        if name in given:
            words.append(f"--{flag}" if given[name] else f"--no-{flag}")
    rules = options.get("on_verdict") or ()
    words += [f"--on-verdict={rule}" for rule in ([rules] if isinstance(rules, str) else rules)]
    if isinstance(command, str):
        return [*words, "-c", command]
    if not command:
        raise UsageError("no command to run: the list of words is empty")
    return [*words, "--", *command]


def _check(command: object, options: Mapping[str, object]) -> None:
    """What would be found out only once the command runs, or by nobody: a caller may have no type checker."""
    if not isinstance(command, Sequence) or isinstance(command, bytes):
        raise UsageError(f"a command is a text, or a list of texts: {command!r:.200}")
    given = options.get("input")
    if given is not None and not isinstance(given, bytes | bytearray | memoryview):
        raise UsageError(f"input must be bytes: {given!r:.200}")
    limit_bytes = options.get("max_output_bytes")
    if limit_bytes is None:
        return
    if isinstance(limit_bytes, bool) or not isinstance(limit_bytes, int) or limit_bytes < 0:
        raise UsageError(f"max_output_bytes must be a number of bytes, not negative: {limit_bytes!r:.200}")


def command_environment(options: Options) -> dict[str, str]:
    """The environment for the supervisor, which passes it on. It names the span that is current here, if any."""
    given = options.get("env")
    environ = dict(os.environ if given is None else given)
    if given is None or "TRACEPARENT" not in given:
        environ.update(_current_span())
    return environ


def _current_span() -> dict[str, str]:
    """TRACEPARENT and TRACESTATE of OpenTelemetry's current span. Nothing where this program does not use it."""
    if "opentelemetry.trace" not in sys.modules:
        return {}
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    carrier: dict[str, str] = {}
    TraceContextTextMapPropagator().inject(carrier)
    return {name.upper(): value for name, value in carrier.items()}


def _program() -> list[str]:
    script = os.path.join(sysconfig.get_path("scripts"), "sidecar")
    if os.access(script, os.X_OK):
        return [script]
    # Not `-m sidecar`: that would put the working folder, which may be anybody's, among the places to import from.
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return [sys.executable, "-I", "-c", _MAIN.format(root=root)]


def _duration(name: str, value: object) -> str:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise UsageError(f"{name} must be a number of seconds, not negative: {value!r}")
    # Not nothing, where a little was meant: zero means never.
    return f"{max(round(value * 1000), 1) if value else 0}ms"
