"""The cases of the alerts on telemetry, on shares of ended commands, and on alerting itself."""

from dataclasses import replace

from alert_cases import LONG_OPEN, Case, Firing, host, series

BURNS = (
    ("1h", "5m", 0.288, "28.8 %", "more than 14.4 times as fast as", "page", 60),
    ("6h", "30m", 0.12, "12 %", "more than 6 times as fast as", "page", 360),
    ("3d", "6h", 0.02, "2 %", "faster than", "ticket", 4320),
)
"""(window, shorter one, share, as text, how fast the budget goes, severity, a sixtieth of the window in seconds)"""


def _dropped() -> list[Case]:
    def firing(number: int, count: int, signal: str = "") -> Firing:
        labels = {**host(number), "severity": "ticket"} | ({"signal": signal} if signal else {})
        return Firing(
            labels,
            f"{count} records ({signal or 'of a queue in memory'}) of build-{number} were dropped in 15m",
            "They are gone, and the traces and logs of then have gaps. A spool or a queue was full, or what takes them "
            f"refuses them for good (instance i-{number}).",
        )

    spool, queue = "sidecar_spool_dropped_total", "otel_sdk_processor_span_processed_total"
    full = {"error_type": "queue_full"}
    return [
        Case(
            "TelemetryDropped",
            "from the spool; from a queue, whose counter is born with its first drop",
            {
                series(spool, **host(1), signal="traces"): "0x10 1x60",
                series(spool, **host(1), signal="logs"): "0x70",
                series(queue, **host(2), **full): "_x10 1x60",
                series(queue, **host(2)): "100+50x70",
                series(queue.replace("span", "log"), **host(3), **full): "0x70",
            },
            (
                (270, ()),
                (300, (firing(2, 1),)),
                (330, (firing(1, 1, "traces"), firing(2, 1))),
                (1170, (firing(1, 1, "traces"), firing(2, 1))),
                (1200, (firing(1, 1, "traces"),)),
                (1260, ()),
            ),
        ),
        Case(
            "TelemetryDropped",
            "from a queue that had dropped before",
            {series(queue, **host(1), **full): "3x40 5x60"},
            ((1200, ()), (1230, (firing(1, 2),)), (2070, (firing(1, 2),)), (2160, ())),
        ),
        Case(
            "TelemetryDropped",
            "long ago, by a daemon whose series come by another Collector now; and there, then",
            {
                series(queue, **host(1), **full, collector="gw-1:8889"): "3x40 stale",
                series(queue, **host(1), **full, collector="gw-2:8889"): "_x40 3x40 5x40",
            },
            ((1200, ()), (1230, ()), (2100, ()), (2430, (firing(1, 2),)), (3390, ())),
        ),
    ]


def _spool() -> list[Case]:
    def backlog(number: int, count: str, signal: str) -> Firing:
        return Firing(
            {**host(number), "signal": signal, "severity": "ticket"},
            f"{count} records ({signal}) wait on build-{number} to be sent",
            f"For more than 10m, on instance i-{number}: what takes them is down or refuses them. Nothing is lost yet; "
            "traces come late.",
        )

    filling = Firing(
        {**host(2), "severity": "ticket"},
        "The spool on build-2 holds 32MiB and fills up",
        "That is more than 50 % of what it may hold: what takes spans and log events is down or refuses them. When it "
        "is full, the oldest are dropped (instance i-2).",
    )
    items, size = "sidecar_spool_items", "sidecar_spool_bytes"
    return [
        Case(
            "ExportBacklog",
            "500 and 501; of two signals 400 each; sent in the end",
            {
                series(items, **host(1), signal="traces"): "500x40",
                series(items, **host(2), signal="logs"): "501x29 0x10",
                series(items, **host(3), signal="traces"): "400x40",
                series(items, **host(3), signal="logs"): "400x40",
                # Two users on one host are two instances.
                series(items, job="sidecar", instance="i-4", host_name="build-3", signal="logs"): "400x40",
            },
            ((570, ()), (600, (backlog(2, "501", "logs"),)), (870, (backlog(2, "501", "logs"),)), (900, ())),
        ),
        Case(
            "SpoolFilling",
            "half of 64 MiB, and a byte more, of both signals",
            {
                series(size, **host(1), signal="traces"): f"{32 << 20}x30",
                series(size, **host(2), signal="traces"): f"{32 << 20}x19 0x10",
                series(size, **host(2), signal="logs"): "1x30",
            },
            ((270, ()), (300, (filling,)), (570, (filling,)), (600, ())),
        ),
    ]


