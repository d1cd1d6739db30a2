"""The installed script: wherever it lies, however it is reached; its start-up cache; what is loaded at the spawn."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from supervised import ROOT, SITE_PACKAGES, WAIT_S, Installation

SELDOM = "core.frame core.output_window supervisor.repeats supervisor.silence supervisor.looking supervisor.stopping"
HEAVY = "click pydantic psutil opentelemetry rich asyncio subprocess json re typing signal enum socket selectors ctypes"


def echo(program: "Path | str", environ: dict[str, str]) -> bytes:
    words = [str(program), "run", "--", "sh", "-c", "echo on; exit 3"]
    done = subprocess.run(words, env=environ, stdin=subprocess.DEVNULL, capture_output=True, timeout=WAIT_S)
    assert (done.returncode, done.stderr) == (3, b"")
    return done.stdout


def test_a_folder_with_spaces_and_a_link_elsewhere(spaced: Installation, tmp_path: Path) -> None:
    (tmp_path / "links").mkdir()
    link = tmp_path / "links" / "sidecar"
    link.symlink_to(os.path.relpath(spaced.script, link.parent))
    for program in (spaced.script, link):
        assert echo(program, spaced.environ) == b"on\n"


FOLDERS = {  # those that are folders, and those that are closed
    "stdin": ((0,), ()),
    "stdout": ((1,), ()),
    "stderr": ((2,), ()),
    "all": ((0, 1, 2), ()),
    "stdin, without stdout": ((0,), (1,)),
    "stderr, without the others": ((2,), (0, 1)),
}


@pytest.mark.parametrize("flags", [os.O_RDONLY, os.O_PATH], ids=["open", "path-only"])
@pytest.mark.parametrize("name", ["sidecar", "sidecar-sh"])
@pytest.mark.parametrize(("folders", "closed"), FOLDERS.values(), ids=FOLDERS.keys())
@pytest.mark.parametrize("form", ["spaced", "sidecar"])
def test_a_folder_as_a_stream(
    request: pytest.FixtureRequest, form: str, folders: tuple[int, ...], closed: tuple[int, ...], name: str, flags: int
) -> None:
    """Python does not start over one: neither the installer's form of the script nor the direct one runs into that."""
    spaced: Installation = request.getfixturevalue(form)
    assert spaced.script.read_text().startswith("#!/bin/sh" if form == "spaced" else f"#!{spaced.prefix}/bin/python3")

    def become() -> None:
        for descriptor in folders:
            os.dup2(os.open("/", flags), descriptor)
        os.dup2(os.open("/etc", os.O_RDONLY), 7)  # one that the agent lends stays as it is
        os.closerange(8, 64)
        for descriptor in closed:
            os.close(descriptor)

    script = (
        "echo out; echo err >&2; read -r x; echo $?;"
        " for n in 0 1 2 7 8 9; do test -d /dev/fd/$n && echo $n; done >seen; readlink /dev/fd/7 >>seen; exit 3"
    )
    seen = []
    wrapper = [str(spaced.prefix / "bin" / name), *(("run", "--", "/bin/bash") if name == "sidecar" else ())]
    for words in (["/bin/bash"], wrapper):
        done = subprocess.run(
            [*words, "-c", script],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            env={**spaced.environ, "SIDECAR_SOCKET": "/dev/null/none"},  # no daemon to make the script direct
            close_fds=False,
            preexec_fn=become,
            cwd=spaced.prefix,
            timeout=WAIT_S,
        )
        seen.append((done, (spaced.prefix / "seen").read_text()))
    (bare, bare_saw), (wrapped, wrapped_saw) = seen
    assert (wrapped.returncode, wrapped.stdout, wrapped.stderr) == (bare.returncode, bare.stdout, bare.stderr)
    assert wrapped_saw == bare_saw
    assert wrapped.returncode == 3


