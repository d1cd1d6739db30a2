"""Where things are for this user: the home, the folders of XDG, our own, and the programs of this installation."""

import hashlib
import os
import shutil
import sysconfig
from collections.abc import Mapping
from dataclasses import dataclass, field

import sidecar
from sidecar.core.errors import UsageError
from sidecar.core.values import printable


@dataclass(frozen=True)
class Places:
    """`environ` as given; `project` is the folder that the scope `project` means. All paths are absolute."""

    environ: Mapping[str, str]
    project: str
    shell_program: str = field(default="")

    @property
    def home(self) -> str:
        home = self.environ.get("HOME", "")
        if not os.path.isabs(home):
            raise UsageError(f"HOME is {printable(repr(home))}: not an absolute path; whose files are meant?")
        return os.path.normpath(home)

    @property
    def is_home(self) -> bool:
        """Is the project's folder the home? Its files would then be the user's."""
        return os.path.realpath(self.home) == os.path.realpath(self.project)

    def folder_of(self, variable: str, default: str) -> str:
        """The folder that a variable names, else `default` below the home. Raises UsageError for a relative one."""
        value = self.environ.get(variable, "")
        if value and not os.path.isabs(value):
            raise UsageError(f"{variable} is {printable(repr(value))}: not an absolute path")
        return os.path.normpath(value) if value else os.path.join(self.home, default)

    def xdg(self, variable: str, default: str) -> str:
        """The same for a folder of XDG, where a relative path counts as none (basedir-spec)."""
        value = self.environ.get(variable, "")
        return os.path.normpath(value) if os.path.isabs(value) else os.path.join(self.home, default)

    @property
    def data(self) -> str:
        return os.path.join(self.xdg("XDG_DATA_HOME", ".local/share"), "sidecar")

    @property
    def state(self) -> str:
        """The records and backups of `sidecar setup`."""
        return os.path.join(self.xdg("XDG_STATE_HOME", ".local/state"), "sidecar", "setup")

    @property
    def config(self) -> str:
        return self.xdg("XDG_CONFIG_HOME", ".config")

    @property
    def sidecar_sh(self) -> str:
        """The `sidecar-sh` of this installation. Raises UsageError where there is none."""
        if self.shell_program:
            return self.shell_program
        target = os.path.join(os.path.dirname(os.path.dirname(sidecar.__file__)), "bin")  # pip install --target
        beside = [os.path.join(folder, "sidecar-sh") for folder in (sysconfig.get_path("scripts"), target)]
        found = next((path for path in beside if os.access(path, os.X_OK)), None)
        found = found or shutil.which("sidecar-sh", path=self.environ.get("PATH"))
        if found is None:
            raise UsageError("sidecar-sh is not found beside this program, nor on PATH: install the sidecar again")
        return os.path.abspath(found)

    def label(self, agent: str, scope: str) -> str:
        """One name for one setup: the agent's, and for a project with 16 hex digits of its folder's."""
        if scope == "user":
            return agent
        return f"{agent}.{scope}-{hashlib.sha256(os.fsencode(self.project)).hexdigest()[:16]}"

    def agent_folder(self, agent: str, scope: str = "user") -> str:
        """Ours, for one setup: `launch` has its launcher, `shims` the shells."""
        return os.path.join(self.data, "agents", self.label(agent, scope))


def is_sidecar_sh(value: object) -> bool:
    """Is it the path of a `sidecar-sh`, of whatever installation?"""
    return isinstance(value, str) and os.path.basename(value) == "sidecar-sh"
