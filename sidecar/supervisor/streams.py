"""Which of the agent's streams stand between us and the command, and how: relayed, a terminal, or untouched.

- fd 0 is inherited in pipe mode, never pumped: a pump would eat the input of the loop around the command.
- Of fd 1 and fd 2, pipes and sockets are relayed: through one pipe where the agent had joined them (one open file),
  else through one each; through a socket where the agent gave a socket. A descriptor above 2 that is the same open
  file (`3>&1`) goes through the same pipe, so that order and end of file stay those of one.
- A file or a device is the command's own, as the agent gave it: seeking, appending, a full disk and a limited size
  are between the two. Its position shows us what was written (supervisor/files.py).
- A closed one stays closed.
- With a terminal, those that are terminals become the PTY's slave side.
- fd 2 that is a terminal while fd 1 is not (`cmd | less`) is left alone: isatty(2) must stay true.
"""

import posix

from sidecar.supervisor import libc

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Iterable

_S_IFMT, _S_IFREG, _S_IFIFO, _S_IFSOCK, _S_IFCHR = 0o170000, 0o100000, 0o010000, 0o140000, 0o020000
_EBADF = 9
_FURTHER = range(3, 10)
"""Numbers that a shell's redirections can have; what is above was opened by a program for purposes of its own."""
_PIPE_BYTES = 65536
_SOCKET_BYTES = 1 << 20

GivenFile = tuple[int, int, int]
"""A regular file that the command writes to itself: (descriptor, position, size in bytes), before the start."""


class Streams:
    """The plan. `pty`: make one. `relayed`: groups of descriptors that share one pipe; the first of a group is
    where its bytes go. `on_terminal`: descriptors that become the slave side. `files`: given on, and looked at."""

    __slots__ = ("files", "on_terminal", "pty", "relayed")

    def __init__(
        self,
        pty: bool,
        relayed: list[tuple[int, ...]],
        on_terminal: tuple[int, ...],
        files: "Iterable[GivenFile]" = (),
    ) -> None:
        self.pty = pty
        self.relayed = relayed
        self.on_terminal = on_terminal
        self.files = list(files)

    @property
    def io(self) -> str:
        """How the command's output reaches the agent, in the wire's words: pty, pipe (relayed), direct."""
        return "pty" if self.pty else "pipe" if self.relayed else "direct"


def plan_streams(wanted_pty: bool | None) -> Streams:
    """Look at our own descriptors and plan. `wanted_pty` None = as the agent's stdout is."""
    stdout_open, stderr_open = is_open(1), is_open(2)
    pty = (stdout_open and posix.isatty(1)) if wanted_pty is None else wanted_pty
    joined = stdout_open and stderr_open and _joined(1, 2)
    if pty:
        terminal = [1]
        if posix.isatty(0):
            terminal.insert(0, 0)
        if joined or posix.isatty(2) or not stderr_open:
            terminal += [2] if stderr_open else []
            return Streams(True, [], tuple(terminal))
        return _sorted_out(True, [(2,)], tuple(terminal))
    if joined:
        return _sorted_out(False, [(1, 2)], ())
    groups: list[tuple[int, ...]] = [(1,)] if stdout_open else []
    if stderr_open and not (wanted_pty is None and posix.isatty(2)):
        groups.append((2,))
    return _sorted_out(False, groups, ())


def _sorted_out(pty: bool, groups: list[tuple[int, ...]], on_terminal: tuple[int, ...]) -> Streams:
    """Relay what has a reader at its other end; the rest is the command's own."""
    relayed: list[tuple[int, ...]] = []
    files: list[GivenFile] = []
    for group in groups:
        first = group[0]
        status = posix.fstat(first)
        kind = status.st_mode & _S_IFMT
        if kind != _S_IFCHR and not _takes_writes(first, kind):
            continue
        if kind == _S_IFREG:
            files.append((first, posix.lseek(first, 0, 1), status.st_size))
        elif kind == _S_IFIFO or (kind == _S_IFSOCK and _is_stream_socket(first)) or posix.isatty(first):
            relayed.append(group + _further(first, status))
    return Streams(pty, relayed, on_terminal, files)


def _takes_writes(descriptor: int, kind: int) -> bool:
    """Whether it is open for writing. One that is not (`1<file`, O_PATH) shall fail the command as it fails it bare.

    Asked by a write of nothing, which neither a file nor a pipe notices: F_GETFL would mean to import `fcntl`.
    """
    if kind == _S_IFSOCK:
        return True
    try:
        posix.write(descriptor, b"")
    except OSError as error:
        return error.errno != _EBADF
    return True


def _is_stream_socket(descriptor: int) -> bool:
    """A socket of messages is given on: a relay would not keep their boundaries. So is one with nobody at its end."""
    from _socket import SOCK_STREAM, socket

    try:
        opened = socket(fileno=posix.dup(descriptor))
    except OSError:
        return False
    try:
        opened.getpeername()
        return opened.type == SOCK_STREAM
    except OSError:
        return False
    finally:
        opened.close()


