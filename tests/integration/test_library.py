"""`from sidecar import run, arun, start, astart` on real commands."""

import asyncio
import os
import re
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from opentelemetry import trace
from supervised import WAIT_S, Installation, alive, pid_in, until

from sidecar import Progress, Result, arun, astart, run, start
from sidecar.core.errors import UsageError
from sidecar.core.frame import is_shell_progress
from sidecar.gateways import acp
from sidecar.gateways.context import Context
from sidecar.supervisor.stopping import AGAIN_NS

PAGE = (Path(__file__).parents[2] / "docs" / "library.md").read_text(encoding="utf-8")
SECOND_ASKING_S = 2 * AGAIN_NS / 1e9
"""Later than this, a second asking is one of its own."""
STUBBORN = "trap 'echo > {0}/term' TERM; echo $$ > {0}/pid; while :; do sleep 0.05; done"
"""Survives SIGTERM, and notes it."""


@pytest.fixture(autouse=True)
def _environment(sidecar: Installation, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library takes its own environment where none is given: the tests' daemon, no Collector."""
    for name in [name for name in os.environ if name.startswith(("SIDECAR_", "OTEL_", "XDG_", "TRACE"))]:
        monkeypatch.delenv(name)
    for name in ("SIDECAR_SOCKET", "XDG_CONFIG_HOME", "XDG_STATE_HOME", "OTEL_SDK_DISABLED"):
        monkeypatch.setenv(name, sidecar.environ[name])


def test_output_ending_and_counts() -> None:
    result = run("echo out; echo err >&2; exit 3")
    assert (result.stdout, result.stderr, result.exit_code, result.signal) == (b"out\n", b"err\n", 3, None)
    assert (result.reason, result.ok, result.text, result.supervised) == ("exited", False, "out\n", True)
    assert result.command_id
    assert re.fullmatch("[0-9a-f]{32}", result.trace_id or "")
    assert result.stop is None


def test_words_are_not_read_by_a_shell() -> None:
    assert run(["printf", "%s|", "a b", "$HOME", "--", "-c"]).stdout == b"a b|$HOME|--|-c|"


def test_where_the_script_is_not_installed_the_interpreter_runs_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "sidecar.py").write_text("raise SystemExit('a stranger in the working folder was imported')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sysconfig.get_path", lambda name: str(tmp_path / "nowhere"))
    assert run("echo hi").stdout == b"hi\n"


def test_input_folder_environment_and_joined_streams(tmp_path: Path) -> None:
    result = run(
        "cat; pwd; echo $A >&2", input=b"given\n", cwd=tmp_path, env={**os.environ, "A": "b"}, merge_stderr=True
    )
    assert result.stdout.decode() == f"given\n{tmp_path}\nb\n"
    assert result.stderr == b""
    assert run(["cat"]).stdout == b""  # and not what this program could read


def test_more_output_than_a_pipe_holds_on_both_streams() -> None:
    result = run("head -c 3000000 /dev/zero; head -c 3000000 /dev/zero >&2")
    assert (len(result.stdout), len(result.stderr), result.dropped_bytes) == (3_000_000, 3_000_000, 0)


def test_a_flood_is_kept_within_the_limit() -> None:
    result = run("echo first; head -c 30000000 /dev/zero; echo last", max_output_bytes=1000)
    assert result.stdout.startswith(b"first\n\0")
    assert result.stdout.endswith(b"\0last\n")
    assert (len(result.stdout), result.dropped_bytes) == (1000, 30_000_011 - 1000)


def test_death_by_a_signal_is_no_exit_code() -> None:
    result = run("kill -KILL $$")
    assert (result.reason, result.exit_code, result.signal) == ("signaled", None, "SIGKILL")


def test_where_nobody_else_can_wait_for_the_command_its_end_is_known_all_the_same() -> None:
    """With SIGCHLD ignored the kernel reaps every child, and subprocess takes each for one that exited with 0."""
    code = """if True:
        import asyncio, os, signal
        from sidecar import arun, run, start
        from sidecar.core.errors import UsageError
        signal.signal(signal.SIGCHLD, signal.SIG_IGN)
        with start("exit 6") as command:
            by_handle = command.wait()
        ends = [run("exit 3"), run("kill -9 $$"), run(["/no/such"]), run("sleep 9", timeout_s=0.2), by_handle]
        ends.append(asyncio.run(arun("exit 5")))
        assert [(end.exit_code, end.signal) for end in ends] == [
            (3, None), (None, "SIGKILL"), (127, None), (124, None), (6, None), (5, None)
        ], ends
        try:
            run("true", shell="relative")
        except UsageError:
            print("fine")
    """
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=WAIT_S, check=False)
    assert (done.stdout, done.stderr) == ("fine\n", "")


