"""Somebody is needed: prompts on a terminal and on a pipe, stopped jobs, output that nobody takes."""

from __future__ import annotations

import os
import signal

from tests.verdicts.scenario import scenario
from tests.verdicts.stage import Stage


def _as_somebody(stage: Stage) -> list[str]:
    """For programs that ask root no password: become nobody first."""
    uid, gid = stage.theatre.nobody
    return [] if stage.unprivileged else ["setpriv", f"--reuid={uid}", f"--regid={gid}", "--clear-groups"]


def _prompt(stage: Stage, text: str, *argv: object, env: dict[str, str] | None = None) -> None:
    """Start on a terminal, await the prompt, and that whoever printed it has gone to wait."""
    stage.run(*argv, terminal=True, env=env)
    stage.expect(text)
    stage.rest()


@scenario("awaiting_input")
def prompt_cat(stage: Stage) -> None:
    stage.run("cat", terminal=True)
    stage.rest()


@scenario("awaiting_input")
def prompt_bash(stage: Stage) -> None:
    _prompt(stage, "$ ", "bash", "--norc", "--noprofile", "-i", env={"PS1": "$ "})


@scenario("awaiting_input")
def prompt_sh_read(stage: Stage) -> None:
    _prompt(stage, "Proceed", "sh", "-c", "printf 'Proceed? '; read answer")


@scenario("awaiting_input")
def prompt_bash_read_with_a_timeout(stage: Stage) -> None:
    _prompt(stage, "Name", "bash", "-c", "read -t 300 -p 'Name: ' answer")


@scenario("awaiting_input")
def prompt_bash_menu(stage: Stage) -> None:
    _prompt(stage, "#?", "bash", "-c", "select x in a b; do echo $x; done")


@scenario("awaiting_input")
def prompt_python(stage: Stage) -> None:
    _prompt(stage, ">>> ", stage.theatre.python, "-q")


@scenario("awaiting_input")
def prompt_python_input(stage: Stage) -> None:
    _prompt(stage, "name", *stage.python("input('name: ')"))


@scenario("awaiting_input")
def prompt_python_input_beside_threads(stage: Stage) -> None:
    _prompt(
        stage,
        "name",
        *stage.python(
            "import threading, time\nthreading.Thread(target=time.sleep, args=(300,)).start()\ninput('name: ')"
        ),
    )


@scenario("awaiting_input")
def prompt_getpass(stage: Stage) -> None:
    _prompt(stage, "Password", *stage.python("import getpass; getpass.getpass()"))


@scenario("awaiting_input")
def prompt_python_debugger(stage: Stage) -> None:
    _prompt(stage, "(Pdb)", *stage.python("breakpoint()\nprint(1)"))


@scenario("awaiting_input")
def prompt_bash_secret(stage: Stage) -> None:
    _prompt(stage, "Token", "bash", "-c", "read -s -p 'Token: ' token")


@scenario("awaiting_input", needs=["script"])
def prompt_on_a_terminal_inside_a_terminal(stage: Stage) -> None:
    stage.run("script", "-qec", "cat", "/dev/null", terminal=True)
    stage.member("cat")
    stage.rest()


@scenario("awaiting_input", needs=["git"])
def prompt_of_an_editor_on_the_terminal(stage: Stage) -> None:
    # Its standard streams are git's; it opens the terminal by name.
    stage.run(
        "sh",
        "-c",
        "git init -q . && git -c user.name=a -c user.email=a@b commit --allow-empty",
        terminal=True,
        env={"GIT_EDITOR": "sh -c 'echo editing; read x </dev/tty'"},
    )
    stage.expect("editing")
    stage.rest()


@scenario("awaiting_input", needs=["node"])
def prompt_node(stage: Stage) -> None:
    _prompt(stage, "> ", "node")


@scenario("awaiting_input", needs=["node"])
def prompt_node_question(stage: Stage) -> None:
    code = (
        "const r = require('readline').createInterface(process.stdin, process.stdout); r.question('name: ', () => {})"
    )
    _prompt(stage, "name", "node", "-e", code)


@scenario("awaiting_input", needs=["npm"])
def prompt_npm_init(stage: Stage) -> None:
    _prompt(stage, "package name", "npm", "init")


@scenario("awaiting_input", needs=["perl"])
def prompt_perl(stage: Stage) -> None:
    _prompt(stage, "name", "perl", "-e", "$| = 1; print 'name: '; <STDIN>")


