"""What a launcher does: put the agent's shims first on PATH, and become the real program. Standard library only.

Called as $XDG_DATA_HOME/sidecar/agents/<agent>/launch/<program>, a link to `sidecar-sh`. The process stays the same,
and so does all that it was given, but PATH.
"""

import posix

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Mapping

_DEFAULT_PATH = "/bin:/usr/bin"  # what execvp(3) searches without PATH


def plan(called: str, environ: "Mapping[str, str]") -> tuple[str | None, dict[str, str]]:
    """The real program's path (None = there is none), and its environment."""
    folder, _, name = called.rpartition("/")
    shims = f"{folder.rpartition('/')[0]}/shims"
    rest = [each for each in environ.get("PATH", _DEFAULT_PATH).split(":") if each not in (folder, shims)]
    program = next((path for each in rest if _is_program(path := f"{each or '.'}/{name}", called)), None)
    return program, {**environ, "PATH": ":".join([shims, *rest])}


def _is_program(path: str, called: str) -> bool:
    """Executable, and not a launcher of ours by another name of its folder."""
    try:
        return posix.access(path, posix.X_OK) and not _same(path, called)
    except (OSError, ValueError):
        return False


def _same(path: str, called: str) -> bool:
    one, other = posix.stat(path), posix.stat(called)
    return (one.st_dev, one.st_ino) == (other.st_dev, other.st_ino)


def launch(called: str, words: list[str], environ: "Mapping[str, str]") -> int:
    """Become the real program. Returns the exit status where that cannot be: 127 not found, 126 not executable."""
    program, environment = plan(called, environ)
    name = called.rpartition("/")[2]
    if program is None:
        text = f"sidecar: {name} is not on PATH behind its launcher {called}\n"
        posix.write(2, text.encode("utf-8", "surrogateescape"))
        return 127
    try:
        posix.execve(program, [name, *words], environment)
    except OSError as error:
        posix.write(2, f"sidecar: {program}: {error.strerror}\n".encode("utf-8", "surrogateescape"))
    return 126
