"""Where a daemon of ours may be, if not where this environment has it.

A login session has XDG_RUNTIME_DIR; `sudo -iu`, cron and a service have none, and so another default. Who asks from
the one of a daemon of the other shall find it. Supervisors and daemons themselves use their own default only.
"""

import os
from collections.abc import Mapping

from sidecar import rendezvous
from sidecar.core.errors import DaemonUnavailable


def found(
    environ: Mapping[str, str],
    configured: str | None = None,
    *,
    runtime: str = "/run/user",
    temporary: str = "/tmp",  # noqa: S108 - checked
) -> str:
    """The configured socket; else the default one, unless nobody listens there and another of this user does: below
    `runtime` or `temporary`."""
    path = rendezvous.socket_path(environ, configured)
    if configured:
        return path
    others = (f"{runtime}/{os.getuid()}/sidecar", f"{temporary}/sidecar-{os.getuid()}")
    for each in (path, *(f"{folder}/{rendezvous.SOCKET_NAME}" for folder in others)):
        if _listens(each):
            return each
    return path


def _listens(path: str) -> bool:
    """Not of what a daemon that was killed has left; nor of what somebody else may have put there for us."""
    try:
        rendezvous.private_folder(path, create=False)
        rendezvous.connect(path).close()
    except BlockingIOError:
        return True  # busy
    except (OSError, DaemonUnavailable):
        return False
    return True
