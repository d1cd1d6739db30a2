"""`sidecar top` on a real terminal, with a real daemon and real commands."""

import fcntl
import json
import os
import re
import select
import signal
import subprocess
import termios
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from supervised import WAIT_S, Installation, stop_daemon, until

from sidecar.daemon import client


class Terminal:
    """`sidecar top` on a PTY of 80 by 24; `picture` is what it has drawn last, without styles."""

    def __init__(
        self,
        sidecar: Installation,
        *words: str,
        program: tuple[str, ...] = (),
        ignore_hangup: bool = False,
        **environ: str,
    ) -> None:
        self.master, self.slave = os.openpty()
        termios.tcsetwinsize(self.slave, (24, 80))
        self.before = termios.tcgetattr(self.slave)
        self._drawn = b""
        self.process = subprocess.Popen(
            [*(program or (str(sidecar.script),)), "top", "--interval", "200ms", *words],
            stdin=self.slave,
            stdout=self.slave,
            stderr=self.slave,
            env={**sidecar.environ, "TERM": "xterm", "LANG": "C.UTF-8", **environ},
            start_new_session=True,
            preexec_fn=lambda: _prepare(ignore_hangup=ignore_hangup),
        )

    def picture(self) -> list[str]:
        self._read()
        whole = [part for part in self._drawn.split(b"\x1b[H") if part.endswith(b"\x1b[K\x1b[J")]
        text = whole[-1].decode() if whole else ""
        return re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text).replace("\r\r\n", "\r\n").split("\r\n")

    def shows(self, text: str) -> list[str]:
        """Wait until the picture has `text`."""
        until(lambda: any(text in line for line in self.picture()))
        return self.picture()

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def all_drawn(self) -> bytes:
        self._read()
        return self._drawn

    def leaves(self) -> None:
        """Wait until it has given the screen back."""
        until(lambda: self.all_drawn().endswith(b"\x1b[?25h\x1b[?1049l"))

    def end(self) -> None:
        self.process.kill()
        self.process.wait()
        os.close(self.master)
        os.close(self.slave)

    def _read(self) -> None:
        while select.select([self.master], [], [], 0)[0]:
            self._drawn += os.read(self.master, 65536)


def _prepare(*, ignore_hangup: bool) -> None:
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)  # so that Ctrl-C reaches it
    if ignore_hangup:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


@pytest.fixture
def top(sidecar: Installation) -> Iterator[Callable[..., Terminal]]:
    terminals: list[Terminal] = []

    def make(*words: str, program: tuple[str, ...] = (), **environ: str) -> Terminal:
        terminals.append(Terminal(sidecar, *words, program=program, **environ))
        return terminals[-1]

    yield make
    for terminal in terminals:
        terminal.end()


FLAGS = ("--verdict-after", "200ms", "--heartbeat-interval", "500ms")


def test_a_command_its_verdict_its_explanation_and_its_end(sidecar: Installation, top: Callable[..., Terminal]) -> None:
    with sidecar.started("sleep", "60", flags=FLAGS) as process:
        terminal = top("--filter", "sleep")
        shown = terminal.shows("sleeping")
        row = next(line for line in shown if "sleeping" in line)
        assert row.startswith(">")
        assert [line for line in shown if len(line) > 80] == []
        assert len(shown) == 24
        terminal.press("\r")
        terminal.shows("how sure")
        terminal.press("q")
        terminal.press("c")
        terminal.shows("cancel (y/n)? sleep (pid")
        terminal.press("y")
        terminal.shows("cancelled, ran")
        process.wait(WAIT_S)


def test_the_terminal_is_given_back_as_it_was(sidecar: Installation, top: Callable[..., Terminal]) -> None:
    for end in ("q", "\x03", "\x1c", "\x04", "\x1b"):
        terminal = top()
        terminal.shows("sidecar top")
        assert termios.tcgetattr(terminal.slave) != terminal.before
        terminal.press(end)
        assert terminal.process.wait(WAIT_S) == 0
        assert termios.tcgetattr(terminal.slave) == terminal.before
        terminal.leaves()


@pytest.mark.parametrize("name", ["SIGTERM", "SIGHUP", "SIGINT", "SIGQUIT", "SIGUSR1", "SIGUSR2", "SIGALRM"])
def test_signals_end_it_cleanly(top: Callable[..., Terminal], name: str) -> None:
    terminal = top()
    terminal.shows("sidecar top")
    terminal.process.send_signal(getattr(signal, name))
    assert terminal.process.wait(WAIT_S) == 0
    assert termios.tcgetattr(terminal.slave) == terminal.before
    terminal.leaves()


