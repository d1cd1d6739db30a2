"""Healthy commands of which a part looks hung: something in the tree will act by itself, sooner or later."""

from __future__ import annotations

import os

from tests.verdicts.scenario import scenario
from tests.verdicts.stage import Stage

_FOR_EVER = "import threading; threading.Event().wait()"


# -- a sleeper beside it, or a timer above it


@scenario("sleeping")
def alive_shell_that_will_end_its_helper(stage: Stage) -> None:
    stage.run("bash", "-c", '"$@" & sleep 20; kill $!', "bash", *stage.python(_FOR_EVER))
    stage.until(lambda: len(stage.tree()) == 3, "no helper beside the sleep")
    stage.rest()


@scenario("listening")
def alive_service_with_a_helper_that_waits_for_ever(stage: Stage) -> None:
    code = (
        "import multiprocessing as m, socket, threading\n"
        "m.Process(target=threading.Event().wait, daemon=True).start()\n"
        "s = socket.create_server(('127.0.0.1', 0)); print('ready'); s.accept()"
    )
    stage.run(*stage.python(code))
    stage.expect("ready")
    stage.rest()


@scenario("sleeping", "network_wait")
def alive_sleeper_with_a_thread_that_connects(stage: Stage) -> None:
    peer = stage.peer("backlog")
    peer.expect("full")
    code = (
        "import socket, sys, threading, time\n"
        "to = (sys.argv[1], int(sys.argv[2]))\n"
        "threading.Thread(target=socket.create_connection, args=(to,), daemon=True).start()\n"
        "time.sleep(60)"
    )
    stage.run(*stage.python(code, peer.host, peer.port))
    stage.connecting(peer.port)
    stage.rest()


@scenario("sleeping", "internal_wait", needs=["gcc"])
def alive_sleeper_beside_two_threads_in_a_deadlock(stage: Stage) -> None:
    code = (
        "import threading, time\na, b, both = threading.Lock(), threading.Lock(), threading.Barrier(2)\n"
        "def take(x, y):\n with x:\n  both.wait()\n  y.acquire()\n"
        "[threading.Thread(target=take, args=p, daemon=True).start() for p in ((a, b), (b, a))]\ntime.sleep(60)"
    )
    stage.run(*stage.python(code))
    stage.rest()


@scenario("sleeping", "polling")
def alive_below_a_subprocess_with_a_timeout(stage: Stage) -> None:
    stage.run(
        *stage.python(
            "import subprocess, sys; subprocess.run([sys.executable, '-c', sys.argv[1]], timeout=100)", _FOR_EVER
        )
    )
    stage.until(lambda: len(stage.tree()) == 2, "no child")
    stage.rest(0)


@scenario("sleeping", "pipe_wait")
def alive_below_a_subprocess_with_output_and_a_timeout(stage: Stage) -> None:
    stage.run(
        *stage.python(
            "import subprocess, sys\n"
            "subprocess.run([sys.executable, '-c', sys.argv[1]], timeout=100, capture_output=True)",
            _FOR_EVER,
        )
    )
    stage.until(lambda: len(stage.tree()) == 2, "no child")
    stage.rest()


@scenario("sleeping", "internal_wait", needs=["timeout"])
def alive_below_timeout(stage: Stage) -> None:
    stage.run("timeout", "100", *stage.python(_FOR_EVER))
    stage.until(lambda: len(stage.tree()) == 2, "no child")
    stage.rest()


@scenario("internal_wait", "sleeping", needs=["perl"])
def alive_below_an_alarm(stage: Stage) -> None:
    # A timer that is visible nowhere; its handler is.
    code = "my $p = fork; exec @ARGV if !$p; $SIG{ALRM} = sub { kill 9, $p }; alarm 60; waitpid $p, 0"
    stage.run("perl", "-e", code, *stage.python(_FOR_EVER))
    stage.until(lambda: len(stage.tree()) == 2, "no child")
    stage.rest()


@scenario("sleeping", needs=["gcc"])
def alive_relative_that_shares_its_memory(stage: Stage) -> None:
    stage.run(stage.program("waits"), "relative")
    stage.expect("ready")
    stage.rest()


@scenario("sleeping")
def alive_fifo_that_a_sleeper_will_open(stage: Stage) -> None:
    stage.run("bash", "-c", "mkfifo f; cat f & sleep 20; echo x >f; wait")
    stage.member("sleep")
    stage.member("cat")
    stage.rest()


