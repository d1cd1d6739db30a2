"""How the supervisor leaves: with the command's own status, at once."""

import _signal
import posix

TIMEOUT_EXIT_CODE = 124


def leave(exit_code: int | None, signal_number: int | None) -> None:
    """End this process as the command ended: by the same signal, or with the same code. Does not return.

    The core dump belongs to the command. Ours is forbidden first: by the limit, and because that does not hold where
    the kernel hands cores to a program (core(5), a pipe in core_pattern), by being undumpable too.
    """
    if signal_number is not None:
        import resource

        from sidecar.supervisor import libc

        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        except (OSError, ValueError):
            pass
        libc.forbid_core_dump()
        try:
            _signal.signal(signal_number, _signal.SIG_DFL)
        except (OSError, ValueError):
            pass  # KILL and STOP have no disposition
        _signal.pthread_sigmask(_signal.SIG_UNBLOCK, [signal_number])
        posix.kill(posix.getpid(), signal_number)
        exit_code = 128 + signal_number
    posix._exit(exit_code or 0)