def _further(first: int, status: posix.stat_result) -> tuple[int, ...]:
    """Descriptors above 2 which the command inherits and which are the same open file as `first`."""
    found = []
    for descriptor in _FURTHER:
        try:
            other = posix.fstat(descriptor)
        except OSError:
            continue
        if (
            (other.st_dev, other.st_ino) == (status.st_dev, status.st_ino)
            and posix.get_inheritable(descriptor)
            and libc.same_open_file(first, descriptor)
        ):
            found.append(descriptor)
    return tuple(found)


class Relayed:
    """One stream that goes through us: `source` is our end, which reads for the agent's descriptors `group`.

    `link` is what /proc calls the command's end ("" = unknown), `capacity_bytes` what may be under way in it.
    """

    __slots__ = ("capacity_bytes", "group", "link", "source", "terminal")

    def __init__(self, source: int, group: tuple[int, ...], link: str, capacity_bytes: int, *, terminal: bool) -> None:
        self.source = source
        self.group = group
        self.link = link
        self.capacity_bytes = capacity_bytes
        self.terminal = terminal


def connect(streams: Streams, master: int | None, slave: int | None) -> tuple[list[Relayed], dict[int, int], list[int]]:
    """Make the pipes. `master` and `slave` are the terminal's, where there is one.

    Returns (what is relayed, the command's descriptors: number -> one of ours, ours to close after the spawn).
    """
    relayed: list[Relayed] = []
    descriptors: dict[int, int] = {}
    ours: list[int] = []
    if master is not None and slave is not None:
        try:
            link = posix.ttyname(slave)
        except OSError:
            link = ""
        relayed.append(Relayed(master, (1,), link, _PIPE_BYTES, terminal=True))
        descriptors = dict.fromkeys(streams.on_terminal, slave)
    for group in streams.relayed:
        try:
            reader, writer, capacity_bytes = _pair(group[0])
        except OSError:
            continue  # out of descriptors: the command gets the agent's own, unobserved
        if not posix.get_blocking(group[0]):
            posix.set_blocking(writer, False)
        status = posix.fstat(writer)
        link = f"{'pipe' if status.st_mode & _S_IFMT == _S_IFIFO else 'socket'}:[{status.st_ino}]"
        relayed.append(Relayed(reader, group, link, capacity_bytes, terminal=False))
        ours.append(writer)
        descriptors.update(dict.fromkeys(group, writer))
    return relayed, descriptors, ours


def _pair(agent_descriptor: int) -> tuple[int, int, int]:
    """(our end, the command's end, how much fits between): a pipe, or sockets where the agent gave a socket.

    Also for one of TCP: of a pair of Unix sockets a command sees another address, and of a pipe also another kind of
    file, SIGPIPE where it would have got ECONNRESET, and a /dev/stdout that can be opened.
    """
    if posix.fstat(agent_descriptor).st_mode & _S_IFMT == _S_IFSOCK:
        from _socket import SO_SNDBUF, SOL_SOCKET, socketpair

        ours, theirs = socketpair()
        capacity_bytes = max(theirs.getsockopt(SOL_SOCKET, SO_SNDBUF), _SOCKET_BYTES)
        return ours.detach(), theirs.detach(), capacity_bytes
    return (*posix.pipe(), _PIPE_BYTES)


def plug_standard_descriptors() -> None:
    """Put /dev/null on each closed descriptor of 0, 1, 2, close-on-exec, so that no file of ours lands there.

    The command still finds them closed. Call it after `plan_streams`.
    """
    for descriptor in range(3):
        if not is_open(descriptor):
            try:
                opened = posix.open("/dev/null", posix.O_RDWR | posix.O_CLOEXEC)
            except OSError:
                opened, spare = posix.pipe()  # a file system without /dev/null: any file of ours will do
                if spare > 2:
                    posix.close(spare)
            if opened != descriptor:
                posix.close(opened)


def is_open(descriptor: int) -> bool:
    try:
        posix.fstat(descriptor)
    except OSError:
        return False
    return True


def _joined(fd_a: int, fd_b: int) -> bool:
    """Whether both are one open file, so that their order must be kept."""
    a, b = posix.fstat(fd_a), posix.fstat(fd_b)
    if (a.st_dev, a.st_ino, a.st_rdev) != (b.st_dev, b.st_ino, b.st_rdev):
        return False
    exact = libc.same_open_file(fd_a, fd_b)
    if exact is not None:
        return exact
    if a.st_mode & _S_IFMT != _S_IFREG:
        return True
    # Two opens of one regular file have an offset each; with the same offset they cannot be told apart here.
    return posix.lseek(fd_a, 0, 1) == posix.lseek(fd_b, 0, 1)
