"""Observability sidecar for the shell commands that coding agents run."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

__version__ = "0.1.0"

load_rest: "Callable[[], None] | None" = None
"""Set where the start-up cache (`sidecar.startup_cache`) is used: loads what it holds for after the spawn."""
