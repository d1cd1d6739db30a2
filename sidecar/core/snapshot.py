"""Where the configuration files are, and the compiled snapshot of what they said.

The full path (pydantic, tomllib) validates the files once and leaves the result as plain text; the fast path
of `sidecar run` reads that text instead, as long as the files are what they were. Pure: paths and text in, text
out; what stats, reads and writes is `sidecar.config_files` and `sidecar.supervisor.options`.

    sidecar-config 1 0.1.0                           format, version of the sidecar
    file '/etc/sidecar/config.toml' absent           one line a file, see `fingerprint`
    file '/home/a/.config/sidecar/config.toml' 1700000000000000000 1700000000000000000 57 1234
    timeout=2m                                       one line a value: option=text
    end                                              a torn file is not a snapshot
"""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from os import stat_result

SYSTEM_FILE = "/etc/sidecar/config.toml"
SNAPSHOT_NAME = "config-snapshot"
MAX_SNAPSHOT_BYTES = 65536
_FORMAT = "sidecar-config 1"


def user_file(environ: "Mapping[str, str]") -> str | None:
    """$XDG_CONFIG_HOME/sidecar/config.toml or ~/.config/sidecar/config.toml; None without a home.

    A relative path is ignored, as the XDG base directory specification says: it would be a file of the
    working folder, and repositories are untrusted.
    """
    return _under(environ, "XDG_CONFIG_HOME", "/.config", "/sidecar/config.toml")


def snapshot_file(environ: "Mapping[str, str]") -> str | None:
    """The snapshot: in $XDG_CACHE_HOME/sidecar/ or ~/.cache/sidecar/; None without a home."""
    return _under(environ, "XDG_CACHE_HOME", "/.cache", "/sidecar/" + SNAPSHOT_NAME)


def fingerprint(path: str, status: "stat_result | None") -> str:
    """One line that changes whenever the file does (the change time sees chmod, chown and a faked mtime)."""
    if status is None:
        return f"file {path!a} absent"
    return f"file {path!a} {status.st_mtime_ns} {status.st_ctime_ns} {status.st_size} {status.st_ino}"


def is_trusted(status: "stat_result", uid: int) -> bool:
    """A regular file of ours (or root's) that nobody else may write to."""
    return status.st_mode & 0o170022 == 0o100000 and status.st_uid in (uid, 0)


def render(version: str, fingerprints: "Sequence[str]", values: "Mapping[str, str]") -> str:
    """The text of a snapshot. `values`: option -> text that its kind accepts (so without a newline)."""
    stored = (f"{name}={text}" for name, text in values.items())
    return "\n".join((f"{_FORMAT} {version}", *fingerprints, *stored, "end", ""))


def parse(text: str, version: str, fingerprints: "Sequence[str]") -> dict[str, str] | None:
    """The values of a snapshot; None if it is not exactly of this version and these files."""
    header = "\n".join((f"{_FORMAT} {version}", *fingerprints, ""))
    if not text.startswith(header) or not text.endswith("\nend\n"):
        return None
    values = {}
    for line in text[len(header) - 1 : -len("\nend\n")].split("\n")[1:]:
        name, equals, value = line.partition("=")
        if not equals:
            return None
        values[name] = value
    return values


def _under(environ: "Mapping[str, str]", variable: str, folder: str, rest: str) -> str | None:
    base = environ.get(variable, "")
    if base[:1] == "/":
        return base + rest
    home = environ.get("HOME", "")
    return home + folder + rest if home[:1] == "/" else None
