"""What must raise no alert at all: series as a healthy daemon has them, of whole stories."""

from alert_cases import TRACE, command, host, series


def daemon(number: int = 1, samples: int = 60, **metrics: str) -> dict[str, str]:
    """A daemon that lives for so many half minutes; `metrics` are other values of its series."""
    values = {
        "sidecar_daemon_loop_timestamp_seconds": f"0+30x{samples}",
        "sidecar_output_age_seconds": f"0x{samples}",
        "sidecar_suspect_hidden": f"0x{samples}",
        **metrics,
    }
    made = {series(name, **host(number)): text for name, text in values.items()}
    for family in ("psql", "make"):
        made[series("sidecar_commands_active", **host(number), family=family, state="silent")] = f"1x{samples}"
        made[series("sidecar_commands_lost_total", **host(number), family=family)] = f"0x{samples}"
    for signal in ("traces", "logs"):
        made[series("sidecar_spool_items", **host(number), signal=signal)] = f"3x{samples}"
        made[series("sidecar_spool_bytes", **host(number), signal=signal)] = f"4000x{samples}"
        made[series("sidecar_spool_dropped_total", **host(number), signal=signal)] = f"0x{samples}"
    for verdict in ("computing", "network_wait"):
        made[series("sidecar_heartbeats_total", **host(number), family="psql", verdict=verdict)] = f"0+3x{samples}"
    for outcome in ("exited", "lost", "timeout"):
        made[series("sidecar_command_duration_seconds_count", **host(number), family="psql", outcome=outcome)] = (
            f"0+1x{samples}" if outcome == "exited" else f"0x{samples}"
        )
    made[series("up", job="sidecar", instance="127.0.0.1:8889")] = f"1x{max(samples, 60)}"
    return made


def _scraped_itself(series_of: dict[str, str], ends_after: int) -> dict[str, str]:
    """The series as Prometheus has them that comes to the daemon's own page, until it is gone: stale then, and down."""
    whose = 'job="sidecar-hosts",instance="10.0.0.7:9464"'
    found = {
        key.replace('job="sidecar",instance="i-1",host_name="build-1"', whose): f"{text} stale"
        for key, text in series_of.items()
        if not key.startswith("up{")
    }
    return found | {f"up{{{whose}}}": f"1x{ends_after} 0x{60 - ends_after}"}


def _age(metric: str, number: int = 1, **labels: str) -> str:
    return series(f"sidecar_{metric}_output_age_seconds", **command(number=number, **labels))


def _as_suspect(verdict: str, family: str) -> str:
    return series("sidecar_suspect_output_age_seconds", verdict=verdict, **command(family))


def _as_overdue(verdict: str, family: str) -> str:
    return series("sidecar_overdue_output_age_seconds", verdict=verdict, **command(family))


STORIES: dict[str, dict[str, str]] = {
    # The probe for which all of this exists: 165 s without a word, then its answer.
    "the SQL probe of 165 seconds": {
        **daemon(sidecar_output_age_seconds="0+30x5 165x0 0x50"),
        _as_overdue("network_wait", "psql"): "_ _ 60+30x3 165x0 stale",
    },
    # Even where somebody took its peer for dead.
    "the SQL probe, misjudged": {
        **daemon(sidecar_output_age_seconds="0+30x5 165x0 0x50"),
        _as_suspect("network_peer_dead", "psql"): "_ _ 60+30x3 165x0 stale",
    },
    "the SQL probe, misjudged, by way of a push that nobody ends": {
        **daemon(sidecar_output_age_seconds="0+30x5 165x0 0x50"),
        _as_suspect("network_peer_dead", "psql"): "_ _ 60+30x3 165x0",
    },
    "a build, silent for 9 minutes, that works": {
        **daemon(sidecar_output_age_seconds="0+30x18 0x40"),
        _as_overdue("computing", "make"): "_ _ 60+30x16 stale",
    },
    "a series that lives on for 5 minutes after its end": {
        **daemon(),
        _as_suspect("deadlock_suspected", "make"): "150+30x1",
        _as_overdue("deadlock_suspected", "make"): "1770+30x1",
    },
    "two daemons on one host, one of which has ended": {
        **{key.replace("i-2", "i-1b").replace("build-2", "build-1"): text for key, text in daemon(2).items()},
        **{
            key: f"{text} 0x1" if key.startswith("sidecar_commands_active") else text
            for key, text in daemon(1, 10).items()
        },
    },
    # Its commands have ended before it; half an hour later nobody has been called.
    "a daemon that is scraped itself, and ends because nothing is left to do": _scraped_itself(
        {
            key: "1x5 0x4" if key.startswith("sidecar_commands_active") else text
            for key, text in daemon(samples=9).items()
        },
        10,
    ),
    "nothing runs: shares of 0/0": {
        key: "0x60" if "active" in key or "duration" in key else text for key, text in daemon().items()
    },
    "three of three commands wait for locks": {
        **daemon(),
        **{
            series(
                "sidecar_suspect_output_age_seconds", verdict="network_peer_dead", **command("make", f"{TRACE}{n}")
            ): "170x60"
            for n in range(3)
        },
    },
}