def _burns() -> list[Case]:
    """Of each window: 120 steps without a loss, 60 with, then without again. One sixtieth of it is a step."""
    cases = []
    count = "sidecar_command_duration_seconds_count"
    for window, shorter, share, percent, pace, severity, step_s in BURNS:

        def firing(
            job: str,
            lost: int,
            window: str = window,
            shorter: str = shorter,
            percent: str = percent,
            pace: str = pace,
            severity: str = severity,
        ) -> Firing:
            return Firing(
                {"job": job, "window": window, "severity": severity},
                f"{lost} commands of {job} were lost or stopped by a limit of time in {window}",
                f"More than {percent} of those that ended, in the last {shorter} too: the error budget (2 %) goes "
                f"{pace} it may. Most are of: make ({lost}). Most are on: build-1 ({lost}). Traces: the exemplars of "
                "sidecar_command_duration_seconds_bucket.",
            )

        def outcomes(job: str, **series_of: str) -> dict[str, str]:
            return {
                series(count, **host(1, job), family="make", outcome=outcome): text
                for outcome, text in series_of.items()
            }

        # Of 3,000 that end in a step so many are lost that the share is reached at 36 of 60 steps, or 3 of 5.
        bad = round(share / 0.6 * 3000)
        good = 3000 - bad
        ramp = f"0x119 0+{bad}x60 {60 * bad}x20"
        ended = f"0+3000x119 {120 * 3000}+{good}x60 {120 * 3000 + 60 * good + 3000}+3000x20"
        cases.append(
            Case(
                "ErrorBudgetBurn",
                f"{window}: not yet, fires, resolves with the shorter window",
                {
                    **outcomes("sidecar", silence_timeout=ramp, exited=ended),
                    # What lost something before the window is not listed.
                    series(count, **host(2), family="npm", outcome="lost"): "5x200",
                },
                (
                    (155 * step_s, ()),
                    (157 * step_s, (firing("sidecar", 37 * bad),)),
                    (181 * step_s, (firing("sidecar", 59 * bad),)),
                    (183 * step_s, ()),
                ),
                step_s,
                window,
            )
        )
        # Six bad ones or more, more than the share; the clocks of `increase` are exact from 0 on.
        whole = {0.288: 125, 0.12: 100, 0.02: 500}[share]
        just = round(whole * share)
        cases.append(
            Case(
                "ErrorBudgetBurn",
                f"{window}: of five bad ones nothing is said, the share itself may be; 0/0",
                {
                    **outcomes("sidecar-all-5", lost="0x120 5x5", exited="0x126"),
                    **outcomes("sidecar-all-6", timeout="0x120 6x5", exited="0x126"),
                    **outcomes("sidecar-5-of-20", lost="0x120 5x5", exited="0x120 15x5"),
                    **outcomes("sidecar-6-of-20", lost="0x120 6x5", exited="0x120 14x5"),
                    **outcomes("sidecar-share", lost=f"0x120 {just}x5", exited=f"0x120 {whole - just}x5"),
                    # Only in the shorter window, or only in the longer one.
                    **outcomes("sidecar-short", lost=f"0x120 {just}x5", exited=f"0x100 {whole - just}x25"),
                    **outcomes("sidecar-long", lost=f"0x100 50x19 {50 + just}x5", exited=f"0x120 {whole - just}x5"),
                    **outcomes(
                        "sidecar-more", lost=f"0x120 {10 * just + 1}x5", exited=f"0x120 {10 * (whole - just)}x5"
                    ),
                    **outcomes("sidecar-idle", lost="0x126", exited="0x126"),
                    **outcomes("sidecar-cancelled", cancelled="0x120 900x5", exited="0x126", lost="0x126"),
                },
                (
                    (120 * step_s, ()),
                    (
                        121 * step_s,
                        (
                            firing("sidecar-all-6", 6),
                            firing("sidecar-6-of-20", 6),
                            firing("sidecar-more", 10 * just + 1),
                        ),
                    ),
                ),
                step_s,
                window,
            )
        )
    return cases


