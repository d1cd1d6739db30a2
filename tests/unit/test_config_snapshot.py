"""The compiled snapshot: when the fast path may believe it, and that it never does otherwise."""

import os
import subprocess
import sys
import time
from pathlib import Path
from unittest import mock

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import sidecar.config
import sidecar.supervisor.options as fast
from sidecar import config_files
from sidecar.cli.main import resolve_run
from sidecar.core import snapshot
from sidecar.core.errors import UsageError

COMMAND = ["--", "true"]


@pytest.fixture
def place(tmp_path, monkeypatch):
    """A home with a validated file and its snapshot: (environ, user file, snapshot)."""
    monkeypatch.setattr(snapshot, "SYSTEM_FILE", str(tmp_path / "etc" / "config.toml"))
    # As if the file had been there for a while.
    monkeypatch.setattr(config_files, "RACY_NS", 0)
    user = tmp_path / ".config" / "sidecar" / "config.toml"
    user.parent.mkdir(parents=True)
    user.write_text("timeout = '2m'\nprometheus_port = 1\n[otlp_headers]\nkey = 'sesame'\n")
    user.chmod(0o644)
    environ = {"HOME": str(tmp_path)}
    return environ, user, tmp_path / ".cache" / "sidecar" / "config-snapshot"


def load(environ):
    return sidecar.config.load_settings({}, environ)


def timeout_ns(environ):
    options = fast.parse_run(COMMAND, environ)
    return None if options is None else options.timeout_ns


def test_a_file_without_a_snapshot_is_for_the_full_path_which_leaves_one(place):
    environ, _, compiled = place
    assert fast.parse_run(COMMAND, environ) is None
    load(environ)
    assert timeout_ns(environ) == 120_000_000_000
    assert compiled.stat().st_mode & 0o777 == 0o600
    assert compiled.parent.stat().st_mode & 0o777 == 0o700
    assert [path.name for path in compiled.parent.iterdir()] == ["config-snapshot"]
    assert "sesame" not in compiled.read_text()


def test_variables_and_flags_still_win(place):
    environ, _, _ = place
    load(environ)
    assert timeout_ns({**environ, "SIDECAR_TIMEOUT": "3s"}) == 3_000_000_000
    assert fast.parse_run(["--timeout=4s", *COMMAND], environ).timeout_ns == 4_000_000_000


def rewrite(path: Path, text: str) -> None:
    """Other bytes in place, everything that can be set back is set back."""
    before = path.stat()
    with path.open("r+") as stream:
        stream.write(text)
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


def replace(path: Path) -> None:
    """The same bytes and times, another inode."""
    before = path.stat()
    other = path.with_name("other")
    other.write_bytes(path.read_bytes())
    os.utime(other, ns=(before.st_atime_ns, before.st_mtime_ns))
    other.rename(path)


def touch(path: Path) -> None:
    status = path.stat()
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns + 1))


def grow(path: Path) -> None:
    before = path.stat()
    with path.open("a") as stream:
        stream.write("#")
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))


@pytest.mark.parametrize(
    "change",
    [
        touch,
        grow,
        replace,
        lambda path: rewrite(path, "timeout = '3m'"),
        lambda path: path.chmod(0o600),
        lambda path: path.chmod(0o666),
    ],
    ids=["mtime", "size", "inode", "content", "mode", "others may write"],
)
def test_a_changed_file_makes_it_stale(place, change):
    environ, user, _ = place
    load(environ)
    # The change time has the granularity of the kernel's tick: let it pass, however long that is.
    probe = user.with_name("probe")
    while True:
        probe.write_text("")
        if probe.stat().st_ctime_ns > user.stat().st_ctime_ns:
            break
    change(user)
    assert fast.parse_run(COMMAND, environ) is None


