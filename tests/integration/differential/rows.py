"""The scenarios, as data. Those with a letter and a number are from public bug reports of agents and shells."""

import os
import re
import resource
import select
import signal
import socket
import subprocess
import time
from pathlib import Path

from harness import Right, Scenario

ORDER = "for i in 1 2 3; do echo o$i; echo e$i >&2; done"
LOOK = "exec $PROBE"
SIGNALS = "grep -E '^Sig(Blk|Ign)' /proc/self/status"
Process = subprocess.Popen[bytes]


# What the agent does meanwhile


def _await_ready(folder: Path) -> None:
    deadline_s = time.monotonic() + 20
    while not (folder / "ready").exists():
        if time.monotonic() > deadline_s:
            raise TimeoutError("the command never said that it is ready")
        time.sleep(0.005)


def _signal_pid(number: int):  # type: ignore[no-untyped-def]
    def act(child: Process, folder: Path) -> None:
        _await_ready(folder)
        os.kill(child.pid, number)

    return act


def _signal_group(number: int):  # type: ignore[no-untyped-def]
    def act(child: Process, folder: Path) -> None:
        _await_ready(folder)
        os.killpg(child.pid, number)

    return act


# What the agent gives on


def _ignore(*numbers: int):  # type: ignore[no-untyped-def]
    def prepare() -> None:
        for number in numbers:
            signal.signal(number, signal.SIG_IGN)

    return prepare


def _block() -> None:
    signal.pthread_sigmask(signal.SIG_BLOCK, [signal.SIGUSR1, signal.SIGTERM, signal.SIGCHLD, signal.SIGINT])


def _limits() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (99, 99))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    resource.setrlimit(resource.RLIMIT_STACK, (4 << 20, resource.RLIM_INFINITY))
    os.umask(0o027)


def _lower() -> None:
    os.nice(3)
    Path("/proc/self/oom_score_adj").write_text("250")
    Path("/proc/self/coredump_filter").write_text("0x10")
    os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def _small_files() -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (5000, 5000))


# Descriptors passed on purpose


def _lent_file(folder: Path) -> int:
    (folder / "lent").write_bytes(b"0123456789")
    descriptor = os.open(folder / "lent", os.O_RDWR)
    os.lseek(descriptor, 4, os.SEEK_SET)
    return descriptor


def _lent_pipe(_: Path) -> int:
    reader, writer = os.pipe()
    os.write(writer, b"from the agent")
    os.close(writer)
    os.set_blocking(reader, False)
    return reader


def _lent_socket(_: Path) -> int:
    ours, theirs = socket.socketpair(type=socket.SOCK_SEQPACKET)
    ours.close()
    return theirs.detach()


# Streams that nobody would give on purpose


def _on(number: int, opened):  # type: ignore[no-untyped-def]
    """In the child: `opened()` as descriptor `number`."""

    def prepare() -> None:
        descriptor = opened()
        os.dup2(descriptor, number)
        if descriptor != number:
            os.close(descriptor)

    return prepare


def _epoll() -> int:
    watcher = select.epoll()
    descriptor = os.dup(watcher.fileno())
    watcher.close()
    return descriptor


def _unconnected() -> int:
    return socket.socket().detach()


def _hung_up() -> int:
    master, slave = os.openpty()
    os.close(master)
    return slave


ODD = {
    "a path only": lambda: os.open("/etc/passwd", os.O_PATH),
    "a link's path only": lambda: os.open("/proc/self/exe", os.O_PATH | os.O_NOFOLLOW),
    "a pipe's path only": lambda: os.open(f"/proc/self/fd/{os.pipe()[0]}", os.O_PATH),
    "a file for reading": lambda: os.open("/etc/passwd", os.O_RDONLY),
    "a pipe's end for reading": lambda: os.pipe()[0],
    "neither read nor write": lambda: os.open("/dev/null", 3),
    "epoll": _epoll,
    "pidfd": lambda: os.pidfd_open(os.getpid()),
    "an eventfd, full": lambda: os.eventfd(1, os.EFD_NONBLOCK),
    "a memfd": lambda: os.memfd_create("m"),
    "a namespace": lambda: os.open("/proc/self/ns/net", os.O_RDONLY),
    "a socket without a peer": _unconnected,
    "a terminal that was hung up": _hung_up,
}
LOOKS = (
    "echo out; echo err >&2; read -t 1 -r x; echo rc=$?; test -t $N; echo $?; stat -L -c %F /dev/fd/$N >$F/odd; exit 3"
)

