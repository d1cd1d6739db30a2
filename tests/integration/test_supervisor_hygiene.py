"""The command gets what the agent gave, and nothing of ours: descriptors, environment, signals, limits, group."""

import ctypes
import json
import os
import resource
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from supervised import Installation, on_linux, stop_daemon

pytestmark = on_linux
OURS = (b"TRACEPARENT=", b"TRACESTATE=")
STATUS = 'grep -E "^(SigBlk|SigIgn|SigCgt|SigPnd|ShdPnd|Umask|NoNewPrivs|Cpus_allowed|CapEff)" /proc/self/status'


def environment(sidecar: Installation, *flags: str, **variables: str) -> tuple[list[bytes], list[bytes]]:
    """(bare, wrapped), in the order in which the command has them."""
    env = {**sidecar.environ, **variables}
    bare = sidecar.run("env", "-0", bare=True, env=env).stdout.split(b"\0")
    wrapped = sidecar.run("env", "-0", env=env, flags=flags).stdout.split(b"\0")
    return bare, wrapped


@pytest.mark.parametrize(
    "variables",
    [
        {},
        {"LANG": "C", "LC_ALL": ""},
        {"LC_ALL": "C"},
        {"LC_CTYPE": "C.UTF-8"},
        {"LC_ALL": "POSIX", "LC_CTYPE": "C"},
        {"LANG": "de_DE.UTF-8", "EMPTY": "", "LINES": "a\nb", "PYTHONPATH": "/x", "PYTHONHOME": "/y"},
    ],
)
def test_the_environment_gains_the_trace_only(sidecar: Installation, variables: dict[str, str]) -> None:
    bare, wrapped = environment(sidecar, **variables)
    assert sorted(entry for entry in wrapped if not entry.startswith((*OURS, b"_="))) == sorted(
        entry for entry in bare if not entry.startswith(b"_=")
    )
    assert len([entry for entry in wrapped if entry.startswith(b"TRACEPARENT=00-")]) == 1


def test_without_a_locale_nothing_is_added(sidecar: Installation) -> None:
    env = {name: value for name, value in sidecar.environ.items() if not name.startswith(("LANG", "LC_"))}
    bare = sidecar.run("env", "-0", bare=True, env=env).stdout.split(b"\0")
    wrapped = sidecar.run("env", "-0", env=env).stdout.split(b"\0")
    assert {entry for entry in wrapped if not entry.startswith(OURS)} - {b"_=/usr/bin/env"} <= set(bare)


def test_names_that_a_shell_does_not_know(sidecar: Installation) -> None:
    bare, wrapped = environment(sidecar, **{"BASH_FUNC_f%%": "() {  :\n}", "spring.name": "x"})
    assert set(bare) <= set(wrapped)


def test_an_ignored_sigchld_stays_ignored(sidecar: Installation) -> None:
    bare, wrapped = sidecar.both(
        "grep", "SigIgn", "/proc/self/status", preexec_fn=lambda: signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    )
    assert wrapped == bare


def test_variables_that_are_no_text(sidecar: Installation) -> None:
    env = {**{k.encode(): v.encode() for k, v in sidecar.environ.items()}, b"RAW": b"\xfe\x80"}
    assert b"RAW=\xfe\x80" in sidecar.run("env", "-0", env=env).stdout.split(b"\0")


def test_an_empty_environment(sidecar: Installation) -> None:
    assert sidecar.run("/bin/echo", "x", env={"SIDECAR_SOCKET": sidecar.socket}) == (0, b"x\n", b"")


def test_a_trace_is_carried_on(sidecar: Installation) -> None:
    trace = "4bf92f3577b34da6a3ce929d0e0e4736"
    _, wrapped = environment(sidecar, TRACEPARENT=f"00-{trace}-00f067aa0ba902b7-01", TRACESTATE="a=1")
    (parent,) = (entry.decode() for entry in wrapped if entry.startswith(b"TRACEPARENT="))
    assert parent.startswith(f"TRACEPARENT=00-{trace}-")
    assert not parent.endswith("00f067aa0ba902b7-01")
    assert b"TRACESTATE=a=1" in wrapped