def test_an_arrow_key_in_two_pieces_is_no_escape(sidecar: Installation, top: Callable[..., Terminal]) -> None:
    """As it comes over a slow line; Escape would end it. It waits long for the second piece here: we may be held up."""
    patient = f"from sidecar.top import loop; loop._REST_OF_A_KEY_S = {WAIT_S}"
    start = "import sys; from sidecar.launch import main; sys.exit(main())"
    terminal = top(program=(f"{sidecar.prefix}/bin/python3", "-c", f"{patient}; {start}"))
    terminal.shows("sidecar top")
    for _ in range(5):
        terminal.press("\x1b")
        terminal.press("[B")
    terminal.press("/zz")
    terminal.shows("only with (enter; escape = all): zz_")


def test_a_terminal_that_is_hung_up_ends_it(sidecar: Installation) -> None:
    """Also where the hang-up itself is ignored, as below nohup."""
    terminal = Terminal(sidecar, ignore_hangup=True)
    try:
        terminal.shows("sidecar top")
        os.close(terminal.slave)
        os.close(terminal.master)
        assert terminal.process.wait(WAIT_S) == 0
    finally:
        terminal.process.kill()
        terminal.process.wait()


def test_what_ended_between_two_looks_has_its_name(sidecar: Installation, top: Callable[..., Terminal]) -> None:
    sidecar.run("true")
    terminal = top("--interval", "1h")
    terminal.shows("no command is running")
    sidecar.run("sh", "-c", "exit 7")
    assert next(line for line in terminal.shows("exit 7") if "exit 7" in line).split()[0] == "sh"


def test_a_daemon_that_hangs(sidecar: Installation, top: Callable[..., Terminal]) -> None:
    """It is told, leaving does not wait for it, and who asks once is told that it is no empty list."""
    sidecar.run("true")
    pid = client.status(sidecar.socket)["pid"]
    terminal = top()
    terminal.shows("sorted by")
    os.kill(pid, signal.SIGSTOP)
    try:
        shown = " ".join(terminal.shows("NO ANSWER"))
        assert f"the daemon did not answer within 3 s: `sidecar why {pid}` says why" in shown
        terminal.press("q")
        assert terminal.process.wait(WAIT_S) == 0
        asked = [
            subprocess.Popen(
                [str(sidecar.script), *words.split()],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env=sidecar.environ,
            )
            for words in ("ps --json", "top --json", "top --once", "top --web", "cancel 0190")
        ]
        for process in asked:
            stdout, stderr = process.communicate(timeout=WAIT_S)
            assert (process.returncode, stdout) == (125, "")
            assert f"did not answer within 10 s: `sidecar why {pid}` says why, `sidecar daemon stop` ends it" in stderr
    finally:
        os.kill(pid, signal.SIGCONT)


def test_without_a_daemon_programs_are_told_so(sidecar: Installation, tmp_path: Path) -> None:
    nowhere = {**sidecar.environ, "SIDECAR_SOCKET": str(tmp_path / "s.sock")}
    done = subprocess.run([str(sidecar.script), "top", "--json"], capture_output=True, env=nowhere, check=False)
    assert (done.returncode, json.loads(done.stdout)) == (0, [])
    assert b"no daemon is running" in done.stderr


def test_suspended_and_continued(top: Callable[..., Terminal]) -> None:
    terminal = top()
    terminal.shows("sidecar top")
    terminal.process.send_signal(signal.SIGTSTP)
    until(lambda: Path(f"/proc/{terminal.process.pid}/stat").read_text().rpartition(") ")[2][0] == "T")
    assert termios.tcgetattr(terminal.slave) == terminal.before
    terminal.process.send_signal(signal.SIGCONT)
    drawn = len(terminal.all_drawn())
    until(lambda: len(terminal.all_drawn()) > drawn)
    assert termios.tcgetattr(terminal.slave) != terminal.before


def test_another_size(top: Callable[..., Terminal]) -> None:
    terminal = top()
    terminal.shows("sidecar top")
    termios.tcsetwinsize(terminal.slave, (10, 40))
    terminal.process.send_signal(signal.SIGWINCH)
    until(lambda: len(terminal.picture()) == 10)
    assert [line for line in terminal.picture() if len(line) > 40] == []


