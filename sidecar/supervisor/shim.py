"""A shim: `sidecar-sh` linked as `bash` in a folder that is first on an agent's PATH.

The real shell is the one that PATH has behind the shim, and it is called as the agent would have called it: by its bare
name, or by the path that was found, where the agent searches PATH itself (gemini). What we were called as by the agent
is not known here: the kernel puts the interpreter in its place. The shim's folder is taken from PATH: the command sees
the PATH it would have seen, and a shell that the command starts is not ours again.

An agent that is given the path of its shell (opencode) is given a link in its own folder, which is on nobody's PATH.
The real shell is then $SHELL, or what PATH has, by its full path, as that agent would have called it.

In the folder of a known agent (`sidecar setup`: .../agents/<agent>/shims) only what that agent's shell tool runs is
supervised: that has the agent's marker in its environment, and its hooks and servers have not.
"""

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Mapping

SHELLS = ("bash", "sh", "zsh")
MARKERS = {"qwen-code": "QWEN_CODE", "gemini-cli": "GEMINI_CLI"}
"""What the shell tool of an agent sets, and nothing else of it does (qwen-code 0.24, gemini-cli 0.61)."""
_BY_PATH = ("gemini-cli",)


class Shim:
    """`name`: the shell's. `path`: PATH without the shim, None = there was none. `supervises`: is this for us?

    `by_path`: the real shell is called by its path. `on_path`: we were found on PATH, and so is the real shell.
    """

    __slots__ = ("by_path", "name", "on_path", "path", "supervises")

    def __init__(self, name: str, path: str | None, *, on_path: bool, by_path: bool, supervises: bool) -> None:
        self.name = name
        self.path = path
        self.on_path = on_path
        self.by_path = by_path
        self.supervises = supervises


def shim_of(called: str, environ: "Mapping[str, str]") -> Shim | None:
    """What we were called as, if that is a shim: a shell's name, in a folder of PATH."""
    folder, _, name = called.rpartition("/")
    if name not in SHELLS:
        return None
    path = environ.get("PATH")
    folders = [] if path is None else path.split(":")
    parts = folder.split("/")
    agent = parts[-2] if len(parts) > 3 and parts[-1] == "shims" and parts[-3] == "agents" else None
    if folder not in folders and agent is None:
        return None
    marker = None if agent is None else MARKERS.get(agent)
    rest = None if path is None else ":".join(each for each in folders if each != folder)
    on_path = folder in folders
    return Shim(
        name,
        rest,
        on_path=on_path,
        by_path=not on_path or agent in _BY_PATH,
        supervises=marker is None or bool(environ.get(marker)),
    )


def is_a_shim(path: str) -> bool:
    """Is this path one in a folder of shims of ours?"""
    return path.rpartition("/")[0].endswith("/shims")


def is_launcher(called: str) -> bool:
    """Is this the path of an agent's launcher (agents/launcher.py)?"""
    parts = called.split("/")
    return len(parts) > 4 and parts[-2] == "launch" and parts[-4] == "agents"
