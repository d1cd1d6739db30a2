"""The live view: keys, news and the clock in, pictures out."""

import os
import select
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Final

from sidecar.cli.tables import cut
from sidecar.cli.verdict_words import opening, told
from sidecar.core.errors import DaemonUnavailable
from sidecar.core.values import printable
from sidecar.daemon import client
from sidecar.daemon.feed import Feed
from sidecar.daemon.tree_cpu import TreeCpu
from sidecar.top.board import Board, Row
from sidecar.top.keys import Keys
from sidecar.top.screen import Screen, TerminalGone
from sidecar.top.view import Ui, lines_of

_MOVES: Final = {"up": -1, "k": -1, "down": 1, "j": 1, "page_up": -10, "page_down": 10, "home": -(10**6), "end": 10**6}
_ANSWER_S: Final = 2.0
_MESSAGE_S: Final = 5.0
_CLOCK_S: Final = 1.0
_REST_OF_A_KEY_S: Final = 0.1
_NAME_COLUMNS: Final = 24


@dataclass(slots=True)
class Typing:
    """A filter that is being typed, or a question that wants y. Neither: all empty."""

    filter: str | None = None
    cancelling: Row | None = None


@dataclass(slots=True)
class Live:
    """What the keys act on. `press` is the whole of it, and needs no terminal.

    `cancel` asks the daemon, and returns what to say.
    """

    board: Board
    cancel: Callable[[str], str]
    ui: Ui = field(default_factory=Ui)
    typing: Typing = field(default_factory=Typing)
    message_until_s: float = 0.0

    def press(self, key: str, now_s: float) -> bool:
        """False: the user wants to leave."""
        if self.typing.cancelling is not None:
            self._answer(key, now_s)
        elif self.typing.filter is not None:
            self._type(key)
        elif self.ui.page is not None:
            self._read(key)
        elif key in ("q", "escape"):
            return False
        elif key in _MOVES:
            self.board.move(_MOVES[key])
        elif key in ("enter", "e"):
            self._explain(now_s)
        elif key == "c":
            self._ask()
        elif key == "/":
            self.typing.filter = self.board.filter
        elif key == "s":
            self.board.next_sort()
        self._prompt()
        return True

    def tick(self, now_s: float) -> None:
        if self.ui.message and now_s >= self.message_until_s:
            self.ui.message = ""

    def _explain(self, now_s: float) -> None:
        row = self.board.row()
        if row is None:
            self._say("no command is running", now_s)
            return
        record = dict(row.record)
        subject = f"{record.get('program')} (pid {record.get('pid')})"
        ids = [f"{name:<11} {printable(str(record[key]))}" for key, name in _IDS.items() if key in record]
        self.ui.page = [opening(record, subject), *told(record, subject), "", *ids]
        self.ui.page_top = 0

    def _read(self, key: str) -> None:
        if key in ("q", "escape", "enter", "e"):
            self.ui.page = None
        elif key in _MOVES:
            self.ui.page_top = max(0, self.ui.page_top + _MOVES[key])

    def _ask(self) -> None:
        self.typing.cancelling = self.board.row()

    def _answer(self, key: str, now_s: float) -> None:
        row, self.typing.cancelling = self.typing.cancelling, None
        if row is not None and key in ("y", "Y"):
            self._say(self.cancel(row.id), now_s)

    def _type(self, key: str) -> None:
        typed = self.typing.filter or ""
        if key == "enter":
            self.board.filter, self.typing.filter = typed, None
        elif key == "escape":
            self.board.filter, self.typing.filter = "", None
        elif key == "backspace":
            self.typing.filter = typed[:-1]
        elif len(key) == 1:
            self.typing.filter = typed + key

    def _say(self, message: str, now_s: float) -> None:
        self.ui.message, self.message_until_s = message, now_s + _MESSAGE_S

    def _prompt(self) -> None:
        row = self.typing.cancelling
        if row is not None:
            named = f"{cut(row.record.get('program'), _NAME_COLUMNS)} (pid {row.record.get('pid')})"
            self.ui.prompt = f"cancel (y/n)? {named}: TERM to its whole tree"
        elif self.typing.filter is not None:
            self.ui.prompt = f"only with (enter; escape = all): {printable(self.typing.filter)}_"
        else:
            self.ui.prompt = None
        self.ui.typed = self.typing.filter is not None


_IDS: Final = {
    "commandId": "command",
    "toolName": "tool",
    "toolCallId": "tool call",
    "sessionId": "session",
    "traceId": "trace",
    "supervisorPid": "supervisor",
}


def run(path: str, board: Board, interval_s: float, *, colour: bool, unicode: bool) -> None:
    """Until the user leaves. `path` is the daemon's socket; stdin and stdout are a terminal."""
    live = Live(board, lambda command_id: ask_to_stop(path, command_id))
    cpu = TreeCpu()
    keys = Keys()
    feed = Feed(path, interval_s)
    try:
        with Screen(colour=colour) as screen:
            poll = select.poll()
            for descriptor in (feed.descriptor, screen.descriptor, screen.woken):
                poll.register(descriptor, select.POLLIN)
            while True:
                now_s = time.monotonic()
                live.tick(now_s)
                clock = time.strftime("%H:%M:%S")
                screen.show(lines_of(board, live.ui, screen.size(), now_s, clock, unicode=unicode))
                wait_s = _REST_OF_A_KEY_S if keys.waits else min(interval_s, _CLOCK_S)
                happened = poll.poll(wait_s * 1000)
                if not happened and not _pressed(live, keys.flush()):
                    return
                for descriptor, event in happened:
                    if descriptor == feed.descriptor:
                        take(board, feed, cpu)
                    elif descriptor == screen.woken:
                        os.read(screen.woken, 4096)
                    elif not (event & select.POLLIN and _pressed_or_gone(live, screen.keys(), keys)):
                        return
    except (KeyboardInterrupt, TerminalGone):
        pass
    finally:
        feed.close()


def take(board: Board, feed: Feed, cpu: TreeCpu) -> None:
    """The news, onto the board; and how busy those are that can be seen on it."""
    for kind, what in feed.take():
        now_s = time.monotonic()
        if kind == "commands":
            board.update(what, now_s)
            rows = board.rows()
            percents = cpu.percents((int(row.record["pid"]) for row in rows), now_s)
            for row in rows:
                row.cpu_percent = percents.get(int(row.record["pid"]), row.cpu_percent)
        elif kind == "settled":
            board.settle(what, now_s)
        else:
            board.lose(what, is_there=kind == "silent")


def ask_to_stop(path: str, command_id: str) -> str:
    """Have the daemon stop a command; what came of it, in a line."""
    try:
        with client.cancel(path, command_id, f"sidecar top, pid {os.getpid()}", timeout_s=_ANSWER_S) as answers:
            answer = answers.next_within(_ANSWER_S)
            if answer is None:
                return str(answers.unanswered(_ANSWER_S))
    except DaemonUnavailable as error:
        return str(error)
    if answer.get("type") != "cancelling":
        return str(answer.get("message", "the daemon cannot cancel"))
    return f"asked {answer['program']} (pid {answer['pid']}) to stop"


def _pressed_or_gone(live: Live, data: bytes, keys: Keys) -> bool:
    return bool(data) and _pressed(live, keys.feed(data))


def _pressed(live: Live, keys: Iterable[str]) -> bool:
    now_s = time.monotonic()
    return all(live.press(key, now_s) for key in keys)
