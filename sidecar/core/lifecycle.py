"""The life of a command, as a table.

    starting ─> running ─> stopping ─> settled
        └─────────┴───────────────────────┘

Rules that the table states, and that everybody else may lean on:

- A command is `running` only after its spawn succeeded. Where the spawn failed it goes from `starting`
  straight to `settled`, and no frame but the settled one is ever sent for it.
- Heartbeats exist only in `running`. The moment a stop is decided (timeout, cancel, a signal that ends),
  the command is `stopping`, and there are none: "still running" in the kill window would be a lie.
- A second stop while `stopping` changes nothing: the first reason stands, since it is why the command ended.
- `settled` is the last state. No event leaves it; whatever races with the end loses.
- An event that a state does not allow raises LifecycleError and leaves the state as it was.

The settle reason is decided here too: a command that exits by itself `exited`, or was `signaled`; one that
was being stopped settles with the reason of the stop, whatever its status was. Only the daemon says `lost`.
"""

from sidecar.core.errors import LifecycleError

STARTING, RUNNING, STOPPING, SETTLED = "starting", "running", "stopping", "settled"
STATES = (STARTING, RUNNING, STOPPING, SETTLED)

SPAWNED, SPAWN_FAILED, STOP, EXITED, LOST = "spawned", "spawn_failed", "stop", "exited", "lost"

TABLE: dict[tuple[str, str], str] = {
    (STARTING, SPAWNED): RUNNING,
    (STARTING, SPAWN_FAILED): SETTLED,
    (RUNNING, STOP): STOPPING,
    (RUNNING, EXITED): SETTLED,
    (RUNNING, LOST): SETTLED,
    (STOPPING, STOP): STOPPING,
    (STOPPING, EXITED): SETTLED,
    (STOPPING, LOST): SETTLED,
}

# Who may ask for a stop.
TIMEOUT, SILENCE, SIGNAL, CANCEL, VERDICT = "timeout", "silence_timeout", "signal", "cancel", "verdict"
ASKERS = (TIMEOUT, SILENCE, SIGNAL, CANCEL, VERDICT)

STOP_REASONS = ("timeout", "silence_timeout", "cancelled")
SETTLE_REASONS = ("exited", "signaled", *STOP_REASONS, "spawn_failed", "lost")


class Lifecycle:
    """The state of one command. `state` is one of STATES; `reason` one of SETTLE_REASONS once known."""

    __slots__ = ("reason", "state")

    def __init__(self) -> None:
        self.state = STARTING
        self.reason: str | None = None

    def spawned(self) -> None:
        self._apply(SPAWNED)

    def spawn_failed(self) -> None:
        self._apply(SPAWN_FAILED)
        self.reason = "spawn_failed"

    def stop(self, reason: str) -> None:
        """A stop was decided, for one of STOP_REASONS. The first reason stands."""
        if reason not in STOP_REASONS:
            raise LifecycleError(f"{reason!r} is not a reason to stop; use one of {', '.join(STOP_REASONS)}")
        self._apply(STOP)
        if self.reason is None:
            self.reason = reason

    def exited(self, *, by_signal: bool) -> None:
        """The direct child has been waited for."""
        self._apply(EXITED)
        if self.reason is None:
            self.reason = "signaled" if by_signal else "exited"

    def lost(self) -> None:
        """The supervisor went away without a settle frame: known to the daemon only."""
        self._apply(LOST)
        self.reason = "lost"

    def _apply(self, event: str) -> None:
        target = TABLE.get((self.state, event))
        if target is None:
            raise LifecycleError(f"a command that is {self.state} cannot have the event {event!r}")
        self.state = target


def diagram() -> str:
    """The table as a Mermaid state diagram, for docs/ (a test holds the page and the table together)."""
    lines = ["stateDiagram-v2", "    [*] --> starting"]
    lines += [f"    {state} --> {target}: {event}" for (state, event), target in TABLE.items()]
    return "\n".join([*lines, "    settled --> [*]"])
