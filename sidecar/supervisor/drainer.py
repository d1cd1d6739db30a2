"""Who keeps reading for what the command left behind."""

import os
import select

from sidecar.detach import close_all_but


def leave_drainer(descriptors: list[int]) -> None:
    """Somebody lives on and holds these read ends' other side: keep reading for them.

    A process of its own, in its own session, throws away what they write until the last one closes, so that
    our leaving does not kill them by SIGPIPE. It holds none of the agent's streams.
    """
    try:
        if os.fork() != 0:
            return
    except OSError:
        return
    try:
        os.setsid()
        os.chdir("/")
        kept = [os.dup(descriptor) for descriptor in descriptors]
        null = os.open(os.devnull, os.O_RDWR)
        for number in (0, 1, 2):
            os.dup2(null, number)
        close_all_but((0, 1, 2, *kept))
        _drain(kept)
    finally:
        os._exit(0)


def _drain(descriptors: list[int]) -> None:
    poll = select.poll()
    for descriptor in descriptors:
        poll.register(descriptor, select.POLLIN)
    left = len(descriptors)
    while left:
        for descriptor, _ in poll.poll():
            try:
                data = os.read(descriptor, 65536)
            except BlockingIOError:
                continue
            except OSError:
                data = b""
            if not data:
                poll.unregister(descriptor)
                os.close(descriptor)
                left -= 1
