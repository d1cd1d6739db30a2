"""A shim: `sidecar-sh` linked as `bash` in a folder that is first on an agent's PATH.

The real shell is the one that PATH has behind the shim, and it is called by its bare name, as the agent called it. The
shim's folder is taken from PATH: the command sees the PATH it would have seen, and a shell that the command
starts is not ours again.

In the folder of a known agent (`sidecar setup`: .../agents/<agent>/shims) only what that agent's shell tool runs is
supervised: that has the agent's marker in its environment, and its hooks and servers have not.
"""

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Mapping

SHELLS = ("bash", "sh")
MARKERS = {"qwen-code": "QWEN_CODE", "gemini-cli": "GEMINI_CLI"}
"""What the shell tool of an agent sets, and nothing else of it does (qwen-code 0.24, gemini-cli 0.61)."""


class Shim:
    """`name`: the shell's. `path`: PATH without the shim. `supervises`: is this a command of the agent's?"""

    __slots__ = ("name", "path", "supervises")

    def __init__(self, name: str, path: str, supervises: bool) -> None:
        self.name = name
        self.path = path
        self.supervises = supervises


def shim_of(called: str, environ: "Mapping[str, str]") -> Shim | None:
    """What we were called as, if that is a shim: a shell's name, in a folder of PATH."""
    folder, _, name = called.rpartition("/")
    folders = environ.get("PATH", "").split(":")
    if name not in SHELLS or folder not in folders:
        return None
    parts = folder.split("/")
    marker = MARKERS.get(parts[-2]) if parts[-1] == "shims" and len(parts) > 2 else None
    return Shim(name, ":".join(each for each in folders if each != folder), marker is None or bool(environ.get(marker)))


def is_launcher(called: str) -> bool:
    """Is this the path of an agent's launcher (agents/launcher.py)?"""
    parts = called.split("/")
    return len(parts) > 4 and parts[-2] == "launch" and parts[-4] == "agents"