def test_a_file_that_goes_or_comes_makes_it_stale(place):
    environ, user, _ = place
    load(environ)
    system = Path(snapshot.SYSTEM_FILE)
    system.parent.mkdir()
    system.write_text("kill_after = 1")
    system.chmod(0o644)
    assert fast.parse_run(COMMAND, environ) is None
    load(environ)
    assert fast.parse_run(COMMAND, environ).kill_after_ns == 1_000_000_000
    user.unlink()
    assert fast.parse_run(COMMAND, environ) is None
    load(environ)
    assert timeout_ns(environ) is None
    assert fast.parse_run(COMMAND, environ).kill_after_ns == 1_000_000_000
    system.unlink()
    assert fast.parse_run(COMMAND, environ).kill_after_ns == 5_000_000_000


def test_another_version_makes_it_stale(place, monkeypatch):
    environ, _, _ = place
    load(environ)
    monkeypatch.setattr(fast, "__version__", "99.0")
    assert fast.parse_run(COMMAND, environ) is None


def test_another_place_makes_it_stale(place, tmp_path):
    environ, user, _ = place
    load(environ)
    elsewhere = tmp_path / "elsewhere" / "sidecar"
    elsewhere.mkdir(parents=True)
    user.rename(elsewhere / "config.toml")
    assert fast.parse_run(COMMAND, {**environ, "XDG_CONFIG_HOME": str(elsewhere.parent)}) is None


@pytest.mark.parametrize(
    "text",
    ["", "x", "sidecar-config 1 0.1.0\n", None, "torn", "bad value", "no equals", b"\xff", "x" * 70000],
    ids=str,
)
def test_a_damaged_snapshot_is_not_believed(place, text):
    environ, _, compiled = place
    load(environ)
    good = compiled.read_text()
    if text is None:
        compiled.unlink()
    elif text == "torn":
        compiled.write_text(good[: good.index("end")])
    elif text == "bad value":
        compiled.write_text(good.replace("timeout=2m", "timeout=x"))
    elif text == "no equals":
        compiled.write_text(good.replace("timeout=2m", "timeout"))
    elif isinstance(text, bytes):
        compiled.write_bytes(good.encode().replace(b"2m", text))
    else:
        compiled.write_text(text)
    assert fast.parse_run(COMMAND, environ) is None


def test_a_snapshot_that_others_may_read_or_write_or_replace_is_not_believed(place):
    environ, _, compiled = place
    load(environ)
    for path, good, bad in ((compiled, 0o600, 0o644), (compiled.parent, 0o700, 0o755), (compiled.parent, 0o700, 0o777)):
        path.chmod(bad)
        assert fast.parse_run(COMMAND, environ) is None
        path.chmod(good)
        assert timeout_ns(environ) == 120_000_000_000
    target = compiled.with_name("target")
    compiled.rename(target)
    compiled.symlink_to(target)
    assert fast.parse_run(COMMAND, environ) is None


@pytest.mark.skipif(os.getuid() != 0, reason="giving files away needs root")
def test_a_snapshot_of_somebody_else_is_not_believed(place):
    environ, _, compiled = place
    load(environ)
    for path in (compiled, compiled.parent):
        os.chown(path, 12345, -1)
        assert fast.parse_run(COMMAND, environ) is None
        os.chown(path, 0, -1)
    assert timeout_ns(environ) == 120_000_000_000


def test_no_snapshot_of_what_is_wrong_explicit_absent_or_too_fresh(place, monkeypatch):
    environ, user, compiled = place
    sidecar.config.load_settings({}, environ, str(user.with_name("config.toml")))
    explicit = user.with_name("mine.toml")
    explicit.write_text("timeout = 1")
    explicit.chmod(0o600)
    compiled.unlink(missing_ok=True)
    sidecar.config.load_settings({}, environ, str(explicit))
    assert not compiled.exists()
    with pytest.raises(UsageError):
        sidecar.config.load_settings({"timeout": "x"}, environ)
    assert not compiled.exists()
    monkeypatch.setattr(config_files, "RACY_NS", 10**18)
    load(environ)
    assert not compiled.exists()
    user.unlink()
    monkeypatch.setattr(config_files, "RACY_NS", 0)
    load(environ)
    assert not compiled.exists()


