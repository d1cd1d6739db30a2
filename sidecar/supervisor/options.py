"""The options of `sidecar run`, read without anything heavy: the fast path.

`parse_run` knows the flags, the variables and the compiled snapshot of the configuration files. At anything
out of the ordinary (an unknown flag, a bad value, --help, --config, a file without a valid snapshot) it gives
None, which means: let the full parser of `sidecar.cli` look, which explains what is wrong. Where it does give
options they are the ones that the full path would have found; a property test holds the two together.

    sidecar run [--flag value | --flag=value | --switch]... [--] CMD [ARG...]
    sidecar run [...] -c STRING [NAME [ARG...]]      as `sh -c`: what follows the string becomes $0, $1 ...

Options end at `--` or at the first word that is not an option. Of a flag given twice the last one counts, save of
those that make a list (--on-verdict). An
empty variable is as good as none. The table of options (`_schema.py`) is generated from the pydantic model:
`python -m sidecar.config --write-schema`.
"""

import posix

from sidecar import __version__
from sidecar.core import snapshot
from sidecar.supervisor._schema import OPTIONS

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Mapping


class RunOptions:
    """Everything `sidecar run` was told. Durations are nanoseconds.

    argv                   the command; for `-c STRING` it is [shell, "-c", STRING, ...]
    timeout_ns             None = no timeout
    silence_timeout_ns     None = silence never stops it
    heartbeat_interval_ns  0 = no heartbeats
    pty                    None = as the agent's stdout is
    frames_fd              a descriptor that gets the frames too; None = none
    socket, log, spool     absolute paths; None = the usual socket and spool, no log
    daemon_environment     further names of variables that a daemon started by us may see
    """

    __slots__ = (
        "argv",
        "bridge_id",
        "capture_command",
        "daemon_environment",
        "drain_grace_ns",
        "frames_fd",
        "heartbeat_interval_ns",
        "inline",
        "kill_after_ns",
        "log",
        "on_verdict",
        "pty",
        "session_id",
        "silence_timeout_ns",
        "socket",
        "spool",
        "spool_max_bytes",
        "timeout_ns",
        "tool_call_id",
        "tool_name",
        "verdict_after_ns",
        "verdicts",
    )
    argv: list[str]
    bridge_id: str | None
    capture_command: bool
    daemon_environment: tuple[str, ...]
    drain_grace_ns: int
    frames_fd: int | None
    heartbeat_interval_ns: int
    inline: bool
    kill_after_ns: int
    log: str | None
    on_verdict: tuple[tuple[str, int, str], ...]
    pty: bool | None
    session_id: str | None
    silence_timeout_ns: int | None
    socket: str | None
    spool: str | None
    spool_max_bytes: int
    timeout_ns: int | None
    tool_call_id: str | None
    tool_name: str | None
    verdict_after_ns: int
    verdicts: bool

    def __init__(self, argv: list[str], values: "Mapping[str, object]") -> None:
        """`values` has every attribute but argv, validated; others in it are ignored."""
        self.argv = argv
        for attribute in self.__slots__:
            if attribute != "argv":
                setattr(self, attribute, values[attribute])

    def __eq__(self, other: object) -> bool:
        return isinstance(other, RunOptions) and all(
            getattr(self, attribute) == getattr(other, attribute) for attribute in self.__slots__
        )

    __hash__ = None  # type: ignore[assignment]  # mutable, and compared by value

    def __repr__(self) -> str:
        return f"RunOptions({', '.join(f'{name}={getattr(self, name)!r}' for name in self.__slots__)})"


def command_argv(shell: str, string: str | None, words: list[str]) -> list[str]:
    """What to run: the words, or with `-c STRING` the shell and the words as its $0, $1 ..."""
    return words if string is None else [shell, "-c", string, *words]


