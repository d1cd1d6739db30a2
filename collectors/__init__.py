"""The senses: what the kernel says about a silent command.

    looker = Looker(child_pid, supervisor=os.getpid(), terminal=pty_master)
    before, after = observe(looker)                      # takes about a second
    verdict = sidecar.core.verdict.judge(before, after)

A caller with its own clock takes the pair apart: `before = looker.look()`, some `looker.sample(before, states)`,
`after = finish(looker, before, states)`. Linux only; elsewhere a look is empty and the verdict `unknown`.
"""

from collectors.kernel import SOURCES, Kernel
from collectors.look import Looker
from collectors.observer import finish, observe

__all__ = ["SOURCES", "Kernel", "Looker", "finish", "observe"]
