"""`sidecar-sh`: stands where a shell stood, and supervises the command strings it is given.

    sidecar-sh -c STRING [NAME [ARG...]]   also -lc, -ic, -ec ...: as the shell itself, supervised
    sidecar-sh 'STRING'                    one word that is no file: as -c (Claude Code's shell prefix)
    sidecar-sh SCRIPT [ARG...]             a script file, supervised
    sidecar-sh                             interactive, or commands from stdin: the real shell, unsupervised
    bash, sh                               a link of that name in a folder of PATH: as that shell (supervisor/shim.py)

Quoting is never touched: the string goes to the shell as it came. Inside a command that is supervised already
(SIDECAR_ACTIVE), and around an agent's own helper processes (AI_AGENT ending in `_harness`: hooks and stdio
servers), the real shell takes our place at once. Bad SIDECAR_* variables do not stop a shell: the string is
then run by the real shell, unsupervised.
"""

import os

from sidecar.supervisor.options import RunOptions, parse_run
from sidecar.supervisor.shim import is_a_shim, shim_of

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Mapping

    from sidecar.supervisor.shim import Shim

_DEFAULT_PATH = "/bin:/usr/bin"
_DEFAULT_SHELLS = ("/bin/bash", "/usr/bin/bash", "/bin/sh")


class ShellPlan:
    """`argv`: the real shell's words, its name first. `options`: how to supervise it; None = exec `program` as it is.

    `environ`: what it is given, which differs from what we were given by PATH alone.
    """

    __slots__ = ("argv", "environ", "options", "program")

    def __init__(self, program: str, argv: list[str], environ: "dict[str, str]", options: RunOptions | None) -> None:
        self.program = program
        self.argv = argv
        self.environ = environ
        self.options = options


def parse_shell(words: list[str], environ: "Mapping[str, str]", called: str = "") -> ShellPlan:
    """What to do for `sidecar-sh WORDS`; `called` is the path of the link or script that was started."""
    program = environ.get("SIDECAR_SHELL") or next(
        (path for path in _DEFAULT_SHELLS if os.access(path, os.X_OK)), "/bin/sh"
    )
    given, name = dict(environ), program
    shim = shim_of(called, environ)
    if shim is not None:
        if shim.path is not None:
            given["PATH"] = shim.path
        found = _behind(shim, environ)
        if found is not None:
            program, name = found, found if shim.by_path else shim.name
    argv = [name, *words]
    if shim is None and len(words) == 1 and not words[0].startswith("-") and not os.path.exists(words[0]):
        argv = [name, "-c", words[0]]
    if not words or environ.get("SIDECAR_ACTIVE") or environ.get("AI_AGENT", "").endswith("_harness"):
        return ShellPlan(program, argv, given, None)
    if not _runs_something(argv[1:]) or (shim is not None and not shim.supervises):
        return ShellPlan(program, argv, given, None)
    return ShellPlan(program, argv, given, parse_run(["--", *argv], given))


def _behind(shim: "Shim", environ: "Mapping[str, str]") -> str | None:
    """The shell that PATH has behind the shim; for one that was called by its path, $SHELL before that."""
    rest = _DEFAULT_PATH if shim.path is None else shim.path
    paths = [f"{folder or '.'}/{shim.name}" for folder in rest.split(":")]
    usual = environ.get("SHELL", "")
    if not shim.on_path and usual.rpartition("/")[2] == shim.name and not is_a_shim(usual):
        paths.insert(0, usual)
    return next((path for path in paths if os.path.isfile(path) and os.access(path, os.X_OK)), None)


def _runs_something(words: list[str]) -> bool:
    """A command string or a script, not an interactive shell or one that reads its commands from stdin."""
    takes_value = False
    for word in words:
        if takes_value:
            takes_value = False
        elif word[:1] not in ("-", "+") or word in ("-", "--"):
            return word not in ("-", "--")
        elif not word.startswith("--"):
            if "c" in word[1:] and word[0] == "-":
                return True
            if "s" in word[1:]:
                return False
            takes_value = word[-1] in "oO"
        else:
            takes_value = word in ("--rcfile", "--init-file")
    return False
