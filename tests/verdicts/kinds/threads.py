"""Threads and processes that wait for each other: deadlocks, idle pools, event loops with nothing to do."""

from __future__ import annotations

from tests.verdicts.scenario import scenario
from tests.verdicts.stage import Stage


@scenario("deadlock_suspected", hung=True)
def deadlock_python_two_locks(stage: Stage) -> None:
    stage.run(
        *stage.python(
            "import threading\na, b, both = threading.Lock(), threading.Lock(), threading.Barrier(2)\n"
            "def take(x, y):\n with x:\n  both.wait()\n  y.acquire()\n"
            "ts = [threading.Thread(target=take, args=p) for p in ((a, b), (b, a))]\n"
            "[t.start() for t in ts]; [t.join() for t in ts]"
        )
    )
    stage.rest()


@scenario("deadlock_suspected", hung=True)
def deadlock_python_itself(stage: Stage) -> None:
    stage.run(*stage.python("import threading; l = threading.Lock(); l.acquire(); l.acquire()"))
    stage.rest()


@scenario("deadlock_suspected", hung=True)
def deadlock_python_below_a_pipeline(stage: Stage) -> None:
    stage.run(
        "sh",
        "-c",
        '"$@" | cat',
        "sh",
        *stage.python("import threading; l = threading.Lock(); l.acquire(); l.acquire()"),
    )
    stage.member("cat")
    stage.rest()


@scenario("deadlock_suspected", hung=True)
def deadlock_python_queue_without_a_producer(stage: Stage) -> None:
    stage.run(*stage.python("import queue; queue.Queue().get()"))
    stage.rest()


@scenario("deadlock_suspected", hung=True)
def deadlock_python_forked_with_a_lock(stage: Stage) -> None:
    # The child inherited a lock that a thread of its parent held.
    stage.run(
        *stage.python(
            "import os, threading\nl = threading.Lock(); l.acquire()\n"
            "pid = os.fork()\nif pid == 0: l.acquire()\nos.waitpid(pid, 0)"
        )
    )
    stage.until(lambda: len(stage.tree()) == 2, "no child")
    stage.rest()


@scenario("deadlock_suspected", hung=True, needs=["gcc"])
def deadlock_c_two_mutexes(stage: Stage) -> None:
    _c(stage, "abba")


@scenario("deadlock_suspected", hung=True, needs=["gcc"])
def deadlock_c_itself(stage: Stage) -> None:
    _c(stage, "self")


@scenario("deadlock_suspected", hung=True, needs=["gcc"])
def deadlock_c_lost_wakeup(stage: Stage) -> None:
    _c(stage, "lost_wakeup")


@scenario("deadlock_suspected", "internal_wait", hung=True, needs=["gcc"])
def deadlock_c_owner_died(stage: Stage) -> None:
    # The mutex is shared memory: another process could give it back, as far as can be read.
    _c(stage, "dead_owner")


def _c(stage: Stage, mode: str) -> None:
    stage.run(stage.program("waits"), mode)
    stage.expect("ready")
    stage.rest()


# A JVM's helper threads wait with timeouts, so that its deadlock looks as its idle pool does. Ask jcmd.
@scenario("internal_wait", "deadlock_suspected", hung=True, needs=["javac", "java"])
def deadlock_java_monitors(stage: Stage) -> None:
    _java(stage, "deadlock")


@scenario("internal_wait", "deadlock_suspected", hung=True, needs=["javac", "java"])
def deadlock_java_locks(stage: Stage) -> None:
    _java(stage, "locks")


@scenario("internal_wait", "sleeping", "polling", needs=["javac", "java"])
def idle_java_pool(stage: Stage) -> None:
    _java(stage, "pool")


def _java(stage: Stage, mode: str) -> None:
    stage.run("java", "-cp", stage.program("Waits"), "Waits", mode)
    stage.expect("ready")
    stage.rest()


# A listener elsewhere in the program is waited for too, by the runtime's poller.
@scenario("internal_wait", "deadlock_suspected", "listening", "sleeping", "polling", hung=True, needs=["go"])
def deadlock_go_mutex(stage: Stage) -> None:
    stage.run(stage.program("gowaits"), "stuck")
    stage.expect("ready")
    stage.rest()


@scenario("deadlock_suspected", hung=True)
def deadlock_pipe_never_read(stage: Stage) -> None:
    # The classic: the parent waits for the exit of a child whose output it does not read.
    stage.run(*stage.python("import subprocess; subprocess.Popen(['yes'], stdout=subprocess.PIPE).wait()"))
    stage.member("yes")
    stage.rest()