@pytest.mark.parametrize(("command", "options"), [([1, 2], {}), ("true", {"env": {"A": 1}})])
def test_what_is_no_text_is_a_wrong_option(command: Any, options: Any) -> None:
    with pytest.raises(UsageError, match="cannot be started"):
        run(command, **options)


def test_what_cannot_be_started_is_a_result(tmp_path: Path) -> None:
    result = run(["no-such-program"])
    assert (result.reason, result.exit_code) == ("spawn_failed", 127)
    assert b"no-such-program" in result.stderr
    with pytest.raises(UsageError, match="cannot be started"):
        run("true", cwd=tmp_path / "missing")
    with pytest.raises(UsageError, match="cannot be started"):
        run("echo \0")


def test_a_wrong_option_is_an_error_and_nothing_runs(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="on-verdict"):
        run(f"touch {tmp_path}/ran", on_verdict="nonsense")
    assert not (tmp_path / "ran").exists()


def test_exit_125_of_the_command_itself_is_its_own() -> None:
    result = run("echo 'sidecar: not us' >&2; exit 125")
    assert (result.exit_code, result.reason) == (125, "exited")


def test_the_command_does_not_get_the_descriptor_of_the_frames() -> None:
    bare = subprocess.run(["ls", "/proc/self/fd"], capture_output=True, check=True).stdout.split()
    assert len(run(["ls", "/proc/self/fd"]).stdout.split()) == len(bare)


def test_heartbeats_are_told_while_it_runs() -> None:
    told: list[Progress] = []
    result = run("echo hi; sleep 2", on_progress=told.append, heartbeat_interval_s=0.2, timeout_s=60)
    beats = [progress for progress in told if progress.kind == "heartbeat"]
    assert 2 <= len(beats) == result.heartbeat_count
    assert beats[0].command_id == result.command_id
    # Not the first: on a busy machine the shell may take longer than that to say a word.
    assert (beats[-1].total_bytes, beats[-1].total_lines, beats[-1].timeout_s) == (3, 1, 60.0)
    assert beats[-1].silent_s >= 0.2
    assert is_shell_progress(beats[0].shell_progress)
    assert [beat.elapsed_s for beat in beats] == sorted({beat.elapsed_s for beat in beats})


def test_a_verdict_is_told_and_is_in_the_result() -> None:
    told: list[Progress] = []
    with start("read -r line < /dev/tty || sleep 60", heartbeat_interval_s=0.5) as command:
        for progress in command:
            if progress.verdict == "sleeping" and not told:
                told.append(progress)
                command.cancel()
        result = command.wait()
    assert told[0].evidence
    assert result.verdict is not None
    assert result.verdict.verdict == "sleeping"
    assert result.reason == "cancelled"


def test_output_is_told_as_it_comes(tmp_path: Path) -> None:
    pieces: list[tuple[str, bytes]] = []
    os.mkfifo(tmp_path / "go")

    def took(stream: str, data: bytes) -> None:
        pieces.append((stream, data))
        if data == b"one\n":  # the command waits for us to have heard it
            (tmp_path / "go").write_text("\n")

    run(f"echo one; read x < {tmp_path}/go; echo two >&2", on_output=took)
    assert pieces == [("stdout", b"one\n"), ("stderr", b"two\n")]


def test_the_acp_update_of_a_heartbeat() -> None:
    with start("sleep 60", heartbeat_interval_s=0.2, tool_call_id="call_1", tool_name="bash") as command:
        told = next(progress for progress in command if progress.kind == "heartbeat")
        command.cancel()
    update = acp.update(told.started, told.frame, Context())
    assert update is not None
    assert (update["toolCallId"], update["status"]) == ("call_1", "in_progress")
    assert update["_meta"]["shellProgress"] == told.shell_progress


def test_a_timeout_has_the_receipt() -> None:
    result = run("sleep 60 & sleep 60", timeout_s=0.3)
    assert (result.reason, result.exit_code) == ("timeout", 124)
    assert result.stop is not None
    assert (result.stop["askedBy"], result.stop["survivorCount"]) == ("timeout", 0)


def test_a_callback_that_raises_stops_the_command(tmp_path: Path) -> None:
    def refuse(stream: str, data: bytes) -> None:
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        run(f"echo $$ > {tmp_path}/pid; echo hi; sleep 60", on_output=refuse)
    assert not alive(pid_in(tmp_path / "pid"))
    with pytest.raises(RuntimeError, match="enough"), start("echo hi; sleep 60", on_output=refuse) as command:
        command.wait()


