"""The web page's colours can be told from what is behind them, by WCAG 2.2 (1.4.3 for text, 1.4.11 for the rest)."""

import re
from importlib.resources import files

import pytest

_PAGE = (files("sidecar.web") / "page.html").read_text(encoding="utf-8")
_TEXT_LEAST = 4.5
_OTHER_LEAST = 3.0
_TEXT = ("text", "dim", "hung")
_OTHER = ("edge", "talks", "silent", "working", "waiting", "needs", "hung", "unknown")


def _colours(scheme: str) -> dict[str, str]:
    light, dark = re.findall(r":root \{(.*?)\}", _PAGE, re.DOTALL)[:2]
    return dict(re.findall(r"--(\w+): (#\w+);", light + (dark if scheme == "dark" else "")))


def _luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(2 * digit for digit in colour[1:])
    shares = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    red, green, blue = (part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in shares)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _contrast(one: str, other: str) -> float:
    darker, lighter = sorted((_luminance(one), _luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_all_can_be_told_from_what_is_behind(scheme: str) -> None:
    colours = _colours(scheme)
    weak = [
        f"{name} on {back}: {contrast:.2f}"
        for names, least in ((_TEXT, _TEXT_LEAST), (_OTHER, _OTHER_LEAST))
        for name in names
        for back in ("back", "row")
        if (contrast := _contrast(colours[name], colours[back])) < least
    ]
    assert weak == []


def test_black_on_white_is_as_the_standard_says() -> None:
    assert _contrast("#000", "#ffffff") == pytest.approx(21)
