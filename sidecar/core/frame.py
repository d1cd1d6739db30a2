"""The wire: frames on the Unix socket. Build, parse, guard. docs/wire.md is the page for users.

NDJSON: UTF-8, one object a line, at most 8 KiB with its newline. Every producer frame has

    v          the version of the wire, 1
    type       one of PRODUCER_TYPES; another is skipped by the reader
    commandId  UUIDv7
    seq        strictly increasing within the command, from 0
    replay     true when an earlier daemon already had this frame; absent otherwise

and by type (all times in milliseconds; `?` = may be absent):

    command_started   traceId spanId parentSpanId? traceFlags traceState? pid supervisorPid program
                      toolName? toolCallId? sessionId? timeoutMs? silenceTimeoutMs? heartbeatIntervalMs
                      io ("pipe" | "pty" | "direct") startUnixMs startMonotonicMs commandLine?
                      bridgeId? matchKey? (core/match_key.py)
    shell_progress    shellProgress (the reference object, nothing else in it) heartbeatCount? (so far, this one
                      included) longestSilenceMs? and where there is a verdict the keys of core/verdict_fields.py:
                      verdict? group? confidence? sinceMs? alive? progress? leaf? evidence? hint? unseen?
    output_activity   elapsedMs lastOutputAgeMs totalLines totalBytes repeats?   (to the daemon only, never fanned out)
    verdict           elapsedMs verdict, and the same further keys as above; limit? (a rule of --on-verdict)
    command_settled   reason exitCode? signal? ("SIGKILL") error? ("ENOENT") elapsedMs totalBytes totalLines
                      heartbeatCount lastOutputAgeMs? longestSilenceMs descendantsLeft (count) maxRssBytes?
                      cpuUserMs? cpuSystemMs? suspendedMs? outputHeldBy? (list of strings) stop? (the receipt
                      of core/receipt.py)
                      With reason spawn_failed no command_started was sent, so this frame then carries the
                      identity keys of command_started as well, but no pid.

What makes the lines is core.frame_line, for the sake of those who load nothing else of this.
"""

from sidecar.core.errors import FrameError
from sidecar.core.frame_line import (
    ACTIVITY,
    MAX_FRAME_BYTES,
    PROGRESS,
    SETTLED,
    STARTED,
    VERDICT,
    VERSION,
    encode,
    progress_payload,
)

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Mapping

    from sidecar.core.frame_line import Json as Json

__all__ = [
    "ACTIVITY",
    "MAX_FRAME_BYTES",
    "PRODUCER_TYPES",
    "PROGRESS",
    "SETTLED",
    "STARTED",
    "VERDICT",
    "VERSION",
    "encode",
    "is_shell_progress",
    "load_object",
    "native",
    "parse",
    "progress_payload",
]