def test_no_descriptor_of_ours_reaches_the_command(sidecar: Installation) -> None:
    bare, wrapped = sidecar.both("ls", "/proc/self/fd")
    assert wrapped == bare


def test_descriptors_passed_on_purpose_arrive(sidecar: Installation, tmp_path: Path) -> None:
    (tmp_path / "f").write_bytes(b"lent\n")
    with (tmp_path / "f").open("rb") as file:
        high = os.dup2(file.fileno(), 57)
        try:
            script = "ls /proc/self/fd | tr '\\n' ' '; cat <&57"
            bare = sidecar.run("bash", "-c", script, bare=True, pass_fds=(57,))
            os.lseek(high, 0, os.SEEK_SET)
            wrapped = sidecar.run("bash", "-c", script, pass_fds=(57,))
        finally:
            os.close(high)
    assert wrapped == bare
    assert wrapped.stdout.endswith(b"57 lent\n")


def test_few_descriptors_are_enough(sidecar: Installation) -> None:
    for limit in (12, 16, 20):  # dash, the script's own shell, needs number 10
        bare, wrapped = sidecar.both("sh", "-c", "echo x; echo y >&2; exit 3", preexec_fn=_limited(limit))
        assert wrapped == bare, limit


def _limited(number: int) -> Callable[[], None]:
    return lambda: resource.setrlimit(resource.RLIMIT_NOFILE, (number, number))


@pytest.mark.parametrize(
    "setup",
    [
        "",
        "trap '' HUP",
        "trap '' INT QUIT TERM",
        "umask 027; cd /tmp; ulimit -n 99; ulimit -c 0",
        "ulimit -s 4096; ulimit -f 1000",
    ],
)
def test_inherited_state(sidecar: Installation, setup: str) -> None:
    script = f"umask; pwd; ulimit -a; {STATUS}; cat /proc/self/oom_score_adj /proc/self/coredump_filter; nice"
    seen = []
    for wrapper in ("", "sidecar run -- "):
        done = subprocess.run(
            ["bash", "-c", f"{setup}\n{wrapper}bash -c '{script}'"],
            env=sidecar.environ, capture_output=True, timeout=20,
        )  # fmt: skip
        seen.append((done.returncode, done.stdout, done.stderr))
    assert seen[1] == seen[0]


def test_niceness_and_oom_score(sidecar: Installation) -> None:
    def lowered() -> None:
        os.nice(5)
        Path("/proc/self/oom_score_adj").write_text("300")

    bare, wrapped = sidecar.both("sh", "-c", "nice; cat /proc/self/oom_score_adj", preexec_fn=lowered)
    assert wrapped == bare == (0, b"%d\n300\n" % (os.nice(0) + 5), b"")


def test_signal_mask_and_dispositions(sidecar: Installation) -> None:
    def blocked() -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGTERM, signal.SIGCHLD])

    bare, wrapped = sidecar.both("sh", "-c", STATUS, preexec_fn=blocked)
    assert wrapped == bare


IGNORED = {
    "none": (),
    "SIGPIPE": (signal.SIGPIPE,),
    "SIGXFSZ": (signal.SIGXFSZ,),
    "both": (signal.SIGPIPE, signal.SIGXFSZ),
}


