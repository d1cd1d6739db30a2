"""What a thread waits for when its system call cannot be read: the kernel function, the descriptors, the structure.

Wait channels are names of kernel functions and differ by version: they are compared by their beginning, and what
they suggest is inferred at most. Where they fit several waits the answer is unknown, and says which.
"""

from sidecar.core.evidence import Process, Thread
from sidecar.core.finding import INFERRED, UNSURE
from sidecar.core.scene import Scene, Wait


def wait_unseen(scene: Scene, process: Process, thread: Thread) -> Wait:
    """A guess from the structure; replaced by a fuller rule set."""
    children = scene.children(process.pid)
    channel = thread.wait_channel
    if channel is not None and "nanosleep" in channel:
        return Wait("sleeping", f"kernel function {channel}", INFERRED, is_timed=True)
    if channel is not None and channel.startswith(("do_wait", "kernel_wait")):
        return Wait("child_wait", f"kernel function {channel}", INFERRED, children, True)
    return Wait("unknown", f"state {thread.state}, the system call is not readable", UNSURE)
