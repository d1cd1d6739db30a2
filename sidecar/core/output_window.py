"""The last chunks of a command's output, bounded: what core.novelty judges. Nothing of it leaves the supervisor."""

CHUNKS_AT_MOST = 256
CHUNK_BYTES_AT_MOST = 512


class OutputWindow:
    """Times are monotonic nanoseconds. 128 KiB at most.

    What comes within `slot_ns` of a chunk is joined to it, so that the window holds 256 slots at least.
    """

    __slots__ = ("_chunks", "_kept_bytes", "_slot_ns")

    def __init__(self, slot_ns: int = 0) -> None:
        self._chunks: list[tuple[int, bytes]] = []
        self._slot_ns = slot_ns
        self._kept_bytes = 0

    def record(self, chunk: bytes, now_ns: int) -> None:
        """Keep a chunk (the end of a long one), in constant time. One that has no room in its slot is left out."""
        chunks = self._chunks
        if chunks:
            last_ns, last = chunks[-1]
            if now_ns - last_ns < self._slot_ns:
                if len(last) + len(chunk) <= CHUNK_BYTES_AT_MOST:
                    chunks[-1] = last_ns, last + chunk
                    self._kept_bytes += len(chunk)
                return
            if len(chunks) == CHUNKS_AT_MOST:
                del chunks[0]
        kept = chunk[-CHUNK_BYTES_AT_MOST:]
        chunks.append((now_ns, kept))
        self._kept_bytes += len(kept)

    def take_bytes(self) -> int:
        """How many bytes were kept since this was asked last: less than came, where something was left out."""
        kept_bytes, self._kept_bytes = self._kept_bytes, 0
        return kept_bytes

    def since(self, since_ns: int) -> list[tuple[int, bytes]]:
        """The chunks that came since then, with their times; a copy."""
        return [chunk for chunk in self._chunks if chunk[0] >= since_ns]

    def clear(self) -> None:
        """Forget all chunks."""
        self._chunks.clear()
