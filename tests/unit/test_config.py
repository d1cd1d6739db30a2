"""The configuration: what wins, what is refused and in which words."""

import os
from pathlib import Path

import pytest

from sidecar import config_files
from sidecar.config import BY_NAME, OPTIONS, Settings, inspect_settings, load_settings, unknown_variables
from sidecar.config_tables import TABLE_END, TABLE_START, render_schema, render_table
from sidecar.core import snapshot
from sidecar.core.errors import UsageError

HOUSE = Path(__file__).parents[2]


@pytest.fixture
def home(tmp_path, monkeypatch):
    """An empty home, and a system file that can be written: (environ, user file, system file)."""
    system = tmp_path / "etc" / "config.toml"
    user = tmp_path / "home" / ".config" / "sidecar" / "config.toml"
    system.parent.mkdir()
    user.parent.mkdir(parents=True)
    monkeypatch.setattr(snapshot, "SYSTEM_FILE", str(system))
    return {"HOME": str(tmp_path / "home")}, user, system


def write(path, text, mode=0o644):
    path.write_text(text)
    path.chmod(mode)


def complaint(*arguments, **keywords):
    with pytest.raises(UsageError) as caught:
        load_settings(*arguments, **keywords)
    text = str(caught.value)
    assert text.isprintable()
    return text


def test_defaults(home):
    environ, _, _ = home
    resolved = load_settings({}, environ)
    settings = resolved.settings
    assert settings.timeout_ns is None
    assert settings.kill_after_ns == 5_000_000_000
    assert settings.heartbeat_interval_ns == 10_000_000_000
    assert settings.drain_grace_ns == 100_000_000
    assert settings.pty is None
    assert settings.shell == "/bin/sh"
    assert settings.daemon_idle_timeout_ns == 600_000_000_000
    assert settings.families == ()
    assert settings.prometheus_port == 0
    assert settings.otlp_protocol == "http/protobuf"
    assert settings.otlp_headers == {}
    assert set(resolved.origin.values()) == {"default"}
    assert set(resolved.origin) == {option.name for option in OPTIONS}


SOURCES = ("flag", "variable", "user", "system")


@pytest.mark.parametrize("present", range(16))
def test_the_strongest_source_that_speaks_wins(home, present):
    environ, user, system = home
    flags = {}
    given = [source for bit, source in enumerate(SOURCES) if present >> bit & 1]
    for seconds, source in enumerate(SOURCES, 1):
        if source not in given:
            continue
        if source == "flag":
            flags["timeout"] = f"{seconds}s"
        elif source == "variable":
            environ["SIDECAR_TIMEOUT"] = f"{seconds}s"
        else:
            write(user if source == "user" else system, f"timeout = {seconds}")
    resolved = load_settings(flags, environ)
    origins = {"flag": "--timeout", "variable": "SIDECAR_TIMEOUT", "user": str(user), "system": str(system)}
    if not given:
        assert (resolved.settings.timeout_ns, resolved.origin["timeout"]) == (None, "default")
    else:
        winner = SOURCES.index(given[0]) + 1
        assert resolved.settings.timeout_ns == winner * 1_000_000_000
        assert resolved.origin["timeout"] == origins[given[0]]


def test_files_add_up_option_by_option(home):
    environ, user, system = home
    write(user, "timeout = '1m'")
    write(system, "timeout = '2m'\nkill_after = '3s'")
    resolved = load_settings({}, environ)
    assert resolved.settings.timeout_ns == 60_000_000_000
    assert resolved.settings.kill_after_ns == 3_000_000_000
    assert resolved.origin["kill_after"] == str(system)


@pytest.mark.parametrize("by", ["flag", "variable"])
def test_an_explicit_file_takes_the_place_of_the_users(home, tmp_path, by):
    environ, user, system = home
    write(user, "timeout = '1m'\nkill_after = '1s'")
    write(system, "kill_after = '3s'")
    explicit = tmp_path / "mine.toml"
    write(explicit, "timeout = 5")
    if by == "variable":
        environ["SIDECAR_CONFIG"] = str(explicit)
    resolved = load_settings({}, environ, str(explicit) if by == "flag" else None)
    assert resolved.settings.timeout_ns == 5_000_000_000
    assert resolved.settings.kill_after_ns == 3_000_000_000
    assert resolved.origin["timeout"] == str(explicit)


def test_an_explicit_file_must_exist_and_the_variable_must_be_absolute(home, tmp_path):
    environ, _, _ = home
    missing = tmp_path / "no.toml"
    assert complaint({}, environ, str(missing)) == (
        f"{missing}: cannot read the configuration: No such file or directory"
    )
    environ["SIDECAR_CONFIG"] = "config.toml"
    assert "must be an absolute path" in complaint({}, environ)
    assert load_settings({}, {**environ, "SIDECAR_CONFIG": os.devnull}).settings == Settings()
    assert complaint({}, environ, "") == '--config: "" is not allowed; use the path of a file'


