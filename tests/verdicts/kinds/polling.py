"""Polling: it wakes regularly, and does next to nothing."""

from __future__ import annotations

from tests.verdicts.scenario import scenario
from tests.verdicts.stage import Stage


@scenario("polling")
def poll_at_the_start_of_a_pipeline(stage: Stage) -> None:
    stage.run("sh", "-c", "while sleep 0.2; do echo x; done | cat >/dev/null")
    stage.member("sleep")


@scenario("polling")
def poll_in_a_shell_loop(stage: Stage) -> None:
    stage.run("sh", "-c", "while [ ! -e done ]; do sleep 0.2; done")
    stage.member("sleep")


@scenario("polling")
def poll_in_python(stage: Stage) -> None:
    stage.run(*stage.python("import time\nwhile True: time.sleep(0.1)"))
    stage.rest(0)


@scenario("polling")
def poll_an_event_with_a_timeout(stage: Stage) -> None:
    stage.run(*stage.python("import threading\ne = threading.Event()\nwhile not e.wait(0.2): pass"))
    stage.rest(0)


@scenario("polling", needs=["node"])
def poll_node_interval(stage: Stage) -> None:
    stage.run("node", "-e", "console.log('ready'); setInterval(() => {}, 200)")
    stage.expect("ready")
    stage.rest(0.1)


@scenario("polling")
def poll_asyncio(stage: Stage) -> None:
    stage.run(
        *stage.python("import asyncio\nasync def main():\n while True: await asyncio.sleep(0.2)\nasyncio.run(main())")
    )
    stage.rest(0.1)


@scenario("polling", "sleeping", needs=["watch"])
def poll_watch(stage: Stage) -> None:
    stage.run("watch", "-n", "0.5", "true", terminal=True)
    stage.expect("true")
    stage.rest(0.1)


@scenario("polling", "awaiting_input", needs=["top"])
def poll_top(stage: Stage) -> None:
    # It takes keys, and shows new figures each second.
    stage.run("top", "-d", "1", terminal=True)
    stage.expect("PID")
    stage.rest(0.1)


@scenario("polling")
def poll_a_process(stage: Stage) -> None:
    other = stage.helper("sleep", "300")
    stage.run("tail", "--pid", other.pid, "-s", "0.3", "-f", "/dev/null")
    stage.rest(0)


@scenario("polling")
def poll_with_a_spinner(stage: Stage) -> None:
    # Output, and no progress.
    stage.run(
        "bash", "-c", r"while :; do for c in '|' / - '\\'; do printf '\r%s' $c; sleep 0.1; done; done", terminal=True
    )
    stage.expect("/")


@scenario("polling")
def poll_with_a_ticker(stage: Stage) -> None:
    stage.run(
        *stage.python("import time\nn = 0\nwhile True: print(f'\\r{n} s elapsed', end=''); n += 1; time.sleep(0.5)"),
        terminal=True,
    )
    stage.expect("1 s")
