"""The senses: what the kernel says about a silent command.

    looker = Looker(child_pid, supervisor=os.getpid(), terminal=pty_master)
    before, after = observe(looker)                      # takes about a second
    verdict = sidecar.core.verdict.judge(before, after)

A caller with its own clock takes the pair apart: `before = looker.look()`, some `looker.sample(before, states)`,
`after = finish(looker, before, states)`. Without /proc (macOS) `looker_type()` is one that asks psutil, and tells less.
"""

import os

from collectors.kernel import SOURCES, Kernel
from collectors.look import Looker
from collectors.observer import finish, observe

__all__ = ["SOURCES", "Kernel", "Looker", "finish", "looker_type", "observe"]


def looker_type(proc_root: str = "/proc") -> type[Looker]:
    """The Looker for this system: one that asks psutil where there is no /proc."""
    if os.path.exists(f"{proc_root}/self/stat"):
        return Looker
    from collectors.portable import PortableLooker

    return PortableLooker
