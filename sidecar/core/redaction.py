"""A command's words -> one line of shell for telemetry, without the secrets that can be told from the rest.

What is known to be a secret by its shape, its name or its place becomes [REDACTED]; docs/guide.md says
what cannot be told. Pure and linear in what it reads; it reads only as many words as may be shown. Loaded only where
--capture-command asks for it: `re` alone costs as much as a whole spawn.
"""

import re

from sidecar.core import redaction_names as names
from sidecar.core import redaction_options as options
from sidecar.core import redaction_shapes as shapes
from sidecar.core import redaction_sources as sources
from sidecar.core.redaction_words import Word, split

REDACTED = "[REDACTED]"
MAX_BYTES = 4096
"""Of the line as JSON writes it, where a character takes up to 12."""

_MAX_DEPTH = 8  # sh -c "ssh host 'sh -c ...'"; each costs at most one more reading
_MIN_PREFIX = 32
_SAFE = re.compile(r"[A-Za-z0-9_@%+=:,./-]++")
# What would break the line: C0, DEL, C1, and Unicode's own line breaks.
_CONTROL = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029]")
_ESCAPES = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\\": "\\\\", "'": "\\'"}
_TO_ESCAPE = re.compile("[\x00-\x1f\x7f-\x9f\u2028\u2029\\\\']")


def redact(argv: list[str], max_bytes: int = MAX_BYTES) -> str:
    """The command as `shlex.join` writes it, redacted, in at most `max_bytes` of JSON.

    One line always: a word with control characters is written $'...', as bash reads it. Bytes that are no UTF-8
    become U+FFFD. What does not fit is cut after the redaction; the line then ends in `...`.
    """
    read = [_clean(word) for word in argv[:max_bytes]]
    hidden: dict[int, list[shapes.Span]] = {}
    for index, start, end in options.find(read):
        hidden.setdefault(index, []).append((start, end))
    scripts = options.scripts(read)
    line: list[str] = []
    room = max_bytes
    for index, word in enumerate(read):
        if index in scripts:
            spans = _find(word, _MAX_DEPTH, script=True)
        else:
            spans = hidden.get(index, []) + _find(word, _MAX_DEPTH, script=False)
        text = _replace(word, spans)
        quoted = _quote(text)
        cost = _json_bytes(quoted) + 1
        # Room for the ` ...` of the words behind this one.
        if cost + (4 if index + 1 < len(argv) else 0) > room:
            line.append(_cut(text, room - 5))
            break
        line.append(quoted)
        room -= cost
    else:
        if len(argv) > len(read):
            line.append("...")
    return " ".join(line)


def _clean(word: str) -> str:
    if word.isascii():
        return word
    try:
        raw = word.encode("utf-8", "surrogateescape")
    except UnicodeEncodeError:  # a surrogate that stands for no byte
        raw = word.encode("utf-8", "surrogatepass")
    return raw.decode("utf-8", "replace")


def _find(text: str, depth: int, *, script: bool) -> list[shapes.Span]:
    """Secrets of one word, or of a script, and of what is quoted in it."""
    spans = shapes.find(text, script=script)
    if depth == 0 or not (script or any(blank in text for blank in " \t\n;")):
        return spans
    previous: list[Word] = []
    for command in split(text):
        arguments = [word for word in command if not word.here]
        values = [word.value for word in arguments]
        fed = [word for word in command if word.here and word.end and not names.is_reference(word.value)]
        if fed and sources.reads_secret(values):
            spans += [word.raw_span(0, word.end) for word in fed]
        inner = options.scripts(values)
        for index, start, end in options.find(values):
            if index not in inner:
                spans.append(arguments[index].raw_span(start, end))
        for index, start, end in sources.piped([word.value for word in previous], values):
            spans.append(previous[index].raw_span(start, end))
        previous = arguments
        scripts = {id(arguments[index]) for index in inner}
        for word in command:
            # A bare word of a script was looked at as part of it, up to what ends a word; so was all of a text.
            if word.quoted and word.value != text:
                for start, end in _find(word.value, depth - 1, script=id(word) in scripts):
                    spans.append(word.raw_span(start, end))
    return spans


def _replace(text: str, spans: list[shapes.Span]) -> str:
    """`text` with each span, overlapping ones as one, as [REDACTED]."""
    pieces: list[str] = []
    position = 0
    last_end = -1
    for start, end in sorted(spans):
        if start <= last_end:
            last_end = position = max(position, end)
            continue
        pieces += (text[position:start], REDACTED)
        position = last_end = end
    pieces.append(text[position:])
    return "".join(pieces)


def _quote(text: str) -> str:
    if _SAFE.fullmatch(text):
        return text
    if _CONTROL.search(text):
        return "$'" + _TO_ESCAPE.sub(_escape, text) + "'"
    return "'" + text.replace("'", "'\"'\"'") + "'"


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    return _ESCAPES.get(character) or (f"\\x{ord(character):02x}" if character < "\x80" else f"\\u{ord(character):04x}")


def _json_bytes(text: str) -> int:
    from _json import encode_basestring_ascii

    return len(encode_basestring_ascii(text)) - 2


def _cut(text: str, room: int) -> str:
    """As much of a word as fits, and `...`; only that where it would be too little to tell anything."""
    low, high = 0, min(len(text), max(0, room))
    while low < high:
        middle = (low + high + 1) // 2
        if _json_bytes(_quote(text[:middle])) <= room:
            low = middle
        else:
            high = middle - 1
    return _quote(text[:low]) + "..." if low >= _MIN_PREFIX else "..."