@scenario("awaiting_input", needs=["javac", "java"])
def prompt_java(stage: Stage) -> None:
    _prompt(stage, "name", "java", "-cp", stage.program("Waits"), "Waits", "input")


@scenario("awaiting_input", needs=["sqlite3"])
def prompt_sqlite(stage: Stage) -> None:
    _prompt(stage, "sqlite> ", "sqlite3", "base")


@scenario("awaiting_input", needs=["postgresql", "psql"])
def prompt_psql(stage: Stage) -> None:
    _prompt(stage, "postgres=", *stage.theatre.postgresql.psql())


@scenario("awaiting_input", needs=["gdb"])
def prompt_gdb(stage: Stage) -> None:
    _prompt(stage, "(gdb)", "gdb", "-q", "-nx", env={"DEBUGINFOD_URLS": ""})


@scenario("awaiting_input", needs=["gdb"])
def prompt_gdb_with_a_stopped_child(stage: Stage) -> None:
    # The child is stopped, and gdb waits for a key: no deadlock.
    stage.run("gdb", "-q", "-nx", "-ex", "starti", "/bin/sleep", terminal=True, env={"DEBUGINFOD_URLS": ""})
    stage.expect("Program stopped")
    stage.rest()


@scenario("awaiting_input", needs=["less"])
def prompt_less(stage: Stage) -> None:
    stage.run("less", "/etc/services", terminal=True)
    stage.expect("/etc/services")
    stage.rest()


@scenario("awaiting_input", needs=["less", "git"])
def prompt_less_below_git(stage: Stage) -> None:
    (stage.scratch / "text").write_text("a\n" * 300)
    script = "git init -q . && git add text && git -c user.name=a -c user.email=a@b commit -qm x && git show"
    stage.run("sh", "-c", script, terminal=True, env={"LESS": "", "GIT_PAGER": "less"})
    stage.member("less")
    stage.rest()


@scenario("awaiting_input", needs=["less"])
def prompt_less_behind_a_pipe(stage: Stage) -> None:
    # Its standard input is the pipe; keys come from /dev/tty.
    stage.run("sh", "-c", "seq 1000 | less", terminal=True)
    stage.expect(":")
    stage.rest()


@scenario("awaiting_input", needs=["more"])
def prompt_more(stage: Stage) -> None:
    stage.run("more", "/etc/services", terminal=True)
    stage.expect("More")
    stage.rest()


@scenario("awaiting_input", needs=["vim"])
def prompt_vim(stage: Stage) -> None:
    stage.run("vim", "-u", "NONE", "-n", "text", terminal=True)
    stage.expect("text")
    stage.rest()


@scenario("awaiting_input", needs=["vim", "git"])
def prompt_vim_below_git(stage: Stage) -> None:
    script = "git init -q . && git -c user.name=a -c user.email=a@b commit --allow-empty"
    stage.run("sh", "-c", script, terminal=True, env={"GIT_EDITOR": "vim -u NONE -n"})
    stage.expect("COMMIT_EDITMSG")
    stage.rest()


@scenario("awaiting_input", needs=["git"])
def prompt_git_credentials(stage: Stage) -> None:
    # git asks on /dev/tty, and its helper for HTTP waits for git.
    peer = stage.peer("login")
    _prompt(stage, "Username", "git", "ls-remote", peer.url)


@scenario("awaiting_input", needs=["git"])
def prompt_git_password(stage: Stage) -> None:
    peer = stage.peer("login")
    stage.run("git", "ls-remote", f"http://me@{peer.host}:{peer.port}/x", terminal=True)
    stage.expect("Password")
    stage.rest()


@scenario("awaiting_input", needs=["ssh-keygen"])
def prompt_passphrase(stage: Stage) -> None:
    stage.run(
        "sh", "-c", "ssh-keygen -q -t ed25519 -N secret -f key && echo made && ssh-keygen -y -f key", terminal=True
    )
    stage.expect("passphrase")
    stage.rest()


@scenario("awaiting_input", needs=["openssl"])
def prompt_openssl(stage: Stage) -> None:
    _prompt(stage, "password", "openssl", "enc", "-aes-256-cbc", "-pbkdf2", "-in", "/etc/passwd", "-out", "secret")