WORLDS = [
    Scenario(f"the command's world: {streams}, stdin {stdin}", LOOK, streams=streams, stdin=stdin, world=True)
    for streams, stdin in (
        ("pipes", "null"),
        ("pipes", "closed"),
        ("pipes", "socket"),
        ("pipes", "endless"),
        ("joined", "null"),
        ("joined", b"text"),
        ("file", "null"),
        ("append", "null"),
        ("files", "null"),
        ("file and pipe", "null"),
        ("sockets", "null"),
        ("sockets", "socket"),
        ("one socket", "socket"),
        ("null", "null"),
        ("closed", "null"),
        ("closed", "closed"),
        ("full", "null"),
        ("nonblocking", "null"),
        ("terminal", "null"),
    )
] + [
    Scenario("the command's world: lent descriptors", LOOK, world=True,
             lent={57: _lent_file, 58: _lent_pipe, 59: _lent_socket}),
    Scenario("the command's world: limits and umask", LOOK, world=True, prepare=_limits),
    Scenario("the command's world: nice, oom score, affinity, dump filter", LOOK, world=True, prepare=_lower),
    Scenario("the command's world: blocked signals", LOOK, world=True, prepare=_block),
    Scenario("the command's world: ignored signals", SIGNALS,
             prepare=_ignore(signal.SIGHUP, signal.SIGINT, signal.SIGTERM, signal.SIGCHLD, signal.SIGUSR2)),
    Scenario("the command's world: a background job of a script", f"$W sh -c \"{SIGNALS}\" & wait", streams="joined"),
    Scenario("the command's world: nohup", f"nohup $W sh -c \"{SIGNALS}\"", streams="pipes"),
]  # fmt: skip

