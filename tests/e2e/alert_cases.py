"""What each alert must do, as data: series, and at which moments what fires, word for word.

Times are in seconds since the first sample. A series is written as promtool reads it: `0+30x20` is 0 and twenty more,
30 apart; `1x3` is 1 and three more; `_` no sample. One that ends without a stale marker was pushed: it lives on for
five minutes.
"""

from dataclasses import dataclass, replace

STEP_S = 30
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
OTHER_TRACE = "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa"
LONG_OPEN = 400
"""Samples of what goes on for longer than any test looks: 200 minutes."""


@dataclass(frozen=True, slots=True)
class Firing:
    labels: dict[str, str]
    summary: str
    description: str


@dataclass(frozen=True, slots=True)
class Case:
    """`expect` is (when, what fires then). With `window` only that rule of several of the same name is asked."""

    alert: str
    name: str
    series: dict[str, str]
    expect: tuple[tuple[int, tuple[Firing, ...]], ...]
    step_s: int = STEP_S
    window: str = ""


def series(metric: str, **labels: str) -> str:
    return f"{metric}{{{','.join(f'{name}={value!r}' for name, value in labels.items())}}}".replace("'", '"')


def host(number: int = 1, job: str = "sidecar") -> dict[str, str]:
    """The labels of one daemon, as they are by way of a Collector."""
    return {"job": job, "instance": f"i-{number}", "host_name": f"build-{number}"}


def command(family: str, trace_id: str = TRACE, session: str = "s-42", number: int = 1) -> dict[str, str]:
    return {**host(number), "family": family, "trace_id": trace_id, "session": session}


def listed(*items: str) -> str:
    """As a description lists what it has queried."""
    return f"{'; '.join(items) or 'none'}."


def _ages() -> list[Case]:
    """The three alerts on the age of a command's last output: each above a threshold, for a minute."""
    suspect, overdue = "sidecar_suspect_output_age_seconds", "sidecar_overdue_output_age_seconds"
    hung = ("{0} on build-1 may be hung: no output for {1}", "Verdict: {2}. {3}.")
    awaiting = ("{0} on build-1 has waited for someone for {1}", "Verdict: {2}. {3}.")
    silent = (
        "{0} on build-1 has no timeout and has been silent for {1}",
        "Nothing says that it hangs, and nothing will end it. Verdict: {2}. {3}.",
    )
    cases = []
    for alert, severity, metric, verdict, threshold, age, texts in (
        ("CommandHung", "page", suspect, "deadlock_suspected", 180, "3m 1s", hung),
        ("CommandAwaitingInput", "ticket", suspect, "awaiting_input", 120, "2m 1s", awaiting),
        ("CommandSilentTooLong", "ticket", overdue, "event_idle", 1800, "30m 1s", silent),
    ):

        def firing(
            shown: str,
            trace_id: str = TRACE,
            session: str = "s-42",
            verdict: str = verdict,
            severity: str = severity,
            texts: tuple[str, str] = texts,
        ) -> Firing:
            whose = f"Trace {trace_id}, session {session or 'unknown'}, instance i-1"
            # A label without a value is no label.
            labels = {name: value for name, value in command("python", trace_id, session).items() if value}
            summary, description = (text.format("python", shown, verdict, whose) for text in texts)
            return Firing({**labels, "severity": severity}, summary, description)

        late = firing(age, OTHER_TRACE, "")
        later = age.replace(" 1s", " 31s")
        cases += [
            Case(
                alert,
                "one second too long, and as long as may be",
                {
                    series(metric, verdict=verdict, **command("python")): f"{threshold}x10",
                    series(metric, verdict=verdict, evidence="", **command("python", OTHER_TRACE, "")): (
                        f"{threshold + 1}x10"
                    ),
                },
                # The last sample is at 300 s: what was pushed says something for a minute, not for five.
                ((0, ()), (30, ()), (60, (late,)), (300, (late,)), (330, (late,)), (360, ()), (420, ())),
            ),
        ]
        if metric == suspect:
            other = {"CommandHung": "frozen", "CommandAwaitingInput": "stopped"}[alert]
            foreign = {"CommandHung": "awaiting_input", "CommandAwaitingInput": "deadlock_suspected"}[alert]
            cases += [
                Case(
                    alert,
                    "a verdict that changes does not begin anew, nor does evidence; the newest is told",
                    {
                        series(
                            metric, verdict=verdict, evidence="fact 1", **command("python")
                        ): f"{threshold + 1}x0 stale",
                        series(metric, verdict=verdict, evidence="fact 2", **command("python")): f"_ {threshold + 1}x3",
                        # The earlier ones are still on the Collector's page for a minute.
                        series(
                            metric, verdict=other, evidence="fact 3", **command("python")
                        ): f"_ _ {threshold + 31}x9",
                        # Another command of the same agent, in the same trace.
                        series(metric, verdict=foreign, evidence="not asked", **command("python")): "9000x10",
                        series(metric, verdict=verdict, evidence="of another", **command("perl")): f"{threshold}x10",
                    },
                    ((30, ()), (60, (firing(later, verdict=f"{other} (fact 3)"),))),
                ),
                Case(
                    alert,
                    "another verdict is another alert's",
                    {series(metric, verdict=foreign, **command("python")): "9000x10"},
                    ((120, ()), (300, ())),
                ),
            ]
    return cases


