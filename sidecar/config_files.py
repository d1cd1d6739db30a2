"""The configuration files on disk: which, whether to trust them, and the snapshot that is left of them."""

import os
import time
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from sidecar import __version__
from sidecar.core import snapshot
from sidecar.core.errors import UsageError
from sidecar.core.values import printable

MAX_FILE_BYTES = 1 << 20
# A file that was written within one tick of the file system's clock (10 ms at most on Linux) could be written
# again, to the same size, without its times telling. Such a one is not compiled yet.
RACY_NS = 50_000_000


@dataclass(frozen=True)
class ConfigFile:
    """A file that was read: its path, its TOML values, and what stat said of the very descriptor."""

    path: str
    values: Mapping[str, object]
    status: os.stat_result


def explicit_path(environ: Mapping[str, str], config_path: str | None) -> str | None:
    """The file given in place of the user's, if any. Raises UsageError for a relative SIDECAR_CONFIG."""
    if config_path == "":
        raise UsageError('--config: "" is not allowed; use the path of a file')
    if config_path is not None:
        return os.path.abspath(config_path)
    path = environ.get("SIDECAR_CONFIG")
    if path and not os.path.isabs(path):
        raise UsageError("SIDECAR_CONFIG: must be an absolute path; no file of the working folder is loaded")
    return path or None


def candidates(environ: Mapping[str, str], config_path: str | None = None) -> list[tuple[str, str]]:
    """(role, path) of the files that are looked at, strongest first. Roles: explicit, user, system."""
    explicit = explicit_path(environ, config_path)
    user = snapshot.user_file(environ)
    first = [("explicit", explicit)] if explicit else [("user", user)] if user else []
    return [*first, ("system", snapshot.SYSTEM_FILE)]


def read_all(environ: Mapping[str, str], config_path: str | None = None) -> list[ConfigFile]:
    """The files that exist, strongest first. Raises UsageError: untrusted, unreadable, or not TOML."""
    found = []
    for role, path in candidates(environ, config_path):
        file = read(path, required=role == "explicit")
        if file is not None:
            found.append(file)
    return found


def read(path: str, *, required: bool) -> ConfigFile | None:
    """One file; None if it cannot be seen. Raises UsageError, also for an absent one that is `required`."""
    try:
        os.stat(path)
    except (OSError, ValueError) as error:
        if required:
            reason = error.strerror if isinstance(error, OSError) else "not a path"
            raise UsageError(f"{printable(path)}: cannot read the configuration: {reason}") from None
        return None
    if path == os.devnull:
        return ConfigFile(path, {}, os.stat(path))
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as error:
        raise UsageError(f"{printable(path)}: cannot read the configuration: {error.strerror}") from None
    status = os.fstat(descriptor)
    if not snapshot.is_trusted(status, os.getuid()):
        os.close(descriptor)
        raise UsageError(f"{printable(path)}: {_why_untrusted(status)}")
    with open(descriptor, "rb") as stream:
        raw = stream.read(MAX_FILE_BYTES + 1)
    if len(raw) > MAX_FILE_BYTES:
        raise UsageError(f"{printable(path)}: larger than {MAX_FILE_BYTES} bytes")
    try:
        return ConfigFile(path, tomllib.loads(raw.decode()), status)
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise UsageError(f"{printable(path)}: not UTF-8 (at line {line})") from None
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        reason = str(error) or "nested too deeply"
        raise UsageError(f"{printable(path)}: not valid TOML: {printable(reason)}") from None


def write_snapshot(environ: Mapping[str, str], files: Sequence[ConfigFile], values: Mapping[str, str]) -> bool:
    """Leave the validated values of the run options for the fast path. False = not done; never raises.

    Not for a file given by --config or SIDECAR_CONFIG: the fast path leaves those to the full one.
    """
    path = snapshot.snapshot_file(environ)
    user = snapshot.user_file(environ)
    paths = [snapshot.SYSTEM_FILE] if user is None else [user, snapshot.SYSTEM_FILE]
    by_path = {file.path: file.status for file in files}
    if path is None or not files or not set(by_path) <= set(paths):
        return False
    now_ns = time.time_ns()
    if any(max(status.st_mtime_ns, status.st_ctime_ns) + RACY_NS > now_ns for status in by_path.values()):
        return False
    fingerprints = [snapshot.fingerprint(each, by_path.get(each)) for each in paths]
    text = snapshot.render(__version__, fingerprints, values)
    if snapshot.parse(text, __version__, fingerprints) != values:
        return False
    return _replace(path, text.encode())


def _replace(path: str, raw: bytes) -> bool:
    """Write `path` in one step, 0600, in a folder that is 0700 and ours."""
    folder = os.path.dirname(path)
    scratch = f"{path}.{os.getpid()}"
    try:
        os.makedirs(folder, 0o700, exist_ok=True)
        status = os.lstat(folder)
        if status.st_mode & 0o170077 != 0o040000 or status.st_uid != os.getuid():
            return False
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW
        descriptor = os.open(scratch, flags, 0o600)
    except (OSError, ValueError):
        return False
    try:
        with open(descriptor, "wb") as stream:
            stream.write(raw)
        os.rename(scratch, path)
    except OSError:
        try:
            os.unlink(scratch)
        except OSError:
            pass
        return False
    return True


def _why_untrusted(status: os.stat_result) -> str:
    if status.st_mode & 0o170000 != 0o100000:
        return "not a regular file"
    if status.st_uid not in (os.getuid(), 0):
        return f"belongs to uid {status.st_uid}, not to you: not loaded"
    return "others may write to it: not loaded; chmod go-w it"