STREAMED = [
    Scenario(f"both streams, {streams}", f"{ORDER}; exit 3", streams=streams, racy=streams in ("joined", "file"))
    for streams in (
        "pipes", "joined", "file", "append", "files", "file and pipe", "sockets", "one socket", "tcp", "null",
        "closed", "full", "terminal", "nonblocking",
    )
] + [
    Scenario(f"stdin, {name}", script, stdin=stdin)
    for name, stdin, script in (
        ("bytes", b"a\0b\xff\n", "cat; exit 4"),
        ("end of file", "null", "read -r a; echo rc=$?"),
        ("closed", "closed", "read -r a; echo rc=$?"),
        ("a socket", "socket", "read -t .2 -r a; echo rc=$?"),
        ("a pipe that never ends", "endless", "read -t .2 -r a; echo rc=$?"),
    )
] + [
    Scenario("binary output and invalid UTF-8", "printf '\\377\\376\\0\\r\\n\\342\\211'; head -c 70000 /dev/zero"),
    Scenario("8 MiB on both streams at once",
             "head -c 8388608 /dev/zero & head -c 8388608 /dev/zero >&2 & wait"),
    Scenario("8 MiB into two sockets", "head -c 8388608 /dev/zero & head -c 8388608 /dev/zero >&2 & wait",
             streams="sockets"),
    Scenario("a file is written in place: seek, overwrite, truncate", streams="file",
             script="python3 -c 'import os; os.write(1, b\"x\" * 100); os.lseek(1, 10, 0); os.write(1, b\"there\"); "
             "os.ftruncate(1, 50); print(os.fstat(1).st_size, file=open(\"size\", \"w\"))'; cat size >&2"),
    Scenario("a file that is appended to by two", streams="append", script="echo one; echo two >>../output; echo three"),
    Scenario("a file over the limit of its size", "head -c 9000 /dev/zero; echo rc=$?", streams="file and pipe",
             prepare=_small_files, edit=lambda data: re.sub(rb"line 1: +\d+ ", b"", data)),
    Scenario("a full disk says so", "echo x || echo failed >&2; echo rc=$? >&2", streams="full"),
    Scenario("/dev/stdout and /dev/stderr, pipes", "echo a >/dev/stdout; echo b >/dev/stderr"),
    Scenario("/dev/stdout and /dev/stderr, sockets", "echo a >/dev/stdout; echo b >/dev/stderr", streams="sockets",
             edit=lambda data: data.replace(b"bash: line 1: ", b"bash: ")),
    Scenario("/dev/stdout and /dev/stderr, TCP", "[ -S /dev/stdout ] && echo socket; echo a >/dev/stdout", streams="tcp",
             edit=lambda data: data.replace(b"bash: line 1: ", b"bash: ")),
    Scenario("/dev/stdout, a file", "echo a; echo b >/dev/stdout; echo c", streams="file"),
    Scenario("grep knows /dev/null", "grep -c root /etc/passwd; yes | head -5", streams="null"),
    Scenario("a third descriptor on the same pipe keeps the order",
             "$W bash -c 'for i in 1 2 3 4 5; do echo o$i; echo t$i >&3; done' 3>&1", streams="joined", racy=True),
    Scenario("a third descriptor does not hold the pipe",
             "$W bash -c 'sleep 30 & echo done' 3>&1", streams="joined",
             right=Right(0, b"done\n", ("sleep 30",))),
    Scenario("a carriage return spinner", "for i in 1 2 3; do printf '\\r%d%%' $i; sleep .05; done"),
    Scenario("a reader that leaves", "$W yes | head -1; echo ${PIPESTATUS[@]}", racy=True),
    Scenario("a reader that leaves, sockets",
             "exec 3>&1; python3 -c 'import os,socket,subprocess as s; a,b=socket.socketpair(); "
             "p=s.Popen(os.environ[\"W\"].split()+[\"bash\",\"-c\",\"while echo x; do sleep .02; done\"],stdout=b); b.close(); "
             "a.recv(1); a.close(); print(p.wait())'"),
    Scenario("a reader that leaves bytes unread, TCP",
             "python3 -c 'import os,socket,subprocess as s\nl=socket.create_server((\"127.0.0.1\",0))\n"
             "b=socket.create_connection(l.getsockname()); a=l.accept()[0]\n"
             "p=s.Popen(os.environ[\"W\"].split()+[\"bash\",\"-c\",\"while echo x; do :; done; exit 5\"],stdout=b,stderr=s.DEVNULL)\n"
             "b.close(); a.recv(1); a.close(); print(p.wait() in (5, -13))'"),
    Scenario("a command that ignores SIGPIPE hears of the reader by its error",
             "($W bash -c 'trap \"\" PIPE; while echo x; do :; done; exit 9' 2>/dev/null; echo $? >&2) | head -1"),
    Scenario("a slow reader", "$W head -c 300000 /dev/zero | python3 -c 'import os,time\nn=0\n"
             "while b:=os.read(0,30000): n+=len(b); time.sleep(.01)\nprint(n)'"),
]  # fmt: skip

ENDS = [
    Scenario(f"exit status {code}", f"exit {code}") for code in (0, 1, 2, 124, 125, 126, 127, 128, 143, 255)
] + [
    Scenario(f"dies of SIG{name}", f"ulimit -c 0; kill -{name} $$; sleep 5", racy=name in ("TERM", "KILL"))
    for name in ("HUP", "INT", "QUIT", "TERM", "KILL", "PIPE", "ALRM", "USR1", "SEGV", "ABRT", "XFSZ", "RTMIN")
] + [
    Scenario("an end at once", ":", racy=True),
    Scenario("output and an end at once", "echo last", racy=True),
    Scenario("60 kB and an end at once", "head -c 60000 /dev/zero", racy=True),
    Scenario("60 kB into a socket and an end at once", "head -c 60000 /dev/zero", streams="sockets", racy=True),
    Scenario("output to a terminal and an end at once", "echo last", streams="terminal", racy=True),
    Scenario("closes its streams and goes on", "exec >&- 2>&-; sleep .3; exit 6", racy=True),
    Scenario("closes its streams and goes on, terminal", "exec >&- 2>&- <&-; sleep .3; exit 6", streams="terminal"),
    Scenario("output from a child that outlives the leader", "(sleep .03; echo late) & echo early; wait", racy=True),
]  # fmt: skip

