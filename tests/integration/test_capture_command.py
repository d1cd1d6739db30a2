"""What of a command's words reaches telemetry: nothing, or with --capture-command one redacted line."""

import subprocess
import sys
from collections.abc import Iterator

import pytest

from sidecar.cli.demo_stage import Stage, module_argv
from sidecar.core.errors import DaemonUnavailable
from sidecar.daemon import client
from sidecar.testing.otlp import OtlpReceiver
from sidecar.testing.received import ReceivedSpan

SECOND_NS = 1_000_000_000
TRACEPARENT = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"
SECRET = "F4keF4ke" + "n0tR3al" + "Zq9Xw8Yv7Kj6"
SCRIPT = f"export DEPLOY_TOKEN={SECRET}; sleep 1.5; : an-ordinary-word"
REDACTED_LINE = "sh -c 'export DEPLOY_TOKEN=[REDACTED]; sleep 1.5; : an-ordinary-word'"


@pytest.fixture
def receiver() -> Iterator[OtlpReceiver]:
    with OtlpReceiver() as receiver:
        yield receiver


@pytest.fixture
def stage(receiver: OtlpReceiver) -> Iterator[Stage]:
    with Stage(module_argv()) as stage:
        stage.start_daemon(receiver.http_endpoint, SECOND_NS, SECOND_NS)
        yield stage
        try:
            list(client.request(stage.socket_path, "stop"))
        except DaemonUnavailable:
            pass


def is_command(span: ReceivedSpan) -> bool:
    return span.attributes.get("sidecar.span.role") == "command"


def everything(receiver: OtlpReceiver) -> str:
    """All that arrived, as one text to search."""
    return f"{receiver.spans}\n{receiver.logs}\n{receiver.metrics}"


def wait_for_all(receiver: OtlpReceiver, program: str) -> ReceivedSpan:
    """The command's span, with the log event of its end and its metrics there too."""
    span = receiver.wait_for_span(lambda span: is_command(span) and span.name == program)
    receiver.wait_for_log(lambda log: log.event_name == "sidecar.settled")
    receiver.wait_for_metric(lambda metric: metric.name == "sidecar.command.duration")
    return span


def test_with_the_flag_the_redacted_line_is_on_the_spans(stage: Stage, receiver: OtlpReceiver) -> None:
    stage.start(["--capture-command"], ["sh", "-c", SCRIPT], "captured", TRACEPARENT)
    span = wait_for_all(receiver, "sh")
    assert span.attributes["process.command_line"] == REDACTED_LINE
    started = next(span for span in receiver.spans if span.attributes.get("sidecar.span.role") == "started")
    assert started.attributes.get("process.command_line", REDACTED_LINE) == REDACTED_LINE
    assert SECRET[:8] not in everything(receiver)
    assert "an-ordinary-word" not in repr(receiver.metrics), "a label for each command line has no bound"


def test_without_the_flag_no_word_of_it_is_anywhere(stage: Stage, receiver: OtlpReceiver) -> None:
    stage.start([], ["sh", "-c", SCRIPT], "plain", TRACEPARENT)
    span = wait_for_all(receiver, "sh")
    assert "process.command_line" not in span.attributes
    for word in (SECRET[:8], "DEPLOY_TOKEN", "an-ordinary-word", "sleep 1.5"):
        assert word not in everything(receiver)


def test_a_command_that_cannot_be_started_has_its_line_too(stage: Stage, receiver: OtlpReceiver) -> None:
    stage.start(["--capture-command"], ["/no/such-program", "--token", SECRET], "missing", TRACEPARENT)
    span = receiver.wait_for_span(lambda span: span.name == "such-program")
    assert span.attributes["process.command_line"] == "/no/such-program --token '[REDACTED]'"
    assert SECRET[:8] not in everything(receiver)


def test_inline_too(stage: Stage, receiver: OtlpReceiver) -> None:
    stage.start(["--inline", "--capture-command"], ["sh", "-c", SCRIPT], "inline", TRACEPARENT)
    span = receiver.wait_for_span(is_command)
    assert span.attributes["process.command_line"] == REDACTED_LINE


def test_the_longest_identity_and_the_longest_line_fit_into_one_frame(stage: Stage, receiver: OtlpReceiver) -> None:
    wide = "\u00e9" * 128
    flags = ["--capture-command", "--tool-name", wide, "--tool-call-id", wide, "--session-id", wide]
    stage.start(flags, ["sh", "-c", "sleep 0.1; : " + "\U0001f600" * 20_000], "long", TRACEPARENT)
    span = receiver.wait_for_span(is_command)
    assert span.attributes["process.command_line"].startswith("sh -c 'sleep 0.1; : \U0001f600")
    assert span.attributes["process.command_line"].endswith("...")
    stage.start(flags, ["\U0001f600" * 2000, "x" * 20_000], "missing", TRACEPARENT)
    receiver.wait_for_span(lambda span: is_command(span) and span.name.startswith("\U0001f600"))


def test_redaction_is_loaded_only_where_it_is_asked_for() -> None:
    program = (
        "import sys\n"
        "from sidecar.core.trace_context import begin_span\n"
        "from sidecar.supervisor.options import parse_run\n"
        "from sidecar.supervisor.reports import Reports\n"
        "context = begin_span(None, None, bytes(range(24)))\n"
        "def loaded(*flags):\n"
        "    options = parse_run([*flags, '--', 'true'], {'SIDECAR_CAPTURE_COMMAND': 'false'})\n"
        "    Reports(options, context, io='pipe', started_ns=0, unix_ms=0).complete(options)\n"
        "    return 'sidecar.core.redaction' in sys.modules, 're' in sys.modules\n"
        "print(loaded(), loaded('--capture-command'))\n"
    )
    path = f"import sys; sys.path[:0] = {sys.path!r}\n"
    done = subprocess.run([sys.executable, "-IS", "-c", path + program], capture_output=True, text=True, check=True)
    assert done.stdout == "(False, False) (True, True)\n"