@scenario("deadlock_suspected", hung=True)
def deadlock_pipes_both_full(stage: Stage) -> None:
    # `cat` is stuck writing what nobody reads, and its parent writing what `cat` does not read.
    stage.run(
        *stage.python(
            "import subprocess\np = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.PIPE)\n"
            "p.stdin.write(b'x' * 1000000)"
        )
    )
    stage.member("cat")
    stage.rest()


@scenario("deadlock_suspected", hung=True)
def deadlock_pipes_both_empty(stage: Stage) -> None:
    stage.run(
        *stage.python(
            "import os\nr1, w1 = os.pipe(); r2, w2 = os.pipe()\n"
            "if os.fork() == 0:\n os.close(w1); os.close(r2); os.read(r1, 1)\n"
            "else:\n os.close(r1); os.close(w2); os.read(r2, 1)"
        )
    )
    stage.until(lambda: len(stage.tree()) == 2, "no child")
    stage.rest()


@scenario("deadlock_suspected", hung=True)
def deadlock_child_that_waits_for_the_end_of_its_input(stage: Stage) -> None:
    # The parent never closes the pipe, and waits for the child's exit.
    stage.run(
        *stage.python(
            "import subprocess\np = subprocess.Popen(['cat'], stdin=subprocess.PIPE, stdout=subprocess.DEVNULL)\n"
            "p.wait()"
        )
    )
    stage.member("cat")
    stage.rest()


@scenario("deadlock_suspected", hung=True)
def deadlock_flock_of_two_processes(stage: Stage) -> None:
    code = (
        "import fcntl, os\nopen('a', 'w'); open('b', 'w')\nr, w = os.pipe(); r2, w2 = os.pipe()\npid = os.fork()\n"
        "one, two = (('a', 'b') if pid else ('b', 'a'))\n"
        "f = open(one, 'w'); fcntl.flock(f, fcntl.LOCK_EX)\n"
        "os.write(w if pid else w2, b'x'); os.read(r2 if pid else r, 1)\n"
        "[os.close(x) for x in (r, w, r2, w2)]\n"
        "g = open(two, 'w'); fcntl.flock(g, fcntl.LOCK_EX)"
    )
    stage.run(*stage.python(code))
    stage.until(lambda: len(stage.tree()) == 2, "no child")
    stage.rest()


@scenario("internal_wait", "signal_wait")
def idle_until_it_is_terminated(stage: Stage) -> None:
    # All its threads wait without limit, and its handler of SIGTERM will end that.
    stage.run(
        *stage.python(
            "import signal, threading\nend = threading.Event()\n"
            "signal.signal(signal.SIGTERM, lambda *a: end.set())\nend.wait()"
        )
    )
    stage.rest()


@scenario("ipc_wait", "sleeping", "polling")
def pair_that_waits_for_each_other_with_time_limits(stage: Stage) -> None:
    # Two event loops, each of which will look after a minute what has become of the other.
    stage.run(
        *stage.python(
            "import os, select, socket\na, b = socket.socketpair()\nmine = a if os.fork() else b\n"
            "(b if mine is a else a).close()\nwhile True: select.select([mine], [], [], 60)"
        )
    )
    stage.until(lambda: len(stage.tree()) == 2, "no child")
    stage.rest()


@scenario("pipe_wait", "unknown", "internal_wait")
def pair_that_an_alarm_will_wake(stage: Stage) -> None:
    # They wait for each other in a circle, until a timer of one, which nobody can see, ends it.
    stage.run(
        *stage.python(
            "import os, signal\nr1, w1 = os.pipe(); r2, w2 = os.pipe()\n"
            "if os.fork() == 0:\n os.close(w1); os.close(r2); os.read(r1, 1); os._exit(0)\n"
            "os.close(r1); os.close(w2)\nsignal.signal(signal.SIGALRM, lambda *a: os.write(w1, b'x'))\n"
            "signal.alarm(300); os.read(r2, 1)"
        )
    )
    stage.until(lambda: len(stage.tree()) == 2, "no child")
    stage.rest()


@scenario("sleeping", needs=["make"])
def jobs_that_wait_for_a_token(stage: Stage) -> None:
    # The inner makes share one pipe of tokens, which all of them hold both ends of.
    (stage.scratch / "Makefile").write_text("all: x y z\nx y z:\n\t@$(MAKE) -s -f inner\n")
    (stage.scratch / "inner").write_text("all: a b c\na b c:\n\t@sleep 300\n")
    stage.run("make", "-s", "-j2")
    stage.member("sleep")
    stage.rest()


@scenario("deadlock_suspected", hung=True)
def deadlock_coprocess_that_says_nothing(stage: Stage) -> None:
    stage.run("bash", "-c", 'coproc cat; read -u "${COPROC[0]}" answer')
    stage.member("cat")
    stage.rest()


