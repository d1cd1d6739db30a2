"""The programs that the end-to-end tests talk to: made once, kept, and found again.

    python tests/e2e/e2e_tools.py              make what is missing of all of them; some minutes the first time
    python tests/e2e/e2e_tools.py otelcol      only this one

A Collector, Jaeger, and what reads the files of deploy/ are built from their Go modules; Prometheus and Alertmanager
are taken from Debian's packages, unpacked and not installed, so no service of theirs is started (one that is on PATH is
taken instead); coding agents are npm's, at the versions of their lock files (agents/packages), and so are Grafana's
grammars and types. They are kept in $E2E_TOOLS, else $XDG_CACHE_HOME/sidecar-e2e, else ~/.cache/sidecar-e2e, each in a
folder whose name has a hash of all that it is made from: a changed version is another folder, and an old one may be
deleted at any time.

Needs Go 1.26 or later, apt-get and dpkg, Node.js 20 or later with npm; the network; no root. Standard library only, so
that it runs before anything is installed. Tests call `find`, which makes nothing.
"""

import fcntl
import hashlib
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import NamedTuple

MANIFEST = Path(__file__).parent / "collector" / "builder.yaml"
JAEGER = "github.com/jaegertracing/jaeger/cmd/jaeger"
JAEGER_VERSION = "v1.76.0"
"""Of the module; the program says 2.13.0. Its UI is not in the module, and the API needs none."""

COMPOSE = "github.com/docker/compose/v2/cmd"
COMPOSE_VERSION = "v2.40.3"
"""Docker's own; alone it is what `docker compose` is as a plugin. To read a project it needs no engine."""
KUBECONFORM = "github.com/yannh/kubeconform/cmd/kubeconform"
KUBECONFORM_VERSION = "v0.7.0"
KUSTOMIZE = "sigs.k8s.io/kustomize/kustomize/v5"
KUSTOMIZE_VERSION = "v5.7.1"
MANIFESTS = Path(__file__).parent / "manifests"
"""A program of our own that reads Kubernetes manifests with the types of k8s.io/api."""
AGENTS = Path(__file__).parent / "agents" / "packages"
GRAFANA = Path(__file__).parent / "grafana"
"""A program of our own over npm's packages of Grafana's grammars and types."""
NODE_AT_LEAST = 20


class Tool(NamedTuple):
    """`make(work, made)` leaves a program of this name in `made`, which is kept; `work` is for what is not.
    `recipe` is all that the result depends on."""

    name: str
    recipe: str
    needs: tuple[str, ...]
    make: Callable[[Path, Path], None]


class ToolError(Exception):
    """The message says what is missing or what failed."""


def cache() -> Path:
    if chosen := os.environ.get("E2E_TOOLS"):
        return Path(chosen)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "sidecar-e2e"


def collector_version() -> str:
    """`0.161.0`, as the manifest has it."""
    lines = MANIFEST.read_text(encoding="utf-8").splitlines()
    return next(line.split()[1] for line in lines if line.startswith("  version:"))


def find(name: str) -> str | None:
    """The path of a program that was made before, or is on PATH; None if there is none."""
    tool = TOOLS[name]
    kept = _place(tool)
    if kept.exists():
        return str(kept)
    # Of what is built here, and of agents, the version matters; of the others any will do.
    return None if {"go", "npm"} & set(tool.needs) else shutil.which(name)


def why_not(name: str) -> str:
    return f"{name} is not here; `{sys.executable} tests/e2e/e2e_tools.py {name}` makes it (once, some minutes)"


