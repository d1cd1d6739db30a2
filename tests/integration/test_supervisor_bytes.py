"""Bytes: all of them, in order, as they were written, and what happens where nobody takes them."""

import hashlib
import os
import socket
import subprocess
import threading
import time
from pathlib import Path

import pytest
from supervised import WAIT_S, Installation, until


def bash(sidecar: Installation, script: str, **options: object) -> "subprocess.CompletedProcess[bytes]":
    """A script of the agent's, in which $W is the wrapper."""
    environ = {**sidecar.environ, "W": "sidecar run --"}
    return subprocess.run(["bash", "-c", script], env=environ, timeout=WAIT_S, **options)  # type: ignore[call-overload,no-any-return]


def test_stdin_is_the_commands(sidecar: Installation) -> None:
    assert sidecar.run("cat", input=b"msg\n\0\xff") == (0, b"msg\n\0\xff", b"")


def test_stdin_of_the_loop_around_the_command_is_left_alone(sidecar: Installation) -> None:
    done = bash(sidecar, 'seq 3 | while read -r n; do $W true; echo "$n"; done', capture_output=True)
    assert done.stdout == b"1\n2\n3\n"


def test_end_of_file_on_stdin(sidecar: Installation) -> None:
    bare, wrapped = sidecar.both("bash", "-c", 'read -r a; echo "rc=$?"')
    assert wrapped == bare == (0, b"rc=1\n", b"")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", ">&- 2>&-", "<&- >&- 2>&-"])
def test_closed_streams_are_closed_for_the_command(sidecar: Installation, closed: str, tmp_path: Path) -> None:
    probe = "for n in 0 1 2 3 4 5 6; do [ -e /proc/self/fd/$n ] && printf $n >>$F; done; echo x; echo y >&2; cat"
    seen = []
    for wrapper in ("", "sidecar run --"):
        file = tmp_path / f"seen{len(seen)}"
        file.touch()
        environ = {**sidecar.environ, "F": str(file)}
        done = subprocess.run(
            ["bash", "-c", f"{wrapper} bash -c '{probe}' {closed}"],
            env=environ, capture_output=True, input=b"in", timeout=WAIT_S,
        )  # fmt: skip
        seen.append((done.returncode, done.stdout, done.stderr, file.read_bytes()))
    assert seen[1] == seen[0]


def test_dev_null(sidecar: Installation) -> None:
    null = subprocess.DEVNULL
    assert sidecar.run("sh", "-c", "echo a; echo b >&2; exit 3", stdin=null, stdout=null, stderr=null).status == 3


