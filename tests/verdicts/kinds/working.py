"""Working: something of the tree gets on."""

from __future__ import annotations

from tests.verdicts.scenario import scenario
from tests.verdicts.stage import Stage

_SPIN = "while True: pass"


@scenario("computing")
def compute_python(stage: Stage) -> None:
    stage.run(*stage.python(_SPIN))
    stage.busy()


@scenario("computing", needs=["gcc"])
def compute_c(stage: Stage) -> None:
    stage.run(stage.program("waits"), "spin")
    stage.busy()


@scenario("computing", needs=["gcc"])
def compute_in_threads(stage: Stage) -> None:
    stage.run(stage.program("waits"), "threads")
    stage.busy()


@scenario("computing", needs=["gcc"])
def compute_after_the_main_thread_ended(stage: Stage) -> None:
    # The leader shows Z while its thread computes.
    stage.run(stage.program("waits"), "leader_gone")
    stage.busy()


@scenario("computing")
def compute_below_a_shell(stage: Stage) -> None:
    stage.run("sh", "-c", 'sh -c "$0 -c \\"$1\\"; true"; true', stage.theatre.python, _SPIN)
    stage.busy()


@scenario("computing")
def compute_shell_on_a_terminal(stage: Stage) -> None:
    stage.run("bash", "-c", "while :; do :; done", terminal=True)
    stage.busy()


@scenario("computing")
def compute_after_a_prompt(stage: Stage) -> None:
    # It asked a question, and does not read the answer: no prompt.
    stage.run("bash", "-c", 'printf "Proceed [Y/n]: "; while :; do :; done', terminal=True)
    stage.expect("Proceed")
    stage.busy()


@scenario("computing")
def compute_in_short_children(stage: Stage) -> None:
    # No process lives long enough to be seen computing: only the CPU of the reaped shows it.
    stage.run("sh", "-c", "while :; do /bin/true; done")
    stage.busy()


@scenario("computing", needs=["gzip"])
def compute_in_a_pipeline(stage: Stage) -> None:
    stage.run("sh", "-c", "gzip -9 </dev/zero | cat >/dev/null")
    stage.busy()


@scenario("computing", needs=["sha256sum"])
def compute_a_checksum(stage: Stage) -> None:
    stage.run("sha256sum", "/dev/zero")
    stage.busy()


@scenario("computing", needs=["make"])
def compute_in_a_make(stage: Stage) -> None:
    (stage.scratch / "Makefile").write_text(
        "all: a b c\na b c:\n\t@i=0; while [ $$i -lt 100000000 ]; do i=$$((i+1)); done\n"
    )
    stage.run("make", "-s", "-j3")
    stage.busy()


# A compiler's temporary files count as storage too.
@scenario("computing", "disk_io", needs=["gcc"])
def compute_compilations(stage: Stage) -> None:
    (stage.scratch / "part.c").write_text("#include <stdio.h>\n#include <stdlib.h>\nint f(int x) { return x; }\n")
    stage.run("sh", "-c", "while :; do gcc -pipe -O2 -c part.c -o /dev/null; done")
    stage.busy()


@scenario("computing", needs=["node"])
def compute_node(stage: Stage) -> None:
    stage.run("node", "-e", "for (;;);")
    stage.busy(0.3)


@scenario("computing", needs=["javac", "java"])
def compute_java(stage: Stage) -> None:
    stage.run("java", "-cp", stage.program("Waits"), "Waits", "compute")
    stage.expect("ready")
    stage.busy()


@scenario("computing", needs=["go"])
def compute_go(stage: Stage) -> None:
    stage.run(stage.program("gowaits"), "compute")
    stage.expect("ready")
    stage.busy()


@scenario("computing")
def compute_beside_sleepers(stage: Stage) -> None:
    stage.run("bash", "-c", "sleep 300 & sleep 301 & while :; do :; done")
    stage.busy()


@scenario("computing")
def compute_beside_a_stopped_one(stage: Stage) -> None:
    stage.run("bash", "-c", "sleep 300 & kill -STOP $!; while :; do :; done")
    stage.busy()


