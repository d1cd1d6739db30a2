"""What a command has written so far, and how long it was silent: counts, never content."""


class OutputStats:
    """Bytes, lines and silences of one command's output.

    Times are monotonic nanoseconds. `last_output_ns` is None until the first byte. A line is what ends in a
    newline, or what a stream's last bytes are without one (a prompt is a line).
    """

    __slots__ = ("_longest_silence_ns", "_newlines", "_open_streams", "last_output_ns", "started_ns", "total_bytes")

    def __init__(self, started_ns: int) -> None:
        self.started_ns = started_ns
        self.last_output_ns: int | None = None
        self.total_bytes = 0
        self._newlines = 0
        self._open_streams: set[int] = set()
        self._longest_silence_ns = 0

    def record(self, chunk: bytes, now_ns: int, stream: int = 1) -> None:
        """Count a chunk (not empty) that `stream` (any small number that tells streams apart) gave."""
        silence_ns = now_ns - self.silent_since_ns
        if silence_ns > self._longest_silence_ns:
            self._longest_silence_ns = silence_ns
        self.last_output_ns = now_ns
        self.total_bytes += len(chunk)
        self._newlines += chunk.count(b"\n")
        if chunk[-1] == 10:
            self._open_streams.discard(stream)
        else:
            self._open_streams.add(stream)

    def record_written(self, size_bytes: int, at_ns: int) -> None:
        """Count output that did not pass through us and whose lines nobody counts. It was at `at_ns`."""
        self._longest_silence_ns = max(self._longest_silence_ns, at_ns - self.silent_since_ns)
        self.last_output_ns = max(at_ns, self.silent_since_ns)
        self.total_bytes += size_bytes

    def record_taken(self, now_ns: int) -> None:
        """Output that had waited for its reader was taken: it arrives only now, and the wait was no silence."""
        self.last_output_ns = max(now_ns, self.silent_since_ns)

    @property
    def total_lines(self) -> int:
        return self._newlines + len(self._open_streams)

    @property
    def silent_since_ns(self) -> int:
        """The moment of the last output, or of the start."""
        return self.started_ns if self.last_output_ns is None else self.last_output_ns

    def longest_silence_ns(self, now_ns: int) -> int:
        """The longest silence until now, the current one included."""
        return max(self._longest_silence_ns, now_ns - self.silent_since_ns)
