"""Which of a command's many events to keep: the first ones, every change, the last ones, and a count.

The SDK's span limit of 128 events drops the *oldest*; so we choose ourselves and stay below it.
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


class Curated(_Of[T]):
    """A bounded selection of a growing sequence, in order.

    Keeps the first `first` items, up to `changes` items that were marked as a change, and the last `last`.
    `dropped` counts what was left out.
    """

    __slots__ = ("_changes", "_first", "_head", "_last", "_marked", "_tail", "total")

    def __init__(self, first: int = 16, changes: int = 48, last: int = 32) -> None:
        self._first = first
        self._changes = changes
        self._last = last
        self._head: list[T] = []
        self._marked: list[T] = []
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
            if was_change and len(self._marked) < self._changes:
                self._marked.append(oldest)

    @property
    def kept(self) -> list[T]:
        """The selection, oldest first."""
        return [*self._head, *self._marked, *(item for item, _ in self._tail)]

    @property
    def dropped(self) -> int:
        return self.total - len(self._head) - len(self._marked) - len(self._tail)
