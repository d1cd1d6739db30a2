"""Job control by a real shell on a real terminal: ^Z, fg, bg, reading from behind, each bare and wrapped."""

import contextlib
import os
import re
import signal
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from supervised import Installation, alive, on_linux, pid_in, state_of, until
from test_supervisor_ends import children
from test_supervisor_terminal import Screen

from sidecar.daemon import client

pytestmark = on_linux
MODES = [None, (), ("--no-pty",)]
IDS = ["bare", "pty", "pipe"]
PROMPT = b"READY> "


class Shell(Screen):
    """bash as somebody uses it, with job control."""

    def __init__(self, sidecar: Installation, flags: tuple[str, ...] | None, *, edits: bool = False) -> None:
        environ = {**sidecar.environ, "PS1": PROMPT.decode(), "TERM": "dumb", "HISTFILE": "/dev/null"}
        options = () if edits else ("--noediting",)
        super().__init__(["bash", "--norc", "--noprofile", *options, "-i"], environ)
        self.prefix = "" if flags is None else f"{sidecar.script} run {' '.join(flags)} -- "
        self.prompt()

    def prompt(self) -> bytes:
        """Wait for the prompt. Returns what came before it; what comes next is read anew."""
        shown, _, self.seen = self.read_until(PROMPT).partition(PROMPT)
        return shown

    def line(self, text: str) -> None:
        self.type(text.encode() + b"\n")

    def run(self, script: Path, text: str, behind: str = "") -> None:
        """Run `text` as a bash script, wrapped or not."""
        script.write_text(text)
        self.line(f"{self.prefix}bash {script}{behind}")

    def sync(self) -> None:
        """Nothing of what came so far is left to be read; what a job behind us says may be anywhere in it."""
        self.line("echo s$((41 + 1))")
        self.until_text(b"s42\r\n")
        self.prompt()

    def until_jobs_say(self, text: bytes) -> None:
        def asked() -> bool:
            self.line("jobs -l; echo s$((41 + 1))")
            return text in self.until_text(b"s42\r\n") + self.prompt()

        until(asked)

    def until_text(self, text: bytes) -> bytes:
        shown, _, self.seen = self.read_until(text).partition(text)
        return shown


@contextlib.contextmanager
def shell(sidecar: Installation, flags: tuple[str, ...] | None, *, edits: bool = False) -> Iterator[Shell]:
    """`edits`: with readline, which has the terminal raw while bash waits for a line."""
    shown = Shell(sidecar, flags, edits=edits)
    try:
        yield shown
    finally:
        os.close(shown.slave)
        os.close(shown.master)
        shown.child.kill()
        shown.child.wait()


