"""Records the trees of tests/unit/recorded from staged scenarios: one or more a verdict, from real runs.

    unshare --pid --fork --mount-proc python -m tests.verdicts.record            all, as root
    unshare --pid --fork --mount-proc python -m tests.verdicts.record NAME...    some

In a pid namespace of its own the pids are small, and nobody of the machine is in the record. A scenario of which the
verdict is not right is not kept.
"""

from __future__ import annotations

import ctypes
import os
import sys
from pathlib import Path
from typing import Any

from collectors.look import Looker
from collectors.recording import RecordingKernel, dumps, record
from sidecar.core.evidence import Context
from sidecar.core.verdict import judge
from tests.verdicts.scenario import Scenario, scenarios
from tests.verdicts.stage import Stage, staged
from tests.verdicts.theatre import Theatre

FOLDER = Path(__file__).parents[1] / "unit" / "recorded"
RECORDED = (
    "compute_in_a_pipeline",
    "disk_write_direct",
    "transfer_from_afar",
    "starved_by_others",
    "throttled_by_a_quota",
    "thrashing_over_a_file",
    "sleep_in_a_pipeline",
    "sleep_in_a_vfork_child",
    "poll_in_a_shell_loop",
    "tcp_live_peer_afar",
    "tcp_live_peer_with_keepalive",
    "tcp_stopped_peer_here",
    "name_at_a_silent_server",
    "unix_socket_of_a_daemon",
    "psql_row_lock",
    "pipe_from_a_process_outside",
    "pidfd_of_a_process_outside",
    "signal_pause",
    "watch_tail",
    "serve_python_http",
    "traced_by_its_parent",
    "idle_epoll",
    "prompt_getpass",
    "prompt_sudo",
    "prompt_gdb_with_a_stopped_child",
    "input_pipe_cat",
    "stopped_reading_in_the_background",
    "output_pipe_not_read",
    "lock_flock_below_a_shell",
    "lock_sqlite_with_patience",
    "fifo_without_a_writer",
    "deadlock_c_two_mutexes",
    "deadlock_python_itself",
    "deadlock_flock_of_two_processes",
    "deadlock_pipes_both_empty",
    "deadlock_of_two_shells_with_flock",
    "alive_shell_that_will_end_its_helper",
    "alive_sleeper_with_a_thread_that_connects",
    "alive_below_timeout",
    "alive_below_an_alarm",
    "alive_relative_that_shares_its_memory",
    "alive_lock_of_a_sleeper",
    "alive_tcp_to_a_process_of_the_command_that_sleeps",
    "alive_pair_with_time_limits_of_their_sockets",
    "alive_one_of_two_connections",
    "alive_pipe_whose_end_is_in_a_message",
    "jobs_that_wait_for_a_token",
    "tcp_cut_with_data_in_flight",
    "tcp_cut_with_keepalive",
    "connect_to_a_black_hole",
    "send_to_a_stopped_peer_afar",
    "file_system_does_not_answer_a_read",
    "file_system_is_slow",
    "output_held_by_a_background_process",
    "frozen_by_the_freezer",
    "out_of_memory_without_a_killer",
    "deadlock_java_monitors",
    "io_uring_wait",
)
_CLONE_NEWNET = 0x40000000


def main(names: list[str]) -> int:
    """1 where a scenario could not be staged, or was misjudged."""
    wanted = names or list(RECORDED)
    known = {one.name: one for one in scenarios()}
    FOLDER.mkdir(exist_ok=True)
    failed = 0
    theatre = Theatre()
    try:
        for name in wanted:
            try:
                text = _record(theatre, known[name])
            except Exception as error:  # noqa: BLE001  # one that cannot be staged does not keep the others
                text = ""
                print(f"{name}: {type(error).__name__}: {error}")
            if text:
                (FOLDER / f"{name}.json").write_text(text)
            failed += not text
    finally:
        theatre.close()
    return 1 if failed else 0


def _record(theatre: Theatre, scenario: Scenario) -> str:
    with staged(theatre, scenario.name, scenario.stage, unprivileged=False) as stage:
        host = _host_of(stage)
        home = os.open("/proc/self/ns/net", os.O_RDONLY)
        try:
            _enter_network_of(f"/proc/{host}/ns/net")
            kernel = RecordingKernel()
            looker = Looker(stage.pid, supervisor=host, kernel=kernel)
            context: dict[str, Any] = {}
            if stage.command_exited.is_set():
                context = {"exit_status": 0, "output_is_open": True}
            about = {"scenario": scenario.name, "right": list(scenario.right), "context": context}
            recorded, before, after = record(looker, kernel, about)
        finally:
            _enter_network_of(f"/proc/self/fd/{home}")
            os.close(home)
        verdict = judge(before, after, Context(**context))
        print(f"{scenario.name}: {verdict.name} ({verdict.confidence}): {verdict.evidence[0]}")
        if verdict.name not in scenario.right:
            print(f"    not kept: right is {' or '.join(scenario.right)}")
            return ""
        return _without_the_machine(dumps({"verdict": verdict.name, "confidence": verdict.confidence, **recorded}))


def _host_of(stage: Stage) -> int:
    """The command's parent; of one that has exited, the parent of what it left behind."""
    for pid in (stage.pid, *stage.tree()):
        try:
            return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
    raise ProcessLookupError("nothing of the command is left")


def _enter_network_of(path: str) -> None:
    libc = ctypes.CDLL(None, use_errno=True)
    descriptor = os.open(path, os.O_RDONLY)
    try:
        if libc.setns(descriptor, _CLONE_NEWNET) != 0:
            raise OSError(ctypes.get_errno(), "setns")
    finally:
        os.close(descriptor)


def _without_the_machine(text: str) -> str:
    """Control groups of the machine the record was made on are of no interest."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        group = line.split(":", 2)[2]
        if len(group) > 1:
            text = text.replace(group, "/user.slice")
    return text


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
