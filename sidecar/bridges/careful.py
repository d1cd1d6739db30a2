"""A fault of ours in what is read along or added costs the heartbeats, and never the agent or its client a byte."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from sidecar.bridges.loop import Protocols

_Answer = TypeVar("_Answer")
NO_LINE: Sequence[bytes] = ()


class Careful:
    """`said`, until it fails; then nothing is added any more, and `complain` is told why, once."""

    def __init__(self, said: Protocols, complain: Callable[[str], object]) -> None:
        self._said: Protocols | None = said
        self._complain = complain

    def agent_line(self, line: bytes | None) -> None:
        self._call(lambda said: said.agent_line(line), None)

    def agent_words(self) -> Sequence[bytes]:
        return self._call(lambda said: said.agent_words(), NO_LINE)

    def client_line(self, line: bytes | None) -> None:
        self._call(lambda said: said.client_line(line), None)

    def client_words(self) -> Sequence[bytes]:
        return self._call(lambda said: said.client_words(), NO_LINE)

    def record(self, record: dict[str, Any]) -> bytes:
        return self._call(lambda said: said.record(record), b"")

    def passed_on(self) -> None:
        self._call(lambda said: said.passed_on(), None)

    def close(self) -> None:
        self._call(lambda said: said.close(), None)

    def _call(self, call: Callable[[Protocols], _Answer], otherwise: _Answer) -> _Answer:
        if self._said is None:
            return otherwise
        try:
            return call(self._said)
        except Exception as error:  # noqa: BLE001 - whatever it is, the agent and its client go on
            self._said = None
            self._complain(f"a fault in the bridge ends its heartbeats: {type(error).__name__}: {error}")
            return otherwise
