"""Sleeping: a timer is all that is waited for."""

from __future__ import annotations

import os
import signal

from tests.verdicts.scenario import scenario
from tests.verdicts.stage import Stage


@scenario("sleeping")
def sleep_plain(stage: Stage) -> None:
    stage.run("sleep", "300")
    stage.rest()


@scenario("sleeping")
def sleep_below_a_shell(stage: Stage) -> None:
    stage.run("sh", "-c", "sleep 300; true")
    stage.member("sleep")
    stage.rest()


@scenario("sleeping")
def sleep_in_a_pipeline(stage: Stage) -> None:
    stage.run("sh", "-c", "sleep 300 | cat")
    stage.member("cat")
    stage.rest()


@scenario("sleeping")
def sleep_behind_a_full_pipe(stage: Stage) -> None:
    # `yes` is stuck in its pipe because its reader sleeps: the reader is the leaf.
    stage.run("sh", "-c", "yes | sleep 300")
    stage.member("sleep")
    stage.rest()


@scenario("sleeping")
def sleep_deep_down(stage: Stage) -> None:
    stage.run("bash", "-c", "bash -c 'bash -c \"sleep 300; true\" | cat; true'; true")
    stage.member("sleep")
    stage.rest()


@scenario("sleeping")
def sleep_on_a_terminal(stage: Stage) -> None:
    stage.run("bash", "-c", "sleep 300; true", terminal=True)
    stage.member("sleep")
    stage.rest()


@scenario("sleeping")
def sleep_under_timeout(stage: Stage) -> None:
    stage.run("timeout", "400", "sleep", "300")
    stage.member("sleep")
    stage.rest()


@scenario("sleeping", needs=["make"])
def sleep_in_a_make(stage: Stage) -> None:
    (stage.scratch / "Makefile").write_text("all: a b\na b:\n\t@sleep 300\n")
    stage.run("make", "-s", "-j2")
    stage.member("sleep")
    stage.rest()


@scenario("sleeping")
def sleep_python(stage: Stage) -> None:
    stage.run(*stage.python("import time; time.sleep(300)"))
    stage.rest()


@scenario("sleeping")
def sleep_python_subprocess(stage: Stage) -> None:
    stage.run(*stage.python("import subprocess; subprocess.run(['sleep', '300'], capture_output=True)"))
    stage.member("sleep")
    stage.rest()


@scenario("sleeping")
def sleep_python_thread_joined(stage: Stage) -> None:
    # The main thread waits on a futex for one that sleeps: no deadlock.
    stage.run(
        *stage.python(
            "import threading, time; t = threading.Thread(target=time.sleep, args=(300,)); t.start(); t.join()"
        )
    )
    stage.rest()


@scenario("sleeping")
def sleep_asyncio(stage: Stage) -> None:
    stage.run(*stage.python("import asyncio; asyncio.run(asyncio.sleep(300))"))
    stage.rest()


@scenario("sleeping", needs=["perl"])
def sleep_perl_select(stage: Stage) -> None:
    stage.run("perl", "-e", "select(undef, undef, undef, 300)")
    stage.rest()


@scenario("sleeping", needs=["node"])
def sleep_node(stage: Stage) -> None:
    stage.run("node", "-e", "setTimeout(() => {}, 300000)")
    stage.rest()


# A JVM and a Go runtime sleep on futexes; what wakes them cannot be read.
@scenario("sleeping", "internal_wait", needs=["javac", "java"])
def sleep_java(stage: Stage) -> None:
    stage.run("java", "-cp", stage.program("Waits"), "Waits", "sleep")
    stage.expect("ready")
    stage.rest()


@scenario("sleeping", "internal_wait", "polling", needs=["go"])
def sleep_go(stage: Stage) -> None:
    stage.run(stage.program("gowaits"), "sleep")
    stage.expect("ready")
    stage.rest()


@scenario("sleeping", needs=["gcc"])
def sleep_nanosleep(stage: Stage) -> None:
    stage.run(stage.program("waits"), "nanosleep")
    stage.expect("ready")
    stage.rest()


@scenario("sleeping", needs=["gcc"])
def sleep_until_a_time(stage: Stage) -> None:
    stage.run(stage.program("waits"), "absolute")
    stage.expect("ready")
    stage.rest()


@scenario("sleeping", needs=["gcc"])
def sleep_in_poll(stage: Stage) -> None:
    stage.run(stage.program("waits"), "poll_timeout")
    stage.expect("ready")
    stage.rest()


