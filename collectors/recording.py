"""What the kernel answered during one pair of looks, kept in a file, and answered again from it.

A recorded tree is a JSON file with one answer a line: `"read 12/stat": "12 (sleep) S ..."`. The second look has only
what differs from the first. Answers are as the kernel gave them, but that of mountinfo and status only the lines
are kept that are used. The test data are such files; a user can send one with a report of a wrong verdict.
"""

import json
from typing import Any

from collectors.calls import PATH_BYTES
from collectors.kernel import Kernel
from collectors.look import Looker
from collectors.observer import SAMPLES, SECONDS, finish
from sidecar.core.evidence import Look

_STATUS_KEPT = (b"Name", b"SigCgt", b"TracerPid")
_MOUNTS_KEPT = (b"/", b"/proc", b"/dev", b"/tmp")
_MOUNTS_BELOW_KEPT = (b"/sys/fs/cgroup", b"/tmp/")
_BEFORE, _AFTER = "before", "after"


class RecordingKernel(Kernel):
    """Asks the kernel and keeps each answer, under `phase`."""

    def __init__(self, proc_root: str = "/proc", denied: frozenset[str] = frozenset()) -> None:
        super().__init__(proc_root, denied)
        self.phase = _BEFORE
        self.answers: dict[str, dict[str, Any]] = {_BEFORE: {}, _AFTER: {}}

    def _keep(self, key: str, answer: Any, refused: set[str]) -> None:
        newly = self.refused - refused
        value = {"refused": sorted(newly)} if newly and answer in (None, 0) else answer
        if self.phase == _AFTER and self.answers[_BEFORE].get(key, _MISSING) == value:
            return
        self.answers[self.phase][key] = value

    def read(self, path: str) -> bytes | None:
        refused, self.refused = self.refused, set()
        answer = super().read(path)
        kept = _shortened(path, answer)
        self._keep(f"read {path}", None if kept is None else kept.decode("latin-1"), set())
        self.refused |= refused
        return answer

    def read_system(self, path: str) -> bytes | None:
        answer = super().read_system(path)
        self._keep(f"system {path}", None if answer is None else answer.decode("latin-1"), self.refused)
        return answer

    def names(self, path: str) -> list[str] | None:
        refused, self.refused = self.refused, set()
        answer = super().names(path)
        self._keep(f"names {path}", None if answer is None else " ".join(answer), set())
        self.refused |= refused
        return answer

    def link(self, path: str) -> str | None:
        refused, self.refused = self.refused, set()
        answer = super().link(path)
        self._keep(f"link {path}", answer, set())
        self.refused |= refused
        return answer

    def link_mode(self, path: str) -> int:
        answer = super().link_mode(path)
        self._keep(f"mode {path}", f"{answer:o}", self.refused)
        return answer

    def memory(self, pid: int, address: int, size: int) -> bytes | None:
        refused, self.refused = self.refused, set()
        answer = super().memory(pid, address, size)
        kept = answer
        if answer is not None and size == PATH_BYTES:
            kept = answer.partition(b"\0")[0].ljust(len(answer), b"\0")  # what lies behind the path is not ours to keep
        self._keep(f"memory {pid} {address:#x} {size}", None if kept is None else kept.hex(), set())
        self.refused |= refused
        return answer

    def socket_diagnosis(self, request: bytes, is_dump: bool) -> list[bytes] | None:
        refused, self.refused = self.refused, set()
        answer = super().socket_diagnosis(request, is_dump)
        key = f"sockets {'all' if is_dump else 'one'} {request.hex()}"
        self._keep(key, None if answer is None else [part.hex() for part in answer], set())
        self.refused |= refused
        return answer

    def terminal(self, descriptor: int | None, path: str) -> tuple[int, int | None, bool | None] | None:
        answer = super().terminal(descriptor, path)
        self._keep("terminal", None if answer is None else list(answer), self.refused)
        return answer

    def exists(self, pid: int) -> bool:
        answer = super().exists(pid)
        self._keep(f"exists {pid}", answer, self.refused)
        return answer

    def clock_s(self, clock: int) -> float | None:
        answer = super().clock_s(clock)
        self._keep(f"clock {clock}", answer, self.refused)
        return answer

    def now_ns(self) -> int:
        answer = super().now_ns()
        self._keep("now_ns", answer, self.refused)
        return answer


