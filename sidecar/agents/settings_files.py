"""Agents whose settings name the shell, or what stands before it: one key, with the path of `sidecar-sh`."""

import os

from sidecar.agents.edits import Edit, JsonKey, Link, OwnFile, TomlKey
from sidecar.agents.places import Places, is_sidecar_sh
from sidecar.core.errors import UsageError
from sidecar.core.values import printable
from sidecar.supervisor.shim import SHELLS


def claude_code(places: Places, scope: str) -> list[Edit]:
    """CLAUDE_CODE_SHELL_PREFIX: what Claude Code puts before each command; it reaches `sidecar-sh` as one word.

    In a project it goes into settings.local.json, which is not for the repository: the path is this machine's.
    """
    program = places.sidecar_sh
    if any(letter.isspace() for letter in program):
        # It is cut at its last " -", and what is before that is one program.
        raise UsageError(f"{printable(program)}: Claude Code takes no path with a space in it; install it elsewhere")
    if scope == "user":
        file = os.path.join(places.folder_of("CLAUDE_CONFIG_DIR", ".claude"), "settings.json")
    else:
        file = os.path.join(places.project, ".claude", "settings.local.json")
    return [JsonKey(file, ("env", "CLAUDE_CODE_SHELL_PREFIX"), program, is_sidecar_sh)]


def codex(places: Places, scope: str) -> list[Edit]:
    """BASH_ENV for the commands of Codex: bash reads it first, and it hands the command over to `sidecar-sh`.

    Not a hook: a PreToolUse hook of Codex may change a command only by answering "allow" (0.171), and its rules would
    then judge a command that is not the model's.
    """
    folder = places.agent_folder("codex", scope)
    start = os.path.join(folder, BASH_ENV_NAME)
    if scope == "user":
        file = os.path.join(places.folder_of("CODEX_HOME", ".codex"), "config.toml")
    else:
        file = os.path.join(places.project, ".codex", "config.toml")
    return [
        OwnFile(start, _bash_env(places.sidecar_sh), "sidecar setup codex"),
        TomlKey(file, ("shell_environment_policy", "set", "BASH_ENV"), start, is_bash_env),
    ]


BASH_ENV_NAME = "sidecar-bash-env"


def is_bash_env(value: object) -> bool:
    """Is it the path of a start-up file of ours?"""
    return isinstance(value, str) and os.path.basename(value) == BASH_ENV_NAME


def _bash_env(program: str) -> str:
    quoted = "'" + program.replace("'", "'\\''") + "'"
    return f"""# Made by `sidecar setup codex`; --undo removes it. bash reads it (BASH_ENV) before a command of Codex's.
unset BASH_ENV
if [ -n "${{BASH_EXECUTION_STRING+set}}" ] && [ -z "${{SIDECAR_ACTIVE-}}" ] && [ -x {quoted} ]; then
    sidecar_flags=-${{-//[!aefkmnuvxCEHPT]/}}
    shopt -q login_shell && sidecar_flags+=l
    exec {quoted} "${{sidecar_flags}}c" "$BASH_EXECUTION_STRING" "$0" "$@"
fi
"""


def opencode(places: Places, scope: str) -> list[Edit]:
    """`shell`: a link of the shell's own name, since the name is told to the model; a plugin hands on the call's id."""
    shell = os.path.basename(places.environ.get("SHELL", ""))
    name = shell if shell in SHELLS else "bash"
    link = os.path.join(places.agent_folder("opencode", scope), "shims", name)
    if scope == "user":
        base = os.path.join(places.config, "opencode")
        plugins, names = base, ["opencode.jsonc", "opencode.json", "config.json"]
    else:
        base, names = places.project, ["opencode.jsonc", "opencode.json"]
        plugins = os.path.join(base, ".opencode")
    present = [path for name in names if os.path.lexists(path := os.path.join(base, name))]
    file = present[0] if present else os.path.join(base, "opencode.json")
    return [
        Link(link, places.sidecar_sh),
        OwnFile(os.path.join(plugins, "plugin", "sidecar.js"), _PLUGIN, "sidecar setup opencode"),
        JsonKey(file, ("shell",), link, is_opencode_shell),
    ]


def is_opencode_shell(value: object) -> bool:
    """Is it the path of a shim of ours?"""
    parts = value.split("/") if isinstance(value, str) else []
    return len(parts) > 4 and parts[-4:-3] + parts[-2:-1] == ["agents", "shims"] and parts[-3].startswith("opencode")


_PLUGIN = """// Made by `sidecar setup opencode`; --undo removes it. It tells the sidecar the id of the tool call.
export const Sidecar = async () => ({
  "shell.env": async (input, output) => {
    if (input.callID) output.env.SIDECAR_TOOL_CALL_ID = input.callID
    if (input.sessionID) output.env.SIDECAR_SESSION_ID = input.sessionID
  },
})
"""