STRANGE = [
    Scenario(f"descriptor {number}: {name}", LOOKS.replace("$N", str(number)), prepare=_on(number, opened))
    for name, opened in ODD.items()
    for number in (0, 1, 2)
] + [
    Scenario("stdin for writing only", LOOKS.replace("$N", "0"), prepare=_on(0, lambda: os.open("/dev/null", os.O_WRONLY))),
]  # fmt: skip

SIGNALLED = [
    Scenario(f"SIG{signal.Signals(number).name[3:]} to the pid, handled",
             f"trap 'echo got; exit 5' {signal.Signals(number).name[3:]}; : >$F/ready; sleep 30 >/dev/null 2>&1 & wait",
             act=_signal_pid(number), racy=number == signal.SIGUSR1)
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGQUIT, signal.SIGUSR1, signal.SIGUSR2, signal.SIGALRM,
                   signal.SIGWINCH)
] + [
    Scenario(f"SIG{signal.Signals(number).name[3:]} to the group",
             ": >$F/ready; exec sleep 5", act=_signal_group(number), racy=True)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGKILL)
] + [
    Scenario("SIGKILL to the pid", ": >$F/ready; exec sleep 7", act=_signal_pid(signal.SIGKILL), racy=True),
    Scenario("SIGTERM to the pid", ": >$F/ready; exec sleep 7", act=_signal_pid(signal.SIGTERM), racy=True),
    Scenario("an ignored SIGTERM", ": >$F/ready; sleep .5; exit 4", act=_signal_pid(signal.SIGTERM),
             prepare=_ignore(signal.SIGTERM)),
]  # fmt: skip

LEFT = [
    Scenario("a silent background process holds the pipe", "sleep 30 & echo done; exit 3",
             right=Right(3, b"done\n", ("sleep 30",)), racy=True),
    Scenario("a silent background process holds a socket", "sleep 30 & echo done; exit 3", streams="sockets",
             right=Right(3, b"done\n", ("sleep 30",))),
    Scenario("a background process that writes on holds the pipe",
             "(for i in $(seq 150); do echo tick >&2; sleep .2; done) 2>&1 >/dev/null | sed -u d & echo done",
             right=Right(0, b"done\n", ("bash -c", "sed -u d", "sleep .2"))),
    Scenario("a background process with the file", "sleep 30 & echo done", streams="file"),
    Scenario("a daemon that let go", "setsid nohup sleep 30 >/dev/null 2>&1 </dev/null & echo started", racy=True),
    Scenario("a disowned job that let go", "(sleep 30 >/dev/null 2>&1 </dev/null &) ; echo started"),
    Scenario("only stderr is held", "sleep 30 >/dev/null & echo out; exit 2", right=Right(2, b"out\n", ("sleep 30",))),
]  # fmt: skip

