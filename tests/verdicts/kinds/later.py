"""Written after the rules were, to see how they do on what nobody had thought of."""

from __future__ import annotations

import os
import signal

from tests.verdicts.scenario import scenario
from tests.verdicts.stage import Stage


@scenario("computing", needs=["perl"])
def later_regular_expression_that_explodes(stage: Stage) -> None:
    stage.run("perl", "-e", "('a' x 40) =~ /^(a+)+$b/; 1 while ('a' x 34 . 'b') !~ /^(a|aa|a?)+$/ || 1")
    stage.busy()


@scenario("computing", needs=["awk"])
def later_awk_loop(stage: Stage) -> None:
    stage.run("awk", "BEGIN { while (1) n++ }")
    stage.busy()


# Where other work takes the page cache and the processors, the tree comes from storage each time.
@scenario("computing", "disk_io", needs=["tar", "gzip"])
def later_tar_through_gzip(stage: Stage) -> None:
    stage.run("sh", "-c", "while :; do tar cf - /usr/lib/python3 2>/dev/null | gzip -9 >/dev/null; done")
    stage.busy(0.3)


@scenario("sleeping", needs=["perl"])
def later_perl_waitpid(stage: Stage) -> None:
    stage.run("perl", "-e", "if (fork) { wait } else { sleep 300 }")
    stage.until(lambda: len(stage.tree()) == 2, "no child")
    stage.rest()


@scenario("sleeping")
def later_nohup_nice_env(stage: Stage) -> None:
    stage.run("nohup", "nice", "-n", "5", "env", "A=b", "stdbuf", "-oL", "sleep", "300")
    stage.rest()


@scenario("sleeping")
def later_setsid_and_wait(stage: Stage) -> None:
    stage.run("setsid", "-w", "sleep", "300")
    stage.rest()


@scenario("sleeping")
def later_daemonised_and_watched(stage: Stage) -> None:
    # A double fork, and a parent that asks every minute whether it still lives.
    stage.run("sh", "-c", "(setsid sh -c 'sleep 300' &) ; while sleep 60; do :; done")
    stage.rest()


@scenario("sleeping")
def later_python_timer_thread(stage: Stage) -> None:
    stage.run(*stage.python("import threading; threading.Timer(300, print).start()"))
    stage.rest()


@scenario("sleeping")
def later_python_scheduler(stage: Stage) -> None:
    stage.run(*stage.python("import sched; s = sched.scheduler(); s.enter(300, 1, print); s.run()"))
    stage.rest()


@scenario("sleeping")
def later_asyncio_subprocess(stage: Stage) -> None:
    code = (
        "import asyncio\nasync def main():\n p = await asyncio.create_subprocess_exec('sleep', '300', stdout=-1)\n"
        " await p.communicate()\nasyncio.run(main())"
    )
    stage.run(*stage.python(code))
    stage.member("sleep")
    stage.rest()


@scenario("sleeping")
def later_popen_read_line(stage: Stage) -> None:
    stage.run(*stage.python("import subprocess; subprocess.Popen(['sleep', '300'], stdout=-1).stdout.readline()"))
    stage.member("sleep")
    stage.rest()


@scenario("sleeping", needs=["node"])
def later_node_promise(stage: Stage) -> None:
    stage.run("node", "-e", "(async () => { await new Promise(r => setTimeout(r, 300000)) })()")
    stage.rest()


@scenario("sleeping", needs=["go"])
def later_sleep_below_go(stage: Stage) -> None:
    stage.run(stage.program("gowaits"), "child")
    stage.expect("ready")
    stage.member("sleep")
    stage.rest()


@scenario("polling")
def later_wait_for_a_port(stage: Stage) -> None:
    stage.run("bash", "-c", "until (exec 3<>/dev/tcp/127.0.0.1/9) 2>/dev/null; do sleep 0.3; done")
    stage.member("sleep")


@scenario("polling")
def later_non_blocking_flock(stage: Stage) -> None:
    stage.helper(*stage.python("hold_lock.py", "flock", stage.scratch / "lock")).expect("held")
    stage.run("sh", "-c", "until flock -n lock true; do sleep 0.3; done")
    stage.member("sleep")


@scenario("network_wait")
def later_smtp_greeting(stage: Stage) -> None:
    peer = stage.peer("hold")
    stage.run(*stage.python("import smtplib, sys; smtplib.SMTP(*sys.argv[1:3])", peer.host, peer.port))
    peer.expect("accepted")
    stage.rest()


