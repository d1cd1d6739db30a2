"""How the supervisor leaves: with the command's own status, at once."""

import posix

from sidecar.supervisor.carry_on import die_of

TIMEOUT_EXIT_CODE = 124


def leave(exit_code: int | None, signal_number: int | None) -> None:
    """End this process as the command ended: by the same signal, or with the same code. Does not return.

    The core dump belongs to the command. Ours is forbidden first: by the limit, and because that does not hold where
    the kernel hands cores to a program (core(5), a pipe in core_pattern), by being undumpable too.
    """
    if signal_number is not None:
        import resource

        try:
            resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
        except (OSError, ValueError):
            pass
        die_of(signal_number)
    posix._exit(exit_code or 0)
