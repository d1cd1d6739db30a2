"""Services that listen, and programs that watch files: silent for ever, and well."""

from __future__ import annotations

from tests.verdicts.scenario import scenario
from tests.verdicts.stage import Stage


@scenario("listening")
def serve_python_http(stage: Stage) -> None:
    stage.run(
        *stage.python("import http.server, sys; sys.argv[1:] = ['0']; http.server.test(port=0, bind='127.0.0.1')")
    )
    stage.expect("Serving")
    stage.rest()


@scenario("listening")
def serve_asyncio(stage: Stage) -> None:
    stage.run(
        *stage.python(
            "import asyncio\nasync def main():\n s = await asyncio.start_server(None, '127.0.0.1', 0)\n"
            " print('ready')\n await s.serve_forever()\n"
            "asyncio.run(main())"
        )
    )
    stage.expect("ready")
    stage.rest()


@scenario("listening")
def serve_accept(stage: Stage) -> None:
    stage.run(*stage.python("import socket; s = socket.create_server(('127.0.0.1', 0)); print('ready'); s.accept()"))
    stage.expect("ready")
    stage.rest()


@scenario("listening")
def serve_unix_socket(stage: Stage) -> None:
    stage.run(
        *stage.python(
            "import socket; s = socket.socket(socket.AF_UNIX); s.bind('s'); s.listen(); print('ready'); s.accept()"
        )
    )
    stage.expect("ready")
    stage.rest()


@scenario("listening", "network_wait")
def serve_udp(stage: Stage) -> None:
    stage.run(
        *stage.python(
            "import socket; s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM); s.bind(('127.0.0.1', 0)); "
            "print('ready'); s.recv(1)"
        )
    )
    stage.expect("ready")
    stage.rest()


@scenario("listening", "polling")
def serve_socketserver(stage: Stage) -> None:
    # It wakes twice a second to see whether it shall end.
    stage.run(
        *stage.python(
            "import socketserver as s; x = s.TCPServer(('127.0.0.1', 0), None); print('ready'); x.serve_forever()"
        )
    )
    stage.expect("ready")
    stage.rest(0.1)


@scenario("listening")
def serve_with_forked_workers(stage: Stage) -> None:
    stage.run(
        *stage.python(
            "import os, socket\ns = socket.create_server(('127.0.0.1', 0))\n"
            "for _ in range(3):\n if os.fork() == 0: s.accept()\nprint('ready'); os.wait()"
        )
    )
    stage.expect("ready")
    stage.rest()


@scenario("listening")
def serve_with_a_terminal_for_its_log(stage: Stage) -> None:
    stage.run(*stage.python("import http.server; http.server.test(port=0, bind='127.0.0.1')"), terminal=True)
    stage.expect("Serving")
    stage.rest()


@scenario("listening", needs=["node"])
def serve_node(stage: Stage) -> None:
    stage.run("node", "-e", "require('http').createServer().listen(0, '127.0.0.1', () => console.log('ready'))")
    stage.expect("ready")
    stage.rest()


@scenario("listening", needs=["node"])
def serve_node_that_also_takes_input(stage: Stage) -> None:
    # A development server that would take a word on its standard input, which is a pipe of the agent's.
    code = (
        "process.stdin.on('data', () => {}); "
        "require('http').createServer().listen(0, '127.0.0.1', () => console.log('ready'))"
    )
    stage.run("node", "-e", code, stdin="pipe")
    stage.expect("ready")
    stage.rest()


@scenario("listening", needs=["npm", "node"])
def serve_below_npm_start(stage: Stage) -> None:
    (stage.scratch / "package.json").write_text(
        '{"name": "x", "version": "1.0.0", "scripts": {"start": "node server.js"}}'
    )
    (stage.scratch / "server.js").write_text(
        "require('http').createServer().listen(0, '127.0.0.1', () => console.log('ready'))"
    )
    stage.run("npm", "start")
    stage.expect("ready")
    stage.rest()


@scenario("listening", needs=["go"])
def serve_go(stage: Stage) -> None:
    stage.run(stage.program("gowaits"), "serve")
    stage.expect("ready")
    stage.rest()


@scenario("listening", needs=["javac", "java"])
def serve_java(stage: Stage) -> None:
    stage.run("java", "-cp", stage.program("Waits"), "Waits", "serve")
    stage.expect("ready")
    stage.rest()


@scenario("watching_files")
def watch_tail(stage: Stage) -> None:
    (stage.scratch / "log").write_text("line\n")
    stage.run("tail", "-f", "log")
    stage.expect("line")
    stage.rest()


@scenario("watching_files")
def watch_tail_on_a_terminal(stage: Stage) -> None:
    (stage.scratch / "log").write_text("line\n")
    stage.run("tail", "-f", "log", terminal=True)
    stage.expect("line")
    stage.rest()


@scenario("polling", "watching_files")
def watch_nothing(stage: Stage) -> None:
    # What keeps many a container alive. A device cannot be watched: tail looks once a second.
    stage.run("tail", "-f", "/dev/null")
    stage.rest()


@scenario("listening", "internal_wait", needs=["node"])
def serve_a_debugger(stage: Stage) -> None:
    # Nothing runs until somebody connects.
    stage.run("node", "--inspect-brk=127.0.0.1:0", "-e", "1")
    stage.expect("Debugger listening")
    stage.rest()


@scenario("watching_files", "polling")
def watch_tail_of_many_below_a_grep(stage: Stage) -> None:
    (stage.scratch / "log").write_text("line\n")
    stage.run("sh", "-c", "tail -F log absent | grep --line-buffered line")
    stage.expect("line")
    stage.rest(0.1)


@scenario("polling")
def watch_tail_by_polling(stage: Stage) -> None:
    (stage.scratch / "log").write_text("line\n")
    stage.run("tail", "---disable-inotify", "-s", "0.3", "-f", "log")
    stage.expect("line")
    stage.rest(0)


@scenario("watching_files", needs=["node"])
def watch_node(stage: Stage) -> None:
    stage.run("node", "-e", "require('fs').watch('.', () => {}); console.log('ready')")
    stage.expect("ready")
    stage.rest()


@scenario("watching_files", "sleeping")
def watch_inotify_with_a_timeout(stage: Stage) -> None:
    code = (
        "import ctypes, select\nc = ctypes.CDLL(None)\nf = c.inotify_init1(0)\n"
        "c.inotify_add_watch(f, b'.', 0x100)\nprint('ready')\n"
        "select.select([f], [], [], 300)"
    )
    stage.run(*stage.python(code))
    stage.expect("ready")
    stage.rest()


@scenario("watching_files", "listening", needs=["node"])
def watch_and_serve(stage: Stage) -> None:
    # A development server.
    code = (
        "require('fs').watch('.', () => {}); "
        "require('http').createServer().listen(0, '127.0.0.1', () => console.log('ready'))"
    )
    stage.run("node", "-e", code)
    stage.expect("ready")
    stage.rest()
