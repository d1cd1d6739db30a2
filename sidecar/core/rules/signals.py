"""Signals that may wake what seems stuck: signal(7), timer_create(2), setitimer(2)."""

from sidecar.core.evidence import Process

CHILD = 17
_WAKING = frozenset({1, 3, 10, 12, 14, 15, 16, CHILD, 23, 24, 25, 26, 27, 29, 30})
"""HUP QUIT USR1 USR2 ALRM TERM STKFLT CHLD URG XCPU XFSZ VTALRM PROF IO PWR: sent by timers, children and people.

Not INT, which Python handles in every program, nor those of faults and of job control."""
_FIRST_REAL_TIME = 34  # the two before are the C library's own


def waking_signals(process: Process) -> list[int] | None:
    """Signals it handles that a timer, a child or a person may send; None: not readable.

    An interval timer (setitimer, alarm) is visible nowhere, so that a handler is all there is to tell of one.
    """
    if process.handled_signals is None:
        return None
    return sorted(n for n in process.handled_signals if n in _WAKING or n >= _FIRST_REAL_TIME)