def parse_run(arguments: list[str], environ: "Mapping[str, str]") -> RunOptions | None:
    """The words after `sidecar run` -> options; None: let the full parser look. Never raises nor prints."""
    words = _split(arguments)
    if words is None:
        return None
    flags, string, command = words
    if string is None and not command:
        return None
    stored = stored_values(environ)
    if stored is None:
        return None
    values: dict[str, object] = {}
    for name, attribute, _flag, variable, kind, default in OPTIONS:
        text = flags.get(name)
        if text is None:
            text = environ.get(variable) or stored.get(name)
        if text is None:
            values[attribute] = default
            continue
        from sidecar.core.values import PARSERS  # most commands are started without a word to parse

        try:
            values[attribute] = PARSERS[kind](text)
        except ValueError:
            return None
    return RunOptions(command_argv(str(values["shell"]), string, command), values)


def _split(arguments: list[str]) -> tuple[dict[str, str], str | None, list[str]] | None:
    """Flags (option -> text), the string of -c, and the words of the command."""
    flags: dict[str, str] = {}
    string: str | None = None
    index = 0
    while index < len(arguments):
        word = arguments[index]
        if word == "--":
            index += 1
            break
        if len(word) < 2 or word[0] != "-":
            break
        index += 1
        if word in _SWITCHES:
            name, text = _SWITCHES[word]
            flags[name] = text
            continue
        flag, equals, text = word.partition("=")
        if flag not in _FLAGS or (equals and flag == "-c"):
            return None
        if not equals:
            if index == len(arguments):
                return None
            text = arguments[index]
            index += 1
        if flag == "-c":
            string = text
        else:
            name = _FLAGS[flag]
            flags[name] = f"{flags[name]},{text}" if name in flags and name in _REPEATABLE else text
    return flags, string, arguments[index:]


def stored_values(environ: "Mapping[str, str]") -> dict[str, str] | None:
    """What the configuration files say; None where only the full path can tell."""
    if environ.get("SIDECAR_CONFIG"):
        return None
    user = snapshot.user_file(environ)
    paths = (snapshot.SYSTEM_FILE,) if user is None else (user, snapshot.SYSTEM_FILE)
    fingerprints = []
    absent = 0
    for path in paths:
        try:
            status = posix.stat(path)
        except (OSError, ValueError):
            absent += 1
            fingerprints.append(snapshot.fingerprint(path, None))
            continue
        if not snapshot.is_trusted(status, posix.getuid()):
            return None
        fingerprints.append(snapshot.fingerprint(path, status))
    if absent == len(paths):
        return {}
    text = _read_private(snapshot.snapshot_file(environ))
    return None if text is None else snapshot.parse(text, __version__, fingerprints)


def _read_private(path: str | None) -> str | None:
    """The text of a file that only we can have written: 0600, ours, in a 0700 folder that is ours."""
    if path is None:
        return None
    uid = posix.getuid()
    try:
        folder = posix.lstat(path.rpartition("/")[0])
        if folder.st_mode & 0o170077 != 0o040000 or folder.st_uid != uid:
            return None
        descriptor = posix.open(path, posix.O_RDONLY | posix.O_CLOEXEC | posix.O_NOFOLLOW | posix.O_NONBLOCK)
    except (OSError, ValueError):
        return None
    try:
        status = posix.fstat(descriptor)
        if status.st_mode & 0o170077 != 0o100000 or status.st_uid != uid:
            return None
        if status.st_size > snapshot.MAX_SNAPSHOT_BYTES:
            return None
        return posix.read(descriptor, snapshot.MAX_SNAPSHOT_BYTES).decode()
    except (OSError, ValueError):
        return None
    finally:
        posix.close(descriptor)


_REPEATABLE = [name for name, _attribute, _flag, _variable, kind, _default in OPTIONS if kind == "verdict_limits"]
_SWITCHES: dict[str, tuple[str, str]] = {}
_FLAGS: dict[str, str] = {"-c": "-c"}
for _name, _attribute, _flag, _variable, _kind, _default in OPTIONS:
    if _flag is None:
        continue
    if _kind in ("bool", "pty"):
        _SWITCHES[_flag] = (_name, "true")
        _SWITCHES["--no-" + _flag[2:]] = (_name, "false")
    else:
        _FLAGS[_flag] = _name
