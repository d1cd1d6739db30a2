"""`sidecar-sh` stands where a shell stood: same words, same bytes, same end; only the outermost supervises."""

import os
import subprocess
from pathlib import Path

import pytest
from supervised import WAIT_S, Ended, Installation


def shell(sidecar: Installation, *words: "str | bytes", program: str | None = None, **options: object) -> Ended:
    environ = options.pop("env", None) or sidecar.environ
    if "input" not in options:
        options["stdin"] = subprocess.DEVNULL
    done = subprocess.run(  # type: ignore[call-overload]
        [program or str(sidecar.shell), *words], env=environ, capture_output=True, timeout=WAIT_S, **options
    )
    return Ended(done.returncode, done.stdout, done.stderr)


def supervised(ended: Ended) -> bool:
    return b"TRACEPARENT=" in ended.stdout


@pytest.mark.parametrize(
    "words",
    [
        ("-c", "echo a; echo b >&2; exit 3"),
        ("-lc", "echo login; exit 4"),
        ("-ec", "false; echo never"),
        ("-c", 'printf "<%s>" "$0" "$@"', "name", "a b", "*", ""),
        ("-c", "cat <<'EOF'\n$HOME `x` \"q\" 'q' \\\nEOF\necho end"),
        ("-c", 'echo $\'a\\tb\'\n\n# comment\necho "$(echo nested "$(echo twice)")"\n'),
        ("-c", b"printf '\xff\xfe|%s' \xe9"),
        ("-o", "pipefail", "-c", "false | true"),
        ("-c", "kill -TERM $$"),
        ("-c", "echo 'unterminated"),
        ("-c",),
        ("--version",),
        ("/no/such/script", "argument"),
    ],
)
def test_same_as_the_shell(sidecar: Installation, words: "tuple[str | bytes, ...]") -> None:
    assert shell(sidecar, *words) == shell(sidecar, *words, program="/bin/bash")


def test_one_word_is_a_command_string(sidecar: Installation) -> None:
    assert shell(sidecar, "echo 'a  b' && exit 6") == (6, b"a  b\n", b"")


def test_a_script_file(sidecar: Installation, tmp_path: Path) -> None:
    script = tmp_path / "with space.sh"
    script.write_text('echo "$# $1"; exit 2\n')
    assert shell(sidecar, str(script), "a b") == (2, b"1 a b\n", b"")


def test_commands_from_stdin(sidecar: Installation) -> None:
    assert shell(sidecar, input=b"echo from-stdin; read x; echo $x\nnext\nexit 8\n") == (8, b"from-stdin\nnext\n", b"")
    assert shell(sidecar, "-s", "arg", input=b"echo $1; exit 8\n") == (8, b"arg\n", b"")


@pytest.mark.parametrize("words", [("-c", "env"), ("-lc", "env"), ("env; true",)])
def test_a_command_string_is_supervised(sidecar: Installation, words: tuple[str, ...]) -> None:
    ended = shell(sidecar, *words)
    assert supervised(ended)
    assert b"SIDECAR_ACTIVE=1\n" in ended.stdout


def test_only_the_outermost_supervises(sidecar: Installation) -> None:
    inner = f"{sidecar.shell} -c 'echo $TRACEPARENT; ps -o args= -p $PPID'"
    outer = shell(sidecar, "-c", f"echo $TRACEPARENT; {inner}; :")
    first, second, parent = outer.stdout.decode().splitlines()
    assert first == second != ""
    assert "sidecar-sh" not in parent.split()[0]


def test_helpers_of_an_agent_are_left_alone(sidecar: Installation) -> None:
    env = {**sidecar.environ, "AI_AGENT": "some_agent_harness"}
    assert not supervised(shell(sidecar, "-c", "env", env=env))


def test_a_bad_setting_does_not_stop_a_shell(sidecar: Installation) -> None:
    env = {**sidecar.environ, "SIDECAR_TIMEOUT": "soon"}
    assert shell(sidecar, "-c", "echo on; exit 3", env=env) == (3, b"on\n", b"")


def test_another_shell(sidecar: Installation) -> None:
    env = {**sidecar.environ, "SIDECAR_SHELL": "/bin/sh"}
    assert os.path.basename(shell(sidecar, "-c", "echo $0", env=env).stdout.decode().strip()) == "sh"


def test_a_shell_that_is_not_there(sidecar: Installation) -> None:
    for words in (("-c", "echo x"), ("-s",)):
        ended = shell(sidecar, *words, env={**sidecar.environ, "SIDECAR_SHELL": "/no/such/shell"})
        assert (ended.status, ended.stdout, ended.stderr.count(b"\n")) == (127, b"", 1)
