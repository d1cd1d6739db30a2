"""Text -> value, for every kind of option. The one validator there is.

Wherever a value comes from (flag, variable, file, compiled snapshot) it is text first, and the function of
its kind reads it: `sidecar.config.Settings` uses these functions as its pydantic validators, and the fast path
of `sidecar run` calls the very same ones. Each raises ValueError, whose text says what is allowed.

Light: standard library builtins only, because the fast path loads this before the spawn.
"""

from sidecar.core import duration

TYPE_CHECKING = False
if TYPE_CHECKING:
    from collections.abc import Callable

# Three identifiers go into one frame of at most 8 KiB, where a character of UTF-8 can take three times its
# bytes as an escape: 3 * 256 * 3 leaves room for the rest.
MAX_IDENTIFIER_BYTES = 256
MAX_FAMILY_CHARACTERS = 64
MIN_HEARTBEAT_NS = 10_000_000
MIN_EXPORT_INTERVAL_NS = 1_000_000_000

ALLOWED = {
    "timeout": f"{duration.ALLOWED} (0 = none)",
    "duration": f"{duration.ALLOWED} (0 = at once)",
    "heartbeat": f"{duration.ALLOWED}, at least 10ms (0 = never)",
    "export_interval": f"{duration.ALLOWED}, at least 1s",
    "bool": "true or false (also yes/no, on/off, 1/0)",
    "pty": "auto, true or false",
    "identifier": f"printable text in UTF-8, at most {MAX_IDENTIFIER_BYTES} bytes",
    "path": "an absolute path without control characters",
    "program": "an absolute path without control characters",
    "names": "names of environment variables separated by commas, like AWS_PROFILE,HTTPS_PROXY",
    "verdict_limits": (
        "VERDICT:AGE=ACTION separated by commas, like awaiting_input:60s=cancel, with a verdict or a group of verdicts "
        "(needs_someone, may_be_hung, waiting, working, unknown), a duration, and report or cancel (empty = none)"
    ),
    "families": (
        f"names of programs separated by commas, like git,npm,pytest, at most {MAX_FAMILY_CHARACTERS} characters each"
    ),
    "size": "a number of bytes like 500KB, 64MiB or 1GiB (0 = none)",
    "count": "a number like 1000 (0 = none)",
    "port": "a port from 1 to 65535, or 0 for none",
    "descriptor": "the number of an open descriptor from 3 up",
    "url": "a URL like http://127.0.0.1:4318, or unix:/path for gRPC",
    "trace_url": "a URL like http://localhost:16686/trace/{traceId}, with {traceId} in it",
    "protocol": "http/protobuf or grpc",
    "headers": "name=value pairs separated by commas, percent-encoded, like api-key=abc,x-tenant=a%2Cb",
}

_TRUE = ("true", "yes", "on", "1")
_FALSE = ("false", "no", "off", "0")
_NUMERIC = ("timeout", "duration", "heartbeat", "export_interval", "size", "count", "port", "descriptor")
_SIZES = {"": 1, "B": 1, "KB": 1000, "MB": 1000**2, "GB": 1000**3, "KIB": 1 << 10, "MIB": 1 << 20, "GIB": 1 << 30}
_NAME_START = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz_"
_NAME = _NAME_START + "0123456789"
# What a field name of HTTP may be made of (RFC 9110, 5.6.2: token).
_TOKEN = _NAME + "!#$%&'*+-.^`|~"


def parse_timeout(text: str) -> int | None:
    """A duration in nanoseconds; 0 means there is none."""
    return _duration(text, "timeout") or None


def parse_duration(text: str) -> int:
    """A duration in nanoseconds."""
    return _duration(text, "duration")


def parse_heartbeat(text: str) -> int:
    """A heartbeat interval in nanoseconds; 0 means never."""
    value_ns = _duration(text, "heartbeat")
    if 0 < value_ns < MIN_HEARTBEAT_NS:
        raise ValueError(ALLOWED["heartbeat"])
    return value_ns


def parse_export_interval(text: str) -> int:
    """An interval between two exports in nanoseconds."""
    value_ns = _duration(text, "export_interval")
    if value_ns < MIN_EXPORT_INTERVAL_NS:
        raise ValueError(ALLOWED["export_interval"])
    return value_ns


