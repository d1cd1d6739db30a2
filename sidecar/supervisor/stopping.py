"""One stop of one command: TERM to the whole tree, KILL to what is left after the grace, and the receipt of it.

A stop has one asker (a deadline, a signal, `sidecar cancel`, a verdict); the first one's name stands in the receipt.
Whoever asks again later than AGAIN_NS has lost patience: KILL goes to what is left at once. Two askings within
AGAIN_NS are one: timeout(1) and some agents say TERM to our pid and to our group in one breath.

Loaded when a stop begins; most commands never need it.
"""

from sidecar.core.receipt import Receipt

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from sidecar.core.frame_line import Json
    from sidecar.supervisor.child import Child

AGAIN_NS = 500_000_000
_AFTER_KILL_NS = 2_000_000_000
"""A process that does not die of KILL (uninterruptible sleep) is given up after this long."""
_NS_PER_MS = 1_000_000


class Stop:
    """Begins at once. `deadline_ns` is when `tick` wants to be called next, None once nothing more is done.

    `but_group`: our own process group has had its TERM. Times are monotonic nanoseconds.
    """

    def __init__(
        self,
        child: "Child",
        asked_by: str,
        evidence: str | None,
        *,
        started_ns: int,
        now_ns: int,
        kill_after_ns: int,
        but_group: bool,
    ) -> None:
        self._child = child
        self._started_ns = started_ns
        self._begun_ns = now_ns
        self._kill_at_ns: int | None = now_ns + kill_after_ns
        self._give_up_at_ns: int | None = None
        self._receipt = Receipt(asked_by, evidence, self._since_start_ms(now_ns))
        self._note("SIGTERM", child.terminate(but_group=but_group), now_ns)

    @property
    def deadline_ns(self) -> int | None:
        return self._kill_at_ns if self._kill_at_ns is not None else self._give_up_at_ns

    def again(self, now_ns: int) -> bool:
        """Somebody asks once more. True = that was a request of its own, and KILL went out."""
        if now_ns - self._begun_ns < AGAIN_NS or self._kill_at_ns is None:
            return False
        self._kill(now_ns)
        return True

    def tick(self, now_ns: int) -> None:
        if self._kill_at_ns is not None and now_ns >= self._kill_at_ns:
            self._kill(now_ns)

    def given_up(self, now_ns: int) -> bool:
        """What is left now will not die."""
        return self._give_up_at_ns is not None and now_ns >= self._give_up_at_ns

    def receipt(self) -> "dict[str, Json]":
        """Once it is over. Names what survived."""
        self._receipt.survivors = self._child.survivors()
        return self._receipt.as_json()

    def _kill(self, now_ns: int) -> None:
        self._kill_at_ns = None
        self._give_up_at_ns = now_ns + _AFTER_KILL_NS
        self._note("SIGKILL", self._child.kill(), now_ns)

    def _note(self, signal: str, processes: int, now_ns: int) -> None:
        self._receipt.sent(signal, self._since_start_ms(now_ns), processes)

    def _since_start_ms(self, now_ns: int) -> int:
        return max(0, now_ns - self._started_ns) // _NS_PER_MS


def sender_words(signal: str, pid: int | None, proc: str = "/proc") -> str:
    """The evidence of a stop that a signal asked for: "SIGTERM from pid 4711 (bash)", as far as it can be known."""
    if not pid:
        return signal  # the kernel, another pid namespace, or a platform that does not tell
    try:
        with open(f"{proc}/{pid}/comm", "rb") as file:
            name = file.read().decode("utf-8", "replace").strip()
    except OSError:
        return f"{signal} from pid {pid}"
    return f"{signal} from pid {pid} ({name})"
