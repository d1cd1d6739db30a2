"""What a command writes into a file that the agent gave it: seen by the file's position, never read.

The command has the agent's own open file, so nothing passes through us. But the open file is ours too, and its
position (lseek(2), which asks no file system and so never waits) moves with each write. Where the file system is
known to answer at once, fstat(2) also tells the size, which a script that opens /dev/stdout anew moves instead, and
the time of the last write. Elsewhere (a network, FUSE) a look could hang; there the time is that of the look.

Bytes are counted, lines are not: that would mean to read the user's file.
"""

import posix

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar.core.output import OutputStats
    from sidecar.supervisor.streams import GivenFile

LOOK_NS = 1_000_000_000
"""How often, so that what the daemon knows is no older than this."""
_ANSWERING = frozenset(
    (b"ext2", b"ext3", b"ext4", b"xfs", b"btrfs", b"f2fs", b"zfs", b"bcachefs", b"tmpfs", b"ramfs", b"overlay")
)


class GrowingFile:
    """One file. `look` tells what was written since the last look."""

    def __init__(self, given: "GivenFile", *, stat_answers: bool, appends: bool) -> None:
        self._descriptor, self._position, self._size = given
        self._mtime_ns = 0
        self._stat_answers = stat_answers
        # Appending sets the position to the end first: what was in the file before is not of this command.
        self._counted_to = self._size if appends else self._position

    def look(self, wall_ns: int) -> tuple[int, int] | None:
        """(bytes, age in ns of the last write) since the last look; None = nothing was written."""
        position, size, mtime_ns = self._position, self._size, self._mtime_ns
        try:
            position = posix.lseek(self._descriptor, 0, 1)
            if self._stat_answers:
                status = posix.fstat(self._descriptor)
                size, mtime_ns = status.st_size, status.st_mtime_ns
        except OSError:
            return None
        moved = (position, size) != (self._position, self._size)
        rewritten = self._mtime_ns != 0 and mtime_ns != self._mtime_ns
        written = 0
        if position != self._position:
            written = max(0, position - self._counted_to)
            self._counted_to = position
        elif size > self._size:
            written = size - self._size
        self._position, self._size, self._mtime_ns = position, size, mtime_ns
        if not (moved or rewritten):
            return None
        return written, max(0, wall_ns - mtime_ns) if self._stat_answers else 0


class GivenFiles:
    """All files of a command that are looked at. `deadline_ns`: when to look again at the latest."""

    def __init__(
        self,
        given: "list[GivenFile]",
        stats: "OutputStats",
        now_ns: int,
        wall_clock_ns: "Callable[[], int]",
        proc: str = "/proc",
    ) -> None:
        opened = [(file, *_opened(file[0], proc)) for file in given]
        answering = _answering({mount for _, mount, _ in opened}, proc)
        self._files = [
            GrowingFile(file, stat_answers=mount in answering, appends=appends) for file, mount, appends in opened
        ]
        self._stats = stats
        self._wall_clock_ns = wall_clock_ns
        self._looked_ns = now_ns
        self.deadline_ns = now_ns + LOOK_NS

    def look(self, now_ns: int) -> int | None:
        """Count what was written. Returns when that was (monotonic, ns; not before the last look), or None."""
        newest_ns = None
        for file in self._files:
            seen = file.look(self._wall_clock_ns())
            if seen is None:
                continue
            # The wall clock may have been set meanwhile: the write was between the two looks in any case.
            at_ns = max(self._looked_ns, now_ns - seen[1])
            self._stats.record_written(seen[0], at_ns)
            newest_ns = at_ns if newest_ns is None else max(newest_ns, at_ns)
        self._looked_ns = now_ns
        self.deadline_ns = now_ns + LOOK_NS
        return newest_ns


def _opened(descriptor: int, proc: str) -> tuple[bytes, bool]:
    """(mount id, or b"" where it cannot be known; whether it appends) by proc(5), fdinfo.

    By fcntl(2) only without /proc: to load that module would take longer than all of this.
    """
    mount, appends = b"", False
    try:
        with open(f"{proc}/self/fdinfo/{descriptor}", "rb") as file:
            for line in file:
                name, _, value = line.partition(b":")
                if name == b"mnt_id":
                    mount = value.strip()
                elif name == b"flags":
                    appends = bool(int(value, 8) & posix.O_APPEND)
    except (OSError, ValueError):
        import fcntl

        appends = bool(fcntl.fcntl(descriptor, fcntl.F_GETFL) & posix.O_APPEND)
    return mount, appends


def _answering(mounts: "set[bytes]", proc: str) -> "set[bytes]":
    """Those of `mounts` whose file system is one that answers at once (proc(5), mountinfo)."""
    found = set()
    try:
        with open(f"{proc}/self/mountinfo", "rb") as file:
            for line in file:
                mount = line.split(b" ", 1)[0]
                if mount in mounts and line.partition(b" - ")[2].split(b" ", 1)[0] in _ANSWERING:
                    found.add(mount)
    except OSError:
        pass
    return found
