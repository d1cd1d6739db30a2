"""The one seam between the senses and the kernel: everything a sense reads, it reads through a Kernel.

The root of /proc is injected. What may not be read answers None and is remembered in `refused`, so that a verdict
can say which evidence it lacked; what is simply gone (a process that ended) answers None and is not. `denied`
makes a source unreadable on purpose, to see how verdicts degrade. `collectors.recording` puts itself in here to
record and replay.

Cost: open, read and close are about 3 microseconds together. Privilege: none here; each sense says its own.
"""

import errno
import fcntl
import os
import select
import termios
import time

from collectors import netlink

SOURCES = (
    "stat",
    "status",
    "schedstat",
    "children",
    "syscall",
    "wchan",
    "io",
    "fd",
    "fdinfo",
    "mem",
    "timers",
    "net",
    "netlink",
    "locks",
    "mountinfo",
    "cgroup",
    "terminal",
)
"""What `denied` may name: files of /proc/PID, and netlink, locks, mountinfo, cgroup, terminal."""

_TIOCGPTPEER = 0x5441
"""asm-generic/ioctls.h: opens the command's side of the pseudo terminal of which we have the other; ioctl_tty(2)."""
_READ_AT_MOST = 1 << 20
_GONE = (errno.ENOENT, errno.ESRCH, errno.ENOTDIR)


class Kernel:
    """Reads below `proc_root`. Paths are relative to it: `"1234/stat"`."""

    def __init__(self, proc_root: str = "/proc", denied: frozenset[str] = frozenset()) -> None:
        self.proc_root = proc_root
        self.denied = denied
        self.refused: set[str] = set()
        self.machine = os.uname().machine
        self.own_pid = os.getpid()
        self._prefix = proc_root.rstrip("/") + "/"

    def read(self, path: str) -> bytes | None:
        """The whole file, None where it is gone or not to be read. At most 1 MiB."""
        if self.denied and not self._may(path):
            return None
        return self._read(path, self._prefix + path)

    def read_system(self, path: str) -> bytes | None:
        """A file outside /proc, by absolute path (control groups)."""
        return self._read("cgroup", path)

    def _read(self, source: str, path: str) -> bytes | None:
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            self._note(source, error)
            return None
        try:
            data = os.read(descriptor, 8192)
            if len(data) >= 4000:  # a /proc file gives at most a page a read
                while len(data) < _READ_AT_MOST and (more := os.read(descriptor, 65536)):
                    data += more
            return data
        except OSError as error:
            self._note(source, error)
            return None
        finally:
            os.close(descriptor)

    def names(self, path: str) -> list[str] | None:
        """The names in a folder."""
        if self.denied and not self._may(path):
            return None
        try:
            return os.listdir(self._prefix + path)
        except OSError as error:
            self._note(path, error)
            return None

    def link(self, path: str) -> str | None:
        """Where a link leads, as text. It is never followed: that could hang on a dead file system."""
        if self.denied and not self._may(path):
            return None
        try:
            return os.readlink(self._prefix + path)
        except OSError as error:
            self._note(path, error)
            return None

    def link_mode(self, path: str) -> int:
        """The mode bits of the link itself: in /proc/PID/fd they say readable and writable. 0 = not known."""
        if self.denied and not self._may(path):
            return 0
        try:
            return os.lstat(self._prefix + path).st_mode
        except OSError as error:
            self._note(path, error)
            return 0

    def memory(self, pid: int, address: int, size: int) -> bytes | None:
        """Memory of a process: /proc/PID/mem. Same privilege as ptrace(2), but nothing is attached or stopped."""
        if "mem" in self.denied:
            self.refused.add("mem")
            return None
        try:
            descriptor = os.open(f"{self._prefix}{pid}/mem", os.O_RDONLY | os.O_CLOEXEC)
        except OSError as error:
            self._note("mem", error)
            return None
        try:
            return os.pread(descriptor, size, address)
        except (OSError, OverflowError):
            return None  # the address is stale: the thread has moved on
        finally:
            os.close(descriptor)

    def socket_diagnosis(self, request: bytes, is_dump: bool) -> list[bytes] | None:
        """The answers to one sock_diag(7) request, of our own network namespace. None: not to be had."""
        if "netlink" in self.denied:
            self.refused.add("netlink")
            return None
        try:
            return netlink.ask(request, is_dump)
        except FileNotFoundError:
            return []
        except OSError:
            self.refused.add("netlink")
            return None

    def exists(self, pid: int) -> bool:
        """Whether there is such a process, seen or not: kill(2) with signal 0, which sends nothing."""
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return False
        except OSError:
            return True
        return True

    def terminal(self, descriptor: int | None, path: str) -> tuple[int, int | None, bool | None] | None:
        """(local flags, foreground process group, takes output) of a terminal, by a descriptor or else by its path."""
        if "terminal" in self.denied:
            self.refused.add("terminal")
            return None
        opened = None
        try:
            if descriptor is None:
                opened = descriptor = os.open(path, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
            flags = int(termios.tcgetattr(descriptor)[3])
            takes_output = _takes_output(descriptor)
            try:
                return flags, os.tcgetpgrp(descriptor), takes_output
            except OSError:
                return flags, None, takes_output  # not our controlling terminal: the processes' own stat says it
        except (OSError, termios.error):
            return None
        finally:
            if opened is not None:
                os.close(opened)

    def clock_s(self, clock: int) -> float | None:
        """CLOCK_REALTIME (0), CLOCK_MONOTONIC (1) and so on; None for a clock that is not one."""
        try:
            return time.clock_gettime(clock)
        except OSError:
            return None

    def now_ns(self) -> int:
        return time.monotonic_ns()

    def pause(self, seconds: float) -> None:
        time.sleep(seconds)

    def _may(self, path: str) -> bool:
        for part in path.split("/"):
            if part in self.denied:
                self.refused.add(part)
                return False
        return True

    def _note(self, path: str, error: OSError) -> None:
        if error.errno not in _GONE:
            for part in reversed(path.split("/")):
                if not part.isdigit():
                    self.refused.add(part)
                    return


def _takes_output(descriptor: int) -> bool | None:
    """Whether a write to the terminal would get on: drivers/tty/n_tty.c, n_tty_poll, asked of the command's side."""
    peer = None
    try:
        peer = fcntl.ioctl(descriptor, _TIOCGPTPEER, os.O_RDONLY | os.O_NOCTTY | os.O_NONBLOCK | os.O_CLOEXEC)
    except OSError as error:
        if error.errno not in (errno.EIO, errno.ENOTTY):
            return None  # the master's side would speak of keys, and say yes
        # It is the command's side already, or no pseudo terminal.
    try:
        poll = select.poll()
        poll.register(descriptor if peer is None else peer, select.POLLOUT)
        return bool(poll.poll(0))
    except OSError:
        return None
    finally:
        if peer is not None:
            os.close(peer)