@scenario("sleeping")
def alive_lock_of_a_sleeper(stage: Stage) -> None:
    stage.run("bash", "-c", "(exec 8>lock; flock 8; echo held; exec sleep 20) & sleep 0.5; exec 9>lock; flock 9")
    stage.member("sleep")
    stage.expect("held")
    stage.until(lambda: len(stage.tree()) == 3, "nobody waits for the lock")
    stage.rest()


# -- connections


@scenario("sleeping")
def alive_tcp_to_a_process_of_the_command_that_sleeps(stage: Stage) -> None:
    code = (
        "import os, socket, time\nl = socket.create_server(('127.0.0.1', 0))\n"
        "c = socket.create_connection(l.getsockname()); s, _ = l.accept()\n"
        "if os.fork():\n s.close(); l.close(); print('ready'); c.sendall(b'x' * 50_000_000)\n"
        "else:\n c.close(); time.sleep(60)"
    )
    stage.run(*stage.python(code))
    stage.expect("ready")
    stage.rest(0.6)


@scenario("sleeping")
def alive_tcp_to_a_thread_that_sleeps(stage: Stage) -> None:
    code = (
        "import socket, threading, time\nl = socket.create_server(('127.0.0.1', 0))\n"
        "c = socket.create_connection(l.getsockname()); s, _ = l.accept()\n"
        "threading.Thread(target=c.sendall, args=(b'x' * 50_000_000,), daemon=True).start(); time.sleep(60)"
    )
    stage.run(*stage.python(code))
    stage.rest(0.6)


@scenario("ipc_wait", needs=["gcc"])
def alive_pair_with_time_limits_of_their_sockets(stage: Stage) -> None:
    stage.run(stage.program("waits"), "limited_pair")
    stage.expect("ready")
    stage.until(lambda: len(stage.tree()) == 2, "no child")
    stage.rest()


@scenario("network_wait", "sleeping", "polling", needs=["timeout"])
def alive_waiting_for_a_port_with_timeout(stage: Stage) -> None:
    peer = stage.peer("backlog")
    peer.expect("full")
    stage.run(
        "bash",
        "-c",
        f"until timeout 5 bash -c '</dev/tcp/{peer.host}/{peer.port}' 2>/dev/null; do sleep 0.1; done",
    )
    stage.member("timeout")
    stage.connecting(peer.port, 2.5)


@scenario("network_wait", "polling", needs=["curl"])
def alive_curl_that_tries_again(stage: Stage) -> None:
    peer = stage.peer("backlog")
    peer.expect("full")
    stage.run(
        "curl", "-sS", "--connect-timeout", "5", "--retry", "99", "--retry-all-errors", "--retry-delay", "1", peer.url
    )
    stage.connecting(peer.port, 2.5)


@scenario("network_wait")
def alive_one_of_two_connections(stage: Stage) -> None:
    silent, live = stage.peer("backlog"), stage.peer("hold")
    silent.expect("full")
    code = (
        "import select, socket, sys\na = socket.socket(); a.setblocking(False)\n"
        "a.connect_ex((sys.argv[1], int(sys.argv[2])))\n"
        "b = socket.create_connection((sys.argv[1], int(sys.argv[3]))); select.select([b], [a], [])"
    )
    stage.run(*stage.python(code, silent.host, silent.port, live.port))
    stage.connecting(silent.port)
    stage.rest()


@scenario("network_wait")
def alive_connecting_with_a_time_limit(stage: Stage) -> None:
    peer = stage.peer("backlog")
    peer.expect("full")
    code = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), timeout=60)"
    stage.run(*stage.python(code, peer.host, peer.port))
    stage.connecting(peer.port)
    stage.rest()


@scenario("pipe_wait", "sleeping")
def alive_pipe_whose_end_is_in_a_message(stage: Stage) -> None:
    # The only writer of the pipe lies unread in a socket; whoever takes it out will write.
    code = (
        "import os, socket\nr, w = os.pipe(); a, b = socket.socketpair(); go, gone = os.pipe()\n"
        "socket.send_fds(a, [b'x'], [w])\n"
        "if os.fork():\n os.close(w); os.close(go); b.close(); print('ready'); os.read(r, 1)\n"
        "else:\n os.close(w); os.close(gone); a.close(); os.close(r)\n"
        " os.read(go, 1); socket.recv_fds(b, 1, 1)"
    )
    stage.run(*stage.python(code))
    stage.expect("ready")
    stage.until(lambda: len(stage.tree()) == 2, "no child")
    stage.rest()


