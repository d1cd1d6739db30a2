"""Observability sidecar for the shell commands that coding agents run."""

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

    from sidecar.library import AsyncCommand, Command, Options, Progress, Result, arun, astart, run, start

__all__ = ["AsyncCommand", "Command", "Options", "Progress", "Result", "__version__", "arun", "astart", "run", "start"]

__version__ = "0.1.0"

load_rest: "Callable[[bool], None] | None" = None
"""Set where the start-up cache (`sidecar.startup_cache`) is used: loads what it holds for after the spawn. True: also
what an output needs that is a file."""


if not TYPE_CHECKING:  # for a type checker every name would be one of ours

    def __getattr__(name: str) -> object:
        """The library (docs/library.md), loaded by who asks: this module is on each command's way to its spawn."""
        if name in __all__:
            import sidecar.library

            return getattr(sidecar.library, name)
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
