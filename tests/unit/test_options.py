"""The fast path of `sidecar run`: what it reads, what it leaves to the full parser, and that both agree."""

import os
from unittest import mock

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from sidecar.cli.main import resolve_run
from sidecar.config import OPTIONS, RUN
from sidecar.core.errors import UsageError
from sidecar.supervisor.options import RunOptions, parse_run

SECOND_NS = 1_000_000_000
FLAGS = [option for option in OPTIONS if option.is_flag_of(RUN)]


def test_the_options_of_run_are_the_options_of_the_model():
    attributes = {option.attribute for option in OPTIONS if option.scope != "daemon"}
    assert set(RunOptions.__slots__) - {"argv"} == attributes - {
        "shell",  # is in argv
        "otlp_endpoint",  # these are read by the telemetry itself, inline
        "otlp_protocol",
        "otlp_headers",
        "metric_export_interval_ns",
        "spool_max_age_ns",
    }


def test_flags_in_both_forms():
    arguments = ["--timeout", "30s", "--kill-after=1s", "--tool-call-id=a=b", "--pty", "--inline", "--", "ls", "-l"]
    options = parse_run(arguments, {})
    assert options is not None
    assert options.argv == ["ls", "-l"]
    assert options.timeout_ns == 30 * SECOND_NS
    assert options.kill_after_ns == SECOND_NS
    assert options.tool_call_id == "a=b"
    assert options.pty is True
    assert options.inline is True


def test_defaults():
    options = parse_run(["true"], {})
    assert options is not None
    assert (options.timeout_ns, options.pty, options.inline, options.socket) == (None, None, False, None)
    assert (options.heartbeat_interval_ns, options.kill_after_ns) == (10 * SECOND_NS, 5 * SECOND_NS)
    assert options.daemon_environment == ()


@pytest.mark.parametrize(
    ("arguments", "argv"),
    [
        (["ls", "--timeout", "5s"], ["ls", "--timeout", "5s"]),
        (["--", "--timeout"], ["--timeout"]),
        (["--", "--", "x"], ["--", "x"]),
        (["-", "x"], ["-", "x"]),
        (["", "x"], ["", "x"]),
        (["-c", "echo $0"], ["/bin/sh", "-c", "echo $0"]),
        (["-c", "echo", "name", "-x"], ["/bin/sh", "-c", "echo", "name", "-x"]),
        (["-c", "--", "--", "-x"], ["/bin/sh", "-c", "--", "-x"]),
        (["-c", ""], ["/bin/sh", "-c", ""]),
        (["-c", "a", "--shell", "/bin/bash", "b"], ["/bin/bash", "-c", "a", "b"]),
        (["--pty", "--no-pty", "--timeout=1", "--timeout=0", "x"], ["x"]),
    ],
)
def test_where_the_command_begins(arguments, argv):
    fast = parse_run(arguments, {})
    assert fast is not None
    assert fast.argv == argv
    assert resolve(arguments, {}) == fast


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["--"],
        ["--help"],
        ["--timeout"],
        ["--timeout", "abc", "x"],
        ["--timeout", "--", "x"],
        ["--timeot", "1s", "x"],
        ["--config", "/x", "x"],
        ["--config=/x", "x"],
        ["--pty=true", "x"],
        ["--otlp-endpoint", "http://a", "x"],
        ["-c"],
        ["-cx"],
        ["-c=x"],
        ["-x", "y"],
        ["--tool-call-id", "a\nb", "x"],
        ["--tool-call-id", "x" * 257, "x"],
    ],
)
def test_what_is_left_to_the_full_parser(arguments):
    assert parse_run(arguments, {}) is None


def test_bad_and_explicit_variables_are_left_to_the_full_parser():
    assert parse_run(["x"], {"SIDECAR_TIMEOUT": "abc"}) is None
    assert parse_run(["x"], {"SIDECAR_PROMETHEUS_PORT": "abc"}) is None
    assert parse_run(["x"], {"SIDECAR_CONFIG": "/x"}) is None
    assert parse_run(["x"], {"SIDECAR_TIMEOUT": "", "SIDECAR_CONFIG": "", "SIDECAR_WHAT": "1"}) is not None


