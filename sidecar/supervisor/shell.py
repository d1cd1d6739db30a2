"""`sidecar-sh`: stands where a shell stood, and supervises the command strings it is given.

    sidecar-sh -c STRING [NAME [ARG...]]   also -lc, -ic, -ec ...: as the shell itself, supervised
    sidecar-sh 'STRING'                    one word that is no file: as -c (Claude Code's shell prefix)
    sidecar-sh SCRIPT [ARG...]             a script file, supervised
    sidecar-sh                             interactive, or commands from stdin: the real shell, unsupervised

Quoting is never touched: the string goes to the shell as it came. Inside a command that is supervised already
(SIDECAR_ACTIVE), and around an agent's own helper processes (AI_AGENT ending in `_harness`: hooks and stdio
servers), the real shell takes our place at once. Bad SIDECAR_* variables do not stop a shell: the string is
then run by the real shell, unsupervised.
"""

import os

from sidecar.supervisor.options import RunOptions, parse_run

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Mapping

_DEFAULT_SHELLS = ("/bin/bash", "/usr/bin/bash", "/bin/sh")


class ShellPlan:
    """`argv`: the real shell and its words. `options`: how to supervise it; None = exec it as it is."""

    __slots__ = ("argv", "options")

    def __init__(self, argv: list[str], options: RunOptions | None) -> None:
        self.argv = argv
        self.options = options


def parse_shell(words: list[str], environ: "Mapping[str, str]") -> ShellPlan:
    """What to do for `sidecar-sh WORDS`."""
    shell = environ.get("SIDECAR_SHELL") or next(
        (path for path in _DEFAULT_SHELLS if os.access(path, os.X_OK)), "/bin/sh"
    )
    argv = [shell, *words]
    if len(words) == 1 and not words[0].startswith("-") and not os.path.exists(words[0]):
        argv = [shell, "-c", words[0]]
    if not words or environ.get("SIDECAR_ACTIVE") or environ.get("AI_AGENT", "").endswith("_harness"):
        return ShellPlan(argv, None)
    if not _runs_something(argv[1:]):
        return ShellPlan(argv, None)
    return ShellPlan(argv, parse_run(["--", *argv], environ))


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