def test_ctrl_c_stops_the_command(tmp_path: Path) -> None:
    """The program has the SIGINT alone; a second one, during the grace of a command that ignores TERM, kills it."""
    program = (
        "from sidecar import run\n"
        "try:\n"
        f"    run({STUBBORN.format(tmp_path)!r}, kill_after_s=60)\n"
        "except KeyboardInterrupt:\n"
        "    print('interrupted')\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, start_new_session=True)
    pid = pid_in(tmp_path / "pid")
    process.send_signal(signal.SIGINT)
    until((tmp_path / "term").exists)
    time.sleep(SECOND_ASKING_S)
    process.send_signal(signal.SIGINT)
    assert process.communicate(timeout=WAIT_S)[0] == b"interrupted\n"
    assert not alive(pid)


def test_a_handle_is_cancelled_from_another_thread(tmp_path: Path) -> None:
    command = start(f"trap '' TERM; echo $$ > {tmp_path}/pid; sleep 60 & wait; sleep 60", kill_after_s=0.2)
    pid_in(tmp_path / "pid")
    threading.Timer(0.1, command.cancel).start()
    result = command.wait(WAIT_S)
    assert (result.reason, result.signal) == ("cancelled", "SIGKILL")
    command.cancel()  # of what has ended: nothing


def test_waiting_may_be_given_up() -> None:
    command = start("sleep 60")
    with pytest.raises(TimeoutError):
        command.wait(0.1)
    assert alive(command.pid)
    command.cancel()
    assert command.wait(WAIT_S).reason == "cancelled"


def test_leaving_the_block_by_an_exception_stops_the_command(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError), start(f"echo $$ > {tmp_path}/pid; sleep 60"):
        os.stat(tmp_path / f"{pid_in(tmp_path / 'pid')} is written")
    assert not alive(pid_in(tmp_path / "pid"))


def test_a_command_that_is_cancelled_before_it_is_one() -> None:
    for _ in range(10):
        with start("sleep 60") as command:
            command.cancel()
            assert command.wait(WAIT_S).reason == "cancelled"


def test_a_suspended_supervisor_is_cancelled_too() -> None:
    with start("sleep 60") as command:
        until(lambda: command.command_id)
        os.kill(command.pid, signal.SIGSTOP)
        command.cancel()
        assert command.wait(WAIT_S).reason == "cancelled"


def test_a_background_process_that_holds_the_output_does_not_hold_the_result(tmp_path: Path) -> None:
    began = time.monotonic()
    result = run(f"sleep 60 & echo $! > {tmp_path}/pid; echo done")
    assert result.stdout == b"done\n"
    assert result.descendants_left == 1
    assert time.monotonic() - began < 55
    os.kill(pid_in(tmp_path / "pid"), signal.SIGKILL)


def test_nothing_of_ours_stays_open() -> None:
    def descriptors() -> list[str]:
        return sorted(os.listdir("/proc/self/fd")) if sys.platform == "linux" else []

    run("true")
    before = descriptors()
    run("echo hi; echo ho >&2")
    asyncio.run(arun("echo hi"))
    with start("true") as command:
        command.wait()
    with pytest.raises(UsageError):
        run("true", timeout_s=-1)
    until(lambda: set(descriptors()) <= set(before))


class TestAsync:
    def test_many_at_once(self) -> None:
        async def main() -> list[Result]:
            return await asyncio.gather(*(arun(f"sleep 0.2; echo {number}") for number in range(8)))

        assert [result.text for result in asyncio.run(main())] == [f"{number}\n" for number in range(8)]

    def test_progress_by_callback_and_by_iterating(self) -> None:
        async def main() -> tuple[int, int, Result]:
            told: list[Progress] = []

            async def tell(progress: Progress) -> None:
                await asyncio.sleep(0)
                told.append(progress)

            await arun("sleep 1.5", on_progress=tell, heartbeat_interval_s=0.2)
            async with astart("sleep 1.5", heartbeat_interval_s=0.2) as command:
                iterated = [progress async for progress in command]
                return len(told), len(iterated), await command.wait()

        told, iterated, result = asyncio.run(main())
        assert told >= 2
        assert iterated == result.heartbeat_count >= 2

    def test_cancelling_the_task_stops_the_whole_tree_first(self, tmp_path: Path) -> None:
        async def main() -> None:
            words = f"(echo $$ > {tmp_path}/pid; setsid sh -c 'echo $$ > {tmp_path}/other; sleep 60') & sleep 60"
            task = asyncio.create_task(arun(words))
            await asyncio.to_thread(pid_in, tmp_path / "other")
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task

        asyncio.run(main())
        assert not alive(pid_in(tmp_path / "other"))

    def test_a_second_cancel_kills(self, tmp_path: Path) -> None:
        async def main() -> None:
            task = asyncio.create_task(arun(STUBBORN.format(tmp_path), kill_after_s=60))
            await asyncio.to_thread(pid_in, tmp_path / "pid")
            task.cancel()
            await asyncio.to_thread(until, (tmp_path / "term").exists)
            await asyncio.sleep(SECOND_ASKING_S)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await asyncio.wait_for(task, WAIT_S)

        asyncio.run(main())
        assert not alive(pid_in(tmp_path / "pid"))

    def test_a_timeout_of_asyncio(self) -> None:
        async def main() -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await arun("sleep 60")

        asyncio.run(main())

    def test_what_a_callback_raises(self) -> None:
        def refuse(stream: str, data: bytes) -> None:
            raise RuntimeError("enough")

        def refuse_progress(progress: Progress) -> None:
            raise RuntimeError("enough")

        with pytest.raises(RuntimeError, match="enough"):
            asyncio.run(arun("echo hi; sleep 60", on_output=refuse))
        with pytest.raises(RuntimeError, match="enough"):
            asyncio.run(arun("sleep 60", on_progress=refuse_progress, heartbeat_interval_s=0.1))

    def test_a_wrong_option(self) -> None:
        with pytest.raises(UsageError, match="on-verdict"):
            asyncio.run(arun("true", on_verdict="nonsense"))

    def test_a_flood_within_the_limit(self) -> None:
        result = asyncio.run(arun("head -c 30000000 /dev/zero", max_output_bytes=10))
        assert (len(result.stdout), result.dropped_bytes) == (10, 30_000_000 - 10)


TURN = trace.NonRecordingSpan(trace.SpanContext(int("c" * 32, 16), int("d" * 16, 16), False, trace.TraceFlags(1)))


class TestTrace:
    def test_the_command_is_told_of_the_current_span(self) -> None:
        with trace.use_span(TURN):
            result = run("echo $TRACEPARENT")
        assert result.trace_id == "c" * 32
        assert result.text.split("-")[1] == result.trace_id

    def test_a_traceparent_given_on_purpose_wins(self) -> None:
        given = "00-" + "a" * 32 + "-" + "b" * 16 + "-01"
        with trace.use_span(TURN):
            assert run("true", env={**os.environ, "TRACEPARENT": given}).trace_id == "a" * 32


@pytest.mark.parametrize("number", range(len(re.findall(r"^```python$", PAGE, re.MULTILINE))))
def test_the_examples_of_the_page_run(number: int) -> None:
    example = re.findall(r"^```python\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)[number]
    words = [sys.executable, "-W", "error", "-c", example]
    done = subprocess.run(words, capture_output=True, text=True, timeout=WAIT_S)
    assert (done.returncode, done.stderr) == (0, "")


class TestFramesDescriptor:
    """`sidecar run --frames-fd N`, for whoever is not Python."""

    def test_what_is_no_open_descriptor_costs_the_command_nothing(self, sidecar: Installation) -> None:
        assert sidecar.run("echo", "hi", flags=("--frames-fd", "77")) == (0, b"hi\n", b"")

    def test_one_that_cannot_be_written_to(self, sidecar: Installation, tmp_path: Path) -> None:
        log = tmp_path / "log"
        with open(os.devnull, "rb") as null:
            flags = ("--frames-fd", str(null.fileno()), "--log", str(log))
            assert sidecar.run("echo", "hi", flags=flags, pass_fds=(null.fileno(),)) == (0, b"hi\n", b"")
        assert "no frames to --frames-fd" in log.read_text()

    def test_a_reader_that_does_not_read_holds_nothing_up(self, sidecar: Installation) -> None:
        reading, writing = os.pipe()
        os.set_blocking(writing, False)
        while True:  # full, save for less than a frame
            try:
                os.write(writing, b"x" * 4096)
            except BlockingIOError:
                break
        os.set_blocking(writing, True)
        flags = ("--frames-fd", str(writing), "--heartbeat-interval", "20ms")
        assert sidecar.run("sleep", "0.5", flags=flags, pass_fds=(writing,)).status == 0
        assert os.get_blocking(writing)  # it is somebody's, and as it was
        os.close(reading)
        assert sidecar.run("sleep", "0.1", flags=flags, pass_fds=(writing,)).status == 0
        os.close(writing)

    def test_the_three_streams_are_refused(self, sidecar: Installation) -> None:
        ended = sidecar.run("echo", "hi", flags=("--frames-fd", "2"))
        assert (ended.status, ended.stdout) == (125, b"")
        assert ended.stderr.count(b"\n") == 1