@scenario("network_wait")
def later_bash_dev_tcp(stage: Stage) -> None:
    peer = stage.peer("hold")
    stage.run("bash", "-c", f"exec 3<>/dev/tcp/{peer.host}/{peer.port}; echo hi >&3; cat <&3")
    peer.expect("data")
    stage.rest()


@scenario("network_wait", needs=["psql", "postgresql"])
def later_listen_for_a_notification(stage: Stage) -> None:
    stage.run(*stage.theatre.postgresql.psql(), "-c", "select pg_sleep(163)", terminal=True)
    stage.expect_backend("select pg_sleep(163)", "PgSleep")
    stage.rest()


@scenario("network_wait", needs=["curl"])
def later_curl_downloads_in_parallel(stage: Stage) -> None:
    peer = stage.peer("hold")
    stage.run("curl", "-sS", "-Z", peer.url + "a", peer.url + "b", "-o", "a", "-o", "b")
    peer.expect("data\n")
    stage.rest(0.1)


@scenario("listening")
def later_xmlrpc_server(stage: Stage) -> None:
    stage.run(
        *stage.python(
            "import xmlrpc.server as x; s = x.SimpleXMLRPCServer(('127.0.0.1', 0)); print('ready')\ns.handle_request()"
        )
    )
    stage.expect("ready")
    stage.rest()


@scenario("awaiting_input")
def later_cp_asks(stage: Stage) -> None:
    for name in ("a", "b"):
        (stage.scratch / name).touch()
    stage.run("cp", "-i", "a", "b", terminal=True)
    stage.expect("'b'")
    stage.rest()


@scenario("awaiting_input", needs=["perl"])
def later_prompt_below_three_shells(stage: Stage) -> None:
    stage.run("bash", "-c", "bash -c \"bash -c 'read -p ok? x; true'; true\"; true", terminal=True)
    stage.expect("ok?")
    stage.rest()


@scenario("awaiting_input")
def later_head_of_the_terminal(stage: Stage) -> None:
    stage.run("sh", "-c", "head -n 1 | tr a-z A-Z", terminal=True)
    stage.member("tr")
    stage.rest()


@scenario("awaiting_input")
def later_sort_of_a_pipe(stage: Stage) -> None:
    stage.run("sort", stdin="pipe")
    stage.rest()


@scenario("stopped")
def later_stopped_in_a_pipeline(stage: Stage) -> None:
    stage.run("sh", "-c", "sleep 300 | cat")
    child = stage.member("sleep")
    stage.rest()
    os.kill(child, signal.SIGSTOP)
    stage.stopped(child)


@scenario("lock_wait", needs=["git"])
def later_lock_of_a_shell_script(stage: Stage) -> None:
    stage.helper(*stage.python("hold_lock.py", "flock", stage.scratch / "lock")).expect("held")
    stage.run("bash", "-c", "exec 9>lock; flock 9; echo mine")
    stage.member("flock")
    stage.rest()


@scenario("deadlock_suspected", hung=True)
def later_barrier_that_is_never_full(stage: Stage) -> None:
    stage.run(
        *stage.python(
            "import threading\nb = threading.Barrier(3)\nts = [threading.Thread(target=b.wait) for _ in range(2)]\n"
            "[t.start() for t in ts]; [t.join() for t in ts]"
        )
    )
    stage.rest()


@scenario("deadlock_suspected", hung=True)
def later_pipe_to_a_child_with_a_full_stderr(stage: Stage) -> None:
    # The parent reads stdout to its end; the child is stuck on stderr, which nobody reads.
    code = (
        "import subprocess\np = subprocess.Popen(['sh', '-c', 'yes >&2; echo done'], stdout=-1, stderr=-1)\n"
        "p.stdout.read()"
    )
    stage.run(*stage.python(code))
    stage.member("yes")
    stage.rest()


@scenario("pipe_wait", "event_idle", "fifo_wait")
def later_fifo_kept_open_by_itself(stage: Stage) -> None:
    # Both ends are its own; somebody may open the FIFO by its name and write.
    stage.run("bash", "-c", "mkfifo f; exec 3<>f; echo ready; read -u 3 word")
    stage.expect("ready")
    stage.rest()


@scenario("output_blocked")
def later_progress_on_a_terminal_that_nobody_reads(stage: Stage) -> None:
    stage.run("sh", "-c", "seq 1000000", terminal=True, drain=False)
    stage.rest()
