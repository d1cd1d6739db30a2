"""A frame as a line of the wire: the part of core.frame that makes one, small because every command loads it.

By hand, because importing `json` (which imports `re`) costs more than the whole spawn; only the parser imports it.
"""

from sidecar.core.errors import FrameError

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Mapping

    Json = str | int | float | bool | None | list["Json"] | dict[str, "Json"]

VERSION = 1
MAX_FRAME_BYTES = 8192

STARTED = "command_started"
PROGRESS = "shell_progress"
ACTIVITY = "output_activity"
VERDICT = "verdict"
SETTLED = "command_settled"


def progress_payload(
    elapsed_ms: int,
    *,
    last_output_age_ms: int | None = None,
    total_lines: int = 0,
    total_bytes: int = 0,
    timeout_ms: int | None = None,
) -> dict[str, "Json"]:
    """The reference shape, to the letter. Without output (`last_output_age_ms` None) the output keys are absent."""
    payload: dict[str, Json] = {"type": PROGRESS, "elapsedMs": elapsed_ms}
    if last_output_age_ms is not None:
        payload["lastOutputAgeMs"] = last_output_age_ms
        payload["totalLines"] = total_lines
        payload["totalBytes"] = total_bytes
    if timeout_ms is not None:
        payload["timeoutMs"] = timeout_ms
    return payload


def encode(fields: "Mapping[str, Json]") -> bytes:
    """One line of NDJSON, newline included. Keys whose value is None are left out.

    Raises FrameError for a line over MAX_FRAME_BYTES. Lone surrogates (undecodable bytes of a program's
    name) become U+FFFD: UTF-8 on the wire, always.
    """
    line = _encode_value(fields).encode() + b"\n"
    if len(line) > MAX_FRAME_BYTES:
        raise FrameError(f"frame of {len(line)} bytes; at most {MAX_FRAME_BYTES} are allowed")
    return line


def _quote(text: str) -> str:
    if text.isascii() and text.isprintable() and '"' not in text and "\\" not in text:
        return f'"{text}"'
    from _json import encode_basestring_ascii

    return encode_basestring_ascii(text)


def _encode_value(value: object) -> str:
    if isinstance(value, str):
        if value.isascii():
            return _quote(value)
        try:
            raw = value.encode("utf-8", "surrogateescape")
        except UnicodeEncodeError:  # a surrogate that stands for no byte
            raw = value.encode("utf-8", "surrogatepass")
        return _quote(raw.decode("utf-8", "replace"))
    if value is True:
        return "true"
    if value is False:
        return "false"
    if value is None:
        return "null"
    if isinstance(value, int):
        return int.__repr__(value)
    if isinstance(value, float):
        if value != value or value in (float("inf"), float("-inf")):
            raise FrameError("a number that JSON cannot say")
        return float.__repr__(value)
    if isinstance(value, dict):
        members = [f"{_quote(key)}:{_encode_value(item)}" for key, item in value.items() if item is not None]
        return "{" + ",".join(members) + "}"
    if isinstance(value, (list, tuple)):
        return "[" + ",".join(map(_encode_value, value)) + "]"
    raise FrameError(f"a {type(value).__name__} in a frame")