# -- locks of shells


@scenario("lock_wait", needs=["flock"])
def alive_lock_of_a_shell_outside(stage: Stage) -> None:
    holder = stage.helper(
        "bash", "-c", f"exec 8>{stage.scratch}/lock; chmod 666 {stage.scratch}/lock; flock 8; echo held; sleep 300"
    )
    holder.expect("held")
    stage.run("bash", "-c", "exec 8>lock; flock 8")
    stage.member("flock")
    stage.rest()


@scenario("deadlock_suspected", "lock_wait", hung=True, needs=["flock"])
def deadlock_of_two_shells_with_flock(stage: Stage) -> None:
    # Who took each lock has ended: the shells have it since, and so have the programs that they wait for, to which the
    # descriptor is handed on. Of two holders the wait for a lock is all that is sure.
    code = (
        "take() { exec 8>$1; flock 8; : >$1.taken; until [ -e $2.taken ]; do sleep 0.05; done; exec 9>$2; flock 9; }; "
        "take a b & take b a; wait"
    )
    stage.run("bash", "-c", code)
    stage.until(lambda: _count(stage, "flock") == 2, "they do not wait for each other")
    stage.rest()


def _count(stage: Stage, name: str) -> int:
    found = 0
    for pid in stage.tree():
        try:
            with open(f"/proc/{pid}/comm") as file:
                found += file.read().strip() == name
        except OSError:
            continue
    return found


# -- everyday programs


@scenario("sleeping", needs=["make"])
def alive_make_with_jobs(stage: Stage) -> None:
    (stage.scratch / "Makefile").write_text("all: a b c\na b c:\n\t@sleep 300\n")
    stage.run("make", "-j2")
    stage.until(lambda: _count(stage, "sleep") == 2, "no jobs")
    stage.rest()


@scenario("sleeping", needs=["xargs"])
def alive_xargs_in_parallel(stage: Stage) -> None:
    stage.run("sh", "-c", "seq 300 304 | xargs -n1 -P3 sleep")
    stage.until(lambda: _count(stage, "sleep") == 3, "no jobs")
    stage.rest()


@scenario("sleeping")
def alive_test_with_a_thread_that_waits(stage: Stage) -> None:
    (stage.scratch / "test_slow.py").write_text(
        "import threading, time, unittest\nclass T(unittest.TestCase):\n"
        " def setUp(self): threading.Thread(target=threading.Event().wait, daemon=True).start()\n"
        " def test_slow(self): time.sleep(300)\n"
    )
    stage.run(*stage.python("import unittest; unittest.main('test_slow')"))
    stage.rest()


@scenario("sleeping", needs=["node"])
def alive_node_timer_with_worker_threads(stage: Stage) -> None:
    stage.run(
        "node",
        "-e",
        "const { Worker } = require('worker_threads');"
        'const idle = \'require("worker_threads").parentPort.on("message", () => {})\';'
        "for (let i = 0; i < 3; i++) new Worker(idle, {eval: true});"
        "setTimeout(() => process.exit(), 300000); setTimeout(() => console.log('ready'), 500)",
    )
    stage.expect("ready")
    stage.rest()


@scenario("sleeping")
def alive_asyncio_with_an_idle_executor(stage: Stage) -> None:
    code = (
        "import asyncio\nasync def main():\n loop = asyncio.get_running_loop()\n"
        " await asyncio.gather(*[loop.run_in_executor(None, abs, 1) for _ in range(4)])\n"
        " await asyncio.sleep(300)\nasyncio.run(main())"
    )
    stage.run(*stage.python(code))
    stage.rest()


@scenario("sleeping")
def alive_asyncio_that_waits_for_an_event_for_a_time(stage: Stage) -> None:
    stage.run(*stage.python("import asyncio; asyncio.run(asyncio.wait_for(asyncio.Event().wait(), 300))"))
    stage.rest()


@scenario("sleeping")
def alive_event_with_a_timer_thread(stage: Stage) -> None:
    stage.run(
        *stage.python("import threading\ne = threading.Event(); threading.Timer(300, e.set).start(); e.wait()"),
    )
    stage.rest()


