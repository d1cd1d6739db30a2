"""Which file system a path or a descriptor is on, and whether another process or host serves it.

proc(5), /proc/PID/mountinfo. Cost: 30 microseconds once per look, for each mount namespace a waiting process shows.
Privilege: none for one's own; ptrace access for others. Cannot see: "" as the file system.
"""

from collectors.kernel import Kernel

_NONE = ("", "")
_SERVED_ELSEWHERE = frozenset(
    [
        "nfs",
        "nfs4",
        "cifs",
        "smb3",
        "ceph",
        "fuse",
        "fuseblk",
        "9p",
        "afs",
        "lustre",
        "gfs2",
        "ocfs2",
        "glusterfs",
        "virtiofs",
        "autofs",
    ]
)


def is_served_elsewhere(file_system: str) -> bool:
    """A network or user-space file system: a wait on it can last as long as its server likes."""
    return file_system.split(".", 1)[0] in _SERVED_ELSEWHERE


class Mounts:
    """The mounts one process sees."""

    def __init__(self, kernel: Kernel, pid: int) -> None:
        self._by_id: dict[str, tuple[str, str]] = {}
        self._by_path: list[tuple[str, str]] = []
        text = (kernel.read(f"{pid}/mountinfo") or b"").decode("utf-8", "replace")
        for line in text.splitlines():
            left, _, right = line.partition(" - ")
            fields, kind = left.split(), right.split(" ", 1)[0]
            if len(fields) >= 5 and kind:
                mount = (fields[4].replace("\\040", " "), kind)
                self._by_id[fields[0]] = mount
                self._by_path.append(mount)
        # Later mounts hide earlier ones at the same place: the last of equal length wins.
        self._by_path.reverse()
        self._by_path.sort(key=lambda mount: -len(mount[0]))

    def of_id(self, mount_id: str) -> tuple[str, str]:
        """Where it is mounted, and its kind; empty where it is not there."""
        return self._by_id.get(mount_id, _NONE)

    def of_path(self, path: str) -> tuple[str, str]:
        """The same of the file system that an absolute path is on."""
        if path.startswith("/"):
            for mount in self._by_path:
                if path == mount[0] or path.startswith(mount[0].rstrip("/") + "/"):
                    return mount
        return _NONE
