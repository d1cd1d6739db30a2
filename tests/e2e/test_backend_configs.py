"""Each Collector configuration that is shipped: the real Collector accepts it, and is built from what they name."""

import re
import subprocess
from pathlib import Path

import e2e_tools
import pytest
from backends import ROOT, Collector, tool

CONFIGS = ("otel-config.yaml", *(f"deploy/{path.name}" for path in sorted((ROOT / "deploy").glob("collector-*.yaml"))))
KINDS = ("receivers", "processors", "exporters", "connectors", "extensions")


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def named(config: str) -> set[tuple[str, str]]:
    """(kind, type) of each component that a configuration defines."""
    found = set()
    kind = ""
    for line in config.splitlines():
        if top := re.match(r"(\w+):", line):
            kind = top[1]
        elif (component := re.match(r"  ([a-z_]+)(/\w+)?:", line)) and kind in KINDS:
            found.add((kind, component[1]))
    return found


def section(config: str, begin: str, end: str) -> list[str]:
    """The items of a list, without comments."""
    body = config.split(begin, 1)[1].split(end, 1)[0]
    return [line.strip() for line in body.splitlines() if line.strip().startswith("- ")]


def test_there_are_the_files_that_the_pages_tell_of() -> None:
    assert CONFIGS == (
        "otel-config.yaml",
        "deploy/collector-agent.yaml",
        "deploy/collector-gateway.yaml",
        "deploy/collector-print.yaml",
    )


@pytest.mark.parametrize("config", CONFIGS)
def test_the_collector_accepts_it(config: str, tmp_path: Path) -> None:
    done = Collector(tmp_path, config).validate()
    assert (done.returncode, done.stdout + done.stderr) == (0, "")


def test_a_slip_in_one_is_not_accepted(tmp_path: Path) -> None:
    """So that the test above can fail."""
    collector = Collector(tmp_path)
    collector.config = tmp_path / "slip.yaml"
    collector.config.write_text(read("otel-config.yaml").replace("max_elapsed_time", "max_elapsed"))
    done = collector.validate()
    assert done.returncode != 0
    assert "max_elapsed" in done.stderr


def test_the_collector_is_built_from_exactly_what_they_name() -> None:
    listed = subprocess.run([tool("otelcol"), "components"], capture_output=True, text=True, check=True).stdout
    built = set()
    kind = ""
    for line in listed.splitlines():
        if top := re.match(r"(\w+):", line):
            kind = top[1]
        elif component := re.match(r"    - name: (\w+)$", line):
            built.add((kind, component[1]))
    wanted = set.union(*(named(read(config)) for config in CONFIGS))
    assert {each for each in built if each[0] in KINDS} == wanted


@pytest.mark.parametrize("page", ["otel-config.yaml", "deploy/collector-agent.yaml", "deploy/collector-gateway.yaml"])
def test_the_minimum_version_is_the_one_that_is_tested(page: str) -> None:
    version = e2e_tools.collector_version()
    assert f"Minimum version: Collector {version}" in read(page)
    modules = re.findall(r"- gomod: \S+ (v\S+)", e2e_tools.MANIFEST.read_text(encoding="utf-8"))
    # The providers are at 1.x: released together.
    assert {each for each in modules if each.startswith("v0.")} == {f"v{version}"}


def test_every_variable_is_on_a_page_and_those_on_a_page_are_there() -> None:
    used = {name for config in CONFIGS for name in re.findall(r"\$\{env:(OTELCOL_\w+):-", read(config))}
    told = set(re.findall(r"OTELCOL_[A-Z_]*[A-Z]", read("docs/collector.md") + read("deploy/README.md")))
    assert used - told == set()
    assert told - used == set()


@pytest.mark.parametrize("name", ["OTELCOL_STORAGE", "OTELCOL_METRIC_EXPIRATION", "OTELCOL_TRACES_ENDPOINT"])
def test_a_variable_has_one_default(name: str) -> None:
    assert len({each for config in CONFIGS for each in re.findall(rf"\$\{{env:{name}:-([^}}]*)\}}", read(config))}) == 1


def test_a_host_of_a_fleet_redacts_as_a_single_host_does() -> None:
    alone, agent = read("otel-config.yaml"), read("deploy/collector-agent.yaml")
    for begin, end in (("blocked_key_patterns:", "blocked_values:"), ("blocked_values:", "connectors:")):
        assert section(alone, begin, end) == section(agent, begin, end) != []