@scenario("sleeping")
def alive_queue_with_a_producer_process_that_sleeps(stage: Stage) -> None:
    code = (
        "import multiprocessing as m, time\ndef make(q): time.sleep(300); q.put(1)\n"
        "q = m.Queue(); p = m.Process(target=make, args=(q,)); p.start(); q.get()"
    )
    stage.run(*stage.python(code))
    stage.until(lambda: len(stage.tree()) == 2, "no producer")
    stage.rest()


@scenario("sleeping")
def alive_lock_between_processes(stage: Stage) -> None:
    code = (
        "import multiprocessing as m, time\nl = m.Lock()\ndef hold():\n with l: time.sleep(300)\n"
        "p = m.Process(target=hold); p.start(); time.sleep(0.5); l.acquire()"
    )
    stage.run(*stage.python(code))
    stage.until(lambda: len(stage.tree()) == 2, "no holder")
    stage.rest(0.8)


@scenario("sleeping", "internal_wait", "polling", needs=["go"])
def alive_go_with_goroutines(stage: Stage) -> None:
    stage.run(stage.program("gowaits"), "sleep")
    stage.expect("ready")
    stage.rest()


# It may not dump core, so that nothing of it can be read without root.
@scenario("listening", "unknown", needs=["ssh-agent"])
def alive_ssh_agent(stage: Stage) -> None:
    stage.run("ssh-agent", "-D", "-a", stage.scratch / "agent")
    stage.until(lambda: os.path.exists(stage.scratch / "agent"), "no socket")
    stage.rest()


@scenario("watching_files")
def alive_tail_and_grep(stage: Stage) -> None:
    (stage.scratch / "log").write_text("x\n")
    stage.run("sh", "-c", "tail -f log | grep --line-buffered never")
    stage.member("tail")
    stage.member("grep")
    stage.rest()


@scenario("sleeping", "polling")
def alive_loop_that_waits_for_health(stage: Stage) -> None:
    stage.run(
        "bash", "-c", '"$@" & for i in $(seq 99); do kill -0 $! && sleep 1; done', "bash", *stage.python(_FOR_EVER)
    )
    stage.member("sleep")


@scenario("sleeping")
def alive_wait_for_any_with_a_trap(stage: Stage) -> None:
    stage.run(
        "bash",
        "-c",
        'trap "kill 0" EXIT USR1; "$@" & sleep 60 & wait -n; echo one ended',
        "bash",
        *stage.python(_FOR_EVER),
    )
    stage.member("sleep")
    stage.until(lambda: len(stage.tree()) == 3, "no helper")
    stage.rest()


@scenario("sleeping", needs=["npm"])
def alive_npm_script_with_a_watcher(stage: Stage) -> None:
    (stage.scratch / "package.json").write_text(
        '{"name": "x", "version": "1.0.0", "scripts": {"dev": "(sleep 300; exit 1)"}}'
    )
    stage.run("npm", "run", "dev", env={"npm_config_update_notifier": "false"})
    stage.member("sleep")
    stage.rest()


@scenario("network_wait", needs=["curl", "xargs"])
def alive_curl_in_parallel(stage: Stage) -> None:
    peer = stage.peer("hold")
    stage.run("sh", "-c", f"seq 4 | xargs -I% -P4 curl -sS --retry 3 --max-time 100 {peer.url}%")
    stage.until(lambda: _count(stage, "curl") == 4, "no four of them")
    peer.expect("data\n")
    stage.rest(0.1)


@scenario("sleeping", "listening", needs=["python3"])
def alive_server_and_client_of_one_command(stage: Stage) -> None:
    code = (
        "import http.server, threading, time, urllib.request\n"
        "class H(http.server.BaseHTTPRequestHandler):\n def do_GET(self): time.sleep(300)\n"
        "s = http.server.ThreadingHTTPServer(('127.0.0.1', 0), H)\n"
        "threading.Thread(target=s.serve_forever, daemon=True).start(); print('ready')\n"
        "urllib.request.urlopen('http://127.0.0.1:%d/' % s.server_port)"
    )
    stage.run(*stage.python(code))
    stage.expect("ready")
    stage.rest(0)


@scenario("internal_wait", "sleeping", "polling", needs=["javac", "java", "timeout"])
def alive_java_pool_below_timeout(stage: Stage) -> None:
    stage.run("timeout", "300", "java", "-cp", stage.program("Waits"), "Waits", "pool")
    stage.expect("ready")
    stage.rest()