def _hung_as_it_happens() -> list[Case]:
    def firing(shown: str, number: int = 1, trace_id: str = TRACE) -> Firing:
        return Firing(
            {**command("npm", trace_id, number=number), "severity": "page"},
            f"npm on build-{number} may be hung: no output for {shown}",
            f"Verdict: network_peer_dead. Trace {trace_id}, session s-42, instance i-{number}.",
        )

    age = "sidecar_suspect_output_age_seconds"
    return [
        Case(
            "CommandHung",
            "not yet, fires, resolves when it writes again",
            {series(age, verdict="network_peer_dead", **command("npm")): "0+30x20 stale"},
            ((240, ()), (270, (firing("4m 30s"),)), (600, (firing("10m 0s"),)), (630, ())),
        ),
        Case(
            "CommandHung",
            "two daemons, one alert each",
            {
                series(age, verdict="network_peer_dead", **command("npm")): "200x10",
                series(age, verdict="network_peer_dead", **command("npm", OTHER_TRACE, number=2)): "300x10",
            },
            ((60, (firing("3m 20s"), firing("5m 0s", 2, OTHER_TRACE))),),
        ),
    ]


def _fleet() -> list[Case]:
    age, hidden, active = "sidecar_suspect_output_age_seconds", "sidecar_suspect_hidden", "sidecar_commands_active"

    def fleet(job: str, suspects: int, more: int, in_flight: int, length: str = "x30") -> dict[str, str]:
        made = {
            series(
                age, **host(1, job), family="curl", verdict="network_peer_dead", trace_id=f"t{n}"
            ): f"{n * 60}{length}"
            for n in range(1, suspects + 1)
        }
        made[series(hidden, **host(1, job))] = f"{more}x30"
        made[series(active, **host(1, job), family="curl", state="silent")] = f"{in_flight}x30"
        made[series(active, **host(1, job), family="curl", state="running")] = "0x30"
        return made

    def firing(job: str, share: str, worst: int) -> Firing:
        longest = listed(*(f"curl on build-1 ({n}m 0s, trace t{n})" for n in range(worst, worst - 3, -1)))
        return Firing(
            {"job": job, "severity": "page"},
            f"{share} of the commands of {job} may be hung",
            f"Something that they share is likely to be down. The longest silent: {longest}",
        )

    some, just = firing("sidecar-some", "30%", 3), firing("sidecar-just", "21%", 5)
    return [
        Case(
            "FleetHangRatioHigh",
            "a fifth may; of nine commands a share says nothing; 0/0",
            {
                **fleet("sidecar-some", 3, 0, 10, "x14"),
                **fleet("sidecar-just", 5, 16, 100),
                **fleet("sidecar-fifth", 3, 0, 15),
                **fleet("sidecar-nine", 3, 0, 9),
                **fleet("sidecar-idle", 0, 0, 0),
                # Longer than any that may be hung, and none of them.
                series(age, **host(1, "sidecar-just"), family="ssh", verdict="stopped", trace_id="s"): "9000x30",
                # They are silent, and wait for someone.
                **{
                    key.replace("network_peer_dead", "stopped"): value
                    for key, value in fleet("sidecar-x", 5, 0, 10).items()
                },
            },
            ((0, ()), (270, ()), (300, (some, just)), (450, (some, just)), (480, (just,)), (510, (just,))),
        )
    ]


