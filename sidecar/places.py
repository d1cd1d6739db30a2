"""Where a supervisor and its daemon have their socket and, beside it, their ledger; and whether that place is private.

The folder is the user's own and 0700; it is checked, not trusted: a folder of somebody else, one that others
may write to, or a symbolic link in its place is refused.

Light: the supervisor loads this before the spawn.
"""

import posix

from sidecar.core.errors import DaemonUnavailable

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Mapping

SOCKET_NAME = "sidecar.sock"


def socket_path(environ: "Mapping[str, str]", configured: str | None = None) -> str:
    """The absolute path of the socket: configured, $SIDECAR_SOCKET, $XDG_RUNTIME_DIR/sidecar/, else under TMPDIR."""
    explicit = configured or environ.get("SIDECAR_SOCKET")
    if explicit:
        return explicit if explicit[0] == "/" else f"{posix.getcwd()}/{explicit}"
    runtime = environ.get("XDG_RUNTIME_DIR")
    if runtime and runtime[0] == "/":
        return f"{runtime}/sidecar/{SOCKET_NAME}"
    temporary = environ.get("TMPDIR", "")
    if temporary[:1] != "/":
        # A relative one is of the working folder: a socket in somebody's repository, which the daemon cannot find.
        temporary = "/tmp"  # noqa: S108 - the folder in it is checked: 0700, ours, no link
    return f"{temporary}/sidecar-{posix.getuid()}/{SOCKET_NAME}"


def private_folder(path: str, *, create: bool = True) -> None:
    """Make sure the folder of `path` is ours and 0700. Raises DaemonUnavailable with the reason.

    Missing parents are made only below the last folder that exists, each 0700.
    """
    folder = path.rpartition("/")[0] or "/"
    try:
        status = posix.lstat(folder)
    except FileNotFoundError:
        if not create:
            raise DaemonUnavailable(f"no daemon: {folder} does not exist") from None
        try:
            _make_folders(folder)
            status = posix.lstat(folder)
        except OSError as error:
            raise DaemonUnavailable(f"cannot make the socket folder {folder}: {error.strerror}") from None
    except OSError as error:
        raise DaemonUnavailable(f"cannot look at the socket folder {folder}: {error.strerror}") from None
    if status.st_mode & 0o170000 != 0o040000:
        raise DaemonUnavailable(f"the socket folder {folder} is not a folder (links are not followed)")
    if status.st_uid != posix.getuid():
        raise DaemonUnavailable(f"the socket folder {folder} belongs to uid {status.st_uid}, not to you")
    if status.st_mode & 0o022:
        raise DaemonUnavailable(f"others may write to the socket folder {folder}: chmod 700 it")


def _make_folders(folder: str) -> None:
    import os

    before = os.umask(0o077)  # os.makedirs gives the mode to the last folder only
    try:
        # Commands that an agent starts at once meet here: whoever is second finds it made, which is as good.
        os.makedirs(folder, 0o700, exist_ok=True)
    finally:
        os.umask(before)


def ledger_folder(socket: str) -> str:
    """Where the entries of the commands are whose daemon is at `socket`."""
    return f"{socket}.ledger"