def test_nothing_of_the_working_folder_is_read(home, tmp_path, monkeypatch):
    environ, _, _ = home
    cwd = tmp_path / "repository"
    for folder in ("", ".config/sidecar", "sidecar", "x/sidecar", "x/.config/sidecar"):
        (cwd / folder).mkdir(parents=True, exist_ok=True)
        for name in ("config.toml", "sidecar.toml", ".sidecar.toml", "pyproject.toml"):
            (cwd / folder / name).write_text("timeout = 1\n[tool.sidecar]\ntimeout = 1")
    monkeypatch.chdir(cwd)
    for variables in (environ, {"HOME": "x"}, {"HOME": "."}, {}, {"XDG_CONFIG_HOME": "x"}, {"XDG_CONFIG_HOME": ""}):
        assert load_settings({}, variables).settings == Settings()


TRACE_URL = "a URL like http://localhost:16686/trace/{traceId}, with {traceId} in it"
LINES = [
    ("timeout", "abc", "a duration like 90s, 2m, 500ms or 1h30m, at most a year (0 = none)"),
    ("timeout", "400d", "a duration like 90s, 2m, 500ms or 1h30m, at most a year (0 = none)"),
    ("kill_after", "-1", "a duration like 90s, 2m, 500ms or 1h30m, at most a year (0 = at once)"),
    ("heartbeat_interval", "1ms", "a duration like 90s, 2m, 500ms or 1h30m, at most a year, at least 10ms (0 = never)"),
    ("pty", "maybe", "auto, true or false"),
    ("inline", "2", "true or false (also yes/no, on/off, 1/0)"),
    ("tool_call_id", "x" * 257, "printable text in UTF-8, at most 256 bytes"),
    ("session_id", "\udcff", "printable text in UTF-8, at most 256 bytes"),
    ("shell", "sh", "an absolute path without control characters"),
    ("socket", "relative.sock", "an absolute path without control characters"),
    ("prometheus_port", "65536", "a port from 1 to 65535, or 0 for none"),
    ("otlp_endpoint", "localhost:4318", "a URL like http://127.0.0.1:4318, or unix:/path for gRPC"),
    ("trace_url", "javascript:a('{traceId}')", TRACE_URL),
    ("trace_url", "unix:/{traceId}", TRACE_URL),
    ("trace_url", "http://jaeger:16686/", TRACE_URL),
    ("otlp_endpoint", "unix:relative.sock", "a URL like http://127.0.0.1:4318, or unix:/path for gRPC"),
    ("otlp_protocol", "http", "http/protobuf or grpc"),
    ("metric_export_interval", "999ms", "a duration like 90s, 2m, 500ms or 1h30m, at most a year, at least 1s"),
    ("spool_max_bytes", "64 miles", "a number of bytes like 500KB, 64MiB or 1GiB (0 = none)"),
    ("spool_max_bytes", "-1", "a number of bytes like 500KB, 64MiB or 1GiB (0 = none)"),
    ("daemon_environment", "A B", "names of environment variables separated by commas, like AWS_PROFILE,HTTPS_PROXY"),
]


@pytest.mark.parametrize(("name", "text", "allowed"), LINES)
def test_a_bad_value_is_one_line_with_option_origin_value_and_what_is_allowed(home, name, text, allowed):
    environ, _, _ = home
    variable = "SIDECAR_" + name.upper()
    line = complaint({}, {**environ, variable: text})
    assert line.startswith(f'{variable}: "')
    assert line.endswith(f"is not allowed; use {allowed}")
    flag = BY_NAME[name].flag
    if flag is not None:
        assert complaint({name: text}, environ) == line.replace(variable, flag, 1)


def test_a_bad_value_of_a_file_names_the_file_and_the_option(home):
    environ, user, _ = home
    write(user, 'timeout = "soon"')
    allowed = "a duration like 90s, 2m, 500ms or 1h30m, at most a year (0 = none)"
    assert complaint({}, environ) == f'{user}: timeout: "soon" is not allowed; use {allowed}'


def test_a_boolean_of_a_file_is_shown_as_the_file_has_it(home):
    environ, user, _ = home
    write(user, "timeout = true")
    assert f'{user}: timeout: "true" is not allowed' in complaint({}, environ)


def test_a_file_is_validated_also_where_it_is_overridden(home):
    environ, user, _ = home
    write(user, 'timeout = "soon"')
    assert complaint({"timeout": "5s"}, environ).startswith(str(user))


def test_a_variable_that_a_flag_overrides_is_not_looked_at(home):
    environ, _, _ = home
    resolved = load_settings({"timeout": "5s"}, {**environ, "SIDECAR_TIMEOUT": "soon"})
    assert resolved.settings.timeout_ns == 5_000_000_000


def test_control_characters_do_not_reach_the_terminal(home):
    environ, user, _ = home
    assert '"\\x1b[2Ja\\nb"' in complaint({"timeout": "\x1b[2Ja\nb"}, environ)
    write(user, '"\\u001b[2J" = 1')
    assert "\\x1b" in complaint({}, environ)