_INT = (int,)
_STR = (str,)
# Identity keys: what command_started must and may carry. `pid` is required there, and absent when no process
# was ever made.
_IDENTITY_REQUIRED: dict[str, tuple[type, ...]] = {
    "traceId": _STR,
    "spanId": _STR,
    "traceFlags": _STR,
    "supervisorPid": _INT,
    "program": _STR,
    "heartbeatIntervalMs": _INT,
    "io": _STR,
    "startUnixMs": _INT,
    "startMonotonicMs": _INT,
}
_IDENTITY_OPTIONAL: dict[str, tuple[type, ...]] = {
    "parentSpanId": _STR,
    "traceState": _STR,
    "toolName": _STR,
    "toolCallId": _STR,
    "sessionId": _STR,
    "timeoutMs": _INT,
    "silenceTimeoutMs": _INT,
    "commandLine": _STR,
    "bridgeId": _STR,
    "matchKey": _STR,
}
_VERDICT_OPTIONAL: dict[str, tuple[type, ...]] = {
    "group": _STR,
    "confidence": _STR,
    "sinceMs": _INT,
    "alive": (bool,),
    "progress": (bool,),
    "leaf": (dict,),
    "evidence": (list,),
    "hint": _STR,
    "unseen": (list,),
}
_REQUIRED: dict[str, dict[str, tuple[type, ...]]] = {
    STARTED: {**_IDENTITY_REQUIRED, "pid": _INT},
    PROGRESS: {"shellProgress": (dict,)},
    ACTIVITY: {"elapsedMs": _INT, "lastOutputAgeMs": _INT, "totalLines": _INT, "totalBytes": _INT},
    VERDICT: {"elapsedMs": _INT, "verdict": _STR},
    SETTLED: {
        "reason": _STR,
        "elapsedMs": _INT,
        "totalBytes": _INT,
        "totalLines": _INT,
        "heartbeatCount": _INT,
        "longestSilenceMs": _INT,
        "descendantsLeft": _INT,
    },
}
_OPTIONAL: dict[str, dict[str, tuple[type, ...]]] = {
    STARTED: _IDENTITY_OPTIONAL,
    PROGRESS: {"longestSilenceMs": _INT, "heartbeatCount": _INT, "verdict": _STR, **_VERDICT_OPTIONAL},
    ACTIVITY: {"repeats": (bool,)},
    VERDICT: {**_VERDICT_OPTIONAL, "limit": _STR},
    SETTLED: {
        "exitCode": _INT,
        "signal": _STR,
        "error": _STR,
        "lastOutputAgeMs": _INT,
        "maxRssBytes": _INT,
        "cpuUserMs": _INT,
        "cpuSystemMs": _INT,
        "suspendedMs": _INT,
        "stop": (dict,),
        "outputHeldBy": (list,),
        **_IDENTITY_REQUIRED,
        **_IDENTITY_OPTIONAL,
    },
}
PRODUCER_TYPES = tuple(_REQUIRED)
# They become a traceparent and span contexts: what is no id there would harm more than its own command.
_HEX_DIGITS = {"traceId": 32, "spanId": 16, "parentSpanId": 16, "traceFlags": 2}
_HEX = frozenset("0123456789abcdef")

_PROGRESS_KEYS = ("elapsedMs", "lastOutputAgeMs", "totalLines", "totalBytes", "timeoutMs")


def is_shell_progress(obj: object) -> bool:
    """Whether `obj` is a progress payload: the reference shape and nothing else in it.

    Counts and times are integers that are not negative; the three output keys come together or not at all.
    """
    if not isinstance(obj, dict) or obj.get("type") != PROGRESS or not _is_count(obj.get("elapsedMs")):
        return False
    if any(key != "type" and (key not in _PROGRESS_KEYS or not _is_count(value)) for key, value in obj.items()):
        return False
    output_keys = [key in obj for key in ("lastOutputAgeMs", "totalLines", "totalBytes")]
    return all(output_keys) or not any(output_keys)


def parse(line: bytes) -> "dict[str, Json] | None":
    """A producer's line -> its known keys, checked; None for a type that is not known (skip it).

    Raises FrameError for what costs the sender its connection: oversized, not JSON, not an object, another
    version, a missing key, a key of the wrong type. Unknown keys are dropped.
    """
    frame = load_object(line)
    kind = frame.get("type")
    if not isinstance(kind, str):
        raise FrameError("frame without a type")
    if frame.get("v") != VERSION or type(frame["v"]) is not int:  # True and 1.0 equal 1 to Python
        raise FrameError(f"frame of version {frame.get('v')!r:.20}; this daemon speaks {VERSION}")
    if kind not in _REQUIRED:
        return None
    known: dict[str, Json] = {"v": VERSION, "type": kind}
    for key, types in (("commandId", _STR), ("seq", _INT), *_REQUIRED[kind].items()):
        if key not in frame:
            raise FrameError(f"{kind} frame without {key}")
        known[key] = _checked(kind, key, frame[key], types)
    for key, types in (("replay", (bool,)), *_OPTIONAL[kind].items()):
        if key in frame:
            known[key] = _checked(kind, key, frame[key], types)
    if kind == PROGRESS and not is_shell_progress(known["shellProgress"]):
        raise FrameError("shell_progress frame whose shellProgress is not of the reference shape")
    if "leaf" in known:
        from sidecar.core.verdict_fields import is_leaf

        if not is_leaf(known["leaf"]):
            raise FrameError(f"{kind} frame whose leaf is no pid and program")
    if "stop" in known:
        from sidecar.core.receipt import is_receipt

        if not is_receipt(known["stop"]):
            raise FrameError(f"{kind} frame whose stop is no receipt")
    if kind == SETTLED and known["reason"] == "spawn_failed":
        for key in _IDENTITY_REQUIRED:
            if key not in known:
                raise FrameError(f"spawn_failed frame without {key}")
    return known