def make(name: str) -> str:
    """The program's path; it is made if it is not there yet. ToolError if that fails."""
    if found := find(name):
        return found
    tool = TOOLS[name]
    missing = [need for need in tool.needs if shutil.which(need) is None]
    if missing:
        raise ToolError(f"{name}: {' and '.join(missing)} must be on PATH")
    place = _place(tool)
    cache().mkdir(parents=True, exist_ok=True)
    # Two test runs on one machine must not build the same thing at once: each takes all processors.
    with open(cache() / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not place.exists():
            with tempfile.TemporaryDirectory(dir=cache()) as work:
                made = Path(work, "made")
                made.mkdir()
                tool.make(Path(work), made)
                os.rename(made, place.parent)
    return str(place)


def _place(tool: Tool) -> Path:
    digest = hashlib.sha256(f"{platform.machine()}\n{tool.recipe}".encode()).hexdigest()[:16]
    return cache() / f"{tool.name}-{digest}" / tool.name


def _make_collector(work: Path, made: Path) -> None:
    builder = f"go.opentelemetry.io/collector/cmd/builder@v{collector_version()}"
    sources = work / "sources"
    manifest = work / "builder.yaml"
    manifest.write_text(_manifest().replace("output_path: ./build/otelcol", f"output_path: {sources}"))
    # Compiled below and not by the builder, with the same flags as Jaeger.
    _go(work, "run", builder, "--config", str(manifest), "--skip-compilation")
    _go_build(sources, made / "otelcol", ".")


def _make_manifests(work: Path, made: Path) -> None:
    sources = work / "sources"
    shutil.copytree(MANIFESTS, sources)
    _go_build(sources, made / "manifests", ".")


def _of_module(name: str, package: str, version: str) -> Tool:
    def make(work: Path, made: Path) -> None:
        sources = work / "sources"
        sources.mkdir()
        # A module of its own: `go install` refuses a module that has `replace` in its go.mod.
        _go(sources, "mod", "init", "made")
        _go(sources, "get", "-tool", f"{package}@{version}")
        _go_build(sources, made / name, package)

    return Tool(name, f"{package}@{version}", ("go",), make)


def _go_build(sources: Path, program: Path, package: str) -> None:
    _go(sources, "build", "-trimpath", "-ldflags=-s -w", "-o", str(program), package)


def _go(folder: Path, *words: str) -> None:
    # No cgo: a C compiler is not needed then. No version stamp: the folder is no repository, or is in another's.
    flags = f"{os.environ.get('GOFLAGS', '')} -buildvcs=false".strip()
    _run(["go", *words], folder, {"CGO_ENABLED": "0", "GOFLAGS": flags, "GOWORK": "off"})


_LAUNCHER = """#!/bin/sh
# {program} of Debian's package {package}, which is not installed: what it looks for in /usr/share is laid over
# that folder, for this process alone.
root=$(dirname "$(readlink -f "$0")")/root
exec unshare --mount --map-root-user -- /bin/sh -c '
  root=$1
  shift
  mount -t overlay overlay -o "lowerdir=$root/usr/share:/usr/share" /usr/share && exec "$root/usr/bin/{program}" "$@"
' sh "$root" "$@"
"""


def _from_debian(package: str, program: str, *, with_share: bool = False) -> Callable[[Path, Path], None]:
    def make(work: Path, made: Path) -> None:
        # Package lists of our own: the system's may be empty or old, and to renew them takes root.
        lists, archives = work / "lists", work / "archives"
        for each in (lists / "partial", archives / "partial"):
            each.mkdir(parents=True)
        options = [
            f"-oDir::State::Lists={lists}",
            f"-oDir::Cache={archives}",
            f"-oAPT::Sandbox::User={_user()}",
            "-oDebug::NoLocking=1",
            "-oAcquire::Languages=none",
            "-qq",
        ]
        _run(["apt-get", *options, "update"], work)
        _run(["apt-get", *options, "download", package], work)
        (deb,) = work.glob("*.deb")
        if with_share:
            _run(["dpkg", "-x", str(deb), str(made / "root")], work)
            launcher = made / program
            launcher.write_text(_LAUNCHER.format(program=program, package=package))
            launcher.chmod(0o755)
        else:
            _run(["dpkg", "-x", str(deb), str(work / "root")], work)
            os.rename(work / "root" / "usr" / "bin" / program, made / program)

    return make


def _user() -> str:
    # As root apt-get would hand the download to a user who cannot write here.
    return "root" if os.geteuid() == 0 else ""


def _run(words: list[str], folder: Path, environ: Mapping[str, str] | None = None) -> None:
    done = subprocess.run(
        words,
        cwd=folder,
        env={**os.environ, **(environ or {})},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        errors="replace",
        check=False,
    )
    if done.returncode != 0:
        raise ToolError(f"{' '.join(words)} in {folder} exited {done.returncode}:\n{done.stdout[-4000:]}")


def _manifest() -> str:
    return MANIFEST.read_text(encoding="utf-8")


def _sources(folder: Path) -> str:
    return "\n".join(path.read_text(encoding="utf-8") for path in sorted(folder.iterdir()))


def _debian_tool(name: str, package: str, *, with_share: bool = False) -> Tool:
    release = Path("/etc/debian_version").read_text() if Path("/etc/debian_version").exists() else "no Debian"
    recipe = f"{package} {release} {_LAUNCHER if with_share else ''}"
    needs = ("apt-get", "dpkg", *(("unshare",) if with_share else ()))
    return Tool(name, recipe, needs, _from_debian(package, name, with_share=with_share))


def _npm_tool(folder: Path, *programs: str) -> Tool:
    """What the lock file in `folder` names. `programs` are files beside it, the first one of which is the tool; without
    one it is the package's own program."""
    name = folder.name
    files = [folder / file for file in ("package.json", "package-lock.json", *programs)]

    def make(work: Path, made: Path) -> None:
        version = subprocess.run(["node", "--version"], capture_output=True, text=True, check=False).stdout.strip()
        if int(version.lstrip("v").partition(".")[0] or 0) < NODE_AT_LEAST:
            raise ToolError(f"{name}: node says it is {version or 'nothing'}; {NODE_AT_LEAST} or later is needed")
        for file in files:
            shutil.copy(file, made)
        # Not `npm ci`: it refuses a lock file that lacks an optional package of another platform, as qwen's does.
        # What is locked is installed as locked here too, and checked against its hash.
        _run(["npm", "install", "--no-save", "--no-audit", "--no-fund", f"--cache={work / 'cache'}"], made)
        (made / name).symlink_to(programs[0] if programs else Path("node_modules", ".bin", name))

    return Tool(name, "".join(file.read_text(encoding="utf-8") for file in files), ("node", "npm"), make)


TOOLS = {
    tool.name: tool
    for tool in (
        Tool("otelcol", _manifest(), ("go",), _make_collector),
        _of_module("jaeger", JAEGER, JAEGER_VERSION),
        _of_module("docker-compose", COMPOSE, COMPOSE_VERSION),
        _of_module("kubeconform", KUBECONFORM, KUBECONFORM_VERSION),
        _of_module("kustomize", KUSTOMIZE, KUSTOMIZE_VERSION),
        Tool("manifests", _sources(MANIFESTS), ("go",), _make_manifests),
        _debian_tool("prometheus", "prometheus"),
        _debian_tool("promtool", "prometheus"),
        # It does not start without its default templates, whose path is compiled in.
        _debian_tool("prometheus-alertmanager", "prometheus-alertmanager", with_share=True),
        _debian_tool("amtool", "prometheus-alertmanager"),
        *map(_npm_tool, sorted(AGENTS.iterdir())),
        _npm_tool(GRAFANA, "grafana.mjs"),
    )
}


def main(names: list[str]) -> int:
    if unknown := [name for name in names if name not in TOOLS]:
        print(f"{unknown[0]}: unknown; one of {', '.join(TOOLS)}", file=sys.stderr)
        return 2
    failed = 0
    for name in names or list(TOOLS):
        began_s = time.monotonic()
        try:
            print(f"{name}: {make(name)} ({time.monotonic() - began_s:.0f} s)", flush=True)
        except ToolError as error:
            failed = 1
            print(error, file=sys.stderr, flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
