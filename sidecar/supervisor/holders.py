"""Who of those that outlived the command holds its output open, and which of its streams.

By the link texts of /proc/PID/fd (proc(5)): `pipe:[inode]`, `socket:[inode]`, `/dev/pts/N`. They are read, never
followed: a look at the file behind one could hang on a dead file system.
"""

import os

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from sidecar.supervisor.streams import Relayed

_MAX_NAMED = 8
_MAX_LOOKED_AT = 64
_MAX_NAME_CHARS = 32
_NAMES = {1: "stdout", 2: "stderr"}


def output_held_by(pids: list[int], relayed: "list[Relayed]", proc: str = "/proc") -> list[str]:
    """`4711 sleep: stdout, stderr` for each of `pids` that holds a relayed stream, or the terminal.

    The first eight; of many processes only the first 64 are looked at. [] without /proc.
    """
    streams = {one.link: ["terminal"] if one.terminal else _in_words(one.group) for one in relayed if one.link}
    named: list[str] = []
    for pid in pids[:_MAX_LOOKED_AT]:
        held = _links(pid, proc) & streams.keys()
        if held and len(named) < _MAX_NAMED:
            names = [name for link, names in streams.items() if link in held for name in names]
            named.append(f"{pid} {_program(pid, proc)}: {', '.join(names)}")
    return named


def _in_words(group: tuple[int, ...]) -> list[str]:
    return [_NAMES.get(number, f"fd {number}") for number in group]


def _links(pid: int, proc: str) -> set[str]:
    folder = f"{proc}/{pid}/fd"
    try:
        numbers = os.listdir(folder)
    except OSError:
        return set()  # it has just ended, or became another user's
    links = set()
    for number in numbers:
        try:
            links.add(os.readlink(f"{folder}/{number}"))
        except OSError:
            continue
    return links


def _program(pid: int, proc: str) -> str:
    try:
        with open(f"{proc}/{pid}/comm", "rb") as file:
            return file.read().decode("utf-8", "replace").strip()[:_MAX_NAME_CHARS]
    except OSError:
        return "?"