def test_an_option_for_the_full_parser_with_a_folder_as_stdin(spaced: Installation) -> None:
    environ = {**spaced.environ, "SIDECAR_SOCKET": "/dev/null/none"}
    config = spaced.prefix / "config.toml"
    config.write_text("")
    words = [str(spaced.script), "run", "--config", str(config), "--", "sh", "-c", "test -d /dev/fd/0; exit $?"]
    folder = os.open("/", os.O_RDONLY)
    done = subprocess.run(words, stdin=folder, env=environ, capture_output=True, timeout=WAIT_S)
    os.close(folder)
    assert (done.returncode, done.stderr) == (0, b"")


def test_names_of_the_script_are_none_of_the_environments(spaced: Installation) -> None:
    given = dict.fromkeys(("self", "python", "n", "fd", "moved"), "the agent's")
    environ = {**spaced.environ, "SIDECAR_SOCKET": "/dev/null/none", **given}
    words = [str(spaced.script), "run", "--", "env"]
    shown = subprocess.run(words, stdin=subprocess.DEVNULL, env=environ, capture_output=True, text=True, timeout=WAIT_S)
    lines = shown.stdout.splitlines()
    assert [name for name in given if f"{name}=the agent's" not in lines] == []
    assert not [line for line in lines if line.startswith("sidecar_")]


def test_garbage_in_pythons_variables(sidecar: Installation) -> None:
    environ = {**sidecar.environ, "PYTHONPATH": "/no/such", "PYTHONHOME": "/no/such", "PYTHONSTARTUP": "/x"}
    assert echo(sidecar.script, environ) == b"on\n"


def test_without_an_interpreter_beside_it(spaced: Installation, tmp_path: Path) -> None:
    (tmp_path / "others").mkdir()
    (spaced.prefix / "bin" / "python3").rename(tmp_path / "others" / "python3")
    path = f"{tmp_path}/others:{os.environ.get('PATH', os.defpath)}"
    assert echo(spaced.script, {**spaced.environ, "PATH": path}) == b"on\n"


def refresh(installation: Installation) -> Path:
    """Write the start-up cache as the daemon does; its path."""
    code = "from sidecar import startup_cache as c; assert c.refresh(); print(c.cache_path())"
    words = [sys.executable, "-P", "-S", "-c", code]  # -P: not the checkout that we stand in
    environ = {**installation.environ, "PYTHONPATH": str(installation.package.parent)}
    return Path(subprocess.run(words, env=environ, capture_output=True, text=True, check=True).stdout.strip())


def probed(installation: Installation, probe: str) -> Path:
    """A copy of the installed script that runs `probe` first."""
    script = installation.script.read_text().partition("'''\nimport gc")
    copy = installation.prefix / "bin" / "probed"
    copy.write_text(f"{script[0]}'''\n{probe}import gc{script[2]}")
    copy.chmod(0o755)
    return copy


def loaded_at_the_fork(installation: Installation) -> set[str]:
    """The names in sys.modules when posix.fork is first called by the installed script."""
    probe = (
        "import posix, sys\n"
        "def fork(_fork=posix.fork):\n"
        "    cached = ' from-the-cache' if sys.modules['sidecar'].load_rest else ''\n"
        "    posix.write(2, ' '.join(sys.modules).encode() + cached.encode() + b'\\n')\n"
        "    posix.fork = _fork\n"
        "    return _fork()\n"
        "posix.fork = fork\n"
    )
    words = [str(probed(installation, probe)), "run", "--", "true"]
    done = subprocess.run(words, env=installation.environ, capture_output=True, text=True)
    assert done.returncode == 0
    return set(done.stderr.split("\n")[0].split())


@pytest.mark.parametrize("cached", [False, True])
def test_what_is_loaded_at_the_spawn(spaced: Installation, cached: bool) -> None:
    from sidecar.startup_cache import BEFORE_SPAWN

    if cached:
        refresh(spaced)
    loaded = loaded_at_the_fork(spaced)
    assert not loaded & set(HEAVY.split())
    ours = {name for name in loaded if name.partition(".")[0] == "sidecar"}
    # SIDECAR_SOCKET is set here, so there is a word to parse.
    assert ours <= {*BEFORE_SPAWN, "sidecar.core.values", "sidecar.core.duration"}
    if cached:
        assert loaded >= set(BEFORE_SPAWN)