def resolve(arguments, environ):
    """What the full path finds; None for a usage error or help."""
    with mock.patch.dict(os.environ, environ, clear=True):
        try:
            return resolve_run(arguments)
        except (UsageError, SystemExit):
            return None


TEXT = st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"]), max_size=12)
GOOD = {
    "timeout": ["0", "1", "90s", "1h30m", " 5s"],
    "duration": ["0", "1.5s", "20ms"],
    "heartbeat": ["0", "10ms", "1m"],
    "export_interval": ["1s", "1m"],
    "size": ["0", "500", "64MiB", "1 gb"],
    "bool": ["true", "off", "1", "NO"],
    "pty": ["auto", "true", "no"],
    "identifier": ["", "call_1", "漢字", "--pty", "-"],
    "path": ["", "/tmp/a b", "/x"],
    "program": ["/bin/bash", "/bin/sh"],
    "names": ["A,B", "", " A , _b1"],
    "families": ["git,npm", ""],
    "verdict_limits": ["stopped:1m=cancel", "may_be_hung:5s=report,sleeping:1h=report", ""],
    "port": ["0", "65535"],
    "count": ["0", "10000"],
    "descriptor": ["3", "17", ""],
    "url": ["", "http://a", "https://b:1/c"],
    "trace_url": ["", "http://a/{traceId}"],
    "protocol": ["grpc", "http/protobuf"],
    "headers": ["a=b", "a=b%20c,d="],
}


def value_of(option):
    good = st.sampled_from(GOOD[option.kind])
    return st.one_of(good, good, good, TEXT)


@st.composite
def flag_words(draw):
    option = draw(st.sampled_from(FLAGS))
    if option.is_switch and draw(st.booleans()):
        return [draw(st.sampled_from([option.flag, "--no-" + option.flag[2:]]))]
    text = draw(value_of(option))
    return draw(st.sampled_from([[option.flag, text], [f"{option.flag}={text}"]]))


ODD = st.sampled_from(
    [
        ["--"],
        ["-"],
        [""],
        ["--help"],
        ["-c"],
        ["-c", "echo hi"],
        ["-cx"],
        ["--nope"],
        ["--pty=1"],
        ["--config", "/none"],
    ]
)
WORDS = st.lists(st.one_of(flag_words(), flag_words(), flag_words(), ODD, TEXT.map(lambda text: [text])), max_size=6)


@st.composite
def variables(draw):
    chosen = draw(st.lists(st.sampled_from(OPTIONS), max_size=4, unique=True))
    return {option.variable: draw(value_of(option)) for option in chosen}


@settings(max_examples=400, deadline=None)
@given(WORDS, st.lists(TEXT, max_size=3), variables())
@example([["--tool-call-id", "--help"]], ["true"], {})
@example([["--timeout="]], ["true"], {})
@example([["--session-id", ""]], ["true"], {"SIDECAR_SESSION_ID": "x"})
def test_fast_and_full_agree(groups, tail, environ):
    arguments = [word for group in groups for word in group] + tail
    fast = parse_run(arguments, environ)
    full = resolve(arguments, environ)
    assert fast is None or fast == full
    if full is not None and "-cx" not in arguments and not any(word[:2] == "-c" and word != "-c" for word in arguments):
        assert fast is not None, "an ordinary call takes the slow way"


@given(st.lists(st.text(st.characters())), st.dictionaries(st.text(st.characters()), st.text(st.characters())))
def test_it_never_raises(arguments, environ):
    parse_run(arguments, environ)


@pytest.mark.parametrize("variable", ["HOME", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"])
@pytest.mark.parametrize("text", ["/\0", "/\ud800", "relative", "", "/" + "x" * 5000, "/dev/null", "/nonexistent"])
def test_a_strange_home_is_no_home(variable, text):
    assert parse_run(["x"], {variable: text}) is not None


def test_equality_and_repr():
    one, other = parse_run(["x"], {}), parse_run(["x"], {})
    assert one == other
    assert one != parse_run(["--timeout", "1s", "x"], {})
    assert one != "x"
    assert "timeout_ns=None" in repr(one)
