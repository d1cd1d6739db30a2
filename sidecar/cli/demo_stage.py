"""The demo's own place: a folder, an environment, a private daemon, the commands. All of it goes when it ends.

Nothing of the user is touched: socket, configuration, cache and state are in a temporary folder, no OTEL_* or
SIDECAR_* variable of the caller gets in, and the daemon is a child that is ended by its pid.
"""

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from types import TracebackType
from typing import Final, Self

from sidecar.core.duration import format_duration
from sidecar.core.errors import DaemonUnavailable, SidecarError
from sidecar.daemon import client

_READY_TIMEOUT_S: Final = 30.0
_STOP_TIMEOUT_S: Final = 8.0
# Should the demo itself be killed with SIGKILL, its daemon ends by itself after this long.
_IDLE_TIMEOUT: Final = "60s"
_ENDING_SIGNALS: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_DROPPED_PREFIXES: Final = ("SIDECAR_", "OTEL_", "XDG_")
_DROPPED: Final = ("TRACEPARENT", "TRACESTATE")
_XDG: Final = ("RUNTIME_DIR", "CONFIG_HOME", "CACHE_HOME", "STATE_HOME", "DATA_HOME")
# The folder that this package was found in comes last: an installed interpreter finds it by itself.
_START: Final = "import sys; sys.path.append({root!r}); from sidecar.launch import main; sys.exit(main())"


def stage_environment(
    environ: Mapping[str, str], folder: str, endpoint: str, interval_ns: int, metric_interval_ns: int
) -> dict[str, str]:
    """What daemon and supervisors of the demo get: the caller's environment without what would lead elsewhere.

    Proxy variables go too: an exporter would send even 127.0.0.1 through them.
    """
    kept = {
        name: value
        for name, value in environ.items()
        if not name.startswith(_DROPPED_PREFIXES)
        and name not in _DROPPED
        and not name.lower().endswith("_proxy")
    }
    return kept | {
        "SIDECAR_SOCKET": os.path.join(folder, "run", "sidecar.sock"),
        "SIDECAR_HEARTBEAT_INTERVAL": format_duration(interval_ns),
        "SIDECAR_METRIC_EXPORT_INTERVAL": format_duration(metric_interval_ns),
        "SIDECAR_OTLP_ENDPOINT": endpoint,
        "SIDECAR_OTLP_PROTOCOL": "http/protobuf",
        "SIDECAR_DAEMON_IDLE_TIMEOUT": _IDLE_TIMEOUT,
        "SIDECAR_INLINE": "false",
        **{f"XDG_{name}": os.path.join(folder, name.lower()) for name in _XDG},
    }


def own_argv() -> list[str]:
    """The sidecar as this process was started: by the installed script, else the module."""
    script = os.path.abspath(sys.argv[0])
    return [script] if os.path.basename(script) == "sidecar" and os.access(script, os.X_OK) else module_argv()


def module_argv() -> list[str]:
    """This very package in a new interpreter. -P: a `sidecar` in the working folder is not taken for it."""
    root = os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__))))
    return [sys.executable, "-P", "-c", _START.format(root=root)]


class Stage:
    """A context manager, for the main thread: `start_daemon()`, then `start(...)` for each command; leaving it ends
    and removes all. `sidecar_argv` is how to start the sidecar for the commands.
    """

    def __init__(self, sidecar_argv: Sequence[str]) -> None:
        self._sidecar_argv = list(sidecar_argv)
        self._children: list[subprocess.Popen[bytes]] = []
        self._daemon: subprocess.Popen[bytes] | None = None
        self._folder = ""
        self._environ: dict[str, str] = {}

    def __enter__(self) -> Self:
        self._folder = tempfile.mkdtemp(prefix="sidecar-demo-")
        os.mkdir(os.path.join(self._folder, "run"), 0o700)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # A second Ctrl-C must not leave half of it behind; all of this is bounded in time.
        before = {number: signal.signal(number, signal.SIG_IGN) for number in _ENDING_SIGNALS}
        try:
            # The commands first: a supervisor that lost its daemon would start another.
            _end(self._children)
            if self._daemon is not None:
                _end([self._daemon])
            shutil.rmtree(self._folder, ignore_errors=True)
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    @property
    def socket_path(self) -> str:
        return self._environ["SIDECAR_SOCKET"]

    def start_daemon(self, endpoint: str, interval_ns: int, metric_interval_ns: int) -> int:
        """Start the private daemon and wait until it answers. Returns its pid.

        Raises SidecarError with the last line that it printed, if it ends or does not answer in time.
        """
        self._environ = stage_environment(os.environ, self._folder, endpoint, interval_ns, metric_interval_ns)
        log_path = os.path.join(self._folder, "daemon.out")
        with open(log_path, "wb") as log:
            self._daemon = subprocess.Popen(  # noqa: S603 - our own interpreter and package
                [*module_argv(), "daemon", "run"],
                env=self._environ,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                # Ctrl-C is for the demo, which then ends its children in order.
                start_new_session=True,
            )
        deadline_s = time.monotonic() + _READY_TIMEOUT_S
        while time.monotonic() < deadline_s and self._daemon.poll() is None:
            try:
                client.status(self.socket_path, timeout_s=_READY_TIMEOUT_S)
            except DaemonUnavailable:
                time.sleep(0.05)
                continue
            return self._daemon.pid
        raise SidecarError(f"the demo's daemon did not come up: {_last_line(log_path)}")

    def start(self, options: Sequence[str], command: Sequence[str], name: str, traceparent: str) -> "Running":
        """`sidecar run OPTIONS -- COMMAND`, its output into a file of the stage."""
        output_path = os.path.join(self._folder, f"{name}.out")
        with open(output_path, "wb") as output:
            child = subprocess.Popen(  # noqa: S603 - our own script, and the demo's fixed commands
                [*self._sidecar_argv, "run", *options, "--", *command],
                env=self._environ | {"TRACEPARENT": traceparent},
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                start_new_session=True,
            )
        self._children.append(child)
        return Running(child, output_path)


class Running:
    """A supervised command of the demo."""

    def __init__(self, child: "subprocess.Popen[bytes]", output_path: str) -> None:
        self._child = child
        self._output_path = output_path

    def exit_code(self) -> int | None:
        """None while it runs; negative = died by that signal."""
        return self._child.poll()

    def output(self) -> bytes:
        """All that it wrote so far, as its caller got it."""
        with open(self._output_path, "rb") as stream:
            return stream.read()


def _end(children: "Sequence[subprocess.Popen[bytes]]") -> None:
    for child in children:
        child.terminate()
    deadline_s = time.monotonic() + _STOP_TIMEOUT_S
    for child in children:
        try:
            child.wait(max(0.0, deadline_s - time.monotonic()))
        except subprocess.TimeoutExpired:
            child.kill()
            child.wait()


def _last_line(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as stream:
        lines = stream.read().strip().splitlines()
    return lines[-1] if lines else "it said nothing"
