"""How a bridge knows a command by its text, without the text ever being told.

`sidecar bridge` gives its agent a random id in the environment (SIDECAR_BRIDGE_ID). A supervisor that finds it there
puts the id and a keyed digest of the command's text into its first frame; the bridge has the same texts from the
agent's own messages, and compares. Without the id the digest says nothing, and there is none without a bridge.
"""

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from collections.abc import Sequence

MAX_BRIDGE_ID_CHARS = 32


def command_text(argv: "Sequence[str]") -> str:
    """What an agent calls the command: the string of `sh -c STRING`, else the words with spaces in between."""
    for index, word in enumerate(argv[1:-1], 1):
        if not word.startswith("-") or word == "--":
            break
        if "c" in word and not word.startswith("--"):
            return _unwrapped(argv[index + 1])
    return " ".join(argv)


def _unwrapped(text: str) -> str:
    """The command in what Claude Code (2.1) gives its shell: `source FILE ... && eval 'COMMAND' && pwd -P >| FILE`."""
    _, found, after = text.partition(" && eval ")
    if not found:
        _, found, after = text.partition(" && { eval ")
    quoted, found, _ = after.rpartition(" && pwd -P >| ")
    if not found:
        return text
    quoted = quoted.removesuffix("; }")
    for redirected in (" < /dev/null", " \\< /dev/null"):
        quoted = quoted.removesuffix(redirected)
    if len(quoted) < 2 or quoted[0] != "'" or quoted[-1] != "'":
        return text if " " in quoted or "'" in quoted else quoted
    return quoted[1:-1].replace("'\"'\"'", "'")


def match_key(bridge_id: str, text: str) -> str:
    """32 hex digits: BLAKE2s (RFC 7693) of the text, with the bridge's id as the key. White space around it is cut."""
    from _blake2 import blake2s  # hashlib would load OpenSSL

    data = text.strip().encode("utf-8", "surrogateescape")
    digest: str = blake2s(data, key=bridge_id.encode()[:MAX_BRIDGE_ID_CHARS], digest_size=16).hexdigest()
    return digest