def test_a_secret_is_in_no_message(home):
    environ, user, _ = home
    assert complaint({}, {**environ, "SIDECAR_OTLP_HEADERS": "sesame"}).startswith(
        "SIDECAR_OTLP_HEADERS: the value is not allowed; use name=value pairs"
    )
    write(user, "[otlp_headers]\n'a b' = 'sesame'")
    assert "sesame" not in complaint({}, environ)


def test_values_of_a_file_in_their_own_types(home):
    environ, user, _ = home
    write(
        user,
        "timeout = 90\nkill_after = 1.5\npty = true\ninline = false\nprometheus_port = 9464\n"
        "families = ['git', 'npm']\ndaemon_environment = []\nheartbeat_interval = 0\n"
        "[otlp_headers]\napi-key = 'a,b;c%= d'\nx = 'ü'\n",
    )
    settings = load_settings({}, environ).settings
    assert settings.timeout_ns == 90_000_000_000
    assert settings.kill_after_ns == 1_500_000_000
    assert settings.pty is True
    assert settings.prometheus_port == 9464
    assert settings.families == ("git", "npm")
    assert settings.heartbeat_interval_ns == 0
    assert settings.otlp_headers == {"api-key": "a,b;c%= d", "x": "ü"}


@pytest.mark.parametrize(
    "line",
    [
        "timeout = true",
        "timeout = -1",
        "timeout = inf",
        "timeout = 1979-05-27",
        "inline = 1",
        "tool_name = 5",
        "families = 'a' \nprometheus_port = 1.5",
        "families = ['a,b']",
        "families = [1]",
        "otlp_headers = ['a']",
        "[timeout]\na = 1",
    ],
)
def test_a_type_that_an_option_cannot_have(home, line):
    environ, user, _ = home
    write(user, line)
    assert " is not allowed; use " in complaint({}, environ)


def test_an_unknown_option_of_a_file_names_the_closest(home):
    environ, user, _ = home
    write(user, "heartbeat-interval = '5s'")
    assert complaint({}, environ) == (f'{user}: unknown option "heartbeat-interval"; did you mean heartbeat_interval?')
    write(user, "zzz = 1")
    assert complaint({}, environ) == f'{user}: unknown option "zzz"'


def test_broken_files_name_file_and_line(home):
    environ, user, _ = home
    write(user, "timeout = '1s'\nkill_after 5\n")
    line = complaint({}, environ)
    assert line.startswith(f"{user}: not valid TOML: ")
    assert "line 2" in line
    user.write_bytes(b"timeout = 1\n# \xff\n")
    assert complaint({}, environ) == f"{user}: not UTF-8 (at line 2)"
    user.write_bytes(b"#" * (config_files.MAX_FILE_BYTES + 1))
    assert "larger than" in complaint({}, environ)


@pytest.mark.parametrize("mode", [0o664, 0o646, 0o666])
def test_a_file_that_others_may_write_to_is_refused(home, mode):
    environ, user, system = home
    for path in (user, system):
        write(path, "timeout = 1", mode)
        assert complaint({}, environ) == f"{path}: others may write to it: not loaded; chmod go-w it"
        path.unlink()


def test_a_file_of_somebody_else_is_refused(home, monkeypatch):
    environ, user, _ = home
    write(user, "timeout = 1")
    owner = user.stat().st_uid
    if owner == 0:
        os.chown(user, 12345, -1)
        owner = 12345
    else:
        monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    assert complaint({}, environ) == f"{user}: belongs to uid {owner}, not to you: not loaded"


def test_what_is_no_regular_file_is_refused_and_not_waited_for(home):
    environ, user, _ = home
    os.mkfifo(user, 0o600)
    assert complaint({}, environ) == f"{user}: not a regular file"
    user.unlink()
    user.mkdir()
    assert "not a regular file" in complaint({}, environ)


def test_inspect_collects_everything(home):
    environ, user, _ = home
    write(user, "timeout = 'x'\nkil_after = 1\npty = 'y'")
    environ["SIDECAR_INLINE"] = "z"
    problems = inspect_settings({}, environ).problems
    assert len(problems) == 4
    assert inspect_settings({}, environ).settings == Settings()


def test_unknown_variables_are_named():
    names = {option.variable for option in OPTIONS} | {"SIDECAR_CONFIG", "SIDECAR_ACTIVE", "HOME"}
    assert unknown_variables(dict.fromkeys(names, "")) == []
    assert unknown_variables({"SIDECAR_TIMOUT": "1"}) == ["SIDECAR_TIMOUT"]


def test_the_model_is_frozen_and_takes_nothing_else():
    with pytest.raises(ValueError):
        Settings().timeout_ns = 1
    with pytest.raises(ValueError):
        Settings(no_such_option="1")


def test_the_generated_table_of_the_fast_path_is_that_of_the_model():
    assert (HOUSE / "sidecar/supervisor/_schema.py").read_text() == render_schema()


def test_the_page_has_every_option_as_the_model_says():
    page = (HOUSE / "docs/configuration.md").read_text()
    assert page.partition(TABLE_START)[2].partition(TABLE_END)[0] == f"\n{render_table()}"