def test_without_colour_nothing_is_coloured(sidecar: Installation, top: Callable[..., Terminal]) -> None:
    with sidecar.started("cat", flags=(*FLAGS, "--pty"), stdin=subprocess.PIPE):
        plain, coloured = top(NO_COLOR="1"), top()
        for terminal in (plain, coloured):
            terminal.shows("cat")
            terminal.shows("c cancel")
        colours = rb"\x1b\[[0-9;]*3[0-7]m"
        until(lambda: re.search(colours, coloured.all_drawn()))
        assert not re.search(colours, plain.all_drawn())


def test_when_the_daemon_is_gone_it_says_so_and_finds_the_next(
    sidecar: Installation, top: Callable[..., Terminal]
) -> None:
    sidecar.run("true")
    terminal = top()
    terminal.shows("sorted by")
    stop_daemon(sidecar.socket)
    terminal.shows("NO DAEMON")
    sidecar.run("true")
    terminal.shows("sorted by")


def test_once_and_for_programs(sidecar: Installation) -> None:
    with sidecar.started("sleep", "60", flags=FLAGS):

        def told() -> list[dict[str, object]]:
            done = subprocess.run(
                [str(sidecar.script), "top", "--json", "--filter", "sleeping"],
                capture_output=True,
                env=sidecar.environ,
                check=True,
                timeout=WAIT_S,
            )
            return json.loads(done.stdout)

        until(told)
        (command,) = told()
        assert (command["program"], command["verdict"]) == ("sleep", "sleeping")
        assert isinstance(command["cpuPercent"], float)
        once = subprocess.run(
            [str(sidecar.script), "top"],
            capture_output=True,
            text=True,
            env=sidecar.environ,
            check=True,
            timeout=WAIT_S,
        )
        assert "sleeping" in once.stdout
        assert not once.stdout.endswith("\n\n")
        assert "\x1b" not in once.stdout


@pytest.mark.parametrize("closed", ["<&-", ">&-", "<&- >&- 2>&-"])
@pytest.mark.parametrize("words", ["top", "top --json", "ps", "history"])
def test_with_standard_streams_closed(sidecar: Installation, closed: str, words: str) -> None:
    with sidecar.started("sleep", "60"):
        done = subprocess.run(
            ["sh", "-c", f'exec "$0" {words} {closed}', str(sidecar.script)],
            capture_output=True,
            env=sidecar.environ,
            check=False,
            timeout=WAIT_S,
        )
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_terminal_that_takes_nothing_any_more(sidecar: Installation) -> None:
    """As behind a connection that is dead: a signal ends it all the same, and the settings are what they were."""
    terminal = Terminal(sidecar, "--interval", "100ms")
    try:
        terminal.shows("sidecar top")
        termios.tcsetwinsize(terminal.slave, (500, 500))
        poll = select.poll()
        poll.register(terminal.slave, select.POLLOUT)
        # Nobody reads from here on: pictures fill the terminal's buffer.
        until(lambda: not poll.poll(0))
        terminal.process.send_signal(signal.SIGTERM)
        assert terminal.process.wait(WAIT_S) == 0
        assert termios.tcgetattr(terminal.slave) == terminal.before
    finally:
        terminal.end()


def test_printed_once_on_80_columns_it_has_an_id_to_paste(sidecar: Installation, top: Callable[..., Terminal]) -> None:
    with sidecar.started("sleep", "60", flags=FLAGS) as process:
        until(lambda: json.loads(sidecar.run(str(sidecar.script), "ps", "--json", bare=True).stdout))
        terminal = top("--once")
        assert terminal.process.wait(WAIT_S) == 0
        until(lambda: terminal.all_drawn().rstrip(b" ").endswith(b"\n"))
        lines = terminal.all_drawn().decode().splitlines()
        assert max(map(len, lines)) <= 80
        header, row = lines[-2:]
        assert header.split()[-1] == "ID"
        cancelled = sidecar.run(str(sidecar.script), "cancel", row.split()[-1], bare=True)
        assert (cancelled.status, cancelled.stderr) == (0, b"")
        process.wait(WAIT_S)


@pytest.mark.parametrize("name", ["dumb", ""])
def test_a_terminal_that_cannot(sidecar: Installation, top: Callable[..., Terminal], name: str) -> None:
    terminal = top(TERM=name)
    assert terminal.process.wait(WAIT_S) == 125
    until(lambda: b"--once" in terminal.all_drawn())


def test_it_starts_at_once(top: Callable[..., Terminal]) -> None:
    """No figure: only that nothing is waited for before the first picture."""
    began = time.monotonic()
    top("--interval", "30s").shows("sidecar top")
    assert time.monotonic() - began < WAIT_S