def test_a_cache_that_cannot_be_written_is_no_error(place):
    environ, _, compiled = place
    compiled.parent.parent.write_text("a file where the folder should be")
    assert load(environ).settings.timeout_ns == 120_000_000_000
    assert load({**environ, "XDG_CACHE_HOME": "/proc/none"}).settings.timeout_ns == 120_000_000_000
    assert fast.parse_run(COMMAND, environ) is None


def test_a_loose_cache_folder_is_not_written_to(place):
    environ, _, compiled = place
    compiled.parent.mkdir(parents=True)
    compiled.parent.chmod(0o755)
    load(environ)
    assert not compiled.exists()


def test_a_file_written_a_moment_ago_is_compiled_once_its_clock_has_moved_on(place, monkeypatch):
    environ, user, compiled = place
    monkeypatch.setattr(config_files, "RACY_NS", 50_000_000)
    now_ns = user.stat().st_ctime_ns
    monkeypatch.setattr(time, "time_ns", lambda: now_ns + 49_999_999)
    load(environ)
    assert not compiled.exists()
    monkeypatch.setattr(time, "time_ns", lambda: now_ns + 50_000_000)
    load(environ)
    assert compiled.exists()


TOML_VALUES = {
    "timeout": ['"90s"', "5", "0", '"x"', "true"],
    "kill_after": ['"1s"', "1.5", '" 2s"', '"2s\\n"'],
    "pty": ["true", '"auto"', '"no"'],
    "session_id": ['"a=b"', '"end"', '""', '"\\u00e9"', '"a\\nb"'],
    "tool_name": ['"bash"', "5"],
    "inline": ["false", '"on"'],
    "shell": ['"/bin/bash"', '"bash"'],
    "daemon_environment": ['["A", "B"]', '"A,B"', '["A\\n"]', "[]"],
    "prometheus_port": ["1", "-1"],
    "nonsense": ["1"],
}
LINES = st.lists(st.sampled_from(sorted(TOML_VALUES)), unique=True, max_size=4).flatmap(
    lambda names: st.tuples(*(st.sampled_from(TOML_VALUES[name]).map(f"{name} = {{}}".format) for name in names))
)


@settings(max_examples=150, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
@given(LINES, st.sampled_from([{}, {"SIDECAR_TIMEOUT": "3s"}, {"SIDECAR_PTY": "no", "SIDECAR_INLINE": "1"}]))
def test_fast_and_full_agree_on_files(place, lines, variables):
    environ, user, _ = place
    environ = {**environ, **variables}
    user.write_text("\n".join(lines))
    with mock.patch.dict(os.environ, environ, clear=True):
        try:
            full = resolve_run(["-c", "true"])
        except UsageError:
            full = None
    fast_options = fast.parse_run(["-c", "true"], environ)
    assert fast_options is None or fast_options == full


def test_the_fast_path_loads_nothing_heavy(place):
    environ, _, _ = place
    load(environ)
    program = (
        "import sys; sys.path.insert(0, sys.argv[1]); before = set(sys.modules)\n"
        "from sidecar.supervisor.options import parse_run\n"
        "from sidecar.core import snapshot; snapshot.SYSTEM_FILE = sys.argv[2]\n"
        "import os\n"
        "assert parse_run(['--timeout', '1s', 'true'], os.environ)\n"
        "print(*sorted(set(sys.modules) - before))"
    )
    house = str(Path(__file__).parents[2])
    done = subprocess.run(
        [sys.executable, "-IS", "-c", program, house, snapshot.SYSTEM_FILE],
        env=environ,
        capture_output=True,
        text=True,
        check=True,
    )
    loaded = {name for name in done.stdout.split() if not name.startswith("sidecar")}
    assert loaded <= {"os", "os.path", "posixpath", "genericpath", "stat", "_stat", "abc", "_abc", "_collections_abc"}
