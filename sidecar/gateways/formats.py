"""The formats by name, as a subscriber of the daemon asks for them: {"subscribe": {"format": "acp", ...}}.

A factory takes the subscribe object and gives an encoder with the methods that sidecar.daemon.fanout calls. What
runs already is not told of in these protocols: their consumers know of it from the agent.
"""

import json
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

from sidecar.core.command import Command
from sidecar.core.errors import FrameError
from sidecar.core.frame import MAX_FRAME_BYTES
from sidecar.gateways import acp, mcp, stream_json
from sidecar.gateways.context import Context, Frame, Record

Encode = Callable[[Frame, Frame], Record | None]


class GatewayEncoder:
    """One subscriber's format."""

    def __init__(self, encode: Encode) -> None:
        self._encode = encode

    def snapshot(self, commands: list[tuple[Command, Record]]) -> Iterable[Record]:
        return ()

    def record(self, command: Command, frame: Record) -> Iterable[Record]:
        record = self._encode(command.identity, frame)
        return () if record is None else (record,)

    def line(self, record: Record) -> bytes:
        """Unlike the wire's own frames these keep a null: Claude's and Qwen's consumers look for the key."""
        line = json.dumps(record, separators=(",", ":")).encode() + b"\n"
        if len(line) > MAX_FRAME_BYTES:
            raise FrameError(f"line of {len(line)} bytes; at most {MAX_FRAME_BYTES} are allowed")
        return line


def context_of(subscribe: Mapping[str, Any]) -> Context:
    """The context that a subscribe object gives. Raises FrameError for a key of the wrong type."""
    partial_messages = subscribe.get("includePartialMessages", False)
    if not isinstance(partial_messages, bool):
        raise FrameError("includePartialMessages must be true or false")
    token = subscribe.get("progressToken")
    if isinstance(token, bool) or not isinstance(token, str | int | None):
        raise FrameError("progressToken must be a string or an integer")
    return Context(partial_messages=partial_messages, progress_token=token)


def _of(encode: Callable[[Frame, Frame, Context], Record | None]) -> Callable[[Mapping[str, Any]], GatewayEncoder]:
    def factory(subscribe: Mapping[str, Any]) -> GatewayEncoder:
        context = context_of(subscribe)
        return GatewayEncoder(lambda command, frame: encode(command, frame, context))

    return factory


def _mcp(subscribe: Mapping[str, Any]) -> GatewayEncoder:
    context = context_of(subscribe)
    if context.progress_token is None:
        raise FrameError("the format mcp needs the progressToken of the request")
    increasing = mcp.Increasing()

    def encode(command: Frame, frame: Frame) -> Record | None:
        record = mcp.encode(command, frame, context)
        return None if record is None else increasing.lift(record)

    return GatewayEncoder(encode)


FORMATS: Final[dict[str, Callable[[Mapping[str, Any]], GatewayEncoder]]] = {
    "acp": _of(acp.encode),
    "claude": _of(stream_json.claude),
    "mcp": _mcp,
    "qwen": _of(stream_json.qwen),
}
