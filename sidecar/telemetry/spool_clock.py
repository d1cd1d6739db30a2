"""How old a request in the spool is, on a machine whose clock may be set.

Within one boot the age is measured on a clock that nobody can set. Across a boot only the wall clock is left: one
that says a request is from the future counts as an age of 0.
"""

from __future__ import annotations

import time
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Moment:
    """A point in time by three hands: which boot (empty: unknown), time since it, and the wall clock."""

    boot: str
    boot_ns: int
    unix_ns: int

    def age_ns(self, earlier: Moment) -> int:
        """How long ago `earlier` was, never negative."""
        if self.boot and self.boot == earlier.boot:
            return max(0, self.boot_ns - earlier.boot_ns)
        return max(0, self.unix_ns - earlier.unix_ns)


def now() -> Moment:
    return Moment(_BOOT, time.clock_gettime_ns(_CLOCK), time.time_ns())


def _boot_id() -> str:
    """This boot's random id (proc(5), /proc/sys/kernel/random/boot_id); empty where there is none."""
    try:
        with open("/proc/sys/kernel/random/boot_id", encoding="ascii") as file:
            return file.read().strip()
    except (OSError, UnicodeDecodeError):
        return ""


_BOOT = _boot_id()
# Goes on while the machine sleeps; macOS has no such clock, and no boot id either, so it is not compared there.
_CLOCK = getattr(time, "CLOCK_BOOTTIME", time.CLOCK_MONOTONIC)
