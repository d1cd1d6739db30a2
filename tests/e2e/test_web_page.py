"""The web page in Debian's Chromium, with the installed program: what it shows, and that it asks nobody else."""

import subprocess
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import browser as browsers
import pytest
from browser import Browser
from installed import SCRIPT, Sidecar

from sidecar.testing.otlp import OtlpReceiver


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    if (why := browsers.why_not()) is not None:
        pytest.skip(why)
    with Browser() as browser:
        yield browser


@pytest.fixture
def sidecar(tmp_path: Path) -> Iterator[Sidecar]:
    with (
        OtlpReceiver() as receiver,
        Sidecar(tmp_path, receiver.http_endpoint, interval_s=1.0, VERDICT_AFTER="300ms") as sidecar,
    ):
        yield sidecar


@pytest.fixture
def url(sidecar: Sidecar) -> str:
    done = subprocess.run([SCRIPT, "top", "--web"], capture_output=True, text=True, env=sidecar.environ, check=True)
    return done.stdout.strip()


def row(browser: Browser, table: str, program: str) -> str:
    """The text of the first row of a table that is of this program."""
    rows = browser.run(
        "return [...document.querySelectorAll('#' + arguments[0] + ' tr')].map((row) => row.innerText)", table
    )
    return next((text for text in rows if text.strip().startswith(program)), "")


def test_a_command_is_shown_explained_and_seen_to_end(browser: Browser, sidecar: Sidecar, url: str) -> None:
    command = sidecar.start("sleep", "60", options=("--tool-call-id", "call_7"))
    browser.open(url)
    browser.until(lambda: "sleeping" in row(browser, "running", "sleep"))
    assert browser.text("#state") == "1 running"

    bands = "return [...document.querySelectorAll('#running svg rect')].map((band) => band.getAttribute('class'))"
    browser.until(lambda: browser.run(bands) == ["silent", "waiting"])
    browser.click("#running button")
    browser.until(lambda: "call_7" in browser.text("#running"))
    assert "evidence" in browser.text("#running")
    trace = browser.run("return document.querySelector('#running a').href")
    assert trace.startswith("http://localhost:16686/trace/")
    assert len(trace.rpartition("/")[2]) == 32

    command.terminate()
    browser.until(lambda: "cancelled" in row(browser, "ended", "sleep"))
    browser.until(lambda: "no command is running" in browser.text("#running"))


def test_the_filter(browser: Browser, sidecar: Sidecar, url: str) -> None:
    sidecar.start("sleep", "60")
    sidecar.start("python3", "-c", "while True: pass")
    browser.open(url)
    browser.until(lambda: browser.text("#state").startswith("2 running"))
    browser.run(
        "const box = document.getElementById('filter'); box.value = 'pyth'; box.dispatchEvent(new Event('input'))"
    )
    assert row(browser, "running", "sleep") == ""
    assert row(browser, "running", "python3") != ""


def test_what_programs_are_named_is_text_and_nothing_else(
    browser: Browser, sidecar: Sidecar, url: str, tmp_path: Path
) -> None:
    name = "<img src=x onerror=document.title='hacked'>"
    (tmp_path / name).symlink_to("/bin/sleep")
    sidecar.start(str(tmp_path / name), "60", options=("--session-id", "<script>document.title='hacked'</script>"))
    browser.open(url)
    browser.until(lambda: name in browser.text("#running"))
    browser.click("#running button")
    browser.until(lambda: "<script>" in browser.text("#running"))
    assert browser.run("return document.title") == "1 running - sidecar"
    assert browser.run("return document.querySelectorAll('img, #running script').length") == 0


def test_it_asks_only_its_own_server_and_has_no_errors(browser: Browser, sidecar: Sidecar, url: str) -> None:
    sidecar.start("sleep", "60")
    browser.errors()
    browser.open("about:blank")
    browser.requested()
    browser.open(url)
    browser.until(lambda: browser.text("#state") == "1 running")
    asked = [address for address in browser.requested() if not address.startswith("data:")]
    assert {urlsplit(address).netloc for address in asked} == {urlsplit(url).netloc}
    assert browser.errors() == []


def test_another_page_learns_nothing(browser: Browser, sidecar: Sidecar, url: str) -> None:
    """Even one that knows the address: neither by fetching, nor in a frame, nor by an event source."""
    command = sidecar.start("sleep", "60")
    browser.open("data:text/html,<title>elsewhere</title>")
    script = """
        const url = arguments[0], done = arguments[1];
        const fetched = fetch(url).then(() => 'read', () => 'refused');
        const opaque = fetch(url, {mode: 'no-cors'}).then((answer) => answer.type, () => 'refused');
        const posted = fetch(url, {method: 'POST'}).then(() => 'read', () => 'refused');
        const heard = new Promise((resolve) => {
          const source = new EventSource(url + 'events');
          source.onmessage = () => resolve('read');
          source.onerror = () => resolve('refused');
        });
        Promise.all([fetched, opaque, posted, heard]).then(done);
    """
    assert browser.run_async(script, url) == ["refused", "refused", "refused", "refused"]
    assert command.poll() is None


def test_a_daemon_that_ends_is_told(browser: Browser, sidecar: Sidecar, url: str) -> None:
    browser.open(url)
    browser.until(lambda: browser.text("#state") == "0 running")
    sidecar.stop_daemon()
    browser.until(lambda: browser.text("#state").startswith("no daemon"))
