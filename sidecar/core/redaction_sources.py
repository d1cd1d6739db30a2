"""Secrets that a command reads: from a pipe (`echo X | docker login --password-stdin`), or as a here-string."""

import re

from sidecar.core import redaction_names as names
from sidecar.core.redaction_names import listed

_OPTIONS = listed("--password-stdin --with-token --passphrase-fd --stdin")
_PROGRAMS = listed("chpasswd passwd kinit cryptsetup smbpasswd realm")
_STORES = listed("secret secrets")
_STORING = listed("set put create add store versions")
_CLUSTER = re.compile(r"-[A-Za-z]{0,8}S[A-Za-z]{0,8}")


def reads_secret(words: list[str]) -> bool:
    """Whether what comes on the standard input of this command is a secret, as far as its words say."""
    seen = {word for word in words if len(word) < 32}
    programs = {word.rpartition("/")[2] for word in seen}
    return bool(
        seen & _OPTIONS
        or programs & _PROGRAMS
        or ("sudo" in programs and any(_CLUSTER.fullmatch(word) for word in seen))
        or (seen & _STORES and seen & _STORING)
        or seen >= {"env", "add"}  # vercel env add NAME
        or (words[:1] == ["read"] and names.is_secret(words[-1]))
        or (words[:1] == ["mysql"] and "-p" in seen)
        or (words[:1] == ["pass"] and "insert" in seen)
        or words[:2] == ["secret-tool", "store"]
    )


def piped(words: list[str], reader: list[str]) -> list[tuple[int, int, int]]:
    """What `echo` or `printf` hands to the next command, where that one reads a secret: (which word, start, end)."""
    if not words or words[0] not in ("echo", "printf") or not reads_secret(reader):
        return []
    return [
        (index, 0, len(word))
        for index, word in enumerate(words)
        if index > 0 and word and word[0] != "-" and "%s" not in word and not names.is_reference(word)
    ]
