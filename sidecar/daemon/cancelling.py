"""`sidecar cancel`: from whoever asks, to the supervisor of the command, and the settle frame back.

The supervisor is asked over the connection that it holds already; it stops the command, as for SIGTERM. Whoever asked
is told at once that it was asked, and the end when it comes, for which they may wait as long as they like.
"""

import logging
import os
import socket
import struct
import sys
from signal import SIGCONT
from typing import TYPE_CHECKING, Any, Final

from sidecar.core.command import Command
from sidecar.core.command_ids import meant
from sidecar.core.errors import FrameError, UsageError
from sidecar.core.lifecycle import CANCEL
from sidecar.core.receipt import MAX_EVIDENCE_CHARS
from sidecar.daemon.fanout import encode_record

if TYPE_CHECKING:
    from sidecar.daemon.connection import Connection
    from sidecar.daemon.registry import Registry

log = logging.getLogger(__name__)

Record = dict[str, Any]
_DONE_REMEMBERED: Final = 64
_UCRED: Final = struct.Struct("3i")


class Cancels:
    """Who waits for the end of which command. `owners` maps a command id to its supervisor's connection."""

    def __init__(self, registry: "Registry", owners: "dict[str, Connection]") -> None:
        self._registry = registry
        self._owners = owners
        self._waiting: dict[str, list[Connection]] = {}
        self._done: dict[str, tuple[Record, Record]] = {}  # answer and end of what was cancelled, oldest first

    def ask(self, connection: "Connection", request: Record) -> None:
        """Pass a request on and answer it; the end follows on the same connection (`settled`).

        Where several ask at once, the command may be over before the last one is heard: they are answered alike.
        Raises FrameError, whose text is for whoever asked: no such command, or more than one.
        """
        command_id = self._meant(request.get("commandId"))
        command = self._registry.running.get(command_id)
        if command is None:
            done = self._done.get(command_id)
            if done is None:
                raise FrameError(f"the command {command_id} has ended already")
            connection.transport.write(b"".join(map(encode_record, done)))
            connection.close()
            return
        evidence = request.get("evidence", "")
        if not isinstance(evidence, str):
            raise FrameError("evidence must be a string")
        supervisor = self._owners.get(command.id)
        if supervisor is None or supervisor.closing:
            raise FrameError(f"the supervisor of {command.id} is not connected just now; try again in a second")
        record = {"request": "cancel", "commandId": command.id, "askedBy": CANCEL}
        if evidence:
            record["evidence"] = evidence[:MAX_EVIDENCE_CHARS]
        supervisor.transport.write(encode_record(record))
        self._waiting.setdefault(command.id, []).append(connection)
        answer = _answer(command)
        if _continue(supervisor, command.identity["supervisorPid"]):
            answer["continued"] = True
        connection.transport.write(encode_record(answer))

    def settled(self, command: Command, record: Record) -> None:
        """A command has ended: `record` goes to whoever waits for that."""
        if record.get("reason") == "cancelled":
            self._done[command.id] = (_answer(command), record)
            if len(self._done) > _DONE_REMEMBERED:
                del self._done[next(iter(self._done))]
        for connection in self._waiting.pop(command.id, ()):
            connection.transport.write(encode_record(record))
            connection.close()

    def forget(self, connection: "Connection") -> None:
        """Whoever asked has gone, and waits no more."""
        for command_id, waiting in tuple(self._waiting.items()):
            if connection in waiting:
                waiting.remove(connection)
                if not waiting:
                    del self._waiting[command_id]

    def _meant(self, wanted: object) -> str:
        """Of a running command, or of one that has ended, so that a running one is not taken for it."""
        if not isinstance(wanted, str):
            raise FrameError("commandId must be a string")
        called = {command_id: f"{program}, ended" for command_id, program in self._registry.ended.items()}
        called |= {command_id: str(one.identity["program"]) for command_id, one in self._registry.running.items()}
        try:
            command_id = meant(wanted, called)
        except UsageError as error:
            raise FrameError(str(error)) from None
        if command_id is None:
            raise FrameError(f"no command {wanted:.64} is running; `sidecar ps` shows those that are")
        return command_id


def _answer(command: Command) -> Record:
    identity = {key: command.identity[key] for key in ("program", "pid", "supervisorPid")}
    return {"type": "cancelling", "commandId": command.id, **identity}


def _continue(supervisor: "Connection", claimed_pid: int) -> bool:
    """Let a stopped supervisor (a job that was suspended) go on, since it could not hear us. True = it was stopped.

    The pid is the kernel's word for who connected, so nobody else is hit; it must also be what the supervisor says
    (in another pid namespace it is not).
    """
    if sys.platform != "linux":
        return False
    peer: socket.socket = supervisor.transport.get_extra_info("socket")
    try:
        pid, _uid, _gid = _UCRED.unpack(peer.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _UCRED.size))
        if pid != claimed_pid or not _is_stopped(pid):
            return False
        os.kill(pid, SIGCONT)
    except OSError as error:
        log.warning("the stopped supervisor %d cannot be continued: %s", claimed_pid, error)
        return False
    return True


def _is_stopped(pid: int) -> bool:
    with open(f"/proc/{pid}/stat", "rb") as file:
        return file.read().rpartition(b")")[2].split()[0] == b"T"
