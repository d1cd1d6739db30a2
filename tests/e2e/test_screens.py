"""The pictures in docs/screens can be made, from the real program."""

from pathlib import Path

import browser
import pytest
import screens


def test_the_pictures_are_made_anew_and_show_what_the_page_tells_of(tmp_path: Path) -> None:
    if (why := browser.why_not()) is not None:
        pytest.skip(why)
    top, web = screens.make(tmp_path)
    lines = top.read_text(encoding="utf-8").splitlines()
    assert len(lines) == 24
    assert all(len(line) <= 80 for line in lines)
    assert web.read_bytes().startswith(b"\x89PNG\r\n")
    assert {path.name for path in screens.SCREENS.iterdir()} == {top.name, web.name}
