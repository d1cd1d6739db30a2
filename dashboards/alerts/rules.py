"""The rules. An expression is PromQL for Prometheus 2.42 (Debian 12) and later.

Traps that are walked around here:

- A series that was pushed lives for five minutes after its command has ended, and one that a Collector shows for
  one: `timestamp()` tells how old the sample is, and what is old counts for nothing.
- `for` over `increase(x[w])` waits on top of a window, and never fires where it is longer: there it is 0.
- A counter that first appears with 1 has no `increase`: the daemon's begin with 0, and show it for 30 s.
- `absent(x == 1)` is also true where x is 2: `absent` gets a bare selector.
- `and` and `unless` without `on` match on all labels, and so on none between two metrics.
- 0/0 is NaN, which no comparison is true of: a share is compared by multiplication, or of enough commands only.
- A label that changes (a verdict, evidence, a value) makes a new alert, whose `for` begins again: in annotations only.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dashboards.alerts.parameters import BAD_OUTCOMES, duration
from sidecar.core.verdict_names import MAY_BE_HUNG, NEEDS_SOMEONE

if TYPE_CHECKING:
    from collections.abc import Iterator

    from dashboards.alerts.parameters import Parameters

PAGE, TICKET, NONE = "page", "ticket", "none"

_HOST = "job, instance, host_name"
# The Collector by way of which a series came, where the scrape job says so: docs/collector.md.
_COLLECTOR = "collector"
_COMMAND = f"{_HOST}, family, trace_id, session"
# By way of a Collector a host has its name; what is scraped itself has only its address.
_MACHINE = "{{ or $labels.host_name $labels.instance }}"
_LONG = "{{ $value | humanizeDuration }}"
# An increase is extrapolated, and so hardly ever a whole number.
_COUNT = "{{ printf `%.0f` $value }}"
_WHOSE = "Trace {{ $labels.trace_id }}, session {{ or $labels.session `unknown` }}, instance {{ $labels.instance }}"


@dataclass(frozen=True, slots=True)
class Alert:
    """One rule. `labels` come beside `severity`; `for_s` 0: at once."""

    name: str
    severity: str
    expr: str
    summary: str
    description: str
    for_s: int = 0
    labels: dict[str, str] = field(default_factory=dict)


def alerts(p: Parameters) -> list[Alert]:
    """All of them, in the order of the file: what another one inhibits comes before that one.

    Prometheus evaluates them, and tells Alertmanager of each, in this order. What ends both, as the end of a hung
    command does, so ends the inhibited one first. The other way round Alertmanager may find it firing, and nothing
    that holds it back, and send it.
    """
    return [*_commands(p), *_producers(p), *_telemetry(p), *_burns(p), *_about_alerting(p)]


def _commands(p: Parameters) -> Iterator[Alert]:
    suspect = "sidecar_suspect_output_age_seconds"
    overdue = "sidecar_overdue_output_age_seconds"
    hung, stuck = _of(suspect, p, MAY_BE_HUNG), _of(suspect, p, NEEDS_SOMEONE)
    yield Alert(
        "CommandSilentTooLong",
        TICKET,
        f"max by ({_COMMAND}) (\n{_fresh(_of(overdue, p), p)}\n) > {p.silent_age_s}",
        f"{{{{ $labels.family }}}} on {_MACHINE} has no timeout and has been silent for {_LONG}",
        f"Nothing says that it hangs, and nothing will end it. Verdict: {_verdict(_of(overdue, p))}. {_WHOSE}.",
        p.silent_for_s,
    )
    yield Alert(
        "CommandAwaitingInput",
        TICKET,
        f"max by ({_COMMAND}) (\n{_fresh(stuck, p)}\n) > {p.awaiting_age_s}",
        f"{{{{ $labels.family }}}} on {_MACHINE} has waited for someone for {_LONG}",
        f"Verdict: {_verdict(stuck)}. {_WHOSE}.",
        p.awaiting_for_s,
    )
    yield Alert(
        "CommandHung",
        PAGE,
        f"max by ({_COMMAND}) (\n{_fresh(hung, p)}\n) > {p.hung_age_s}",
        f"{{{{ $labels.family }}}} on {_MACHINE} may be hung: no output for {_LONG}",
        f"Verdict: {_verdict(hung)}. {_WHOSE}.",
        p.hung_for_s,
    )
    yield Alert(
        "FleetHangRatioHigh",
        PAGE,
        f"(\n  count by (job) (\n{_fresh(hung, p)}\n  )\n"
        f"  + on (job) sum by (job) (sidecar_suspect_hidden{{{p.selector}}})\n)\n"
        f"/ on (job) (sum by (job) (sidecar_commands_active{{{p.selector}}}) >= {p.fleet_least})\n> {p.fleet_share}",
        "{{ $value | humanizePercentage }} of the commands of {{ $labels.job }} may be hung",
        "Something that they share is likely to be down. The longest silent: "
        # Those that wait for someone have no part in it.
        + _each(f"topk(3, {hung.removesuffix('}')},job=%q}})", "$labels.job"),
        p.fleet_for_s,
    )
    yield Alert(
        "CommandLost",
        TICKET,
        f"sum by ({_HOST}, family) (\n"
        f"  increase(sidecar_commands_lost_total{{{p.selector}}}[{duration(p.lost_window_s)}])\n) > 0",
        f"The supervisor of {{{{ $labels.family }}}} on {_MACHINE} was killed",
        f"In the last {duration(p.lost_window_s)}, on instance {{{{ $labels.instance }}}}. Its command dies with it, "
        "and nobody knows how far it was; what the command had started may run on. The latest: "
        + _listed(
            "sort(time() - sidecar_lost_timestamp_seconds{instance=%q,family=%q})",
            "$labels.instance $labels.family",
            "{{ .Value | humanizeDuration }} ago, trace {{ .Labels.trace_id }}, "
            "session {{ or .Labels.session `unknown` }}",
        ),
    )
    delay = "sidecar_heartbeat_delay_seconds"
    yield Alert(
        "HeartbeatLost",
        TICKET,
        f"max by ({_HOST}) (\n{_fresh(_of(delay, p), p)}\n) > {p.heartbeat_late_s}",
        f"A heartbeat from {_MACHINE} is overdue by {_LONG}",
        "The command's supervisor is stopped or stuck (instance {{ $labels.instance }}): what is said of the command "
        "is old, and no timeout will end it. Overdue there: "
        + _each(f"sort_desc({delay}{{instance=%q}})", "$labels.instance"),
        p.heartbeat_for_s,
    )


def _producers(p: Parameters) -> Iterator[Alert]:
    loop = f"sidecar_daemon_loop_timestamp_seconds{{{p.selector}}}"
    kept = duration(p.remembered_s)
    yield Alert(
        "TargetDown",
        TICKET,
        f"max by (job, instance, {_COLLECTOR}) (up{{{p.selector}}}) == 0\n"
        # A daemon that is scraped itself, and ended because nothing was left to do.
        f"unless on (job, instance)\n"
        f"sum by (job, instance) (last_over_time(sidecar_commands_active{{{p.selector}}}"
        f"[{duration(p.remembered_s)}])) == 0",
        "{{ $labels.instance }} ({{ $labels.job }}) cannot be scraped",
        "A Collector or a daemon's /metrics does not answer Prometheus.",
        p.down_for_s,
    )
    yield Alert(
        "ProducerDeadWithWorkInFlight",
        PAGE,
        f"max by ({_HOST}, {_COLLECTOR}) (\n  time() - last_over_time({loop}[{kept}])\n) > {p.dead_age_s}\n"
        f"and on (job, instance)\n"
        f"sum by (job, instance) (last_over_time(sidecar_commands_active{{{p.selector}}}[{kept}])) > 0\n"
        f"unless on (job, instance)\ntimestamp({loop}) > time() - {p.fresh_s}",
        f"Nothing from the daemon on {_MACHINE} for {_LONG}, and commands were running",
        "The machine, the daemon or the way from it is gone (instance {{ $labels.instance }}); for as long nobody "
        "watches those commands. Silent there then: "
        + _silent_there(kept)
        # TargetDown is held back meanwhile.
        + " Not to be scraped now: "
        + _listed(f"up{{{p.selector}}} == 0", "", "{{ .Labels.instance }} ({{ .Labels.job }})"),
    )
    yield Alert(
        "DaemonLoopStuck",
        TICKET,
        f"max by ({_HOST}) (\n  timestamp({loop})\n  - {loop}\n) > {p.stuck_age_s}",
        f"The daemon on {_MACHINE} has been stuck for {_LONG}",
        "It exports metrics, and reads no frames (instance {{ $labels.instance }}): every age and count from there is "
        "old. Silent there: " + _silent_there(),
        p.stuck_for_s,
    )


def _telemetry(p: Parameters) -> Iterator[Alert]:
    window = duration(p.dropped_window_s)
    full = f'{{__name__=~"otel_sdk_processor_(span|log)_processed_total",error_type="queue_full",{p.selector}}}'
    yield Alert(
        "TelemetryDropped",
        TICKET,
        f"sum by ({_HOST}, signal) (\n  increase(sidecar_spool_dropped_total{{{p.selector}}}[{window}])\n) > 0\n"
        f"or\nsum by ({_HOST}) (\n  increase({full}[{window}])\n) > 0\n"
        # Born with its first drop; whoever scrapes less often than every 30 s has not seen its 0. One that comes by
        # another Collector now is not new.
        f"or\nsum by ({_HOST}) (\n  {full}\n  unless ignoring ({_COLLECTOR})\n  {full} offset {window}\n) > 0",
        f"{_COUNT} records ({{{{ or $labels.signal `of a queue in memory` }}}}) of {_MACHINE} were dropped in {window}",
        "They are gone, and the traces and logs of then have gaps. A spool or a queue was full, or what takes them "
        "refuses them for good (instance {{ $labels.instance }}).",
    )
    yield Alert(
        "ExportBacklog",
        TICKET,
        f"sum by ({_HOST}, signal) (sidecar_spool_items{{{p.selector}}}) > {p.backlog_records}",
        f"{{{{ $value | humanize }}}} records ({{{{ $labels.signal }}}}) wait on {_MACHINE} to be sent",
        f"For more than {duration(p.backlog_for_s)}, on instance {{{{ $labels.instance }}}}: what takes them is down "
        "or refuses them. Nothing is lost yet; traces come late.",
        p.backlog_for_s,
    )
    yield Alert(
        "SpoolFilling",
        TICKET,
        f"sum by ({_HOST}) (sidecar_spool_bytes{{{p.selector}}}) > {int(p.spool_max_bytes * p.spool_share)}",
        f"The spool on {_MACHINE} holds {{{{ $value | humanize1024 }}}}B and fills up",
        f"That is more than {_percent(p.spool_share)} of what it may hold: what takes spans and log events is down or "
        "refuses them. When it is full, the oldest are dropped (instance {{ $labels.instance }}).",
        p.spool_for_s,
    )


def _burns(p: Parameters) -> Iterator[Alert]:
    count = "sidecar_command_duration_seconds_count"
    bad = f'outcome=~"{"|".join(BAD_OUTCOMES)}"'

    def ended(window_s: int, more: str = "") -> str:
        labels = ",".join(filter(None, (p.selector, more)))
        return f"sum by (job) (increase({count}{{{labels}}}[{duration(window_s)}]))"

    def most(by: str, shown: str, window_s: int) -> str:
        """The three that spend the most, by these labels."""
        query = f"topk(3, sum by ({by}) (increase({count}{{{bad},job=%q}}[{duration(window_s)}])) > 0)"
        return _listed(query, "$labels.job", f"{shown} ({{{{ printf `%.0f` .Value }}}})")

    for factor, long_s, short_s, severity in p.burn_windows:
        share = round(factor * (1 - p.objective), 9)
        pace = "faster than" if factor == 1 else f"more than {factor:g} times as fast as"
        yield Alert(
            "ErrorBudgetBurn",
            severity,
            f"{ended(long_s, bad)} > {share} * {ended(long_s)}\nand on (job)\n"
            f"{ended(short_s, bad)} > {share} * {ended(short_s)}\nand on (job)\n"
            f"{ended(long_s, bad)} >= {p.burn_least_bad}",
            f"{_COUNT} commands of {{{{ $labels.job }}}} were lost or stopped by a limit of time in {duration(long_s)}",
            f"More than {_percent(share)} of those that ended, in the last {duration(short_s)} too: "
            f"the error budget ({_percent(1 - p.objective)}) goes {pace} it may. Most are of: "
            + most("family", "{{ .Labels.family }}", long_s)
            + " Most are on: "
            + most("host_name, instance", "{{ or .Labels.host_name .Labels.instance }}", long_s)
            + f" Traces: the exemplars of {count.removesuffix('_count')}_bucket.",
            labels={"window": duration(long_s)},
        )


def _about_alerting(p: Parameters) -> Iterator[Alert]:
    yield Alert(
        "Absent",
        TICKET,
        f"absent(up{{{p.selector}}})\nunless on ()\n"
        f"last_over_time(sidecar_daemon_loop_timestamp_seconds{{{p.selector}}}[{duration(p.remembered_s)}])",
        "No sidecar is known to Prometheus",
        f"No target with {p.selector.replace(chr(34), '')} is scraped, and no daemon has sent anything for "
        f"{duration(p.remembered_s)}. No other alert here can fire.",
        p.absent_for_s,
    )
    yield Alert(
        "Watchdog",
        NONE,
        "vector(1)",
        "Alerting works",
        "Fires always. To be sent to something that raises an alarm when it stops.",
    )


def _of(metric: str, p: Parameters, verdicts: tuple[str, ...] = ()) -> str:
    verdict = f',verdict=~"{"|".join(verdicts)}"' if verdicts else ""
    return f"{metric}{{{p.selector}{verdict}}}"


def _fresh(series: str, p: Parameters) -> str:
    return f"  {series}\n  and\n  timestamp({series}) > time() - {p.fresh_s}"


def _verdict(series: str) -> str:
    """A template: the verdict, and the evidence, of the one of these series that the alert is about.

    The oldest output of them: a series whose verdict is over may still be there for a minute.
    """
    selector = f"{series.removesuffix('}')},trace_id=%q,family=%q,instance=%q}}"
    asked = f"printf `topk(1, {selector})` $labels.trace_id $labels.family $labels.instance | query"
    shown = "{{ .Labels.verdict }}{{ with .Labels.evidence }} ({{ . }}){{ end }}"
    return f"{{{{ with {asked} }}}}{{{{ with . | first }}}}{shown}{{{{ end }}}}{{{{ end }}}}"


def _silent_there(remembered: str = "") -> str:
    """A template: the commands of the alert's instance that a metric names, each once; or did within that time."""
    named = '{__name__=~"sidecar_(suspect|overdue)_output_age_seconds",instance=%q}'
    if remembered:
        named = f"last_over_time({named}[{remembered}])"
    return _each(f"sort_desc(max by (family, host_name, instance, trace_id) ({named}))", "$labels.instance")


def _each(query: str, value: str) -> str:
    """A template: family, machine, age and trace of each series of a query; `%q` in it is the label `value`."""
    return _listed(
        query,
        value,
        "{{ .Labels.family }} on {{ or .Labels.host_name .Labels.instance }} ({{ .Value | humanizeDuration }}, "
        "trace {{ .Labels.trace_id }})",
    )


def _listed(query: str, value: str, item: str) -> str:
    """A template, a sentence: `item` for each series of a query; `value` are the labels, one for each `%q` in it."""
    between = "{{ if $n }}; {{ end }}"
    return f"{{{{ range $n, $_ := printf `{query}` {value} | query }}}}{between}{item}{{{{ else }}}}none{{{{ end }}}}."


def _percent(share: float) -> str:
    """As it is written, with as many figures as it has: `2 %`, `28.8 %`, `0.72 %`."""
    return f"{share * 100:.8g} %"
