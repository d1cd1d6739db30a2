"""What the daemon asks of a running supervisor: one line of JSON each. Loaded when the first one comes.

    {"request": "cancel", "commandId": "...", "askedBy": "cancel", "evidence": "sidecar cancel, pid 4711"}

It is the only request so far. Anything else is skipped: a newer daemon may ask for what we do not know.
"""

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from sidecar.core.frame_line import Json

_MAX_LINE_BYTES = 8192


class Requests:
    """Bytes in, requests for `command_id` out."""

    def __init__(self, command_id: str) -> None:
        self._command_id = command_id
        self._buffer = bytearray()

    def feed(self, data: bytes) -> "list[dict[str, Json]]":
        """The requests that `data` completes. Never raises; a line that does not end is forgotten."""
        from sidecar.core.errors import FrameError
        from sidecar.core.frame import load_object

        self._buffer += data
        *lines, rest = bytes(self._buffer).split(b"\n")
        self._buffer[:] = rest if len(rest) <= _MAX_LINE_BYTES else b""
        requests = []
        for line in lines:
            try:
                request = load_object(line)
            except FrameError:
                continue
            if request.get("commandId") == self._command_id:
                requests.append(request)
        return requests


def text_of(request: "dict[str, Json]", key: str) -> str | None:
    """A key that may be absent, and is of no use as anything but text. Half surrogate pairs become U+FFFD."""
    value = request.get(key)
    return value.encode("utf-8", "surrogatepass").decode("utf-8", "replace") if isinstance(value, str) else None