def load_object(line: bytes) -> "dict[str, Json]":
    """One line -> a JSON object, of any kind. Raises FrameError."""
    import json

    if len(line) > MAX_FRAME_BYTES:
        raise FrameError(f"frame of {len(line)} bytes; at most {MAX_FRAME_BYTES} are allowed")
    try:
        frame = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise FrameError(f"frame that is not JSON: {error}") from None
    if not isinstance(frame, dict):
        raise FrameError("frame that is not a JSON object")
    return frame


def _checked(kind: str, key: str, value: "Json", types: tuple[type, ...]) -> "Json":
    # bool is an int to Python, but not on the wire.
    if not isinstance(value, types) or (isinstance(value, bool) and bool not in types):
        raise FrameError(f"{kind} frame whose {key} is a {type(value).__name__}")
    if types is _INT and not (isinstance(value, int) and 0 <= value < 2**63):
        raise FrameError(f"{kind} frame whose {key} is out of range")
    if isinstance(value, list) and not all(isinstance(item, str) for item in value):
        raise FrameError(f"{kind} frame whose {key} is not a list of strings")
    if key in _HEX_DIGITS and not (len(str(value)) == _HEX_DIGITS[key] and _HEX.issuperset(str(value))):
        raise FrameError(f"{kind} frame whose {key} is not {_HEX_DIGITS[key]} hex digits")
    texts = (value,) if isinstance(value, str) else value if isinstance(value, list) else ()
    if not all(map(_is_text, texts)):
        raise FrameError(f"{kind} frame whose {key} holds half a surrogate pair")
    return value


def _is_text(value: object) -> bool:
    """JSON can spell a lone surrogate (\\ud800); nothing after us could write that as UTF-8."""
    try:
        return isinstance(value, str) and (value.isascii() or bool(value.encode()))
    except UnicodeEncodeError:
        return False


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**63


def native(command: "Mapping[str, Json]", progress: "Mapping[str, Json]") -> dict[str, "Json"]:
    """The native progress frame, which is also the body of ACP's `tool_call_update`.

    `command` is the command_started frame, `progress` a shell_progress frame of the same command. Meta only:
    no title, kind, content or locations, ever. Without a tool call id there is no toolCallId: never an id of
    our own in its place.
    """
    sidecar: dict[str, Json] = {
        "v": VERSION,
        "seq": progress["seq"],
        "commandId": progress["commandId"],
        **{key: progress.get(key) for key in ("verdict", *_VERDICT_OPTIONAL) if key not in ("hint", "unseen")},
    }
    meta: dict[str, Json] = {
        "toolName": command.get("toolName"),
        "shellProgress": progress["shellProgress"],
        "sidecar": {key: value for key, value in sidecar.items() if value is not None},
        "traceparent": f"00-{command['traceId']}-{command['spanId']}-{command['traceFlags']}",
        "tracestate": command.get("traceState"),
    }
    frame: dict[str, Json] = {
        "toolCallId": command.get("toolCallId"),
        "status": "in_progress",
        "_meta": {key: value for key, value in meta.items() if value is not None},
    }
    return {key: value for key, value in frame.items() if value is not None}
