"""Where a daemon of ours may be, if not where this environment has it.

A login session has XDG_RUNTIME_DIR; `sudo -iu`, cron and a service have none, and so another default. Who asks from
the one of a daemon of the other shall find it. Supervisors and daemons themselves use their own default only.
"""

import os
from collections.abc import Mapping

from sidecar import rendezvous
from sidecar.core.errors import DaemonUnavailable


def found(environ: Mapping[str, str], runtime: str = "/run/user", temporary: str = "/tmp") -> str:  # noqa: S108 - checked
    """The default socket, unless there is none and another of this user is there: below `runtime` or `temporary`."""
    path = rendezvous.socket_path(environ)
    others = (f"{runtime}/{os.getuid()}/sidecar", f"{temporary}/sidecar-{os.getuid()}")
    for each in (path, *(f"{folder}/{rendezvous.SOCKET_NAME}" for folder in others)):
        if not os.path.lexists(each):
            continue
        if each != path:
            try:
                rendezvous.private_folder(each, create=False)
            except DaemonUnavailable:
                continue  # of somebody else, who may have put it there for us
        return each
    return path
