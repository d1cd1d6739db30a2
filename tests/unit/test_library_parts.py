"""The library's pure parts: output within a limit, the supervisor's words, what a frame says."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import sidecar
from sidecar import Options
from sidecar.core.errors import UsageError
from sidecar.library.captured import Captured
from sidecar.library.options import supervisor_words
from sidecar.library.progress import Seen, progress_of
from sidecar.library.result import result_of

STARTED = {"type": "command_started", "commandId": "c", "traceId": "t", "timeoutMs": 30_000}
SEEN = Seen(silent_s=2.5, total_bytes=7, total_lines=1)


@given(st.lists(st.binary(max_size=40)), st.integers(0, 60))
def test_of_more_than_the_limit_the_first_half_and_the_last_half_are_kept(pieces: list[bytes], limit: int) -> None:
    captured = Captured(limit)
    for piece in pieces:
        captured.add(piece)
    written, kept = b"".join(pieces), captured.bytes()
    half = limit // 2
    expected = written if len(written) <= limit else written[: limit - half] + written[len(written) - half :]
    assert kept == expected
    assert captured.dropped_bytes == len(written) - len(kept)


def test_what_is_dropped_is_not_held_meanwhile() -> None:
    captured = Captured(1000)
    for _ in range(1000):
        captured.add(b"x" * 65536)
    assert len(captured._head) + len(captured._tail) < 300_000
    assert captured.total_bytes == 1000 * 65536


@given(st.lists(st.binary(max_size=40)))
def test_without_a_limit_all_is_kept(pieces: list[bytes]) -> None:
    captured = Captured(None)
    for piece in pieces:
        captured.add(piece)
    assert captured.bytes() == b"".join(pieces)
    assert captured.dropped_bytes == 0


def words(command: str | list[str], **options: object) -> list[str]:
    given: Options = options  # type: ignore[assignment]  # also wrong ones, on purpose
    said = supervisor_words(command, given, 7)
    return said[said.index("run") + 1 :]


def test_the_options_become_flags_and_none_is_as_not_given() -> None:
    said = words(
        ["make", "-j4"],
        timeout_s=90,
        silence_timeout_s=None,
        heartbeat_interval_s=0,
        kill_after_s=0.0001,
        tool_call_id="a=b",
        pty=False,
        on_verdict=["stopped:1m=report", "deadlock:1m=cancel"],
    )
    assert said == [
        "--frames-fd=7",
        "--timeout=90000ms",
        "--kill-after=1ms",
        "--heartbeat-interval=0ms",
        "--tool-call-id=a=b",
        "--no-pty",
        "--on-verdict=stopped:1m=report",
        "--on-verdict=deadlock:1m=cancel",
        "--",
        "make",
        "-j4",
    ]
    assert words("a | b")[-2:] == ["-c", "a | b"]


@pytest.mark.parametrize("value", [-1, float("nan"), float("inf"), "10", True])
def test_a_time_that_is_none_is_refused(value: object) -> None:
    with pytest.raises(UsageError, match=r"^timeout_s must be a number of seconds"):
        words("true", timeout_s=value)


def test_no_words_and_an_unknown_option_are_refused() -> None:
    with pytest.raises(UsageError, match="the list of words is empty"):
        words([])
    with pytest.raises(UsageError, match="no such option: timout_s"):
        words("true", timout_s=3)


@pytest.mark.parametrize(
    ("command", "options"),
    [
        (b"true", {}),
        (5, {}),
        (None, {}),
        ("true", {"input": "text"}),
        ("true", {"max_output_bytes": -1}),
        ("true", {"max_output_bytes": "10"}),
        ("true", {"max_output_bytes": True}),
    ],
)
def test_what_a_type_checker_would_say_is_said_in_one_line(command: Any, options: Any) -> None:
    with pytest.raises(UsageError) as error:
        supervisor_words(command, options, 3)
    assert "\n" not in str(error.value)


def test_a_heartbeat_says_what_its_frame_says() -> None:
    payload = {"type": "shell_progress", "elapsedMs": 9000, "lastOutputAgeMs": 4000, "totalLines": 3, "totalBytes": 40}
    frame = {"type": "shell_progress", "commandId": "c", "shellProgress": payload, "verdict": "computing"}
    progress = progress_of(frame, STARTED, SEEN)
    assert (progress.kind, progress.elapsed_s, progress.silent_s) == ("heartbeat", 9.0, 4.0)
    assert (progress.total_bytes, progress.total_lines, progress.timeout_s) == (40, 3, 30.0)
    assert (progress.verdict, progress.since_s, progress.evidence) == ("computing", None, ())
    assert progress.shell_progress == payload


def test_a_heartbeat_before_any_output_is_silent_since_the_start() -> None:
    frame = {"type": "shell_progress", "commandId": "c", "shellProgress": {"type": "shell_progress", "elapsedMs": 1000}}
    progress = progress_of(frame, {}, SEEN)
    assert (progress.silent_s, progress.total_bytes, progress.timeout_s) == (1.0, 0, None)


def test_a_verdict_has_no_counts_and_gets_the_readers() -> None:
    frame = {"type": "verdict", "commandId": "c", "elapsedMs": 5000, "verdict": "sleeping", "sinceMs": 1500}
    progress = progress_of(frame, STARTED, SEEN)
    assert (progress.kind, progress.silent_s, progress.since_s) == ("verdict", 2.5, 1.5)
    assert (progress.total_bytes, progress.total_lines, progress.shell_progress) == (7, 1, None)


def test_a_supervisor_that_is_gone_without_a_word() -> None:
    empty = Captured(None)
    killed = result_of(-9, STARTED, None, None, empty, empty, 1.5, cancelled=False)
    assert (killed.reason, killed.signal, killed.exit_code, killed.supervised) == ("signaled", "SIGKILL", None, False)
    assert (killed.command_id, killed.elapsed_s) == ("c", 1.5)
    assert result_of(-15, None, None, None, empty, empty, 0.0, cancelled=True).reason == "cancelled"


@pytest.mark.parametrize(
    ("settled", "ending"),
    [
        ({"reason": "exited", "exitCode": 3}, (3, None)),
        ({"reason": "signaled", "signal": "SIGKILL"}, (None, "SIGKILL")),
        ({"reason": "cancelled", "signal": "SIGTERM"}, (None, "SIGTERM")),
        ({"reason": "timeout", "signal": "SIGTERM"}, (124, None)),
        ({"reason": "spawn_failed", "error": "ENOENT"}, (127, None)),
        ({"reason": "spawn_failed", "error": "EACCES"}, (126, None)),
        (None, (None, None)),
    ],
)
def test_where_somebody_else_has_waited_for_the_supervisor(settled: Any, ending: tuple[Any, Any]) -> None:
    empty = Captured(None)
    frame = None if settled is None else {"elapsedMs": 5, **settled}
    result = result_of(None, STARTED, frame, None, empty, empty, 1.5, cancelled=False)
    assert (result.exit_code, result.signal) == ending
    assert not result.ok


def test_the_package_names_the_library_and_nothing_else() -> None:
    for name in sidecar.__all__:
        assert getattr(sidecar, name) is not None
    with pytest.raises(AttributeError, match="no attribute 'nothing'"):
        sidecar.nothing  # noqa: B018 - to look is the test