@scenario("awaiting_input", needs=["root", "su"])
def prompt_su(stage: Stage) -> None:
    _prompt(stage, "Password", *_as_somebody(stage), "su", "root")


@scenario("awaiting_input", needs=["root", "sudo"])
def prompt_sudo(stage: Stage) -> None:
    _prompt(stage, "assword", *_as_somebody(stage), "sudo", "-k", "id")


@scenario("awaiting_input")
def prompt_rm(stage: Stage) -> None:
    (stage.scratch / "file").touch()
    _prompt(stage, "remove", "rm", "-i", "file")


@scenario("awaiting_input")
def input_pipe_cat(stage: Stage) -> None:
    # Standard input is a pipe that the agent holds and never writes to.
    stage.run("cat", stdin="pipe")
    stage.rest()


@scenario("awaiting_input")
def input_pipe_grep_in_a_pipeline(stage: Stage) -> None:
    stage.run("sh", "-c", "grep x | sort", stdin="pipe")
    stage.member("sort")
    stage.rest()


@scenario("awaiting_input")
def input_pipe_python(stage: Stage) -> None:
    stage.run(*stage.python("import sys; sys.stdin.read()"), stdin="pipe")
    stage.rest()


@scenario("awaiting_input")
def input_pipe_bash_script(stage: Stage) -> None:
    stage.run("bash", "-s", stdin="pipe")
    stage.rest()


@scenario("awaiting_input", needs=["node"])
def input_pipe_node(stage: Stage) -> None:
    stage.run("node", "-e", "console.log('ready'); process.stdin.on('data', () => {})", stdin="pipe")
    stage.expect("ready")
    stage.rest()


@scenario("awaiting_input")
def input_pipe_after_some(stage: Stage) -> None:
    stage.run("sh", "-c", "read first; echo got $first; read second", stdin="pipe")
    stage.tell("one\n")
    stage.expect("got one")
    stage.rest()


@scenario("stopped")
def stopped_by_a_signal(stage: Stage) -> None:
    stage.run("sleep", "300")
    stage.rest()
    os.kill(stage.pid, signal.SIGSTOP)
    stage.stopped()


@scenario("stopped")
def stopped_child_of_a_waiting_shell(stage: Stage) -> None:
    stage.run("sh", "-c", "sleep 300; true")
    child = stage.member("sleep")
    stage.rest()
    os.kill(child, signal.SIGSTOP)
    stage.stopped(child)


@scenario("stopped")
def stopped_itself(stage: Stage) -> None:
    stage.run("sh", "-c", "kill -STOP $$; true")
    stage.stopped()


@scenario("stopped")
def stopped_from_the_terminal(stage: Stage) -> None:
    # ^Z, and nobody who would look for it.
    stage.run(*stage.python("job.py", "fg", "cat"), terminal=True)
    child = stage.member("cat")
    stage.rest()
    stage.type("\x1a")
    stage.stopped(child)


@scenario("stopped")
def stopped_reading_in_the_background(stage: Stage) -> None:
    # SIGTTIN.
    stage.run(*stage.python("job.py", "bg", "cat"), terminal=True)
    stage.stopped(stage.member("cat"))


@scenario("stopped")
def stopped_writing_in_the_background(stage: Stage) -> None:
    # SIGTTOU: it changes the terminal's settings.
    stage.run(*stage.python("job.py", "bg", "stty", "-echo"), terminal=True)
    stage.stopped(stage.member("stty"))


@scenario("output_blocked")
def output_stopped_by_flow_control(stage: Stage) -> None:
    stage.run("sh", "-c", "read go; while echo line; do :; done", terminal=True)
    stage.rest()
    stage.flow("off")
    stage.type("go\n")
    stage.rest()


@scenario("output_blocked")
def output_pipe_not_read(stage: Stage) -> None:
    stage.run("yes", drain=False)
    stage.rest()


@scenario("output_blocked")
def output_terminal_not_read(stage: Stage) -> None:
    stage.run("yes", terminal=True, drain=False)
    stage.rest()


@scenario("output_blocked")
def output_of_a_pipeline_not_read(stage: Stage) -> None:
    stage.run("sh", "-c", "yes | cat", drain=False)
    stage.member("cat")
    stage.rest()


@scenario("output_blocked")
def output_of_python_not_read(stage: Stage) -> None:
    stage.run(*stage.python("while True: print('x' * 1000)"), drain=False)
    stage.rest()
