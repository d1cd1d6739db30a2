"""What the stages share: a folder that anybody may read, compiled programs, a network of two namespaces, a database."""

from __future__ import annotations

import contextlib
import os
import pwd
import shutil
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests.verdicts.network import Network
from tests.verdicts.postgresql import Postgresql

_PROGRAMS = Path(__file__).parent / "programs"


class Theatre:
    """Open for one pass over scenarios; `close` removes everything."""

    def __init__(self) -> None:
        self._cleanup = contextlib.ExitStack()
        self._made: dict[str, Any] = {}
        self._making = threading.RLock()
        base = self._cleanup.enter_context(tempfile.TemporaryDirectory(prefix="verdicts-", ignore_cleanup_errors=True))
        self.base = Path(base)
        self.base.chmod(0o755)
        shutil.copytree(_PROGRAMS, self.base / "programs")
        self._folders = self.base / "scratch"
        self._folders.mkdir()
        nobody = pwd.getpwnam("nobody")
        self.nobody = (nobody.pw_uid, nobody.pw_gid)
        root = str(Path(__file__).parents[2])
        self.host_environment = {**os.environ, "PYTHONPATH": root}
        # What an unprivileged user can execute: our own interpreter may be in root's home folder.
        system = shutil.which("python3", path="/usr/bin:/usr/local/bin:/bin")
        self.python = system or os.path.realpath(sys.executable)

    def close(self) -> None:
        self._cleanup.close()

    def folder(self, name: str, owner: tuple[int, int] | None = None) -> Path:
        """A new folder for a scenario, for anybody to write; `owner` is a uid and gid (git wants to own where it
        works)."""
        folder = Path(tempfile.mkdtemp(prefix=f"{name}-", dir=self._folders))
        folder.chmod(0o777)
        if owner:
            os.chown(folder, *owner)
        return folder

    def environment(self, home: Path) -> dict[str, str]:
        """The command's environment: nothing of ours, and no settings of the machine's user."""
        path = os.pathsep.join(
            part
            for part in os.environ.get("PATH", os.defpath).split(os.pathsep)
            if not part.startswith(("/root", sys.prefix))
        )
        return {
            "PATH": path,
            "HOME": str(home),
            "TERM": "xterm",
            "LANG": "C.UTF-8",
            # npm asks the registry for news of itself otherwise: nothing here shall leave the machine.
            "NPM_CONFIG_REGISTRY": "http://127.0.0.1:9/",
            "NPM_CONFIG_UPDATE_NOTIFIER": "false",
            "GIT_CONFIG_NOSYSTEM": "1",
        }

    def program(self, name: str) -> str:
        """The path of a program, compiled first where it is source."""
        path = self.base / "programs" / name
        if path.exists():
            return str(path)
        return str(self.once(f"program {name}", lambda: self._compile(name)))

    @property
    def network(self) -> Network:
        """Two network namespaces with a cable between them. Needs root."""
        made: Network = self.once("network", lambda: self._cleanup.enter_context(Network()))
        return made

    @property
    def postgresql(self) -> Postgresql:
        made: Postgresql = self.once(
            "postgresql", lambda: self._cleanup.enter_context(Postgresql(self.base / "postgresql"))
        )
        return made

    def once(self, what: str, make: Callable[[], Any]) -> Any:
        with self._making:
            if what not in self._made:
                self._made[what] = make()
            return self._made[what]

    def _compile(self, name: str) -> Path:
        programs = self.base / "programs"
        target = programs / name
        compilers: dict[str, list[str]] = {
            ".c": ["gcc", "-O1", "-pthread", "-o", str(target), f"{name}.c"],
            ".java": ["javac", "-d", str(target), f"{name}.java"],
            ".go": ["go", "build", "-o", str(target), f"{name}.go"],
        }
        for suffix, argv in compilers.items():
            if (programs / f"{name}{suffix}").exists():
                extra = {"GOFLAGS": "-mod=mod", "CGO_ENABLED": "0", "GO111MODULE": "off"} if suffix == ".go" else {}
                subprocess.run(argv, cwd=programs, check=True, env={**os.environ, **extra}, capture_output=True)
                return target
        raise FileNotFoundError(name)
