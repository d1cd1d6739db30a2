"""How a command ends is how the agent sees it end: the code, the signal, or the reason why it never began."""

import signal
import subprocess
from pathlib import Path

import pytest
from supervised import Installation


@pytest.mark.parametrize("code", [0, 1, 2, 77, 124, 125, 126, 127, 128, 130, 137, 255])
def test_exit_code(sidecar: Installation, code: int) -> None:
    assert sidecar.run("sh", "-c", f"exit {code}") == (code, b"", b"")


@pytest.mark.parametrize("name", ["TERM", "KILL", "INT", "SEGV", "PIPE", "HUP", "ABRT", "USR1", "XFSZ"])
def test_death_by_signal(sidecar: Installation, name: str, tmp_path: Path) -> None:
    wanted = (-int(getattr(signal, f"SIG{name}")), b"out\n", b"err\n")
    # Cores are allowed, to see that none of ours is left; the command itself has its own limit.
    script = f"echo out; echo err >&2; kill -{name} $$"
    assert sidecar.run("bash", "-c", f"ulimit -S -c 0; {script}", cwd=tmp_path) == wanted
    assert list(tmp_path.iterdir()) == []


def test_death_by_real_time_signal(sidecar: Installation) -> None:
    bare, wrapped = sidecar.both("bash", "-c", "kill -RTMIN+3 $$")
    assert wrapped == bare


def test_a_stopped_and_continued_command_ends_as_bare(sidecar: Installation) -> None:
    bare, wrapped = sidecar.both("bash", "-c", "(sleep .2; kill -CONT $$) & kill -STOP $$; echo resumed; exit 4")
    assert wrapped == bare == (4, b"resumed\n", b"")


@pytest.mark.parametrize("word", ["no-such-command-here", "/no/such/bin", "/etc/passwd/x", ""])
def test_not_found(sidecar: Installation, word: str) -> None:
    ended = sidecar.run(word)
    assert ended.status == 127
    assert ended.stdout == b""
    assert ended.stderr == f"sidecar: {word}: command not found\n".encode() or ended.stderr.count(b"\n") == 1


@pytest.mark.parametrize("name", ["loop", "n" * 300])
def test_what_the_path_lookup_fails_at_is_reported_as_env_reports_it(
    sidecar: Installation, tmp_path: Path, name: str
) -> None:
    """env(1) tells 126 from 127 as we do; among shells, dash says 127 of a loop and bash 126."""
    (tmp_path / "loop").symlink_to("loop")
    environ = {**sidecar.environ, "PATH": f"{tmp_path}:{sidecar.environ['PATH']}"}
    for word in (f"{tmp_path}/{name}", name):
        bare = subprocess.run(["env", word], env=environ, capture_output=True, check=False)
        ended = sidecar.run(word, env=environ)
        assert ended.status == bare.returncode == 126
        assert ended.stderr.count(b"\n") == 1


def test_a_name_moves_no_cursor_and_breaks_no_line(sidecar: Installation) -> None:
    ended = sidecar.run("a\x1b[2Jb\nc\r\x9bd\udcff")
    assert ended.stderr == b"sidecar: a\\x1b[2Jb\\nc\\r\\x9bd\\udcff: command not found\n"


def test_not_executable(sidecar: Installation, tmp_path: Path) -> None:
    plain = tmp_path / "plain"
    plain.write_text("echo never\n")
    for word in (str(plain), str(tmp_path)):
        ended = sidecar.run(word)
        assert (ended.status, ended.stdout, ended.stderr.count(b"\n")) == (126, b"", 1)
        assert word.encode() in ended.stderr


def test_a_file_without_permission_in_the_path_does_not_end_the_search(sidecar: Installation, tmp_path: Path) -> None:
    for name, mode in (("first", 0o644), ("second", 0o755)):
        (tmp_path / name).mkdir()
        (tmp_path / name / "tool").write_text("#!/bin/sh\necho found\n")
        (tmp_path / name / "tool").chmod(mode)
    path = f"{tmp_path}/first:{tmp_path}/second:{sidecar.environ['PATH']}"
    assert sidecar.run("tool", env={**sidecar.environ, "PATH": path}) == (0, b"found\n", b"")


def test_a_broken_interpreter_is_not_found_in_one_line(sidecar: Installation, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text("#!/no/such/interpreter\n")
    script.chmod(0o755)
    ended = sidecar.run(str(script))
    assert (ended.status, ended.stdout, ended.stderr.count(b"\n")) == (127, b"", 1)


def test_an_argument_list_too_long_is_said_in_one_line(sidecar: Installation, tmp_path: Path) -> None:
    # One word may have 128 KiB (MAX_ARG_STRLEN); the environment that we add must not be what breaks the rest.
    ended = sidecar.run("true", "x" * 131071)
    assert ended == (0, b"", b"")


def test_script_without_shebang(sidecar: Installation, tmp_path: Path) -> None:
    script = tmp_path / "script"
    script.write_text('echo "script $1"; exit 3\n')
    script.chmod(0o755)
    assert sidecar.run(str(script), "a b") == (3, b"script a b\n", b"")


def test_command_string_with_arguments(sidecar: Installation) -> None:
    words = [str(sidecar.script), "run", "-c", 'printf "<%s>" "$0" "$@"; exit 9', "name", "a b", "--timeout", "*"]
    import subprocess

    done = subprocess.run(words, env=sidecar.environ, capture_output=True, timeout=20)
    assert (done.returncode, done.stdout, done.stderr) == (9, b"<name><a b><--timeout><*>", b"")


def test_arguments_that_are_no_text(sidecar: Installation) -> None:
    words = ["printf", "%s|", b"\xff\xfe", b"a\nb", b"", b"-n"]
    bare, wrapped = sidecar.both(*words)  # type: ignore[arg-type]  # bytes are arguments too
    assert wrapped == bare
    assert wrapped.stdout == b"\xff\xfe|a\nb||-n|"


def test_usage_error_is_125_and_runs_nothing(sidecar: Installation, tmp_path: Path) -> None:
    ended = sidecar.run("touch", str(tmp_path / "ran"), flags=("--no-such-flag",))
    assert ended.status == 125
    assert ended.stdout == b""
    assert list(tmp_path.iterdir()) == []