def test_joined_streams_keep_their_order(sidecar: Installation) -> None:
    script = "for i in 1 2 3; do echo o$i; echo e$i >&2; done"
    for _ in range(30):
        done = sidecar.run("bash", "-c", script, stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        assert done.stdout.split() == b"o1 e1 o2 e2 o3 e3".split()


@pytest.mark.parametrize("mode", ["wb", "ab"])
def test_one_file_for_both_streams(sidecar: Installation, mode: str, tmp_path: Path) -> None:
    script = "for i in 1 2 3; do echo o$i; echo e$i >&2; done"
    results = []
    for bare in (True, False):
        path = tmp_path / f"{mode}{bare}"
        path.write_bytes(b"what was there before\n")
        with path.open(mode) as file:
            sidecar.run("bash", "-c", script, bare=bare, stdout=file, stderr=subprocess.STDOUT)
            # The file's position is the agent's too: what it writes next comes behind.
            os.write(file.fileno(), b"after\n")
        results.append(path.read_bytes())
    assert results[1] == results[0]
    assert results[0].endswith(b"o1\ne1\no2\ne2\no3\ne3\nafter\n")


def test_one_file_opened_twice(sidecar: Installation, tmp_path: Path) -> None:
    """Two offsets that overwrite each other, as bare."""
    results = []
    for wrapper in ("", "$W "):
        bash(sidecar, f"{wrapper}bash -c 'printf 12345; printf ab >&2' >{tmp_path}/f 2>{tmp_path}/f")
        results.append((tmp_path / "f").read_bytes())
    assert results[1] == results[0] == b"ab345"


def test_sockets_as_streams(sidecar: Installation) -> None:
    """Some runtimes give their children socket pairs instead of pipes."""
    ours_out, out = socket.socketpair()
    ours_err, err = socket.socketpair()
    with ours_out, ours_err:
        with out, err:
            child = subprocess.Popen(
                sidecar.words("sh", "-c", "head -c 300000 /dev/zero; echo problem >&2; exit 5"),
                stdin=subprocess.DEVNULL, stdout=out, stderr=err, env=sidecar.environ,
            )  # fmt: skip
        ours_out.settimeout(WAIT_S)
        ours_err.settimeout(WAIT_S)
        received = b""
        while chunk := ours_out.recv(65536):
            received += chunk
        assert received == bytes(300000)
        assert ours_err.recv(100) == b"problem\n"
        assert child.wait(WAIT_S) == 5


def test_binary_bytes(sidecar: Installation) -> None:
    data = bytes(range(256)) * 40 + b"\xe2\x89\r\n\r\0\x1b[31m"
    assert sidecar.run("cat", input=data) == (0, data, b"")


def test_a_large_stream(sidecar: Installation) -> None:
    size = 64 << 20
    with sidecar.started("sh", "-c", f"yes 0123456789abcdef | head -c {size}") as child:
        assert child.stdout is not None
        digest, count = hashlib.sha256(), 0
        while chunk := child.stdout.read1(1 << 16):  # type: ignore[attr-defined]  # a BufferedReader
            digest.update(chunk)
            count += len(chunk)
        assert child.wait(WAIT_S) == 0
    assert count == size
    line = b"0123456789abcdef\n"
    assert digest.digest() == hashlib.sha256((line * (size // len(line) + 1))[:size]).digest()


def test_the_agents_pipe_keeps_its_flags(sidecar: Installation) -> None:
    reader, writer = os.pipe()
    try:
        sidecar.run("echo", "x", stdout=writer, stderr=writer)
        assert os.get_blocking(writer)
    finally:
        os.close(reader)
        os.close(writer)


def test_a_reader_that_leaves(sidecar: Installation) -> None:
    done = bash(sidecar, '$W yes | head -1; echo "${PIPESTATUS[@]}"', capture_output=True)
    assert done.stdout == b"y\n141 0\n"


def test_a_reader_that_never_was(sidecar: Installation, tmp_path: Path) -> None:
    """It has gone before the first byte: the command dies of writing, as soon as who wraps it knows."""
    command = f"until [ -e {tmp_path}/gone ]; do sleep .02; done; while echo x; do sleep .1; done; exit 7"
    script = f"( $W bash -c '{command}'; echo \"rc=$?\" >&2 ) | (exec <&-; : >{tmp_path}/gone)"
    bare = bash(sidecar, script.replace("$W ", ""), capture_output=True)
    (tmp_path / "gone").unlink()
    assert bash(sidecar, script, capture_output=True).stderr == bare.stderr == b"rc=141\n"


def test_a_silent_command_notices_that_its_reader_left_no_sooner_than_bare(sidecar: Installation) -> None:
    script = "( $W bash -c 'sleep .5; exit 7'; echo \"rc=$?\" >&2 ) | true"
    assert bash(sidecar, script, capture_output=True).stderr == b"rc=7\n"


def test_a_full_disk_fails_the_commands_own_write(sidecar: Installation) -> None:
    with open("/dev/full", "wb") as full:
        ended = sidecar.run(
            "bash", "-c", "trap '' PIPE; for i in 1 2 3; do sleep .1; echo x || exit 9; done", stdout=full
        )
    assert ended.status == 9


def test_the_timeout_comes_on_time_while_nobody_reads(sidecar: Installation) -> None:
    begin_s = time.monotonic()
    with sidecar.started("yes", flags=("--timeout", "1s")) as child:
        # What is in the pipe is never read; nothing more is owed to a command that was stopped.
        assert child.wait(WAIT_S) == 124
        assert 1 <= time.monotonic() - begin_s < 15


def test_a_slow_reader_loses_nothing(sidecar: Installation) -> None:
    with sidecar.started("sh", "-c", "head -c 1000000 /dev/zero; echo end >&2") as child:
        assert child.stdout is not None
        assert child.stderr is not None
        stderr: list[bytes] = []
        # The other stream flows meanwhile, and the command ends only when its own bytes were taken.
        collector = threading.Thread(target=lambda: stderr.append(child.stderr.read()))  # type: ignore[union-attr]
        collector.start()
        until(lambda: os.stat(f"/proc/{child.pid}") and True)
        received = b""
        while chunk := os.read(child.stdout.fileno(), 50000):
            received += chunk
            time.sleep(0.01)
        collector.join(WAIT_S)
        assert (child.wait(WAIT_S), len(received), stderr) == (0, 1000000, [b"end\n"])


def test_memory_stays_flat_while_nobody_reads(sidecar: Installation) -> None:
    with sidecar.started("sh", "-c", "yes | head -c 200000000") as child:
        assert child.stdout is not None
        peak_kib = 0
        while chunk := os.read(child.stdout.fileno(), 1 << 20):
            del chunk
            peak_kib = max(peak_kib, _rss_kib(child.pid))
        assert child.wait(WAIT_S) == 0
    assert 0 < peak_kib < 24 * 1024


@pytest.mark.parametrize("flags", [(), ("--heartbeat-interval", "1s")])
def test_a_waiting_supervisor_is_small(sidecar: Installation, flags: tuple[str, ...]) -> None:
    with sidecar.started("sh", "-c", "echo on; sleep 30", flags=flags) as child:
        assert child.stdout is not None
        assert child.stdout.readline() == b"on\n"
        assert _rss_kib(child.pid) < 14 * 1024


def _rss_kib(pid: int) -> int:
    try:
        with open(f"/proc/{pid}/status") as file:
            return next((int(line.split()[1]) for line in file if line.startswith("VmRSS")), 0)
    except OSError:
        return 0
