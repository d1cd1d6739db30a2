"""The errors of the sidecar, one small tree.

SidecarError                  anything that is the sidecar's own fault or the user's mistake
 ├─ UsageError                a bad option, value or configuration file; exit 125
 ├─ FrameError                a frame that breaks docs/wire.md; costs its sender the connection
 ├─ LifecycleError            an event that the state of a command does not allow
 ├─ DaemonUnavailable         no daemon can be reached (and, where said, none can be started)
 │   ├─ DaemonSilent          one listens, and does not answer in time
 │   └─ NoDaemon              nobody listens
 └─ SpoolUnavailable          the spool's file or folder cannot be used

The message is one line: what is wrong and what to do. It never needs a traceback beside it.
"""


class SidecarError(Exception):
    """Base of all errors raised by the sidecar; `str()` is one line for a user."""


class UsageError(SidecarError):
    """A bad option, value or configuration file. The command line exits with 125."""


class FrameError(SidecarError):
    """A frame that is oversized, malformed, of another version, or lacks a key."""


class LifecycleError(SidecarError):
    """An event that a command's state does not allow; the state is left as it was."""


class DaemonUnavailable(SidecarError):  # noqa: N818 - a state of the world, as in BlockingIO: the name says it
    """No daemon answers on the socket."""


class DaemonSilent(DaemonUnavailable):
    """A daemon listens on the socket, and does not answer. `fact` says no more than that; `pid` is its process, None
    where that cannot be told."""

    def __init__(self, fact: str, pid: int | None = None) -> None:
        self.fact = fact
        self.pid = pid
        super().__init__(
            fact if pid is None else f"{fact}: `sidecar why {pid}` says why, `sidecar daemon stop` ends it"
        )


class NoDaemon(DaemonUnavailable):
    """Nobody listens on the socket: nothing runs that a daemon would know of."""


class SpoolUnavailable(SidecarError):  # noqa: N818 - as above
    """The spool cannot be used: its file or folder is missing, not ours, or not to be written to."""