@scenario("sleeping", needs=["gcc"])
def sleep_in_timerfd(stage: Stage) -> None:
    stage.run(stage.program("waits"), "timerfd")
    stage.expect("ready")
    stage.rest()


@scenario("sleeping", needs=["gcc"])
def sleep_in_sigtimedwait(stage: Stage) -> None:
    stage.run(stage.program("waits"), "sigtimedwait")
    stage.expect("ready")
    stage.rest()


@scenario("sleeping", needs=["gcc"])
def sleep_of_another_thread(stage: Stage) -> None:
    stage.run(stage.program("waits"), "mutex_of_a_sleeper")
    stage.expect("ready")
    stage.rest()


@scenario("sleeping", needs=["gcc"])
def sleep_after_the_main_thread_ended(stage: Stage) -> None:
    stage.run(stage.program("waits"), "leader_gone_sleeps")
    stage.expect("ready")
    stage.rest()


@scenario("sleeping", needs=["gcc"])
def sleep_in_a_vfork_child(stage: Stage) -> None:
    # The parent is in D for as long as that takes: no disk.
    stage.run(stage.program("waits"), "vfork")
    stage.expect("ready")
    stage.rest()


@scenario("sleeping")
def sleep_stopped_and_continued(stage: Stage) -> None:
    # It sits in restart_syscall(2) then, with the registers of the call before.
    stage.run("sleep", "300")
    stage.rest()
    os.kill(stage.pid, signal.SIGSTOP)
    stage.stopped()
    os.kill(stage.pid, signal.SIGCONT)
    stage.until(lambda: stage.state() == "S", "does not go on")
    stage.rest()


@scenario("sleeping")
def sleep_with_zombies(stage: Stage) -> None:
    # Its parent became `sleep` and reaps nobody.
    stage.run("sh", "-c", "true & exec sleep 300")
    stage.member("sleep")
    stage.rest()


@scenario("sleeping")
def sleep_of_a_cron_like_loop(stage: Stage) -> None:
    stage.run("bash", "-c", "while true; do date >>log; sleep 60; done")
    stage.member("sleep")
    stage.rest()


@scenario("sleeping", needs=["curl"])
def sleep_between_retries(stage: Stage) -> None:
    # Connection refused at once (port 9 of loopback, nobody there), then a minute of back-off.
    stage.run("sh", "-c", "until curl -sf http://127.0.0.1:9/; do sleep 60; done")
    stage.member("sleep")
    stage.rest()


@scenario("sleeping")
def sleep_in_the_background_of_a_wait(stage: Stage) -> None:
    stage.run("bash", "-c", "for n in 1 2 3 4 5; do sleep 300 & done; wait")
    stage.member("sleep")
    stage.rest()


@scenario("sleeping")
def sleep_of_two_hundred(stage: Stage) -> None:
    stage.run("sh", "-c", "for n in $(seq 200); do sleep 300 & done; wait")
    stage.until(lambda: len(stage.tree()) > 200, "not all of them came")
    stage.rest()


@scenario("sleeping", "signal_wait")
def sleep_for_ever(stage: Stage) -> None:
    # coreutils calls pause(2) for it, or sleeps very long.
    stage.run("sleep", "infinity")
    stage.rest()


@scenario("sleeping")
def sleep_with_a_hostile_name(stage: Stage) -> None:
    # A name that ends the field in /proc/PID/stat early, and one with a line break.
    code = "import time; open('/proc/self/comm', 'w').write({!r}); time.sleep(300)"
    one, other = (stage.python(code.format(name)) for name in (") R 1 (", "a\nState: R"))
    stage.run("sh", "-c", '"$1" -c "$2" & "$1" -c "$3" & wait', "sh", one[0], one[-1], other[-1])
    stage.until(lambda: len(stage.tree()) == 3, "not both of them came")
    stage.rest()


@scenario("sleeping")
def sleep_of_two_hundred_threads(stage: Stage) -> None:
    stage.run(
        *stage.python(
            "import threading, time\nfor _ in range(200): threading.Thread(target=time.sleep, args=(300,)).start()\n"
            "print('ready')"
        )
    )
    stage.expect("ready")
    stage.rest()


@scenario("sleeping")
def sleep_thirty_shells_deep(stage: Stage) -> None:
    script = 'if [ $1 -gt 0 ]; then sh "$0" $(($1 - 1)); else sleep 300; fi; true'
    (stage.scratch / "deeper").write_text(script)
    stage.run("sh", "deeper", "30")
    stage.member("sleep")
    stage.rest()