@pytest.mark.parametrize("flags", MODES, ids=IDS)
def test_control_z_stops_it_and_fg_continues_it(
    sidecar: Installation, flags: tuple[str, ...] | None, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    script = f"trap 'echo cont' CONT; echo begun; sh -c 'read x <{go}'; echo still; read x; echo got $x; exit 3"
    with shell(sidecar, flags) as bash:
        bash.run(tmp_path / "script", script)
        bash.until_text(b"begun\r\n")
        bash.type(b"\x1a")
        assert b"Stopped" in bash.prompt()
        assert b"still" not in bash.seen
        bash.line("stty size; jobs")
        shown = bash.prompt()
        assert b"47 203" in shown, "the terminal is the shell's again"
        assert b"Stopped" in shown
        bash.resize((11, 22))
        bash.line("fg")
        bash.line("words")
        go.write_text("on\n")
        bash.until_text(b"still\r\n")
        assert b"got words\r\n" in bash.prompt()
        bash.line("echo rc=$?; stty size")
        assert re.search(rb"rc=3\r\n11 22", bash.prompt())


@pytest.mark.parametrize("flags", MODES, ids=IDS)
def test_bg_lets_it_run_on_and_reading_stops_it_again(
    sidecar: Installation, flags: tuple[str, ...] | None, tmp_path: Path
) -> None:
    go = tmp_path / "go"
    os.mkfifo(go)
    script = f"echo begun; sh -c 'read x <{go}'; echo on; read x; echo got $x; exit 4"
    with shell(sidecar, flags) as bash:
        bash.run(tmp_path / "script", script)
        bash.until_text(b"begun\r\n")
        bash.type(b"\x1a")
        assert b"Stopped" in bash.prompt()
        bash.line("bg")
        go.write_text("on\n")
        bash.until_text(b"on\r\n")
        # Its read stops it; the shell tells of it at its next prompt.
        bash.until_jobs_say(b"Stopped")
        bash.line("fg")
        bash.line("words")
        assert b"got words\r\n" in bash.prompt()
        bash.line("echo rc=$?")
        assert b"rc=4" in bash.prompt()


@pytest.mark.parametrize("flags", MODES, ids=IDS)
def test_started_behind_it_runs_and_stops_when_it_reads(
    sidecar: Installation, flags: tuple[str, ...] | None, tmp_path: Path
) -> None:
    with shell(sidecar, flags) as bash:
        bash.run(tmp_path / "script", "echo begun; read x; echo got $x; exit 5", " &")
        bash.until_text(b"begun\r\n")
        bash.sync()
        bash.until_jobs_say(b"Stopped")
        bash.line("fg")
        bash.line("words")
        assert b"got words\r\n" in bash.prompt()


@pytest.mark.parametrize("flags", MODES, ids=IDS)
def test_tostop_stops_one_that_writes_behind(
    sidecar: Installation, flags: tuple[str, ...] | None, tmp_path: Path
) -> None:
    with shell(sidecar, flags) as bash:
        bash.line("stty tostop")
        bash.prompt()
        bash.run(tmp_path / "script", "sleep .3; echo written; exit 5", " &")
        bash.sync()
        bash.until_jobs_say(b"Stopped")
        bash.line("bg")
        bash.prompt()
        bash.until_jobs_say(b"Stopped")
        bash.line("fg")
        bash.until_text(b"written\r\n")
        bash.prompt()
        bash.line("echo rc=$?")
        assert b"rc=5" in bash.prompt()


@pytest.mark.parametrize("flags", MODES, ids=IDS)
def test_one_that_handles_it_cleans_up_first_and_stops_itself(
    sidecar: Installation, flags: tuple[str, ...] | None, tmp_path: Path
) -> None:
    """As an editor does: restore the screen, stop by the default action, and draw anew when continued."""
    script = (
        "import os, signal\n"
        "def stop(*_):\n"
        "    os.write(1, b'cleaned up\\n')\n"
        "    signal.signal(signal.SIGTSTP, signal.SIG_DFL)\n"
        "    os.kill(0, signal.SIGTSTP)\n"
        "    signal.signal(signal.SIGTSTP, stop)\n"
        "    os.write(1, b'drawn anew\\n')\n"
        "    raise SystemExit(6)\n"
        "signal.signal(signal.SIGTSTP, stop)\n"
        "os.write(1, b'begun\\n')\n"
        "while True: signal.pause()\n"
    )
    with shell(sidecar, flags) as bash:
        (tmp_path / "editor.py").write_text(script)
        bash.line(f"{bash.prefix}python3 -S {tmp_path}/editor.py")
        bash.until_text(b"begun\r\n")
        bash.type(b"\x1a")
        shown = bash.prompt()
        assert b"cleaned up\r\n" in shown
        assert b"Stopped" in shown
        assert b"anew" not in shown
        bash.line("fg")
        assert b"drawn anew\r\n" in bash.prompt()
        bash.line("echo rc=$?")
        assert b"rc=6" in bash.prompt()


@pytest.mark.parametrize(("name", "shown"), [("TSTP", b"Stopped "), ("TTIN", b"tty input"), ("TTOU", b"tty output")])
@pytest.mark.parametrize("flags", MODES, ids=IDS)
def test_a_stop_by_signal_is_seen_as_that_signal(
    sidecar: Installation, flags: tuple[str, ...] | None, name: str, shown: bytes, tmp_path: Path
) -> None:
    with shell(sidecar, flags) as bash:
        bash.run(tmp_path / "script", f"echo $$ >{tmp_path}/pid; echo begun; exec sleep 60", " &")
        bash.until_text(b"begun\r\n")
        bash.sync()
        command = pid_in(tmp_path / "pid")
        bash.line(f"kill -{name} $!")
        until(lambda: state_of(command) == "T")
        bash.until_jobs_say(shown)
        bash.line("kill -CONT %1")
        until(lambda: state_of(command) == "S")
        bash.until_jobs_say(b"Running")
        os.kill(command, signal.SIGKILL)
        bash.until_jobs_say(b"Killed")


@pytest.mark.parametrize("flags", MODES[1:], ids=IDS[1:])
def test_a_suspended_job_is_cancelled_from_elsewhere(
    sidecar: Installation, flags: tuple[str, ...], tmp_path: Path
) -> None:
    with shell(sidecar, flags) as bash:
        bash.run(tmp_path / "script", f"echo $$ >{tmp_path}/pid; echo begun; read x")
        bash.until_text(b"begun\r\n")
        bash.type(b"\x1a")
        assert b"Stopped" in bash.prompt()
        command = pid_in(tmp_path / "pid")

        def told() -> list[dict[str, Any]]:
            """The daemon hears of it on a way of its own."""
            listed = client.request(sidecar.socket, "list")
            return [record for record in listed if record.get("pid") == command and record.get("verdict") == "stopped"]

        (running,) = until(told)
        assert f"`kill -CONT {running['supervisorPid']}`" in running["hint"], (
            "whoever continues only the command is told nothing of it"
        )
        done = subprocess.run(
            [sidecar.script, "cancel", running["commandId"]], env=sidecar.environ, capture_output=True, text=True
        )
        assert done.returncode == 0, done.stderr
        assert "was stopped; it was continued" in done.stderr
        assert "cancelled, signal SIGTERM" in done.stdout
        bash.until_jobs_say(b"Terminated")
        bash.line("stty size")
        assert b"47 203" in bash.prompt()


@pytest.mark.parametrize("flags", MODES, ids=IDS)
def test_started_behind_a_shell_that_edits_its_line_and_brought_to_the_front(
    sidecar: Installation, flags: tuple[str, ...] | None, tmp_path: Path
) -> None:
    """readline has the terminal raw at the start; in front the command's is as the shell gives it to its jobs."""
    with shell(sidecar, flags, edits=True) as bash:
        bash.line("bind 'set enable-bracketed-paste off'")
        bash.prompt()
        until(lambda: not termios.tcgetattr(bash.slave)[3] & termios.ICANON)
        bash.run(tmp_path / "script", "read x; echo got $x; stty -a | grep -o -e ' -*icanon' -e ' -*echo '", " &")
        bash.sync()
        bash.until_jobs_say(b"Stopped")
        bash.line("fg")
        bash.until_text(b"script\r\n")  # what it brings to the front
        bash.type(b"words\n")
        bash.until_text(b"words\r\ngot words\r\n icanon\r\n echo ")


@pytest.mark.parametrize("times", [2, 3])
def test_control_z_stops_what_is_wrapped_twice(sidecar: Installation, times: int, tmp_path: Path) -> None:
    with shell(sidecar, ()) as bash:
        bash.prefix *= times
        bash.run(tmp_path / "script", f"echo $$ > {tmp_path}/pid; echo begun; read x; echo got $x; exit 3")
        bash.until_text(b"begun\r\n")
        for _ in range(2):
            bash.type(b"\x1a")
            assert b"Stopped" in bash.prompt()
            bash.line("fg")
            bash.until_text(b"script\r\n")
            # The shell says so before it continues anybody: the command is the last one to go on.
            until(lambda: state_of(pid_in(tmp_path / "pid")) != "T")
        bash.line("words")
        assert b"got words\r\n" in bash.prompt()
        bash.line("echo rc=$?")
        assert b"rc=3" in bash.prompt()


@pytest.mark.parametrize("around", ["sh", "bash"])
@pytest.mark.parametrize("flags", MODES, ids=IDS)
def test_keys_that_are_signals_reach_the_script_around_it_too(
    sidecar: Installation, flags: tuple[str, ...] | None, around: str, tmp_path: Path
) -> None:
    """All who are in front of a terminal get them, so that ^C ends a loop, and ^Z stops the job as a whole."""
    with shell(sidecar, flags) as bash:
        # One for each: who opens the other's meanwhile would meet its end.
        for number in (1, 2):
            os.mkfifo(tmp_path / f"go{number}")
        inner = f"echo begun$1; read x <{tmp_path}/go$1; echo got $x"
        (tmp_path / "loop").write_text(f"for i in 1 2; do {bash.prefix}sh -c '{inner}' sh $i; done; echo after\n")
        bash.line(f"{around} {tmp_path}/loop")
        bash.until_text(b"begun1\r\n")
        bash.type(b"\x1a")
        assert b"Stopped" in bash.prompt()
        bash.line("fg")  # at once: not everybody may have stopped yet
        bash.until_text(b"loop\r\n")
        (tmp_path / "go1").write_text("words\n")
        bash.until_text(b"got words\r\nbegun2\r\n")
        bash.type(b"\x03")
        assert b"after" not in bash.prompt()
        bash.line("echo rc=$?")
        assert b"rc=130" in bash.prompt()


@pytest.mark.parametrize("flags", MODES, ids=IDS)
def test_a_shell_with_job_control_of_its_own_keeps_its_keys_to_itself(
    sidecar: Installation, flags: tuple[str, ...] | None, tmp_path: Path
) -> None:
    with shell(sidecar, flags) as bash:
        (tmp_path / "around").write_text(
            f"trap 'echo hit' INT; PS1=INNER' ' {bash.prefix}bash --norc --noprofile --noediting -i; echo over $?\n"
        )
        bash.line(f"bash {tmp_path}/around")
        bash.until_text(b"INNER ")
        bash.type(b"\x03")
        bash.until_text(b"INNER ")
        bash.line("exit 4")
        assert b"over 4" in (shown := bash.prompt())
        assert b"hit" not in shown


@pytest.mark.parametrize("flags", MODES[1:], ids=IDS[1:])
def test_continued_by_its_pid_alone_it_goes_on_with_the_command(
    sidecar: Installation, flags: tuple[str, ...], tmp_path: Path
) -> None:
    """Not by `fg`: the stop was the group's, and the SIGCONT is not."""
    with shell(sidecar, flags) as bash:
        bash.run(tmp_path / "script", f"echo $$ $PPID >{tmp_path}/pids; echo begun; exec sleep 60")
        bash.until_text(b"begun\r\n")
        command, supervisor = (int(pid) for pid in (tmp_path / "pids").read_text().split())
        until(lambda: len(children(supervisor)) > (1 if flags else 2))  # the canary is there
        bash.type(b"\x1a")
        until(lambda: (state_of(command), state_of(supervisor)) == ("T", "T"))
        os.kill(supervisor, signal.SIGCONT)
        until(lambda: (state_of(command), state_of(supervisor)) == ("S", "S"))
        os.kill(command, signal.SIGKILL)
        until(lambda: not alive(supervisor))


@pytest.mark.parametrize("flags", [(), ("--no-pty",), ("--pty", "twice")], ids=["pty", "pipe", "twice"])
def test_stopped_and_continued_as_fast_as_it_goes_it_is_never_stuck(
    sidecar: Installation, flags: tuple[str, ...], tmp_path: Path
) -> None:
    """A ^Z may come before the shell has continued the job, which voids it: bare, too. The next one then stops it."""
    with shell(sidecar, flags[:1]) as bash:
        bash.prefix *= len(flags) or 1
        bash.run(tmp_path / "script", "echo begun; read x; echo got $x; exit 3")
        bash.until_text(b"begun\r\n")
        for _ in range(10):
            bash.type(b"\x1a")
            while PROMPT not in bash.seen:
                if not bash._read(0.3):
                    bash.type(b"\x1a")
            assert b"Stopped" in bash.prompt()
            bash.line("fg")
            bash.until_text(b"script\r\n")
        bash.line("words")
        assert b"got words\r\n" in bash.prompt()
        bash.line("echo rc=$?")
        assert b"rc=3" in bash.prompt()
