"""That what docs/operating.md has as measured of a gateway can be measured: here of a few commands and daemons."""

import re

import gateway_cost
import pytest


def test_every_figure_is_printed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(gateway_cost, "COMMANDS", 20)
    monkeypatch.setattr(gateway_cost, "DAEMONS", 3)
    monkeypatch.setattr(gateway_cost, "SCRAPE", "5s")
    gateway_cost.main()
    said = capsys.readouterr().out.splitlines()
    patterns = (
        r"an export of \d{3} points, pushed: \d+\.\d ms of a core; the gateway after those of 3 daemons: \d+ MB",
        r"a command: \d+\.\d ms of a core; the gateway after 20: \d+ MB",
        r"an export of \d{3} points, shown: \d+\.\d ms of a core; the gateway after those of 3 daemons: \d+ MB",
        r"a scrape of (\d+) series: \d+\.\d s of a core, \d+ MB; the gateway afterwards: \d+ MB",
        r"Prometheus with (\d+) series: \d+ MB",
    )
    assert len(said) == len(patterns)
    found = [re.fullmatch(pattern, line) for pattern, line in zip(patterns, said, strict=True)]
    assert all(found), said
    shown = {int(each[1]) for each in found[3:] if each}
    # Of three daemons in which one program was used: as docs/operating.md says.
    assert len(shown) == 1
    assert 3 * 300 < shown.pop() < 3 * 400