@scenario("sleeping", needs=["git"])
def sleep_in_a_hook_of_git(stage: Stage) -> None:
    script = (
        "git init -q . && printf '#!/bin/sh\\nsleep 300\\n' >.git/hooks/pre-commit && chmod +x .git/hooks/pre-commit "
        "&& git -c user.name=a -c user.email=a@b commit -q --allow-empty -m x"
    )
    stage.run("sh", "-c", script)
    stage.member("sleep")
    stage.rest()


@scenario("sleeping", "fifo_wait")
def sleep_before_a_fifo_is_opened(stage: Stage) -> None:
    stage.run("sh", "-c", "mkfifo f; (sleep 300; echo x >f) & cat f")
    stage.member("cat")
    stage.member("sleep")
    stage.rest()


@scenario("sleeping", "stopped")
def sleep_beside_a_stopped_one(stage: Stage) -> None:
    stage.run("bash", "-c", "sleep 300 & kill -STOP $!; sleep 301")
    stage.until(lambda: len(stage.tree()) >= 2, "not both of them came")
    stage.rest()


@scenario("sleeping", needs=["script"])
def sleep_on_a_terminal_of_its_own(stage: Stage) -> None:
    # `script` reads the other end of a terminal that it made.
    stage.run("script", "-qec", "sleep 300", "/dev/null")
    stage.member("sleep")
    stage.rest()


@scenario("sleeping", needs=["script"])
def sleep_on_a_terminal_inside_a_terminal(stage: Stage) -> None:
    stage.run("script", "-qec", "sh -c 'sleep 300; true'", "/dev/null", terminal=True)
    stage.member("sleep")
    stage.rest()


@scenario("sleeping")
def sleep_in_process_substitutions(stage: Stage) -> None:
    stage.run("bash", "-c", "diff <(sleep 300) <(sleep 300)")
    stage.until(lambda: len(stage.tree()) >= 3, "not all of them came")
    stage.rest()


@scenario("sleeping")
def sleep_before_a_tee(stage: Stage) -> None:
    stage.run("bash", "-c", "sleep 300 | tee >(cat >copy) | cat")
    stage.member("sleep")
    stage.rest()


@scenario("sleeping", needs=["xargs"])
def sleep_below_xargs(stage: Stage) -> None:
    stage.run("sh", "-c", "seq 300 310 | xargs -P4 -n1 sleep")
    stage.member("sleep")
    stage.rest()


@scenario("sleeping")
def sleep_beside_a_coprocess(stage: Stage) -> None:
    stage.run("bash", "-c", "coproc cat; sleep 300")
    stage.member("sleep")
    stage.rest()


@scenario("sleeping")
def sleep_under_a_trap(stage: Stage) -> None:
    stage.run("bash", "-c", "trap 'echo bye' TERM INT; sleep 300 & wait $!")
    stage.member("sleep")
    stage.rest()


@scenario("sleeping", "pipe_wait", "event_idle")
def sleep_of_bash_without_sleep(stage: Stage) -> None:
    stage.run("bash", "-c", "read -t 300 <> <(:)")
    stage.rest()


@scenario("sleeping", needs=["npm"])
def sleep_below_npm_run(stage: Stage) -> None:
    _package(stage)
    stage.run("npm", "run", "slow")
    stage.member("sleep")
    stage.rest()


@scenario("sleeping", needs=["npm"])
def sleep_below_npm_run_on_a_terminal(stage: Stage) -> None:
    _package(stage)
    stage.run("npm", "run", "slow", terminal=True)
    stage.member("sleep")
    stage.rest()


def _package(stage: Stage) -> None:
    (stage.scratch / "package.json").write_text('{"name": "x", "version": "1.0.0", "scripts": {"slow": "sleep 300"}}')


@scenario("sleeping", needs=["node"])
def sleep_below_node(stage: Stage) -> None:
    stage.run("node", "-e", "require('child_process').spawnSync('sleep', ['300'])")
    stage.member("sleep")
    stage.rest()


@scenario("sleeping", needs=["node"])
def sleep_below_node_that_listens_to_it(stage: Stage) -> None:
    stage.run("node", "-e", "require('child_process').exec('sleep 300', () => {})")
    stage.member("sleep")
    stage.rest()