@pytest.mark.parametrize("ignored", IGNORED.values(), ids=IGNORED.keys())
@pytest.mark.parametrize(
    "words",
    [("sidecar", "run", "--"), ("sidecar", "run", "--config", "/dev/null", "--"), ("sidecar-sh", "-c")],
    ids=lambda words: "-".join(word.strip("-/") for word in words),
)
@pytest.mark.parametrize("form", ["sidecar", "spaced"], ids=["direct", "as-installed"])
def test_what_is_given_ignored_stays_ignored(
    request: pytest.FixtureRequest, form: str, words: tuple[str, ...], ignored: tuple[signal.Signals, ...]
) -> None:
    """By an agent that is no shell, too: what Python ignored itself is told apart from what it was given."""
    installation: Installation = request.getfixturevalue(form)
    command = [STATUS] if words[-1] == "-c" else ["sh", "-c", STATUS]

    def ignoring() -> None:
        for number in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_IGN if number in ignored else signal.SIG_DFL)

    seen = []
    for wrapper in ([], [str(installation.prefix / "bin" / words[0]), *words[1:]]):
        prefix = ["bash", "-c"] if not wrapper and words[-1] == "-c" else wrapper
        seen.append(
            subprocess.run(
                [*prefix, *command], env={**installation.environ, "SIDECAR_SOCKET": "/dev/null/none"},
                capture_output=True, preexec_fn=ignoring, restore_signals=False, timeout=20,
            )
        )  # fmt: skip
    assert seen[0].returncode == 0
    assert (seen[1].returncode, seen[1].stdout, seen[1].stderr) == (0, seen[0].stdout, seen[0].stderr)


@pytest.mark.parametrize(("parent", "is_known"), [("bash", True), ("python", False)])
def test_where_nobody_could_look_before_python_a_shell_as_parent_tells_what_is_ignored(
    sidecar: Installation, parent: str, is_known: bool
) -> None:
    """The direct script without its guard, as where its path is too long for a first line."""
    wrapped = [f"{sidecar.prefix}/bin/python3", "-IS", str(sidecar.script), "run", "--", "sh", "-c", STATUS]
    words = ["bash", "-c", '"$@"; exit $?', "bash", *wrapped] if parent == "bash" else wrapped
    done = subprocess.run(
        words, env=sidecar.environ, capture_output=True, text=True, timeout=20,
        preexec_fn=lambda: signal.signal(signal.SIGPIPE, signal.SIG_IGN), restore_signals=False,
    )  # fmt: skip
    mask = int(done.stdout.partition("SigIgn:")[2].split()[0], 16)
    assert bool(mask & 1 << signal.SIGPIPE - 1) == is_known


def test_group_session_and_parent_signal(sidecar: Installation) -> None:
    """In pipe mode the command is in the agent's own group, so that kill(-pgid) reaches it."""
    script = "import os; print(os.getpgrp() == int(os.environ['G']), os.getsid(0) == int(os.environ['S']))"
    env = {**sidecar.environ, "G": str(os.getpgrp()), "S": str(os.getsid(0))}
    bare, wrapped = sidecar.both("python3", "-c", script, env=env)
    assert wrapped == bare == (0, b"True True\n", b"")


def test_signals_blocked_by_the_agent_are_blocked_for_the_command_and_forwarded_all_the_same(
    sidecar: Installation,
) -> None:
    script = "import os, signal; os.write(1, b'ready\\n'); print(signal.sigwait([signal.SIGUSR1]).value)"
    with sidecar.started(
        "python3", "-c", script, preexec_fn=lambda: signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1])
    ) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"ready\n"
        os.kill(child.pid, signal.SIGUSR1)
        assert child.stdout.read() == f"{signal.SIGUSR1.value}\n".encode()
        assert child.wait(20) == 0


def test_a_folder_that_is_gone(sidecar: Installation, tmp_path: Path) -> None:
    script = f'mkdir -p {tmp_path}/d; cd {tmp_path}/d; rmdir {tmp_path}/d; $W echo x; echo "rc=$?"'
    env = {**sidecar.environ, "W": "sidecar run --"}
    done = subprocess.run(["bash", "-c", script], env=env, capture_output=True, timeout=20)
    assert done.stdout == b"x\nrc=0\n"
    # dash itself says so where the script's own shell starts, before its first line.
    assert done.stderr in (b"", b"sh: 0: getcwd() failed: No such file or directory\n")


