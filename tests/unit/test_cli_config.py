"""`sidecar config`: what holds and where it came from."""

import json

import pytest

from sidecar import config_files
from sidecar.cli.main import main
from sidecar.config import OPTIONS
from sidecar.core import snapshot


@pytest.fixture
def user(tmp_path, monkeypatch):
    """The user's file, in a home of its own; the environment has nothing else of ours."""
    for option in OPTIONS:
        monkeypatch.delenv(option.variable, raising=False)
    for name in ("SIDECAR_CONFIG", "XDG_CONFIG_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setattr(snapshot, "SYSTEM_FILE", str(tmp_path / "system.toml"))
    monkeypatch.setattr(config_files, "RACY_NS", 0)
    path = tmp_path / ".config" / "sidecar" / "config.toml"
    path.parent.mkdir(parents=True)
    return path


def write(path, text):
    path.write_text(text)
    path.chmod(0o644)


def test_show_tells_where_each_value_came_from(user, monkeypatch, capsys):
    write(user, "kill_after = '90s'\n[otlp_headers]\nkey = 'sesame'")
    monkeypatch.setenv("SIDECAR_TIMEOUT", "120")
    assert main(["config", "show"]) == 0
    out = capsys.readouterr().out
    rows = {line.split()[0]: line.split()[1:] for line in out.splitlines()}
    assert rows["timeout"] == ["2m", "SIDECAR_TIMEOUT"]
    assert rows["kill_after"] == ["1m30s", str(user)]
    assert rows["inline"] == ["false", "default"]
    assert rows["otlp_headers"] == ["(hidden)", str(user)]
    assert "sesame" not in out
    assert list(rows) == [option.name for option in OPTIONS]


def test_show_as_json(user, monkeypatch, capsys):
    write(user, "families = ['git']\n[otlp_headers]\nkey = 'sesame'")
    monkeypatch.setenv("SIDECAR_INLINE", "yes")
    assert main(["config", "show", "--json"]) == 0
    out = capsys.readouterr().out
    shown = json.loads(out)
    assert shown["families"] == {"value": ["git"], "from": str(user)}
    assert shown["inline"] == {"value": True, "from": "SIDECAR_INLINE"}
    assert shown["timeout"] == {"value": "0s", "from": "default"}
    assert shown["pty"] == {"value": "auto", "from": "default"}
    assert "sesame" not in out


def test_show_of_another_file(user, tmp_path, capsys):
    write(user, "timeout = 1")
    other = tmp_path / "other.toml"
    write(other, "timeout = 2")
    assert main(["config", "show", "--json", "--config", str(other)]) == 0
    assert json.loads(capsys.readouterr().out)["timeout"] == {"value": "2s", "from": str(other)}


def test_show_of_what_is_wrong(user, capsys):
    write(user, "timeout = 'x'")
    assert main(["config", "show"]) == 125
    assert capsys.readouterr().err.startswith(f"sidecar: {user}: timeout: ")


def test_check(user, monkeypatch, capsys):
    assert main(["config", "check"]) == 0
    assert capsys.readouterr() == ("valid; files: none\n", "")
    write(user, "timeout = 1")
    monkeypatch.setenv("SIDECAR_TIMOUT", "1")
    assert main(["config", "check"]) == 0
    out, err = capsys.readouterr()
    assert out == f"valid; files: {user}\n"
    assert err == "sidecar: SIDECAR_TIMOUT: no such option; the variable is ignored; did you mean SIDECAR_TIMEOUT?\n"


def test_check_reports_everything_that_is_wrong(user, monkeypatch, capsys):
    write(user, "timeout = 'x'\nnonsense = 1")
    monkeypatch.setenv("SIDECAR_PTY", "x")
    assert main(["config", "check"]) == 125
    out, err = capsys.readouterr()
    assert out == ""
    assert len(err.splitlines()) == 3
    assert all(line.startswith("sidecar: ") for line in err.splitlines())


def test_path(user, tmp_path, capsys):
    compiled = tmp_path / ".cache" / "sidecar" / "config-snapshot"
    assert main(["config", "path"]) == 0
    assert capsys.readouterr().out.splitlines() == [
        f"user      {user}  absent",
        f"system    {tmp_path}/system.toml  absent",
        f"snapshot  {compiled}  absent",
    ]
    write(user, "timeout = 1")
    assert main(["config", "check"]) == 0
    capsys.readouterr()
    assert main(["config", "path"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"user      {user}  read"
    assert lines[2] == f"snapshot  {compiled}  valid"
    user.chmod(0o666)
    assert main(["config", "path"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == f"user      {user}  refused: others may write to it: not loaded; chmod go-w it"
    assert lines[2] == f"snapshot  {compiled}  not valid now"


def test_path_of_an_explicit_file(user, tmp_path, capsys):
    assert main(["config", "path", "--config", str(tmp_path / "x")]) == 0
    assert capsys.readouterr().out.splitlines()[0] == (
        f"explicit  {tmp_path}/x  refused: cannot read the configuration: No such file or directory"
    )
