"""What the machine withholds: processors, memory, file systems, the freezer; and output that outlives its command."""

from __future__ import annotations

import os
import shutil
import time

from tests.verdicts.helpers import PATIENCE_S, Helper, StagingError
from tests.verdicts.scenario import scenario
from tests.verdicts.stage import Stage

_V1 = "/sys/fs/cgroup"
_V2 = "/sys/fs/cgroup/unified" if os.path.isdir("/sys/fs/cgroup/unified") else "/sys/fs/cgroup"
_SPIN = "while True: pass"


class _Cgroup:
    """A control group of ours, removed when the scenario is over."""

    def __init__(self, stage: Stage, hierarchy: str) -> None:
        self.path = f"{hierarchy}/verdicts-{os.getpid()}-{stage.scratch.name}"
        os.mkdir(self.path)
        stage.later(self._remove)

    def set(self, file: str, value: str) -> None:
        with open(f"{self.path}/{file}", "w") as out:
            out.write(value)

    def get(self, file: str) -> str:
        with open(f"{self.path}/{file}") as source:
            return source.read()

    def take(self, stage: Stage) -> None:
        for pid in stage.tree():
            self.set("cgroup.procs", str(pid))

    def _remove(self) -> None:
        deadline = time.monotonic() + PATIENCE_S
        while True:
            try:
                for pid in self.get("cgroup.procs").split():
                    os.kill(int(pid), 9)
            except OSError:
                pass
            try:
                os.rmdir(self.path)
            except OSError as error:
                if time.monotonic() > deadline:
                    raise StagingError(f"{self.path} cannot be removed") from error
                time.sleep(0.05)
            else:
                return


@scenario("cpu_starved", needs=["root", "taskset", "chrt"], alone=True)
def starved_by_others(stage: Stage) -> None:
    # The lowest class of all, on one processor with five that are busy in the normal class. Five, since the kernel may
    # give each session an equal share whatever its class (sched_autogroup, sched(7)).
    for _ in range(5):
        stage.helper("taskset", "-c", "0", *stage.python(_SPIN))
    stage.run("chrt", "--idle", "0", "taskset", "-c", "0", *stage.python(_SPIN))
    stage.until(lambda: stage.command_line().startswith(stage.theatre.python), "does not start")
    stage.until(lambda: stage.state() == "R", "is not runnable")


@scenario("cpu_starved", needs=["root", "taskset", "chrt"], alone=True)
def starved_by_a_real_time_process(stage: Stage) -> None:
    stage.run("taskset", "-c", "0", *stage.python(_SPIN))
    stage.busy()
    stage.helper("taskset", "-c", "0", "chrt", "--fifo", "10", *stage.python(_SPIN))


@scenario("cpu_throttled", needs=["root", "cgroup v1"], alone=True)
def throttled_by_a_quota(stage: Stage) -> None:
    group = _Cgroup(stage, f"{_V1}/cpu")
    group.set("cpu.cfs_period_us", "100000")
    group.set("cpu.cfs_quota_us", "3000")
    stage.run(*stage.python(_SPIN))
    stage.busy()
    group.take(stage)
    stage.until(lambda: int(group.get("cpu.stat").split()[3]) >= 2, "is not throttled")


@scenario("memory_thrash", needs=["root", "cgroup v1", "gcc"], alone=True)
def thrashing_over_a_file(stage: Stage) -> None:
    big = stage.scratch / "big"
    with open(big, "wb") as file:
        for _ in range(200):
            file.write(os.urandom(1 << 20))
        file.flush()
        os.fsync(file.fileno())
        os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)
    big.chmod(0o644)
    group = _Cgroup(stage, f"{_V1}/memory")
    group.set("memory.limit_in_bytes", str(8 << 20))
    stage.run(stage.program("waits"), "fault", "big", stdin="pipe")
    group.take(stage)
    stage.tell("go\n")
    stage.expect("ready")


@scenario("oom_stall", needs=["root", "cgroup v1", "gcc"], hung=True)
def out_of_memory_without_a_killer(stage: Stage) -> None:
    group = _Cgroup(stage, f"{_V1}/memory")
    group.set("memory.limit_in_bytes", str(32 << 20))
    group.set("memory.oom_control", "1")
    stage.run(stage.program("waits"), "allocate", stdin="pipe")
    group.take(stage)
    stage.tell("go\n")
    stage.until(lambda: "under_oom 1" in group.get("memory.oom_control"), "is not out of memory")
    stage.rest()


@scenario("frozen", needs=["root", "cgroup v1"], hung=True)
def frozen_by_the_freezer(stage: Stage) -> None:
    group = _Cgroup(stage, f"{_V1}/freezer")
    stage.run("sh", "-c", "sleep 300; true")
    stage.member("sleep")
    stage.rest()
    group.take(stage)
    stage.later(lambda: group.set("freezer.state", "THAWED"))
    group.set("freezer.state", "FROZEN")
    stage.until(lambda: group.get("freezer.state").strip() == "FROZEN", "does not freeze")


