"""What the daemon may keep of the environment of whoever starts it.

A daemon is started by the first command of some agent, and outlives it. So it keeps only what places it
(home, language, runtime folders), what configures it, and what the user names; never an agent's secrets, and
nothing that belongs to the one command that happened to start it.
"""


TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

KEPT_NAMES = frozenset(
    ("HOME", "PATH", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "SSL_CERT_FILE", "SSL_CERT_DIR")
)
KEPT_PREFIXES = ("LC_", "XDG_", "OTEL_", "SIDECAR_")
PER_COMMAND = frozenset(
    (
        "SIDECAR_TOOL_CALL_ID",
        "SIDECAR_TOOL_NAME",
        "SIDECAR_SESSION_ID",
        "SIDECAR_ACTIVE",
        "SIDECAR_TIMEOUT",
    )
)


def daemon_environment(environ: "Mapping[str, str]", extra: "Iterable[str]" = ()) -> dict[str, str]:
    """The part of `environ` that a daemon is started with. `extra`: names that the user's settings add.

    A per-command name stays out even where `extra` has it: it would be wrong for every other command.
    """
    wanted = KEPT_NAMES.union(extra)
    return {
        name: value
        for name, value in environ.items()
        if (name in wanted or name.startswith(KEPT_PREFIXES)) and name not in PER_COMMAND
    }
