"""Everyday programs in front of a server that keeps quiet: curl, git, pip, npm, ssh, psql, names."""

from __future__ import annotations

from tests.verdicts.scenario import scenario
from tests.verdicts.stage import Stage


@scenario("network_wait", needs=["curl"])
def curl_silent_server(stage: Stage) -> None:
    peer = stage.peer("hold")
    stage.run("curl", "-sS", peer.url)
    peer.expect("data")
    stage.rest()


@scenario("network_wait", needs=["curl"])
def curl_silent_server_in_a_pipeline(stage: Stage) -> None:
    peer = stage.peer("hold")
    stage.run("bash", "-c", f"curl -fsSL {peer.url} | bash")
    peer.expect("data")
    stage.rest()


@scenario("network_wait", "polling", needs=["curl"])
def curl_with_a_progress_meter(stage: Stage) -> None:
    peer = stage.peer("hold")
    stage.run("curl", "-o", "page", peer.url, terminal=True)
    peer.expect("data")
    stage.rest(0.2)


@scenario("network_wait", needs=["git"])
def git_silent_server(stage: Stage) -> None:
    peer = stage.peer("hold")
    stage.run("git", "ls-remote", peer.url)
    peer.expect("data")
    stage.rest()


@scenario("network_wait", needs=["git"])
def git_clone_silent_server(stage: Stage) -> None:
    peer = stage.peer("hold")
    stage.run("git", "clone", f"git://{peer.host}:{peer.port}/x", terminal=True)
    peer.expect("data")
    stage.rest()


@scenario("network_wait", needs=["ssh"])
def ssh_silent_server(stage: Stage) -> None:
    peer = stage.peer("hold")
    stage.run("ssh", "-o", "StrictHostKeyChecking=no", "-p", peer.port, f"a@{peer.host}", "true")
    peer.expect("accepted")
    stage.rest()


@scenario("network_wait", needs=["ssh", "git"])
def git_over_ssh_silent_server(stage: Stage) -> None:
    peer = stage.peer("hold")
    stage.run("git", "ls-remote", f"ssh://a@{peer.host}:{peer.port}/x")
    peer.expect("accepted")
    stage.rest()


@scenario("network_wait", needs=["/usr/bin/pip3"])
def pip_silent_server(stage: Stage) -> None:
    peer = stage.peer("hold")
    stage.run("/usr/bin/pip3", "download", "--no-cache-dir", "--index-url", peer.url, "nothing")
    peer.expect("data")
    stage.rest()


@scenario("network_wait", "polling", needs=["/usr/bin/pip3"])
def pip_on_a_terminal(stage: Stage) -> None:
    peer = stage.peer("hold")
    stage.run("/usr/bin/pip3", "download", "--no-cache-dir", "--index-url", peer.url, "nothing", terminal=True)
    peer.expect("data")
    stage.rest(0.1)


@scenario("network_wait", "awaiting_input", needs=["curl"])
def curl_as_telnet(stage: Stage) -> None:
    # It passes on what comes from its standard input, and waits for the server.
    peer = stage.peer("hold")
    stage.run("curl", "-sS", f"telnet://{peer.host}:{peer.port}", stdin="pipe")
    peer.expect("accepted")
    stage.rest(0.1)


@scenario("network_wait", "polling", needs=["npm"])
def npm_silent_server(stage: Stage) -> None:
    peer = stage.peer("hold")
    stage.run("npm", "view", "nothing", "--registry", peer.url)
    peer.expect("data")
    stage.rest()


@scenario("network_wait", "polling", needs=["npm"])
def npm_install_on_a_terminal(stage: Stage) -> None:
    # With its spinner.
    peer = stage.peer("hold")
    stage.run("npm", "install", "nothing", "--registry", peer.url, terminal=True)
    peer.expect("data")
    stage.rest(0.1)


@scenario("network_wait", needs=["openssl"])
def tls_silent_server(stage: Stage) -> None:
    peer = stage.peer("hold")
    stage.run("openssl", "s_client", "-connect", f"{peer.host}:{peer.port}")
    peer.expect("data")
    stage.rest()


@scenario("network_wait")
def urllib_silent_server(stage: Stage) -> None:
    peer = stage.peer("hold")
    stage.run(*stage.python("import sys, urllib.request; urllib.request.urlopen(sys.argv[1])", peer.url))
    peer.expect("data")
    stage.rest()


@scenario("network_wait", needs=["root", "getent"])
def name_at_a_silent_server(stage: Stage) -> None:
    network = stage.theatre.network
    peer = stage.peer("dns", network.address(), network.server)
    resolver = stage.scratch / "resolv.conf"
    resolver.write_text(f"nameserver {peer.host}\noptions timeout:30\n")
    stage.run("getent", "ahosts", "somewhere.example", network=network.client, resolver=str(resolver))
    peer.expect("data")
    stage.rest()


@scenario("network_wait", needs=["root", "curl"])
def curl_looks_up_a_name(stage: Stage) -> None:
    # curl resolves in a thread of its own, and its main thread waits for that.
    network = stage.theatre.network
    peer = stage.peer("dns", network.address(), network.server)
    resolver = stage.scratch / "resolv.conf"
    resolver.write_text(f"nameserver {peer.host}\noptions timeout:30\n")
    stage.run("curl", "-sS", "http://somewhere.example/", network=network.client, resolver=str(resolver))
    peer.expect("data")
    stage.rest(0.1)


@scenario("network_wait", needs=["postgresql", "psql"])
def psql_slow_query(stage: Stage) -> None:
    stage.run(*stage.theatre.postgresql.psql(), "-c", "select pg_sleep(165)")
    stage.expect_backend("select pg_sleep(165)", "PgSleep")
    stage.rest()


@scenario("network_wait", needs=["postgresql", "psql"])
def psql_row_lock(stage: Stage) -> None:
    # What holds it up is a lock, in the database: from here it is a server that takes its time.
    base = stage.theatre.postgresql
    holder = stage.helper(*base.psql())
    holder.tell("begin; update counters set n = n;\n\\echo held\n")
    holder.expect("held")
    stage.run(*base.psql(), "-c", "update counters set n = n + 1")
    stage.expect_backend("update counters set n = n + 1", "transactionid")
    stage.rest()


@scenario("ipc_wait", needs=["postgresql", "psql"])
def psql_slow_query_over_a_unix_socket(stage: Stage) -> None:
    stage.run(*stage.theatre.postgresql.psql(unix=True), "-c", "select pg_sleep(164)")
    stage.expect_backend("select pg_sleep(164)", "PgSleep")
    stage.rest()


@scenario("ipc_wait", needs=["postgresql", "psql"])
def pg_dump_waits_for_a_table_lock(stage: Stage) -> None:
    base = stage.theatre.postgresql
    table = "ours_as_root" if not stage.unprivileged else "ours_as_nobody"
    holder = stage.helper(*base.psql())
    holder.tell(f"create table {table} (); begin; lock table {table};\n\\echo held\n")
    holder.expect("held")
    stage.run(*base.psql(unix=True), "-c", f"lock table {table}; select 1", terminal=True)
    stage.expect_backend(f"lock table {table}", "relation")
    stage.rest()


@scenario("ipc_wait", needs=["ssh-add"])
def ssh_agent_keeps_quiet(stage: Stage) -> None:
    path = str(stage.scratch / "agent")
    peer = stage.helper(*stage.python("peer.py", "unix", path))
    peer.expect("port")
    stage.run("ssh-add", "-l", env={"SSH_AUTH_SOCK": path})
    peer.expect("data")
    stage.rest()