# Other threads of node wait for events without limit, as they do in an idle program.
@scenario("deadlock_suspected", "internal_wait", "event_idle", hung=True, needs=["node"])
def deadlock_node_atomics(stage: Stage) -> None:
    stage.run("node", "-e", "console.log('ready'); Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0)")
    stage.expect("ready")
    stage.rest()


# Its own end of the pipe is open too, so that nothing can be said of it but that nobody else will write.
@scenario("event_idle", "pipe_wait", "deadlock_suspected", hung=True)
def queue_whose_producer_has_gone(stage: Stage) -> None:
    stage.run(
        *stage.python(
            "import multiprocessing as m\nq = m.Queue(); p = m.Process(target=print); p.start(); p.join()\nq.get()"
        )
    )
    stage.until(lambda: len(stage.tree()) == 1 and stage.said, "the producer has not come and gone")
    stage.rest()


@scenario("event_idle", "internal_wait")
def idle_asyncio(stage: Stage) -> None:
    # An event that nobody sets: only a signal wakes it.
    stage.run(*stage.python("import asyncio; asyncio.run(asyncio.Event().wait())"))
    stage.rest()


@scenario("event_idle", "internal_wait", needs=["node"])
def idle_node(stage: Stage) -> None:
    stage.run("node", "-e", "new MessageChannel().port1.on('message', () => {}); console.log('ready')")
    stage.expect("ready")
    stage.rest()


@scenario("event_idle", needs=["gcc"])
def idle_eventfd(stage: Stage) -> None:
    _c(stage, "eventfd")


@scenario("event_idle", needs=["gcc"])
def idle_epoll(stage: Stage) -> None:
    _c(stage, "epoll_eventfd")


@scenario("internal_wait", "polling", "sleeping", "event_idle")
def idle_python_pool_with_timeouts(stage: Stage) -> None:
    stage.run(
        *stage.python(
            "import threading\ndef work():\n e = threading.Event()\n e.wait(300)\n"
            "ts = [threading.Thread(target=work) for _ in range(4)]\n[t.start() for t in ts]; [t.join() for t in ts]"
        )
    )
    stage.rest()


@scenario("sleeping")
def idle_multiprocessing_pool_of_sleepers(stage: Stage) -> None:
    stage.run(
        *stage.python("import multiprocessing, time\nwith multiprocessing.Pool(2) as p: p.map(time.sleep, [300, 300])")
    )
    stage.until(lambda: len(stage.tree()) == 3, "no workers")
    stage.rest()


@scenario("sleeping")
def idle_process_pool_beside_a_sleeper(stage: Stage) -> None:
    # The workers wait for tasks, on a pipe and a semaphore that they share; the main thread is in no hurry.
    stage.run(
        *stage.python(
            "import concurrent.futures, time\np = concurrent.futures.ProcessPoolExecutor(3)\n"
            "list(p.map(abs, range(9)))\nprint('ready'); time.sleep(300)"
        )
    )
    stage.expect("ready")
    stage.rest()


@scenario("sleeping")
def process_pool_of_sleepers(stage: Stage) -> None:
    stage.run(
        *stage.python(
            "import concurrent.futures, time\n"
            "with concurrent.futures.ProcessPoolExecutor(3) as p: list(p.map(time.sleep, [300] * 2))"
        )
    )
    stage.until(lambda: len(stage.tree()) >= 3, "no workers")
    stage.rest()


@scenario("listening", needs=["node"])
def service_with_a_worker_process(stage: Stage) -> None:
    # Parent and worker each wait for a word of the other, and the parent listens.
    (stage.scratch / "server.js").write_text(
        "const c = require('child_process');\n"
        "if (process.send) process.on('message', () => {});\n"
        "else {\n  c.fork(__filename);\n"
        "  require('http').createServer().listen(0, '127.0.0.1', () => console.log('ready'));\n}\n"
    )
    stage.run("node", "server.js")
    stage.expect("ready")
    stage.until(lambda: len(stage.tree()) == 2, "no worker")
    stage.rest()


@scenario("unknown", needs=["gcc"])
def io_uring_wait(stage: Stage) -> None:
    # What was asked of the ring cannot be read.
    _c(stage, "io_uring")


@scenario("sleeping", needs=["gcc"])
def thread_pool_executor_of_sleepers(stage: Stage) -> None:
    stage.run(
        *stage.python(
            "import concurrent.futures, time\n"
            "with concurrent.futures.ThreadPoolExecutor(3) as p: list(p.map(time.sleep, [300] * 3))"
        )
    )
    stage.rest()
