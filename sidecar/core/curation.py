"""Which of a command's many events to keep: the first ones, the changes, the last ones, and a count of the rest.

The SDK's span limit of 128 events drops the *oldest*; so we choose ourselves and stay below it. Of changes that are
more than there is room for, the first and the last half stay: a verdict that flaps in the first minutes must not
cost us the one change of the seventh hour.
"""

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from typing import Generic, TypeVar

    T = TypeVar("T")

    class _Of(Generic[T]):
        """`Curated` is generic to the type checker only."""

else:
    T = None

    class _Of:
        def __class_getitem__(cls, _: object) -> type:
            return cls


FIRST, CHANGES, LAST = 16, 72, 32


class Curated(_Of[T]):
    """A bounded selection of a growing sequence, in order.

    Keeps the first `first` items, the last `last`, and between them up to `changes` items that were marked as a
    change: the earlier half of that number from the front, the rest from the end. `dropped` counts what was left out.
    """

    __slots__ = ("_changes", "_early", "_first", "_head", "_last", "_late", "_tail", "total")

    def __init__(self, first: int = FIRST, changes: int = CHANGES, last: int = LAST) -> None:
        self._first = first
        self._changes = changes
        self._last = last
        self._head: list[T] = []
        self._early: list[T] = []
        self._late: list[T] = []
        self._tail: list[tuple[T, bool]] = []
        self.total = 0

    def add(self, item: T, *, change: bool = False) -> None:
        self.total += 1
        if len(self._head) < self._first:
            self._head.append(item)
            return
        self._tail.append((item, change))
        if len(self._tail) > self._last:
            oldest, was_change = self._tail.pop(0)
            if was_change:
                self._mark(oldest)

    def _mark(self, item: T) -> None:
        if len(self._early) < self._changes // 2:
            self._early.append(item)
            return
        self._late.append(item)
        if len(self._late) > self._changes - self._changes // 2:
            del self._late[0]

    @property
    def kept(self) -> list[T]:
        """The selection, oldest first."""
        return [*self._head, *self._early, *self._late, *(item for item, _ in self._tail)]

    @property
    def dropped(self) -> int:
        return self.total - len(self._head) - len(self._early) - len(self._late) - len(self._tail)
