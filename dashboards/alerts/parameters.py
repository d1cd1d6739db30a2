"""What a site may want to be otherwise: whose series, thresholds in seconds and shares, where the runbooks are."""

from __future__ import annotations

from dataclasses import dataclass

BAD_OUTCOMES = ("lost", "timeout", "silence_timeout")
"""What the error budget is spent on: commands that did not end by themselves, nor by somebody's wish."""


@dataclass(frozen=True, slots=True)
class Parameters:
    """`selector` picks the series and the scrape targets alike: by way of a Collector the series' `job` is `sidecar`,
    while `up` has the name of the scrape job. A field `..._s` is in seconds."""

    selector: str = 'job=~"sidecar.*"'
    runbook_base: str = "https://github.com/agent-shell-sidecar/agent-shell-sidecar/blob/main/dashboards/runbooks"
    prefix: str = ""
    """In front of every alert's name, where `Watchdog` or `TargetDown` exist already."""
    fresh_s: int = 60
    """A series whose last sample is older says nothing about now. One that was pushed lives for five minutes."""
    remembered_s: int = 3600
    """For how long a producer that has died is asked for."""
    hung_age_s: int = 180
    hung_for_s: int = 60
    awaiting_age_s: int = 120
    awaiting_for_s: int = 60
    silent_age_s: int = 1800
    silent_for_s: int = 60
    lost_window_s: int = 600
    heartbeat_late_s: int = 240
    """Beyond a command's own heartbeat interval. Those that are late by less than `suspect_after` have no series."""
    heartbeat_for_s: int = 60
    """A daemon that was stopped itself may tell of delays once before it has read what came meanwhile."""
    dead_age_s: int = 120
    stuck_age_s: int = 60
    stuck_for_s: int = 60
    fleet_share: float = 0.2
    fleet_least: int = 10
    fleet_for_s: int = 300
    dropped_window_s: int = 900
    backlog_records: int = 500
    backlog_for_s: int = 600
    spool_max_bytes: int = 64 << 20
    """As `spool_max_bytes` of the sidecar's configuration."""
    spool_share: float = 0.5
    spool_for_s: int = 300
    down_for_s: int = 120
    absent_for_s: int = 300
    objective: float = 0.98
    """The share of commands that end by themselves: neither lost nor stopped by a limit of time."""
    burn_least_bad: int = 6
    """Bad commands in the longer window, below which a share may be chance, however few commands there were.

    A fleet that loses just what the objective allows, by chance, has too many of its commands bad in one window of
    6 h out of 85 where 3 bad ones are enough, of 760 where 5 are, of 2,300 where 6 are (a binomial at the number of
    commands that makes it worst). 6 is the least at which that wakes somebody less than once a year; and of six in
    fewer than 20 commands it is all the surer that it was no chance, so their number is not asked for.
    """
    burn_windows: tuple[tuple[float, int, int, str], ...] = (
        (14.4, 3600, 300, "page"),
        (6.0, 21_600, 1800, "page"),
        (1.0, 259_200, 21_600, "ticket"),
    )
    """(times the sustainable rate, longer window, shorter window, severity): Google's SRE workbook, chapter 5."""


def duration(seconds: int) -> str:
    """As Prometheus writes it: `90s`, `5m`, `1h`, `3d`."""
    for unit, size in (("d", 86_400), ("h", 3600), ("m", 60)):
        if seconds and seconds % size == 0:
            return f"{seconds // size}{unit}"
    return f"{seconds}s"
