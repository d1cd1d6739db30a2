"""Agents whose settings name the shell, or what stands before it: one key, with the path of `sidecar-sh`."""

import os

from sidecar.agents.edits import Edit, JsonKey
from sidecar.agents.places import Places, is_sidecar_sh
from sidecar.core.errors import UsageError
from sidecar.core.values import printable


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
