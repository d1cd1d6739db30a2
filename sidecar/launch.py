"""The front door: argv -> the supervisor's fast path, or the click command line.

`sidecar run` with ordinary options goes straight to the spawn, on the standard library alone. What the fast
parser does not take (a bad value, --help, --config, a file of settings that changed) is looked at by the full
one; the options it finds are handed over by starting anew, so that the process that waits beside a command
for hours never holds more than the fast path needs.
"""

import gc
import posix
import sys

from sidecar.core.errors import SidecarError

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the 7 ms of importing typing
if TYPE_CHECKING:
    from typing import NoReturn

    from sidecar.supervisor.options import RunOptions
    from sidecar.supervisor.run import InlineSink

_RESOLVED = "--resolved-options"
_AGAIN = "import sys; sys.path[:0] = {path!r}; from sidecar.launch import main; sys.exit(main())"


def main() -> int:
    """The `sidecar` command. Returns the exit code; a supervised command ends the process itself."""
    arguments = sys.argv[1:]
    try:
        if arguments[:1] == ["run"]:
            gc.disable()
            _put_folders_back()
            return _run(arguments[1:])
        if any(descriptor == 1 for descriptor, _ in _moved()):
            raise SidecarError("the standard output is a folder; give a file, a pipe or a terminal")
        return _command_line(arguments)
    except SidecarError as error:
        posix.write(2, f"sidecar: {error}\n".encode("utf-8", "surrogateescape"))
        return 125


def main_sh() -> int:  # noqa: RET503 - supervising does not return
    """The `sidecar-sh` command: a shell whose command strings are supervised. Also what links to it are called as."""
    from sidecar.supervisor.shell import parse_shell
    from sidecar.supervisor.shim import is_launcher

    gc.disable()
    _put_folders_back()
    environ = environment()
    called = called_as()
    if is_launcher(called):
        return _launch(called, environ)
    plan = parse_shell(sys.argv[1:], environ, called)
    if plan.options is None:
        _give_back(plan.environ)
        try:
            posix.execve(plan.program, plan.argv, plan.environ)
        except OSError as error:
            posix.write(2, f"sidecar-sh: {plan.program}: {error.strerror}\n".encode("utf-8", "surrogateescape"))
            return 127 if isinstance(error, (FileNotFoundError, NotADirectoryError)) else 126
    _supervise(plan.options, {**plan.environ, "SIDECAR_ACTIVE": "1"})


def called_as() -> str:
    """The path of the link or script that was started; the shell in front of an installed script hands it on."""
    return str(sys._xoptions.get("sidecar_called", sys.argv[0]))


def _launch(called: str, environ: dict[str, str]) -> int:
    from sidecar.agents.launcher import launch

    _give_back(environ)
    return launch(called, sys.argv[1:], environ)


def _give_back(environ: dict[str, str]) -> None:
    """What Python changed of the process and its environment, before something else takes its place."""
    from sidecar.supervisor.run import as_given
    from sidecar.supervisor.spawn import give_back_dispositions, given_ignored

    as_given(environ)
    give_back_dispositions(given_ignored())


def _run(arguments: list[str]) -> int:
    environ = environment()
    options = _options(arguments, environ)
    return options if isinstance(options, int) else _supervise(options, environ)


def _options(arguments: list[str], environ: dict[str, str]) -> "RunOptions | int":
    if arguments[:1] == [_RESOLVED] and len(arguments) > 2:
        from sidecar.supervisor.handover import from_text

        return from_text(arguments[1], arguments[2:])
    from sidecar.supervisor.options import parse_run

    options = parse_run(arguments, environ)
    return _resolve_and_start_again(arguments) if options is None else options


def _resolve_and_start_again(arguments: list[str]) -> "RunOptions | int":
    gc.enable()
    _find_packages()
    from sidecar.cli.main import resolve_run_or_exit_code

    options = resolve_run_or_exit_code(arguments)
    if isinstance(options, int):
        return options
    if _moved():
        return options  # Python would not start again
    from sidecar.supervisor.handover import to_text

    ignored = sys._xoptions.get("sidecar_ignored", "")  # read before Python had started, which would now be too late
    again = [sys.executable, "-IS", "-X", f"sidecar_ignored={ignored}", "-c", _AGAIN.format(path=sys.path)]
    argv = [*again, "run", _RESOLVED, to_text(options), *options.argv]
    try:
        posix.execv(sys.executable, argv)
    except OSError:
        return options  # heavier than need be, and right all the same


def environment() -> dict[str, str]:
    """What `os.environ` would be: importing `os` costs 0.8 ms, a tenth of the bare interpreter."""
    encoding = sys.getfilesystemencoding()
    return {
        name.decode(encoding, "surrogateescape"): value.decode(encoding, "surrogateescape")
        for name, value in posix.environ.items()
    }


def _moved() -> list[tuple[int, int]]:
    """Which of the descriptors 0, 1, 2 are folders that were moved out of Python's way (bin/sidecar, start_guard), and
    where to: "0:5,2:6"."""
    moved = sys._xoptions.get("sidecar_moved", "")
    pairs = [pair.split(":") for pair in moved.split(",") if pair] if isinstance(moved, str) else []
    return [(int(pair[0]), int(pair[-1])) for pair in pairs]


def _put_folders_back() -> None:
    for descriptor, place in _moved():
        posix.dup2(place, descriptor)
        posix.close(place)


def _supervise(options: "RunOptions", environ: dict[str, str]) -> "NoReturn":
    from sidecar.supervisor.run import run

    run(options, environ, _make_inline)
    posix._exit(125)


def _make_inline() -> "InlineSink":
    _find_packages()
    from sidecar.telemetry.inline import InlineSink

    return InlineSink()


def _command_line(arguments: list[str]) -> int:
    gc.enable()
    _find_packages()
    from sidecar.cli.main import main as cli_main

    return cli_main(arguments)


def _find_packages() -> None:
    """Started with -S: let `site` find what else is installed (and read the .pth files), now that it is needed."""
    if sys.flags.no_site and "site" not in sys.modules:
        import site

        site.main()
