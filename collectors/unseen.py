"""What could not be read, and what would make it readable, in words."""

from collectors.kernel import Kernel
from sidecar.core.evidence import Look, Unseen

_PTRACE_ACCESS = (
    "run the sidecar as the command's user; where kernel.yama.ptrace_scope is 2, give it CAP_SYS_PTRACE "
    "(3 forbids it to everybody)"
)
_REMEDIES = {
    "syscall": ("the system call each thread sits in", _PTRACE_ACCESS),
    "mem": ("what the call waits for (memory of the process)", _PTRACE_ACCESS),
    "wchan": ("the kernel function each thread waits in", _PTRACE_ACCESS),
    "fd": ("open descriptors", _PTRACE_ACCESS),
    "fdinfo": ("what a descriptor is about", _PTRACE_ACCESS),
    "io": ("bytes read from and written to storage", _PTRACE_ACCESS),
    "timers": ("POSIX timers", _PTRACE_ACCESS),
    "netlink": ("ages and counters of connections (sock_diag)", "allow NETLINK_SOCK_DIAG in the sandbox"),
    "terminal": ("the terminal's settings", "run the command on a terminal of the sidecar's: --pty"),
    "stat": ("processes", "mount /proc without hidepid, or give the sidecar's user its gid"),
    "status": ("signal handlers", "mount /proc without hidepid, or give the sidecar's user its gid"),
    "locks": ("file locks of the host", "make /proc/locks readable"),
    "cgroup": ("the control group's counters", "mount /sys/fs/cgroup where the sidecar runs"),
    "children": ("children of a process (read from all processes instead)", "use a kernel with CONFIG_PROC_CHILDREN"),
    "schedstat": ("whether a thread ran", "use a kernel with CONFIG_SCHED_INFO"),
}


_AROUND = Unseen("open descriptors of processes of other users", "root sees them")


def describe(kernel: Kernel, look: Look) -> list[Unseen]:
    """One entry for each source that was refused since `look` began, in a fixed order."""
    refused = kernel.refused | {"stat"} if look.is_hidden else kernel.refused
    unseen = {source: Unseen(*_REMEDIES[source]) for source in _REMEDIES if source in refused}
    if "fd" in unseen and all(process.descriptors is not None for process in look.processes.values()):
        unseen["fd"] = _AROUND  # the command's own were read, and of those around it some were not
    return list(unseen.values())
