"""What `sidecar doctor` asks of everything but the agents: this installation, the daemon, the way out, the evidence.

Nothing is started that stays, and nothing is changed.
"""

import os
import subprocess
import sys
from collections.abc import Mapping, Sequence

from sidecar import __version__, rendezvous
from sidecar.agents.check_endpoints import ANSWER_S, endpoints
from sidecar.agents.checkup import NOTE, OK, PROBLEM, Check, Question
from sidecar.agents.places import Places
from sidecar.config import inspect_settings, unknown_variables
from sidecar.core.errors import DaemonUnavailable
from sidecar.core.values import counted, printable
from sidecar.daemon import client, elsewhere
from sidecar.telemetry.metrics_page import unserved

_PROBE_EXIT = 7


def questions(places: Places) -> list[Question]:
    environ = places.environ
    return [
        ("installation", lambda: _installation(places)),
        ("configuration", lambda: _configuration(environ)),
        ("daemon", lambda: _daemon(environ)),
        ("endpoint", lambda: endpoints(environ)),
        ("evidence", _evidence),
    ]


def _installation(places: Places) -> Sequence[Check]:
    """Does `sidecar-sh` run a command? It is asked for the one that is not supervised: no daemon comes of it."""
    program = places.sidecar_sh
    ended = subprocess.run(  # noqa: S603 - our own program
        [program, "-c", f"exit {_PROBE_EXIT}"],
        env={**places.environ, "SIDECAR_ACTIVE": "1"},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=ANSWER_S * 2,
        check=False,
    )
    version = f"sidecar {__version__}, Python {sys.version.split()[0]}, {sys.platform}"
    if ended.returncode != _PROBE_EXIT:
        said = printable(ended.stderr.decode("utf-8", "replace").strip().partition("\n")[0])
        text = f"{version}; {printable(program)} does not run commands: {said or f'exit status {ended.returncode}'}"
        return [Check("installation", PROBLEM, text, "install the sidecar again")]
    return [Check("installation", OK, f"{version}; {printable(program)} runs commands")]


def _configuration(environ: Mapping[str, str]) -> Sequence[Check]:
    resolved = inspect_settings({}, environ)
    mend = "see `sidecar config check`"
    checks = [Check("configuration", PROBLEM, printable(each), mend) for each in resolved.problems]
    checks += [
        Check("configuration", PROBLEM, f"{printable(name)}: no such option; it is ignored", f"unset {printable(name)}")
        for name in unknown_variables(environ)
    ]
    return checks or [Check("configuration", OK, "valid")]


def _daemon(environ: Mapping[str, str]) -> Sequence[Check]:
    configured = inspect_settings({}, environ).settings.socket
    path = rendezvous.socket_path(environ, configured)
    shown = printable(path)
    folder = os.path.dirname(path)
    if os.path.lexists(folder):
        try:
            rendezvous.private_folder(path, create=False)
        except DaemonUnavailable as error:
            return [
                Check("daemon", PROBLEM, printable(str(error)), "mend that folder, or set SIDECAR_SOCKET to another")
            ]
    elif not _can_be_made(folder):
        return [
            Check(
                "daemon",
                PROBLEM,
                f"{printable(folder)} cannot be made",
                "set SIDECAR_SOCKET to a path in a folder of yours",
            )
        ]
    if not os.path.lexists(path):
        if (other := elsewhere.found(environ, configured)) != path:
            text = f"none runs on {shown}, but one is on {printable(other)}: XDG_RUNTIME_DIR is another there"
            return [Check("daemon", NOTE, text, "`ps`, `top` and the like ask that one; give both the same")]
        return [Check("daemon", OK, f"none runs; the first command starts one on {shown}")]
    try:
        answer = client.status(path, timeout_s=ANSWER_S)
    except DaemonUnavailable as error:
        if not _is_listening(path):
            return [Check("daemon", OK, f"none runs; the next command starts one on {shown}")]
        text = printable(str(error))
        return [Check("daemon", PROBLEM, text, "stop it: `sidecar daemon stop`; the next command starts another")]
    checks = [_of_running(answer, shown)]
    telemetry = answer.get("telemetry") or {}
    if wrong := unserved(telemetry):
        text, mend = wrong
        checks.append(Check("daemon", PROBLEM, printable(text), printable(mend)))
    if problems := telemetry.get("problem_count", 0):
        text = f"its telemetry has had {counted(problems, 'problem')} so far"
        checks.append(Check("daemon", NOTE, text, "`sidecar daemon status --json` has the last ones"))
    return checks


def _of_running(answer: Mapping[str, object], shown: str) -> Check:
    version, pid = printable(str(answer.get("version"))), answer.get("pid")
    if version != __version__:
        text = f"pid {pid} on {shown} is of version {version}, this program of {__version__}"
        return Check("daemon", PROBLEM, text, "`sidecar daemon stop`; the next command starts the new one")
    return Check("daemon", OK, f"pid {pid} answers on {shown}, version {version}")


def _is_listening(path: str) -> bool:
    try:
        rendezvous.connect(path).close()
    except (OSError, DaemonUnavailable) as error:
        return not isinstance(error, (FileNotFoundError, ConnectionRefusedError))
    return True


def _can_be_made(folder: str) -> bool:
    while not os.path.lexists(folder):
        folder = os.path.dirname(folder)
    return os.path.isdir(folder) and os.access(folder, os.W_OK | os.X_OK)


def _evidence() -> Sequence[Check]:
    """Can a silent command be looked at? A child that sleeps is, as the supervisor would."""
    if not os.path.exists("/proc/self/stat"):
        return [Check("evidence", NOTE, "no /proc here: commands are supervised, and verdicts say little")]
    from collectors import Looker, observe
    from sidecar.core.verdict import judge

    sleeper = [sys.executable, "-ISc", "import time; time.sleep(30)"]
    child = subprocess.Popen(sleeper, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL)  # noqa: S603 - our own
    try:
        verdict = judge(*observe(Looker(child.pid)))
    finally:
        child.kill()
        child.wait()
    if verdict.unseen:
        rules = _rules()
        return [
            Check("evidence", PROBLEM, f"not seen{rules}: {what}", mend) for what, mend in map(_parted, verdict.unseen)
        ]
    return [Check("evidence", OK, f"everything can be read that says why a command is silent{_rules()}")]


def _parted(unseen: str) -> tuple[str, str]:
    what, _, mend = unseen.partition(": ")
    return printable(what), printable(mend)


def _rules() -> str:
    """What the kernel's rules are, in brackets: Yama's, and hidepid of /proc."""
    found = []
    try:
        with open("/proc/sys/kernel/yama/ptrace_scope", encoding="ascii") as file:
            found.append(f"kernel.yama.ptrace_scope {file.read().strip()}")
    except (OSError, ValueError):
        pass
    try:
        with open("/proc/self/mounts", encoding="utf-8", errors="replace") as file:
            options = next((line.split()[3] for line in file if line.split()[1:3] == ["/proc", "proc"]), "")
        found += [each for each in options.split(",") if each.startswith("hidepid")]
    except (OSError, IndexError):
        pass
    return f" ({', '.join(found)})" if found else ""