def _scraped_itself(instance: str, active: str) -> dict[str, str]:
    """Of a daemon on whose page Prometheus comes itself: until it ends after 270 s, with so many commands."""
    whose = {"job": "sidecar-hosts", "instance": instance}
    return {
        series("up", **whose): f"1x9 0x{LONG_OPEN}",
        series("sidecar_commands_active", **whose, family="make", state="silent"): f"1x5 {active}x3 stale",
        series("sidecar_commands_active", **whose, family="make", state="running"): "0x9 stale",
    }


def _about_alerting() -> list[Case]:
    idle = {"instance": "10.0.0.8:9464"}
    down = Firing(
        {"job": "sidecar-hosts", "instance": "10.0.0.7:9464", "severity": "ticket"},
        "10.0.0.7:9464 (sidecar-hosts) cannot be scraped",
        "A Collector or a daemon's /metrics does not answer Prometheus.",
    )
    absent = Firing(
        {"severity": "ticket"},
        "No sidecar is known to Prometheus",
        "No target with job=~sidecar.* is scraped, and no daemon has sent anything for 1h. "
        "No other alert here can fire.",
    )
    watchdog = Firing(
        {"severity": "none"},
        "Alerting works",
        "Fires always. To be sent to something that raises an alarm when it stops.",
    )
    return [
        Case(
            "TargetDown",
            "two minutes long; another job's is no matter",
            {
                series("up", job="sidecar-hosts", instance="10.0.0.7:9464"): "1x4 0x9 1x10",
                series("up", job="sidecar-hosts", instance="10.0.0.8:9464"): "1x30",
                series("up", job="node", instance="10.0.0.7:9100"): "0x30",
            },
            ((240, ()), (270, (down,)), (420, (down,)), (450, ())),
        ),
        Case(
            "TargetDown",
            "a Collector, as its scrape job names it",
            {series("up", job="sidecar", instance="gw-1:8889", collector="gw-1:8889"): "0x9 1x10"},
            (
                (90, ()),
                (
                    120,
                    (
                        Firing(
                            {"job": "sidecar", "instance": "gw-1:8889", "collector": "gw-1:8889", "severity": "ticket"},
                            "gw-1:8889 (sidecar) cannot be scraped",
                            down.description,
                        ),
                    ),
                ),
                (300, ()),
            ),
        ),
        Case(
            "TargetDown",
            "a daemon that is scraped itself: with a command; idle when it ended, which is known for an hour",
            {
                **_scraped_itself("10.0.0.7:9464", "1"),
                **_scraped_itself("10.0.0.8:9464", "0"),
            },
            (
                (390, ()),
                (420, (down,)),
                (3870, (down,)),
                # Forgotten at 3,870 s; two minutes later it is one that cannot be scraped.
                (3990, (down,)),
                (4020, (down, replace(down, labels=down.labels | idle, summary=down.summary.replace(".7:", ".8:")))),
            ),
        ),
        Case(
            "Absent",
            "nothing at all",
            {series("up", job="node", instance="10.0.0.7:9100"): "1x30"},
            ((270, ()), (300, (absent,))),
        ),
        Case(
            "Absent",
            "a target that is down is known; it is found again",
            {series("up", job="sidecar", instance="10.0.0.7:9464"): "_x30 0x30"},
            ((870, (absent,)), (900, ()), (1500, ())),
        ),
        Case(
            "Absent",
            "what was pushed an hour ago",
            {series("sidecar_daemon_loop_timestamp_seconds", **host()): "0+30x10"},
            ((3600, ()), (4200, ()), (4260, (absent,))),
        ),
        Case("Watchdog", "always", {}, ((0, (watchdog,)), (600, (watchdog,)))),
    ]


CASES = [*_dropped(), *_spool(), *_burns(), *_about_alerting()]
