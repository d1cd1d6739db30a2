"""Durations as people write them: `90s`, `2m`, `500ms`, `1h30m`, `1.5s`; a bare number is seconds.

Units go from the largest to the smallest, each at most once: `1s1h` and `1h1h` are slips, not durations.
"""

_UNITS_NS = {"h": 3_600_000_000_000, "m": 60_000_000_000, "s": 1_000_000_000, "ms": 1_000_000}
_MAX_NS = 366 * 24 * _UNITS_NS["h"]
ALLOWED = "a duration like 90s, 2m, 500ms or 1h30m, at most a year"


def parse_duration_ns(text: str) -> int:
    """`text` -> nanoseconds, not negative. Raises ValueError, whose text is what is allowed."""
    total_ns = 0
    scale_ns = _MAX_NS  # of the unit before
    rest = text.strip()
    if not rest:
        raise ValueError(ALLOWED)
    while rest:
        digits = 0
        while digits < len(rest) and (rest[digits] in "0123456789."):
            digits += 1
        letters = digits
        while letters < len(rest) and rest[letters].isalpha():
            letters += 1
        number, unit, rest = rest[:digits], rest[digits:letters], rest[letters:]
        if not unit and not rest and scale_ns == _MAX_NS:
            unit = "s"
        whole, point, fraction = number.partition(".")
        if unit not in _UNITS_NS or not (whole or fraction) or "." in fraction or len(number) > 20:
            raise ValueError(ALLOWED)
        if _UNITS_NS[unit] >= scale_ns:
            raise ValueError(ALLOWED)
        scale_ns = _UNITS_NS[unit]
        total_ns += int(whole or "0") * scale_ns
        if point and fraction:
            total_ns += int(fraction) * scale_ns // 10 ** len(fraction)
    if total_ns > _MAX_NS:
        raise ValueError(ALLOWED)
    return total_ns


def format_duration(duration_ns: int) -> str:
    """A short text that `parse_duration_ns` reads as the same number of milliseconds: `1m30s`, `500ms`, `90500ms`."""
    if duration_ns % _UNITS_NS["s"]:
        return f"{duration_ns // _UNITS_NS['ms']}ms"
    parts = []
    for unit in ("h", "m", "s"):
        count, duration_ns = divmod(duration_ns, _UNITS_NS[unit])
        if count:
            parts.append(f"{count}{unit}")
    return "".join(parts) or "0s"
