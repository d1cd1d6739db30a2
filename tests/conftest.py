"""For all tests: what `tests/e2e` holds is marked `e2e`, and in CI an e2e test that skips has failed.

An end-to-end test may need what a developer's machine lacks, and then skips and says why. In CI everything it
needs is there, or is a fault of the CI: a suite that skipped itself silently would prove nothing.
"""

import os
import shutil
import signal
import tempfile
from collections.abc import Generator
from pathlib import Path

import hypothesis
import pytest

# Where a receiver in this process speaks gRPC, its handlers of fork(2) start threads anew in each child that has
# something to do before its exec: they count for the limits of that child, write to its stderr, and have killed it.
os.environ["GRPC_ENABLE_FORK_SUPPORT"] = "0"

_E2E_FOLDER = Path(__file__).parent / "e2e"

# A property holds or not, however busy the machine is; and whoever changes nothing has the same examples as before.
_ANY_MACHINE = hypothesis.settings(
    deadline=None, derandomize=True, database=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.register_profile("any-machine", _ANY_MACHINE)
# To look for examples that fail: `pytest --hypothesis-profile=explore tests/unit`.
hypothesis.settings.register_profile("explore", _ANY_MACHINE, derandomize=False, max_examples=1000)


def in_ci() -> bool:
    return os.environ.get("CI", "").lower() in ("1", "true", "yes")


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--repeat", type=int, default=1, metavar="N", help="run each racy scenario N times")
    parser.addoption("--chaos", type=int, default=60, metavar="N", help="how many commands the chaos test starts")
    parser.addoption("--chaos-seed", type=int, default=None, metavar="SEED", help="repeat the blows of a chaos test")


@pytest.fixture(scope="session")
def repeat(request: pytest.FixtureRequest) -> int:
    return int(request.config.getoption("--repeat"))


def pytest_configure() -> None:
    hypothesis.settings.load_profile("any-machine")
    # `pytest &` in a script starts with SIGINT ignored, and so would every program that a test sends one to.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    # The same for `nohup pytest`, which shall go on all the same: exec resets a handler, and no ignored signal.
    for number in (signal.SIGHUP, signal.SIGQUIT):
        if signal.getsignal(number) is signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    # What a test's daemon cannot send is no business of the spool of whoever runs the tests.
    os.environ["XDG_STATE_HOME"] = tempfile.mkdtemp(prefix="sidecar-tests-state-")


def pytest_unconfigure() -> None:
    shutil.rmtree(os.environ["XDG_STATE_HOME"], ignore_errors=True)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    for item in items:
        if item.path.is_relative_to(_E2E_FOLDER):
            item.add_marker(pytest.mark.e2e)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item,
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    # An expected failure is reported as skipped too, and is no skip.
    if report.skipped and not hasattr(report, "wasxfail") and in_ci() and item.get_closest_marker("e2e"):
        _fail(report)
    return report


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    # A whole module that skips itself (`pytest.importorskip`) has no items to look at.
    report = yield
    if report.skipped and in_ci() and collector.path.is_relative_to(_E2E_FOLDER):
        _fail(report)
    return report


def _fail(report: pytest.TestReport | pytest.CollectReport) -> None:
    reason = report.longrepr[2] if isinstance(report.longrepr, tuple) else str(report.longrepr)
    report.outcome = "failed"
    report.longrepr = f"an end-to-end test must not skip in CI (CI is set): {reason}"
