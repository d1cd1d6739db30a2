"""The root of the command line: one line and a status for whatever goes wrong, and verbs that load lazily."""

import subprocess
import sys
from pathlib import Path

import click
import pytest

from sidecar.cli import main as cli
from sidecar.cli.errors import usage_text
from sidecar.core.errors import DaemonUnavailable, UsageError

HOUSE = str(Path(__file__).parents[2])


@pytest.fixture
def verb(monkeypatch):
    """Put a function in the place of `sidecar ps`."""

    def put(function):
        monkeypatch.setattr("sidecar.cli.ps.ps", click.Command("ps", callback=function))

    return put


def raiser(error):
    def callback():
        raise error

    return callback


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["nope"], "sidecar: no such command 'nope' (see `sidecar --help`)"),
        (["ps", "--nope"], "sidecar: no such option"),
        (["ps", "x"], "sidecar: got unexpected extra argument (x) (see `sidecar ps --help`)"),
        (["watch", "--count", "0"], "sidecar: invalid value for '--count': 0 is not in the range x>=1"),
        (["ps", "--socket", "x"], 'sidecar: --socket: "x" is not allowed; use an absolute path'),
        (["ps", "--\x1b[2J\n"], "sidecar: no such option"),
    ],
)
def test_usage_errors_are_one_line(argv, line, capsys):
    assert cli.main(argv) == 125
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(line)
    assert "--help`)" in err or "is not allowed" in err
    assert err.count("\n") == 1
    assert "\x1b" not in err


def groups(command, words=()):
    """The words of each verb that has verbs, and that verb."""
    if isinstance(command, click.Group):
        yield words, command
        context = click.Context(command)
        for name in command.list_commands(context):
            yield from groups(command.get_command(context, name), (*words, name))


@pytest.mark.parametrize(("words", "group"), [pytest.param(*one, id=" ".join(one[0])) for one in groups(cli.root)])
def test_no_summary_of_a_verb_is_cut_off(words, group):
    """On a terminal of 80 columns."""
    text = group.get_help(click.Context(group, info_name=" ".join(("sidecar", *words)), terminal_width=80))
    summaries = text.partition("Commands:\n")[2].splitlines()
    assert len(summaries) >= len(group.list_commands(click.Context(group)))
    assert [line for line in summaries if line.endswith("...")] == []


def test_errors_of_ours_are_one_line(verb, capsys):
    verb(raiser(DaemonUnavailable("no daemon\nat all")))
    assert cli.main(["ps"]) == 125
    assert capsys.readouterr().err == "sidecar: no daemon\\nat all\n"


@pytest.mark.parametrize(
    ("error", "status"),
    [(KeyboardInterrupt(), 130), (click.Abort(), 130), (click.exceptions.Exit(3), 3)],
)
def test_quiet_ends(verb, capsys, error, status):
    verb(raiser(error))
    assert cli.main(["ps"]) == status
    assert capsys.readouterr() == ("", "")


def test_the_status_is_what_the_verb_returns(verb):
    verb(lambda: 7)
    assert cli.main(["ps"]) == 7
    verb(lambda: None)
    assert cli.main(["ps"]) == 0


def test_version_and_help(capsys):
    assert cli.main(["--version"]) == 0
    assert capsys.readouterr().out.startswith("sidecar ")
    assert cli.main(["--help"]) == 0
    shown = capsys.readouterr().out
    assert all(f"  {name} " in shown for name in ("run", "watch", "ps", "config"))
    assert cli.main([]) == 0
    assert "Commands:" in capsys.readouterr().out
    assert cli.main(["config"]) == 0
    assert "  show " in capsys.readouterr().out


def test_a_verb_that_is_not_installed_is_not_listed(monkeypatch, capsys):
    monkeypatch.setitem(cli.VERBS, "later", ("sidecar.cli.later:later", "Not yet."))
    assert cli.main(["--help"]) == 0
    assert "later" not in capsys.readouterr().out
    assert cli.main(["later"]) == 125


def test_the_help_loads_no_verb():
    program = "import sys; from sidecar.cli.main import main; main(['--help']); print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", program], cwd=HOUSE, capture_output=True, text=True, check=True)
    loaded = done.stdout.split()
    assert not {"pydantic", "rich", "opentelemetry", "sidecar.config", "sidecar.cli.ps"} & set(loaded)


def test_run_only_resolves(capsys):
    options = cli.resolve_run(["--timeout", "5s", "true"])
    assert options.argv == ["true"]
    assert cli.main(["run", "true"]) == 125
    assert "sidecar.launch" in capsys.readouterr().err


def test_run_resolved_or_an_exit_status(capsys):
    assert cli.resolve_run_or_exit_code(["--timeout", "x", "true"]) == 125
    assert capsys.readouterr().err.startswith('sidecar: --timeout: "x" is not allowed')
    assert cli.resolve_run_or_exit_code(["--help"]) == 0
    assert "Usage: sidecar run" in capsys.readouterr().out
    assert cli.resolve_run_or_exit_code(["true"]) == cli.resolve_run(["true"])


def test_run_without_a_command():
    for argv in ([], ["--"], ["--timeout", "5s"]):
        with pytest.raises(UsageError, match="no command to run"):
            cli.resolve_run(argv)


@pytest.mark.parametrize("word", ["-h", "--help"])
def test_run_help_names_every_option(capsys, word):
    with pytest.raises(SystemExit) as ended:
        cli.resolve_run(["--timeout", "nonsense", word])
    assert ended.value.code == 0
    shown = capsys.readouterr().out
    assert all(flag in shown for flag in ("-c STRING", "--timeout", "--no-pty", "--config", "SIDECAR_SESSION_ID"))


@pytest.mark.parametrize(
    ("argv", "line"),
    [
        (["--nope", "x"], "no such option"),
        (["--timeout"], "option '--timeout' requires an argument"),
        (["--timeout", "abc", "x"], '--timeout: "abc" is not allowed; use a duration'),
        (["--pty=1", "x"], "option '--pty' does not take a value"),
    ],
)
def test_run_says_what_is_wrong(argv, line):
    with pytest.raises(UsageError) as caught:
        cli.resolve_run(argv)
    assert str(caught.value).startswith(line)


def test_the_text_of_a_click_error_without_a_context():
    assert usage_text(click.ClickException("Something is wrong.")) == "something is wrong"