def parse_bool(text: str) -> bool:
    word = text.strip().lower()
    if word not in _TRUE and word not in _FALSE:
        raise ValueError(ALLOWED["bool"])
    return word in _TRUE


def parse_pty(text: str) -> bool | None:
    """Whether to use a pseudo-terminal; None = as the agent's stdout is."""
    if text.strip().lower() == "auto":
        return None
    try:
        return parse_bool(text)
    except ValueError:
        raise ValueError(ALLOWED["pty"]) from None


def parse_identifier(text: str) -> str | None:
    """An id or name that somebody else chose, kept as it is; empty = none."""
    try:
        size = len(text.encode())
    except UnicodeEncodeError:
        raise ValueError(ALLOWED["identifier"]) from None
    if size > MAX_IDENTIFIER_BYTES or _has_control(text):
        raise ValueError(ALLOWED["identifier"])
    return text or None


def parse_path(text: str) -> str | None:
    """An absolute path; empty = none."""
    return parse_program(text) if text else None


def parse_program(text: str) -> str:
    """An absolute path, required: the daemon works in `/`, where a relative one would be another file."""
    if text[:1] != "/" or _has_control(text):
        raise ValueError(ALLOWED["program"])
    return text


def parse_names(text: str) -> tuple[str, ...]:
    """Names of environment variables, in order."""
    names = _items(text)
    for name in names:
        if name[0] not in _NAME_START or any(letter not in _NAME for letter in name):
            raise ValueError(ALLOWED["names"])
    return names


def parse_verdict_limits(text: str) -> tuple[tuple[str, int, str], ...]:
    """(verdict or group, age in ns, action) for each; see core.verdict_limits. Empty = none: no stray comma is."""
    rules = []
    for item in text.split(",") if text.strip() else ():
        selector, colon, rest = item.partition(":")
        age, equals, action = rest.partition("=")
        if not _is_verdict_or_group(selector.strip()) or not colon or not equals:
            raise ValueError(ALLOWED["verdict_limits"])
        if action.strip() not in ("report", "cancel"):
            raise ValueError(ALLOWED["verdict_limits"])
        rules.append((selector.strip(), _duration(age, "verdict_limits"), action.strip()))
    return tuple(rules)


def _is_verdict_or_group(name: str) -> bool:
    from sidecar.core.verdict_names import ALL, GROUPS  # only who has such a rule pays for it

    return name in ALL or name in GROUPS


def parse_families(text: str) -> tuple[str, ...]:
    """Names of programs, in order."""
    families = _items(text)
    for family in families:
        if len(family) > MAX_FAMILY_CHARACTERS or not family.isprintable() or "/" in family:
            raise ValueError(ALLOWED["families"])
    return families


def parse_size(text: str) -> int:
    """A size in bytes; 0 = none."""
    word = text.strip()
    digits = word.rstrip("BGKMIbgkmi ")
    factor = _SIZES.get(word[len(digits) :].strip().upper())
    if factor is None or not (digits.isascii() and digits.isdigit()) or len(digits) > 15:
        raise ValueError(ALLOWED["size"])
    return int(digits) * factor


def parse_count(text: str) -> int:
    """How many; 0 = none."""
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 9):
        raise ValueError(ALLOWED["count"])
    return int(digits)


def parse_port(text: str) -> int:
    """A TCP port; 0 = none."""
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 5 and int(digits) <= 65535):
        raise ValueError(ALLOWED["port"])
    return int(digits)


def parse_descriptor(text: str) -> int | None:
    """The number of a descriptor that is none of the three streams; empty = none."""
    digits = text.strip()
    if not digits:
        return None
    if not (digits.isascii() and digits.isdigit() and len(digits) <= 9 and int(digits) >= 3):
        raise ValueError(ALLOWED["descriptor"])
    return int(digits)


def parse_url(text: str) -> str | None:
    """An http or https URL, or a Unix socket as gRPC names one (`unix:/path`), kept as it is; empty = none."""
    if not text:
        return None
    scheme, separator, rest = text.partition("://")
    is_socket = text.startswith("unix:") and text[5:].removeprefix("//").startswith("/")
    if not is_socket and (scheme not in ("http", "https") or not separator or rest[:1] in ("", "/", ":", "?", "#")):
        raise ValueError(ALLOWED["url"])
    if not (text.isprintable() and text.isascii()) or " " in text:
        raise ValueError(ALLOWED["url"])
    return text