@pytest.mark.parametrize(
    "variables",
    [
        {"SIDECAR_SOCKET": "/proc/no/such/s.sock", "HOME": "/nonexistent"},
        {"SIDECAR_SOCKET": "/dev/null/s.sock"},
        {"SIDECAR_SOCKET": "/proc/self/s.sock", "TMPDIR": "/nonexistent"},
        {"SIDECAR_LOG": "/no/such/folder/log"},
    ],
)
def test_where_there_can_be_no_daemon_the_command_runs_as_ever(
    sidecar: Installation, variables: dict[str, str]
) -> None:
    env = {**sidecar.environ, **variables}
    assert sidecar.run("sh", "-c", "echo x; echo y >&2; exit 3", env=env) == (3, b"x\n", b"y\n")


def test_a_path_over_the_kernels_limit(sidecar: Installation, tmp_path: Path) -> None:
    path = str(tmp_path / ("d" * 120) / "s.sock")
    try:
        ended = sidecar.run("sh", "-c", "echo x; exit 3", env={**sidecar.environ, "SIDECAR_SOCKET": path})
        assert ended == (3, b"x\n", b"")
    finally:
        stop_daemon(path)


@pytest.mark.parametrize("wrapped", [False, True])
def test_children_of_the_agents_own_process_are_the_supervisors(sidecar: Installation, wrapped: bool) -> None:
    """What docs/supervision.md says that an exec hands on and a fork does not."""
    wrapper = "sidecar run -- " if wrapped else ""
    done = sidecar.run("sh", "-c", f"sleep .2 & exec {wrapper}python3 -ISc 'import os; print(os.wait()[1])'", bare=True)
    assert (done.status, done.stdout) == ((1, b"") if wrapped else (0, b"0\n"))


@pytest.mark.parametrize("wrapped", [False, True])
def test_a_record_lock_that_the_agents_process_has_is_the_supervisors(
    sidecar: Installation, tmp_path: Path, wrapped: bool
) -> None:
    take = (
        "import fcntl, os, sys; f = open(sys.argv[1], 'w'); fcntl.lockf(f, fcntl.LOCK_EX);"
        " os.set_inheritable(f.fileno(), True); os.execvp(sys.argv[2], sys.argv[2:])"
    )
    look = "import fcntl; fcntl.lockf(open(__import__('sys').argv[1], 'w'), fcntl.LOCK_EX | fcntl.LOCK_NB)"
    words = [*(["sidecar", "run", "--"] if wrapped else []), "python3", "-ISc", look, str(tmp_path / "lock")]
    done = sidecar.run("python3", "-ISc", take, str(tmp_path / "lock"), *words, bare=True)
    assert (done.status == 0) != wrapped
    assert (b"BlockingIOError" in done.stderr) == wrapped


@pytest.mark.parametrize("wrapped", [False, True])
def test_being_a_subreaper_is_the_supervisors(sidecar: Installation, wrapped: bool) -> None:
    def become() -> None:
        ctypes.CDLL(None).prctl(36, 1, 0, 0, 0)  # PR_SET_CHILD_SUBREAPER

    look = "import ctypes; v = ctypes.c_int(); ctypes.CDLL(None).prctl(37, ctypes.byref(v), 0, 0, 0); print(v.value)"
    done = sidecar.run("python3", "-ISc", look, bare=not wrapped, preexec_fn=become)
    assert done.stdout == (b"0\n" if wrapped else b"1\n")


def test_what_others_append_to_the_commands_file_counts_as_its_output(sidecar: Installation, tmp_path: Path) -> None:
    """Neither size nor position tells who wrote: docs/supervision.md. So one who shares a log is no silent one."""
    reader, writer = os.pipe()
    with (tmp_path / "log").open("ab", buffering=0) as log, (tmp_path / "log").open("ab", buffering=0) as others:
        flags = ("--heartbeat-interval", "1500ms", "--frames-fd", str(writer))
        with sidecar.started("sleep", "2.5", flags=flags, stdout=log, stderr=log, pass_fds=(writer,)) as child:
            os.close(writer)
            while child.poll() is None:
                others.write(b"12345")
                time.sleep(0.05)
    with os.fdopen(reader, "rb") as frames:
        told = [json.loads(line) for line in frames]
    assert told[-1]["type"] == "command_settled"
    assert told[-1]["totalBytes"] > 0
    assert [frame for frame in told if frame["type"] == "shell_progress"] == []