def _lost() -> list[Case]:
    lost = Firing(
        {**host(), "family": "make", "severity": "ticket"},
        "The supervisor of make on build-1 was killed",
        "In the last 10m, on instance i-1. Its command dies with it, and nobody knows how far it was; what the command "
        "had started may run on. The latest: ",
    )
    total, named = "sidecar_commands_lost_total", "sidecar_lost_timestamp_seconds"

    def firing(*latest: tuple[str, str, str]) -> tuple[Firing, ...]:
        told = listed(*(f"{ago} ago, trace {trace_id}, session {session}" for ago, trace_id, session in latest))
        return (replace(lost, description=lost.description + told),)

    return [
        Case(
            "CommandLost",
            "the first one, which was born at 0; not those of before",
            {
                series(total, **host(), family="make"): "0x4 1x1 2x39",
                series(total, **host(), family="pytest"): "0x45",
                series(total, **host(2), family="make"): "7x45",
                series(named, **command("make")): "_x5 150x30",
                series(named, **command("make", OTHER_TRACE, "")): "_x7 205x40",
                # Lost before the window of the alert, or of no matter here.
                series(named, **command("pytest")): "100x40",
                series(named, **command("make", number=2)): "100x40",
            },
            (
                (120, ()),
                (150, firing(("0s", TRACE, "s-42"))),
                (210, firing(("5s", OTHER_TRACE, "unknown"), ("1m 0s", TRACE, "s-42"))),
                (690, firing(("8m 5s", OTHER_TRACE, "unknown"), ("9m 0s", TRACE, "s-42"))),
                (840, ()),
            ),
        )
    ]


def _heartbeats() -> list[Case]:
    delay = "sidecar_heartbeat_delay_seconds"

    def firing(number: int, shown: str, *overdue: tuple[str, str]) -> Firing:
        late_ones = listed(*(f"make on build-{number} ({late}, trace {trace_id})" for late, trace_id in overdue))
        return Firing(
            {**host(number), "severity": "ticket"},
            f"A heartbeat from build-{number} is overdue by {shown}",
            f"The command's supervisor is stopped or stuck (instance i-{number}): what is said of the command is old, "
            f"and no timeout will end it. Overdue there: {late_ones}",
        )

    return [
        Case(
            "HeartbeatLost",
            "one supervisor of several is stopped, and goes on again",
            {
                series(delay, **command("make")): "_x3 60+30x20 stale",
                # Another command on the same machine beats all the while.
                series("sidecar_heartbeats_total", **host(), family="npm", verdict="computing"): "0+3x40",
                series("sidecar_output_age_seconds", **host()): "0+30x40",
            },
            (
                (330, ()),
                (360, (firing(1, "5m 30s", ("5m 30s", TRACE)),)),
                (690, (firing(1, "11m 0s", ("11m 0s", TRACE)),)),
                (720, ()),
            ),
        ),
        Case(
            "HeartbeatLost",
            "240 s and 241 s; of two the later one is told first; too late for half a minute only; pushed",
            {
                series(delay, **command("make")): "240x10",
                series(delay, **command("make", number=2)): "241x10 stale",
                series(delay, **command("make", number=3)): "300x10 stale",
                series(delay, **command("make", OTHER_TRACE, number=3)): "360x10 stale",
                # A daemon that was stopped tells of what it has not read yet.
                series(delay, **command("make", number=4)): "600x1 stale",
                series(delay, **command("make", number=5)): "300x5",
            },
            (
                (30, ()),
                (
                    60,
                    (
                        firing(2, "4m 1s", ("4m 1s", TRACE)),
                        firing(3, "6m 0s", ("6m 0s", OTHER_TRACE), ("5m 0s", TRACE)),
                        firing(5, "5m 0s", ("5m 0s", TRACE)),
                    ),
                ),
                (
                    180,
                    (
                        firing(2, "4m 1s", ("4m 1s", TRACE)),
                        firing(3, "6m 0s", ("6m 0s", OTHER_TRACE), ("5m 0s", TRACE)),
                        firing(5, "5m 0s", ("5m 0s", TRACE)),
                    ),
                ),
                # The last sample of the fifth is at 150 s.
                (
                    210,
                    (
                        firing(2, "4m 1s", ("4m 1s", TRACE)),
                        firing(3, "6m 0s", ("6m 0s", OTHER_TRACE), ("5m 0s", TRACE)),
                    ),
                ),
                (330, ()),
            ),
        ),
    ]


