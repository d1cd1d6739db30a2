"""What `sidecar doctor` asks of the way out: does anybody listen where telemetry goes?

Where that is, the daemon that runs knows: it keeps to what it was started with, and the shell that the doctor is asked
from may have another environment. So it is asked, also for what became of its last tries; the shell's own endpoint
comes beside it where it is another one. A connection is made and closed; nothing is sent. What is shown of an endpoint
is without user, password, query and headers.
"""

import socket
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from urllib.parse import urlsplit

from sidecar.agents.checkup import NOTE, OK, PROBLEM, Check
from sidecar.config import inspect_settings
from sidecar.core.duration import format_duration
from sidecar.core.errors import DaemonSilent, DaemonUnavailable
from sidecar.core.values import printable
from sidecar.daemon import client, elsewhere

ANSWER_S = 3.0

_Try = tuple[str, str, int]
"""(signal, what it got, ms ago)"""


@dataclass
class _Place:
    """Where some signals go. `endpoint` is what to connect to; `failed` are those whose last try was not taken."""

    endpoint: str
    signals: list[str] = field(default_factory=list)
    failed: list[_Try] = field(default_factory=list)


def endpoints(environ: Mapping[str, str]) -> Sequence[Check]:
    try:
        daemon: Mapping[str, Any] | None = _of_daemon(environ)
    except DaemonSilent:
        unsaid = Check("endpoint", NOTE, "the daemon that runs does not answer, and so does not say where it sends to")
        own, _ = _own(environ)
        return [unsaid, *(_of_another(shown, place) for shown, place in own.items())]
    if daemon is None:
        return _of_shell(environ)
    places = _places(daemon)
    checks = [_of_place(shown, place) for shown, place in places.items()]
    if not places:
        checks.append(Check("endpoint", NOTE, "the daemon that runs exports no signal"))
    own, _ = _own(environ)
    return [*checks, *(_of_another(shown, place) for shown, place in own.items() if shown not in places)]


def _of_daemon(environ: Mapping[str, str]) -> Mapping[str, Any] | None:
    """What the daemon's telemetry says of itself; None where no daemon runs. Raises DaemonSilent."""
    path = elsewhere.found(environ, inspect_settings({}, environ).settings.socket)
    try:
        return client.status(path, timeout_s=ANSWER_S).get("telemetry") or {}
    except DaemonSilent:
        raise
    except DaemonUnavailable:
        return None


def _places(telemetry: Mapping[str, Any]) -> dict[str, _Place]:
    places: dict[str, _Place] = {}
    for signal, said in (telemetry.get("signals") or {}).items():
        shown = str(said["endpoint"]).removesuffix(f"/v1/{signal}")
        place = places.setdefault(shown, _Place(said["endpoint"]))
        place.signals.append(signal)
        if said.get("problem"):
            place.failed.append((signal, said["problem"], said["tried_ms_ago"]))
    return places


def _of_place(shown: str, place: _Place) -> Check:
    what = f"the daemon sends {', '.join(place.signals)} to {printable(shown)}, which"
    failure = _failure(place.endpoint)
    tries = _tries([each for each in place.failed if each[1] != failure])
    if failure is not None:
        mend = (
            "start a Collector there; if it is the wrong place, set otlp_endpoint for the agents, and "
            "`sidecar daemon stop`: a command of theirs starts the next one"
        )
        text = f"{what} cannot be reached: {failure}; {tries or 'what is not taken waits in the spool'}"
        return Check("endpoint", PROBLEM, text, mend)
    if tries:
        mend = "`sidecar spool flush` tries again, and says what it gets; `sidecar spool status` has what waits"
        return Check("endpoint", PROBLEM, f"{what} takes connections; {tries}", mend)
    return Check("endpoint", OK, f"{what} takes connections")


def _tries(failed: Sequence[_Try]) -> str:
    """What the last tries got that failed: `at the last try: HTTP status 503 (traces, logs, 3s ago)`."""
    by_problem: dict[str, tuple[list[str], int]] = {}
    for signal, problem, ms_ago in failed:
        signals, latest = by_problem.get(problem, ([], ms_ago))
        by_problem[problem] = ([*signals, signal], min(latest, ms_ago))
    found = [
        f"{printable(problem)} ({', '.join(signals)}, {format_duration(ms // 1000 * 1_000_000_000)} ago)"
        for problem, (signals, ms) in by_problem.items()
    ]
    return f"at the last try: {'; '.join(found)}" if found else ""


def _of_another(shown: str, place: _Place) -> Check:
    failure = _failure(place.endpoint)
    state = "takes connections" if failure is None else f"cannot be reached: {failure}"
    what = f"a daemon started from this shell would send {', '.join(place.signals)} to {printable(shown)}"
    return Check("endpoint", NOTE, f"{what}, which {state}")


def _of_shell(environ: Mapping[str, str]) -> list[Check]:
    """Without a daemon: where the next one would send to."""
    from sidecar.telemetry.targets import sdk_disabled

    if sdk_disabled(environ):
        return [Check("endpoint", NOTE, "OTEL_SDK_DISABLED: no telemetry is sent")]
    places, problems = _own(environ)
    mend = "see docs/telemetry.md for the OTEL_EXPORTER_OTLP_* variables"
    checks = [Check("endpoint", PROBLEM, printable(each), mend) for each in dict.fromkeys(problems)]
    for shown, place in places.items():
        what = f"{printable(shown)} ({', '.join(place.signals)})"
        failure = _failure(place.endpoint)
        if failure is None:
            checks.append(Check("endpoint", OK, f"{what} takes connections"))
        else:
            text = f"{what} cannot be reached: {failure}; what is not taken waits in the spool"
            checks.append(
                Check("endpoint", PROBLEM, text, "start a Collector there, or set otlp_endpoint to where one is")
            )
    return checks or [Check("endpoint", NOTE, "no signal is exported (OTEL_*_EXPORTER=none)")]


def _own(environ: Mapping[str, str]) -> tuple[dict[str, _Place], list[str]]:
    """Where a daemon would send to that was started with this environment; and what is wrong in that."""
    from sidecar.telemetry.configured import telemetry_settings
    from sidecar.telemetry.targets import SIGNALS, target_of

    settings = replace(telemetry_settings(inspect_settings({}, environ), "daemon"), environ=environ)
    problems: list[str] = []
    places: dict[str, _Place] = {}
    for signal in SIGNALS:
        target = target_of(signal, settings, problems)
        if target is not None:
            shown = target.shown.removesuffix(f"/v1/{signal}")
            places.setdefault(shown, _Place(target.endpoint)).signals.append(signal)
    return places, problems


def _failure(endpoint: str) -> str | None:
    """Why no connection can be made; None where one can."""
    try:
        if endpoint.startswith("unix:"):
            with socket.socket(socket.AF_UNIX) as sock:
                sock.settimeout(ANSWER_S)
                sock.connect(endpoint.removeprefix("unix:").removeprefix("//"))
            return None
        parts = urlsplit(endpoint)
        port = parts.port or (443 if parts.scheme == "https" else 80)
        socket.create_connection((parts.hostname or "", port), timeout=ANSWER_S).close()
    except (OSError, UnicodeError) as error:
        return printable(getattr(error, "strerror", None) or str(error) or type(error).__name__)
    return None