@pytest.mark.parametrize("damage", ["none", "torn", "empty", "garbage", "stale", "other"])
def test_the_start_up_cache_is_used_only_when_valid(spaced: Installation, damage: str) -> None:
    cache = refresh(spaced)
    content = cache.read_bytes()
    if damage == "stale":
        os.utime(spaced.package / "supervisor" / "spawn.py", (1, 1))
    elif damage != "none":
        other = b"\xe9\x01\x00\x00\x00"  # marshal of the integer 1
        cache.write_bytes(
            {"torn": content[: len(content) // 2], "empty": b"", "garbage": b"x" * 999, "other": other}[damage]
        )
    assert echo(spaced.script, spaced.environ) == b"on\n"
    used = "from-the-cache" in loaded_at_the_fork(spaced)
    assert used == (damage == "none")


LATER = (
    "import posix, sys\n"
    "def leave(code, _exit=posix._exit):\n"
    "    loop = sys.modules['sidecar.supervisor.loop']\n"
    "    posix.write(2, b'imported' if loop.__spec__ else b'from the cache')\n"
    "    _exit(code)\n"
    "posix._exit = leave\n"
)


@pytest.mark.parametrize("damage", ["none", "absent", "torn", "empty", "garbage", "other", "stale", "unreadable"])
def test_what_is_loaded_after_the_spawn_is_used_only_when_valid(spaced: Installation, damage: str) -> None:
    """It has a file of its own, which may be of another state than the first."""
    cache = refresh(spaced)
    later = cache.with_name(f"{cache.name}.later")
    content = later.read_bytes()
    if damage == "stale":
        os.utime(spaced.package / "supervisor" / "loop.py", (1, 1))
    elif damage in ("absent", "unreadable"):
        later.unlink()
        if damage == "unreadable":
            later.mkdir()
    elif damage != "none":
        other = b"\xe9\x01\x00\x00\x00"  # marshal of the integer 1
        later.write_bytes(
            {"torn": content[: len(content) // 2], "empty": b"", "garbage": b"x" * 999, "other": other}[damage]
        )
    assert echo(spaced.script, spaced.environ) == b"on\n"
    assert "from-the-cache" in loaded_at_the_fork(spaced), "the first file is as it was"
    done = subprocess.run(
        [str(probed(spaced, LATER)), "run", "--", "sh", "-c", "echo on"], env=spaced.environ, capture_output=True
    )
    assert (done.returncode, done.stdout) == (0, b"on\n")
    assert done.stderr == (b"from the cache" if damage == "none" else b"imported")


def test_what_a_short_command_never_loads(spaced: Installation) -> None:
    refresh(spaced)
    probe = LATER.replace("b'imported' if loop.__spec__ else b'from the cache'", "' '.join(sys.modules).encode()")
    done = subprocess.run([str(probed(spaced, probe)), "run", "--", "true"], env=spaced.environ, capture_output=True)
    loaded = set(done.stderr.decode().split())
    assert "sidecar.supervisor.loop" in loaded
    assert not loaded & {f"sidecar.{name}" for name in SELDOM.split()}
    assert not loaded & set(HEAVY.split())


def test_an_output_that_is_a_file(spaced: Installation) -> None:
    refresh(spaced)
    echo(spaced.script, spaced.environ)  # which has the daemon started
    probe = LATER.replace("supervisor.loop", "supervisor.files")
    output = spaced.prefix / "output"
    with output.open("wb") as file:
        words = [str(probed(spaced, probe)), "run", "--", "echo", "on"]
        done = subprocess.run(words, env=spaced.environ, stdout=file, stderr=subprocess.PIPE)
    assert (output.read_bytes(), done.stderr) == (b"on\n", b"from the cache")


def test_a_cache_that_lacks_its_second_file_is_written_again(spaced: Installation) -> None:
    cache = refresh(spaced)
    later = cache.with_name(f"{cache.name}.later")
    before = later.read_bytes()
    later.unlink()
    refresh(spaced)
    assert later.read_bytes() == before
    later.write_bytes(before[:-1])
    refresh(spaced)
    assert later.read_bytes() == before


def test_an_extension_module_that_has_moved_is_looked_for(spaced: Installation) -> None:
    """The interpreter was upgraded beneath us; the sources of ours are as they were."""
    import marshal

    cache = refresh(spaced)
    loader, stamps, first = marshal.loads(cache.read_bytes())
    moved = tuple(
        tuple((name, path.replace(".cpython", ".moved")) for name, path in constant)
        if isinstance(constant, tuple) and constant and isinstance(constant[0], tuple)
        else constant
        for constant in loader.co_consts
    )
    assert moved != loader.co_consts or not any("lib-dynload" in entry for entry in sys.path)
    cache.write_bytes(marshal.dumps((loader.replace(co_consts=moved), stamps, first)))
    assert echo(spaced.script, spaced.environ) == b"on\n"
    assert "from-the-cache" in loaded_at_the_fork(spaced)


def test_a_copied_environment_does_not_run_the_code_of_its_original(spaced: Installation, tmp_path: Path) -> None:
    refresh(spaced)
    shutil.copytree(spaced.prefix, tmp_path / "a copy", symlinks=True)
    copy = Installation(tmp_path / "a copy", tmp_path)
    assert echo(copy.script, copy.environ) == b"on\n"
    assert "from-the-cache" in loaded_at_the_fork(spaced)
    assert "from-the-cache" not in loaded_at_the_fork(copy)


def test_the_layout_is_that_of_the_wheel() -> None:
    assert SITE_PACKAGES.startswith("lib/python3")
    assert shutil.which(str(ROOT / "bin" / "sidecar"))


def target(folder: Path, *names: str) -> None:
    """What `pip install --target` makes: the packages beside `bin`, where neither the script nor `site` would look."""
    (folder / "bin").mkdir()
    for name in names:
        shutil.copy(ROOT / "bin" / name, folder / "bin" / name)
    for package in ("sidecar", "collectors"):
        shutil.copytree(ROOT / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))


def test_a_folder_made_by_pip_install_target_has_its_own_shell(tmp_path: Path) -> None:
    """`sidecar setup` and `doctor` find `sidecar-sh` there, not where the interpreter's scripts are."""
    target(tmp_path, "sidecar", "sidecar-sh")
    look = "import sidecar.agents.places as p; print(p.Places({}, '/').sidecar_sh)"
    words = [sys.executable, "-c", f"import sysconfig; sysconfig.get_path = lambda name: '/nonexistent'; {look}"]
    done = subprocess.run(words, cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_S)
    assert (done.stdout, done.stderr) == (f"{tmp_path}/bin/sidecar-sh\n", "")


@pytest.mark.parametrize("name", ["sidecar", "sidecar-sh"])
def test_a_folder_made_by_pip_install_target(tmp_path: Path, name: str) -> None:
    target(tmp_path, name)
    words = ["run", "--", "echo", "on"] if name == "sidecar" else ["-c", "echo on"]
    environ = {"PATH": os.environ.get("PATH", os.defpath), "SIDECAR_SOCKET": "/dev/null/none"}
    done = subprocess.run(
        [str(tmp_path / "bin" / name), *words], env=environ, cwd=tmp_path / "bin", capture_output=True, timeout=WAIT_S
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, b"on\n", b"")


@pytest.mark.parametrize("name", ["sidecar", "sidecar-sh"])
def test_a_script_without_its_package_says_so_in_one_line(tmp_path: Path, name: str) -> None:
    (tmp_path / "bin").mkdir()
    shutil.copy(ROOT / "bin" / name, tmp_path / "bin" / name)
    # An interpreter that has nothing installed: this one's environment would have the package.
    (tmp_path / "bin" / "python3").symlink_to(os.path.realpath(sys.executable))
    done = subprocess.run(
        [str(tmp_path / "bin" / name), "-c", "echo on"], cwd=tmp_path, capture_output=True, timeout=WAIT_S
    )
    assert (done.returncode, done.stdout) == (125, b"")
    assert done.stderr.count(b"\n") == 1
    assert b"install agent-shell-sidecar again" in done.stderr