def _daemons() -> list[Case]:
    loop, active = "sidecar_daemon_loop_timestamp_seconds", "sidecar_commands_active"
    suspect = "sidecar_suspect_output_age_seconds"

    def dead(number: int, shown: str, suspects: str = "none.", **collector: str) -> Firing:
        down = listed(*(f"{address} (sidecar-gateways)" for address in collector.values()))
        return Firing(
            {**host(number), **collector, "severity": "page"},
            f"Nothing from the daemon on build-{number} for {shown}, and commands were running",
            f"The machine, the daemon or the way from it is gone (instance i-{number}); for as long nobody watches "
            f"those commands. Silent there then: {suspects} Not to be scraped now: {down}",
        )

    def stuck(number: int, shown: str, overdue: str = "none.") -> Firing:
        return Firing(
            {**host(number), "severity": "ticket"},
            f"The daemon on build-{number} has been stuck for {shown}",
            f"It exports metrics, and reads no frames (instance i-{number}): every age and count from there is old. "
            f"Silent there: {overdue}",
        )

    suspects = f"npm on build-1 (4m 0s, trace {TRACE})."
    overdue = f"make on build-2 (10m 0s, trace {TRACE})."
    return [
        Case(
            "ProducerDeadWithWorkInFlight",
            "with a command; not when idle, not when alive beside it, not when only stuck",
            {
                series(loop, **host()): "0+30x10",
                series(active, **host(), family="npm", state="silent"): "1x10",
                series(suspect, verdict="network_peer_dead", **command("npm")): "240x10",
                series(loop, **host(2)): "0+30x10",
                series(active, **host(2), family="npm", state="silent"): "1x5 0x4",
                series(loop, **host(3)): f"0+30x{LONG_OPEN}",
                series(active, **host(3), family="npm", state="silent"): f"1x{LONG_OPEN}",
                series(loop, **host(4)): "0x10",
                series(active, **host(4), family="npm", state="silent"): "1x10",
                # Its last turn was a second before its last sample.
                series(loop, **host(5)): "0+30x9 299",
                series(active, **host(5), family="npm", state="silent"): "1x10",
            },
            (
                (330, ()),
                (360, (dead(4, "6m 0s"),)),
                (420, (dead(4, "7m 0s"), dead(5, "2m 1s"))),
                (450, (dead(1, "2m 30s", suspects), dead(4, "7m 30s"), dead(5, "2m 31s"))),
                (3870, (dead(1, "59m 30s", suspects), dead(4, "1h 4m 30s"), dead(5, "59m 31s"))),
                (3930, ()),
            ),
        ),
        Case(
            "ProducerDeadWithWorkInFlight",
            "behind a Collector that is gone; one whose series are another's by then is alive",
            {
                series("up", job="sidecar-gateways", instance="gw-1:8889", collector="gw-1:8889"): f"1x9 0x{LONG_OPEN}",
                series("up", job="sidecar-gateways", instance="gw-2:8889", collector="gw-2:8889"): f"1x{LONG_OPEN}",
                series(loop, **host(), collector="gw-1:8889"): "0+30x9 stale",
                series(active, **host(), family="npm", state="silent", collector="gw-1:8889"): "1x9 stale",
                series(loop, **host(2), collector="gw-1:8889"): "0+30x9 stale",
                series(active, **host(2), family="npm", state="silent", collector="gw-1:8889"): "1x9 stale",
                series(loop, **host(2), collector="gw-2:8889"): "_x10 300+30x20 stale",
                series(active, **host(2), family="npm", state="silent", collector="gw-2:8889"): "_x10 1x20 stale",
            },
            (
                (390, ()),
                (420, (dead(1, "2m 30s", collector="gw-1:8889"),)),
                (900, (dead(1, "10m 30s", collector="gw-1:8889"),)),
            ),
        ),
        Case(
            "DaemonLoopStuck",
            "60 s and 61 s behind; one that ends; one that goes on again",
            {
                series(loop, **host(1)): "-60+30x20",
                series(loop, **host(2)): "-61+30x20",
                series("sidecar_overdue_output_age_seconds", verdict="unknown", **command("make", number=2)): "600x20",
                series(loop, **host(3)): "0+30x5",
                series(loop, **host(4)): "0+30x4 120x10 480+30x10",
            },
            (
                (30, ()),
                (60, (stuck(2, "1m 1s", overdue),)),
                (240, (stuck(2, "1m 1s", overdue),)),
                (270, (stuck(2, "1m 1s", overdue), stuck(4, "2m 30s"))),
                (450, (stuck(2, "1m 1s", overdue), stuck(4, "5m 30s"))),
                (480, (stuck(2, "1m 1s", overdue),)),
            ),
        ),
    ]


CASES = [*_ages(), *_hung_as_it_happens(), *_fleet(), *_lost(), *_heartbeats(), *_daemons()]