EDGES = [
    Scenario("a program that is not there", "$W /no/such/program 2>/dev/null; echo $?"),
    Scenario("a program that may not be executed", "touch x; $W ./x 2>/dev/null; echo $?"),
    Scenario("a folder as a program", "$W / 2>/dev/null; echo $?"),
    Scenario("a script without a first line", "printf 'echo $0 $1; exit 7' >s; chmod +x s; $W ./s a; echo $?"),
    Scenario("an empty word, spaces, stars", "$W printf '<%s>' '' 'a  b' '*' $'\\n' '-n' --"),
    Scenario("words that are no text", "$W printf '%s|' $'\\377\\376' | od -An -tx1"),
    Scenario("a loop's input is left alone", 'seq 3 | while read -r n; do $W true; echo "$n"; done'),
    Scenario("bash's exported functions", "f() { echo called; }; export -f f; $W bash -c f"),
    Scenario("a large environment", "export X=$(head -c 100000 /dev/zero | tr '\\0' x); $W sh -c 'echo ${#X}'"),
    Scenario("many arguments", "$W sh -c 'echo $#' $(seq 20000)"),
    Scenario("TRACEPARENT is the only addition",
             "diff <(env | grep -v ^_= | sort) <($W env | grep -v -e ^_= -e ^TRACEPARENT= | sort) && echo same"),
    Scenario("the folder is gone", "mkdir d; cd d; rmdir ../d; $W sh -c 'echo on; exit 3'; echo $?", streams="pipes",
             edit=lambda data: b"" if b"getcwd" in data else data),
    Scenario("wrapped twice", "$W $W sh -c 'echo a; echo b >&2; exit 3'; echo $?"),
    Scenario("ended by timeout(1)", "timeout .3 $W sleep 5; echo $?", racy=True),
    Scenario("SIGPIPE and SIGXFSZ that the agent's shell ignores", f"trap '' PIPE XFSZ; $W sh -c \"{SIGNALS}\"; :"),
    Scenario("SIGPIPE that a service manager ignores for a shell",
             f"$W sh -c \"{SIGNALS}\"; :", prepare=_ignore(signal.SIGPIPE)),
    Scenario("a reader that leaves a command that may not be killed by it",
             "trap '' PIPE; $W yes 2>/dev/null | head -1; echo ${PIPESTATUS[@]}"),
    *(
        Scenario(f"a timer that the agent set before its exec, {kind}: {name}",
                 f"python3 -ISc 'import os, signal, sys; signal.setitimer(signal.ITIMER_{kind}, {at_s}); "
                 f"os.execvp(sys.argv[1], sys.argv[1:])' $W {command}; echo $?",
                 edit=lambda data: re.sub(rb"line 1: +\d+ ", b"", data))
        for kind, at_s, name, command in (
            ("REAL", 0.4, "not handled", "sleep 5"),
            ("REAL", 1.5, "handled", "bash -c 'trap \"echo got\" ALRM; sleep 2; echo end'"),
            ("VIRTUAL", 0.4, "not handled", "python3 -ISc 'while True: pass'"),
            ("PROF", 0.4, "slept through", "sleep 1"),
        )
    ),
    Scenario("of xargs, four at a time", "seq 12 | xargs -P4 -n1 $W echo | sort -n", racy=True),
    Scenario("in a process substitution", "cat <($W echo one) <($W sh -c 'echo two; exit 1')"),
    Scenario("a coprocess", "coproc $W cat; echo hello >&${COPROC[1]}; read -r x <&${COPROC[0]}; echo $x; "
             "eval \"exec ${COPROC[1]}>&-\"; wait $COPROC_PID; echo $?", streams="pipes", racy=True),
]  # fmt: skip

TERMINAL = [
    Scenario("the terminal's size and group", "stty size; test -t 0 -a -t 1 -a -t 2 && echo tty", streams="terminal"),
    Scenario("the terminal's settings", "stty -a", streams="terminal"),
    Scenario("carriage returns and colours", "printf 'a\\nb\\r\\n\\033[31mred\\033[0m\\n'", streams="terminal"),
    Scenario("only stdout is a terminal's", "$W bash -c 'test -t 1 && echo y; test -t 2 || echo n' 2>/dev/null",
             streams="terminal"),
]  # fmt: skip

SHELL = [
    Scenario(f"sidecar-sh: {name}", script, wrapper=("sidecar-sh",))
    for name, script in (
        ("-c", "${W:-bash} -c 'echo a; echo b >&2; exit 3'; echo $?"),
        ("-lc", "${W:-bash} -lc 'echo a; exit 4'; echo $?"),
        ("$0 and arguments", "${W:-bash} -c 'printf \"<%s>\" \"$0\" \"$@\"' name 'a b' '*' ''"),
        ("quotes and newlines", "${W:-bash} -c $'echo \"a\\'b\"\\necho \\'c\"d\\''"),
        ("a heredoc", "${W:-bash} -c $'cat <<\\'EOF\\'\\n$HOME `x` \"q\" \\\\\\nEOF\\necho end'"),
        ("exclamation marks", "${W:-bash} -c 'echo hello! !! !x'"),
        ("no text", "${W:-bash} -c $'printf \"\\377\\376|%s\" \\351' | od -An -tx1"),
        ("commands from stdin", "printf 'echo in; exit 6\\n' | ${W:-bash}; echo $?"),
        ("a script file", "printf 'echo \"$#\" \"$1\"; exit 2' >'a b.sh'; ${W:-bash} 'a b.sh' 'x y'; echo $?"),
        ("signals of a nested one", "SIDECAR_ACTIVE=1 ${W:-bash} -c \"grep -E '^Sig(Blk|Ign)' /proc/self/status\""),
        ("a reader that leaves a nested one", "SIDECAR_ACTIVE=1 ${W:-bash} -c 'yes; echo $? >&2' | head -1"),
    )
]
