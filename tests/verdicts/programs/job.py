"""job.py fg|bg COMMAND...: runs the command as a job of its own of this terminal, in the foreground or not, and waits
for its end, as a shell that does not look for stopped jobs."""

import os
import signal
import sys

where, argv = sys.argv[1], sys.argv[2:]
child = os.fork()
if child == 0:
    os.setpgid(0, 0)
    if where == "fg":
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        os.tcsetpgrp(0, os.getpgrp())
        signal.signal(signal.SIGTTOU, signal.SIG_DFL)
    os.execvp(argv[0], argv)
os.waitpid(child, 0)