def parse_trace_url(text: str) -> str | None:
    """An http or https URL with {traceId} in it; empty = none."""
    if text.startswith("unix:") or (text and "{traceId}" not in text):
        raise ValueError(ALLOWED["trace_url"])
    try:
        return parse_url(text)
    except ValueError:
        raise ValueError(ALLOWED["trace_url"]) from None


def parse_protocol(text: str) -> str:
    if text not in ("http/protobuf", "grpc"):
        raise ValueError(ALLOWED["protocol"])
    return text


def parse_headers(text: str) -> dict[str, str]:
    """Headers in the form of OTEL_EXPORTER_OTLP_HEADERS (W3C Baggage without its properties)."""
    headers = {}
    for pair in text.split(","):
        name, equals, value = pair.partition("=")
        name = name.strip()
        if not pair.strip():
            continue
        if not equals or not name or any(letter not in _TOKEN for letter in name):
            raise ValueError(ALLOWED["headers"])
        headers[name] = _percent_decoded(value.strip())
    return headers


PARSERS: "dict[str, Callable[[str], object]]" = {
    "timeout": parse_timeout,
    "duration": parse_duration,
    "heartbeat": parse_heartbeat,
    "export_interval": parse_export_interval,
    "bool": parse_bool,
    "pty": parse_pty,
    "identifier": parse_identifier,
    "path": parse_path,
    "program": parse_program,
    "names": parse_names,
    "verdict_limits": parse_verdict_limits,
    "families": parse_families,
    "size": parse_size,
    "count": parse_count,
    "port": parse_port,
    "descriptor": parse_descriptor,
    "url": parse_url,
    "trace_url": parse_trace_url,
    "protocol": parse_protocol,
    "headers": parse_headers,
}


def as_text(kind: str, native: object) -> str:
    """A value of a TOML file -> the text that says the same. Raises ValueError with what is allowed."""
    if isinstance(native, str):
        return native
    if isinstance(native, bool):
        if kind in ("bool", "pty"):
            return "true" if native else "false"
    elif isinstance(native, (int, float)):
        if kind in _NUMERIC:
            return repr(native)
    elif isinstance(native, list):
        if kind in ("names", "families", "verdict_limits") and all(_is_item(item) for item in native):
            return ",".join(native)
    elif isinstance(native, dict) and kind == "headers" and all(_is_header(*item) for item in native.items()):
        return ",".join(f"{name}={_percent_encoded(value)}" for name, value in native.items())
    raise ValueError(ALLOWED[kind])


def shown(text: str, limit: int = 60) -> str:
    """`text` in quotes, cut to a length that a line has room for."""
    return f'"{printable(text)}"' if len(text) <= limit else f'"{printable(text[:limit])}..."'


def printable(text: str) -> str:
    """`text` with everything escaped that could move a cursor, break the line or hide what follows."""
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in text)


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 byte`, `2 bytes`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"


def _duration(text: str, kind: str) -> int:
    try:
        return duration.parse_duration_ns(text)
    except ValueError:
        raise ValueError(ALLOWED[kind]) from None


def _is_item(item: object) -> bool:
    return isinstance(item, str) and "," not in item


def _is_header(name: str, value: object) -> bool:
    return isinstance(value, str) and all(letter in _TOKEN for letter in name)


def _items(text: str) -> tuple[str, ...]:
    return tuple(item.strip() for item in text.split(",") if item.strip())


def _has_control(text: str) -> bool:
    return any(letter < " " or letter == "\x7f" for letter in text)


def _percent_encoded(value: str) -> str:
    return "".join(letter if letter not in "%,;" else f"%{ord(letter):02X}" for letter in value)


def _percent_decoded(value: str) -> str:
    head, *escaped = value.split("%")
    raw = head.encode("utf-8", "surrogateescape")
    for part in escaped:
        try:
            if len(part) < 2 or " " in part[:2]:
                raise ValueError
            raw += bytes.fromhex(part[:2]) + part[2:].encode("utf-8", "surrogateescape")
        except ValueError:
            raise ValueError(ALLOWED["headers"]) from None
    try:
        decoded = raw.decode()
    except UnicodeDecodeError:
        raise ValueError(ALLOWED["headers"]) from None
    if _has_control(decoded):
        raise ValueError(ALLOWED["headers"])
    return decoded
