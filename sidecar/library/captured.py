"""The output of a command, kept within a limit."""


class Captured:
    """One stream's bytes: all of them, or with `limit_bytes` the first half of that many and the last half."""

    def __init__(self, limit_bytes: int | None) -> None:
        self._limit_bytes = limit_bytes
        self._head = bytearray()
        self._tail = bytearray()
        self.total_bytes = 0

    def add(self, data: bytes) -> None:
        self.total_bytes += len(data)
        if self._limit_bytes is None:
            self._head += data
            return
        half_bytes = self._limit_bytes // 2
        room_bytes = max(0, self._limit_bytes - half_bytes - len(self._head))
        self._head += data[:room_bytes]
        self._tail += data[room_bytes:]
        # Not at each piece: to move the tail costs as much as it is long.
        if len(self._tail) > 2 * half_bytes + 65536:
            self._trim(half_bytes)

    def bytes(self) -> bytes:
        """What was kept. Where something was left out, `dropped_bytes` is more than 0."""
        if self._limit_bytes is not None:
            self._trim(self._limit_bytes // 2)
        return bytes(self._head + self._tail)

    @property
    def dropped_bytes(self) -> int:
        """How many are missing between the first part and the last."""
        if self._limit_bytes is not None:
            self._trim(self._limit_bytes // 2)
        return self.total_bytes - len(self._head) - len(self._tail)

    def _trim(self, half_bytes: int) -> None:
        if len(self._tail) > half_bytes:
            del self._tail[: len(self._tail) - half_bytes]