@scenario("frozen", needs=["root", "cgroup v2"], hung=True)
def frozen_while_computing(stage: Stage) -> None:
    group = _Cgroup(stage, _V2)
    stage.run(*stage.python(_SPIN))
    stage.busy()
    group.take(stage)
    stage.later(lambda: group.set("cgroup.freeze", "0"))
    group.set("cgroup.freeze", "1")
    stage.until(lambda: "frozen 1" in group.get("cgroup.events"), "does not freeze")


def _unanswering(stage: Stage) -> tuple[str, Helper]:
    """The mount point of a file system that does not answer, and its server, which says what it leaves unanswered."""
    mountpoint = stage.scratch / "mount"
    mountpoint.mkdir()
    server = stage.helper(*stage.python("hung_fuse.py", mountpoint))
    server.expect("mounted")
    return str(mountpoint), server


@scenario("filesystem_wait", needs=["root", "fuse"], hung=True)
def file_system_does_not_answer_a_read(stage: Stage) -> None:
    mountpoint, server = _unanswering(stage)
    stage.run("cat", f"{mountpoint}/file")
    server.expect("stuck 15")
    stage.rest()


@scenario("filesystem_wait", needs=["root", "fuse"], hung=True)
def file_system_does_not_answer_a_lookup(stage: Stage) -> None:
    mountpoint, server = _unanswering(stage)
    stage.run("ls", "-l", f"{mountpoint}/hung")
    server.expect("stuck 1")
    stage.rest()


@scenario("filesystem_wait", needs=["root", "fuse"], hung=True)
def file_system_does_not_answer_below_a_pipeline(stage: Stage) -> None:
    mountpoint, server = _unanswering(stage)
    stage.run("sh", "-c", f"cat {mountpoint}/file | wc -c")
    server.expect("stuck 15")
    stage.rest()


@scenario("disk_io", "unknown", "polling", needs=["root", "fuse"])
def file_system_is_slow(stage: Stage) -> None:
    # It answers each read after a third of a second.
    mountpoint = stage.scratch / "mount"
    mountpoint.mkdir()
    stage.helper(*stage.python("hung_fuse.py", mountpoint, "0.3")).expect("mounted")
    stage.run(
        *stage.python(
            f"import os\nf = os.open('{mountpoint}/file', os.O_RDONLY)\nwhile os.pread(f, 4096, 0):\n"
            " os.posix_fadvise(f, 0, 0, os.POSIX_FADV_DONTNEED); print('read')"
        )
    )
    stage.expect("read")


@scenario("filesystem_wait", needs=["root", "loop device", "fsfreeze"], hung=True)
def file_system_frozen(stage: Stage) -> None:
    mountpoint = stage.scratch / "mount"
    mountpoint.mkdir()
    holder = stage.helper(*stage.python("frozen_fs.py", mountpoint, stage.scratch / "image"))
    holder.expect("frozen")
    stage.run("sh", "-c", f"echo x > {mountpoint}/file")
    stage.until(lambda: stage.state() == "D", "is not stuck")
    stage.rest()


@scenario("output_held", hung=True)
def output_held_by_a_background_process(stage: Stage) -> None:
    stage.run("sh", "-c", "sleep 300 & exit 0")
    stage.until(stage.command_exited.is_set, "does not exit")
    stage.rest()


@scenario("output_held", hung=True)
def output_held_in_a_session_of_its_own(stage: Stage) -> None:
    stage.run("sh", "-c", "setsid sleep 300 & sleep 0.2; exit 3")
    stage.until(stage.command_exited.is_set, "does not exit")
    stage.rest()


@scenario("output_held", hung=True)
def output_held_by_a_server(stage: Stage) -> None:
    code = "import socket; s = socket.create_server(('127.0.0.1', 0)); print('ready'); s.accept()"
    stage.run("sh", "-c", '"$@" & sleep 0.2', "sh", *stage.python(code))
    stage.expect("ready")
    stage.until(stage.command_exited.is_set, "does not exit")
    stage.rest()


@scenario("sleeping", "output_held")
def output_held_by_an_orphan_of_a_live_command(stage: Stage) -> None:
    # The command itself goes on: an orphan that came to us is of its tree.
    stage.run("sh", "-c", "(sleep 300 & exit 0); exec sleep 301")
    stage.until(lambda: len(stage.tree()) == 2, "no orphan")
    stage.rest()


@scenario("unknown", "sleeping", needs=["root"])
def set_user_id_program(stage: Stage) -> None:
    # Root sees it sleep; its user may not look.
    sleeper = stage.scratch / "sleeper"
    shutil.copy("/bin/sleep", sleeper)
    os.chown(sleeper, 0, 0)
    sleeper.chmod(0o4755)
    stage.run(str(sleeper), "300")
    stage.rest()