class ReplayKernel(Kernel):
    """Answers from a recorded tree. What was not asked when it was recorded is gone."""

    def __init__(self, recorded: dict[str, Any], denied: frozenset[str] = frozenset()) -> None:
        super().__init__("/nonexistent", denied)
        self.machine = recorded["machine"]
        self.own_pid = recorded["own_pid"]
        self.answers: dict[str, Any] = dict(recorded[_BEFORE])
        self._after: dict[str, Any] = recorded[_AFTER]

    def go_on(self) -> None:
        """From the first look to the second."""
        self.answers.update(self._after)

    def _answer(self, key: str, source: str) -> Any:
        if self.denied and source and not self._may(source):
            return None
        answer = self.answers.get(key)
        if isinstance(answer, dict):
            self.refused.update(answer["refused"])
            return None
        return answer

    def read(self, path: str) -> bytes | None:
        answer = self._answer(f"read {path}", path)
        return None if answer is None else answer.encode("latin-1")

    def read_system(self, path: str) -> bytes | None:
        answer = self._answer(f"system {path}", "cgroup")
        return None if answer is None else answer.encode("latin-1")

    def names(self, path: str) -> list[str] | None:
        answer = self._answer(f"names {path}", path)
        return None if answer is None else answer.split()

    def link(self, path: str) -> str | None:
        answer: str | None = self._answer(f"link {path}", path)
        return answer

    def link_mode(self, path: str) -> int:
        answer = self._answer(f"mode {path}", path)
        return 0 if answer is None else int(answer, 8)

    def memory(self, pid: int, address: int, size: int) -> bytes | None:
        answer = self._answer(f"memory {pid} {address:#x} {size}", "mem")
        return None if answer is None else bytes.fromhex(answer)

    def socket_diagnosis(self, request: bytes, is_dump: bool) -> list[bytes] | None:
        answer = self._answer(f"sockets {'all' if is_dump else 'one'} {request.hex()}", "netlink")
        return None if answer is None else [bytes.fromhex(part) for part in answer]

    def terminal(self, descriptor: int | None, path: str) -> tuple[int, int | None, bool | None] | None:
        answer = self._answer("terminal", "terminal")
        return None if answer is None else (answer[0], answer[1], answer[2] if len(answer) > 2 else None)

    def exists(self, pid: int) -> bool:
        return bool(self._answer(f"exists {pid}", ""))

    def clock_s(self, clock: int) -> float | None:
        answer: float | None = self._answer(f"clock {clock}", "")
        return answer

    def now_ns(self) -> int:
        return int(self._answer("now_ns", "") or 0)

    def pause(self, seconds: float) -> None:
        """Nothing to wait for."""


def record(looker: Looker, kernel: RecordingKernel, about: dict[str, Any]) -> tuple[dict[str, Any], Look, Look]:
    """Look twice through `kernel`, which is the looker's. Returns the record and the two looks."""
    before = looker.look()
    states: dict[int, str] = {}
    kernel.phase = "samples"
    kernel.answers["samples"] = {}
    for _ in range(SAMPLES):
        kernel.pause(SECONDS / (SAMPLES + 1))
        looker.sample(before, states)
    kernel.pause(SECONDS / (SAMPLES + 1))
    kernel.phase = _AFTER
    after = finish(looker, before, states)
    recorded = {
        **about,
        "machine": kernel.machine,
        "root": looker.root,
        "supervisor": looker.supervisor,
        "own_pid": kernel.own_pid,
        "states": {str(pid): seen for pid, seen in states.items()},
        _BEFORE: kernel.answers[_BEFORE],
        _AFTER: kernel.answers[_AFTER],
    }
    return recorded, before, after


def replay(recorded: dict[str, Any], denied: frozenset[str] = frozenset()) -> tuple[Look, Look]:
    """The two looks of a recorded tree, with the sources in `denied` unreadable."""
    kernel = ReplayKernel(recorded, denied)
    looker = Looker(recorded["root"], supervisor=recorded["supervisor"], kernel=kernel)
    before = looker.look()
    kernel.go_on()
    states = {int(pid): seen for pid, seen in recorded["states"].items()}
    return before, finish(looker, before, states if "stat" not in denied else {})


def dumps(recorded: dict[str, Any]) -> str:
    return json.dumps(recorded, indent=1) + "\n"


_MISSING = object()


def _shortened(path: str, answer: bytes | None) -> bytes | None:
    if answer is None:
        return None
    if path.endswith("/status"):
        return b"".join(line for line in answer.splitlines(keepends=True) if line.startswith(_STATUS_KEPT))
    if path.endswith("/mountinfo"):
        return b"".join(line for line in answer.splitlines(keepends=True) if _is_mount_kept(line))
    return answer


def _is_mount_kept(line: bytes) -> bool:
    point = (line.split() + [b""] * 5)[4]
    return point in _MOUNTS_KEPT or point.startswith(_MOUNTS_BELOW_KEPT)