@scenario("computing")
def compute_with_a_hostile_name(stage: Stage) -> None:
    stage.run(*stage.python("open('/proc/self/comm', 'w').write('a) S 1 (')\n" + _SPIN))
    stage.busy()


@scenario("computing")
def compute_with_input_from_the_agent(stage: Stage) -> None:
    stage.run("sh", "-c", "read go; while :; do :; done", stdin="pipe")
    stage.tell("go\n")
    stage.busy()


@scenario("computing")
def compute_by_yielding(stage: Stage) -> None:
    # A spin lock: busy, whatever it is good for.
    stage.run(*stage.python("import os\nwhile True: os.sched_yield()"))
    stage.busy()


@scenario("computing")
def compute_half_of_the_time(stage: Stage) -> None:
    stage.run(
        *stage.python(
            "import time\nwhile True:\n e = time.process_time() + 0.05\n while time.process_time() < e: pass\n"
            " time.sleep(0.05)"
        )
    )
    stage.busy()


@scenario("disk_io", "computing", alone=True)
def disk_write_direct(stage: Stage) -> None:
    stage.run("sh", "-c", "while :; do dd if=/dev/zero of=file bs=64k count=2000 oflag=direct,dsync status=none; done")
    stage.busy(0.05)


@scenario("disk_io", alone=True)
def disk_sync_after_small_writes(stage: Stage) -> None:
    stage.run(
        *stage.python(
            "import os, time\nf = os.open('file', os.O_CREAT | os.O_WRONLY)\n"
            "while True: os.write(f, b'x' * 40000); os.fdatasync(f); time.sleep(0.02)"
        )
    )
    stage.busy(0.05)


@scenario("disk_io", alone=True, needs=["sqlite3"])
def disk_of_a_database(stage: Stage) -> None:
    stage.run(
        *stage.python(
            "import sqlite3, time\n"
            "b = sqlite3.connect('base'); b.execute('create table t (n)'); b.execute('pragma synchronous=full')\n"
            "while True: b.execute('insert into t values (?)', ('x' * 20000,)); b.commit(); time.sleep(0.02)"
        )
    )
    stage.busy(0.05)


@scenario("disk_io", alone=True)
def disk_read_uncached(stage: Stage) -> None:
    path = stage.scratch / "file"
    path.write_bytes(b"x" * (16 << 20))
    path.chmod(0o666)
    stage.run(
        *stage.python(
            "import mmap, os, time\nf = os.open('file', os.O_RDONLY | os.O_DIRECT); b = mmap.mmap(-1, 1 << 16)\n"
            "while True:\n os.lseek(f, 0, 0)\n while os.readv(f, [b]): time.sleep(0.002)"
        )
    )
    stage.busy(0.05)


@scenario("network_transfer", needs=["curl"])
def transfer_download(stage: Stage) -> None:
    peer = stage.peer("drip")
    stage.run("curl", "--http0.9", "-sS", "-o", "/dev/null", peer.url)
    peer.expect("accepted")
    stage.rest(0)


@scenario("network_transfer")
def transfer_in_small_pieces(stage: Stage) -> None:
    peer = stage.peer("drip")
    stage.run(*stage.python("client.py", peer.host, peer.port))
    stage.expect("connected")


@scenario("network_transfer")
def transfer_upload(stage: Stage) -> None:
    peer = stage.peer("hold")
    stage.run(
        *stage.python(
            "import socket, sys, time\ns = socket.create_connection((sys.argv[1], int(sys.argv[2])))\n"
            "while True: s.sendall(b'x' * 4096); time.sleep(0.1)",
            peer.host,
            peer.port,
        )
    )
    peer.expect("data")


@scenario("network_transfer", needs=["root"])
def transfer_from_afar(stage: Stage) -> None:
    peer = stage.remote_peer("drip")
    stage.run(*stage.python("client.py", peer.host, peer.port), network=stage.theatre.network.client)
    stage.expect("connected")


@scenario("network_transfer")
def transfer_below_a_pipeline(stage: Stage) -> None:
    peer = stage.peer("drip")
    stage.run("sh", "-c", f"curl --http0.9 -sSN {peer.url} | cat >/dev/null")
    peer.expect("accepted")
