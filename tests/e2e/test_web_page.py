"""The web page in Debian's Chromium, with the installed program: what it shows, and that it asks nobody else."""

import os
import signal
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
        Sidecar(tmp_path, receiver.http_endpoint, interval_s=1.0, VERDICT_AFTER="1s") as sidecar,
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
    assert "Wait, if the time that is left is worth it" in browser.text("#running")
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
    browser.run("find(String(state.running.find((one) => one.program === 'sleep').pid)); draw()")
    assert row(browser, "running", "sleep") != ""


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


def test_what_somebody_has_selected_or_holds_stays(browser: Browser, sidecar: Sidecar, url: str) -> None:
    """Each second all is drawn; what is the same stays the same element, or clicks and selections would be lost."""
    sidecar.start("sleep", "60")
    browser.open(url)
    browser.until(lambda: "sleeping" in row(browser, "running", "sleep"))
    browser.click("#running button")
    browser.until(lambda: "evidence" in browser.text("#running"))
    browser.run(
        """
        window.held = [...document.querySelectorAll('#running button, #running dd, #running svg')];
        document.querySelector('#running button').focus();
        getSelection().selectAllChildren(document.querySelector('#running dd'));
        """
    )
    selected, age = browser.run("return getSelection().toString()"), row(browser, "running", "sleep")
    assert selected
    browser.until(lambda: row(browser, "running", "sleep") != age)
    assert browser.run("return window.held.every((one) => one.isConnected)")
    assert browser.run("return getSelection().toString()") == selected
    assert browser.run("return document.activeElement.tagName") == "BUTTON"


def test_rows_keep_their_elements_when_their_order_changes(browser: Browser, sidecar: Sidecar, url: str) -> None:
    sidecar.start("sleep", "60")
    browser.open(url)
    browser.until(lambda: "sleeping" in row(browser, "running", "sleep"))
    browser.run("window.held = document.querySelector('#running tr'); window.held.querySelector('button').focus()")
    stopped = sidecar.start("sh", "-c", "kill -STOP $$")
    browser.until(lambda: browser.text("#running").strip().startswith("sh"))
    assert browser.run("return window.held.isConnected && window.held.innerText.trim().startsWith('sleep')")
    assert browser.run("return window.held.contains(document.activeElement)")
    stopped.terminate()
    browser.until(lambda: browser.text("#state") == "1 running")
    assert browser.run("return document.querySelector('#running tr') === window.held")


def test_letters_that_hide_what_follows_are_escaped(
    browser: Browser, sidecar: Sidecar, url: str, tmp_path: Path
) -> None:
    (tmp_path / "gnp\u202etxt\x1b[2J").symlink_to("/bin/sleep")
    sidecar.start(str(tmp_path / "gnp\u202etxt\x1b[2J"), "60")
    browser.open(url)
    browser.until(lambda: "gnp\\u202etxt\\x1b[2J" in browser.text("#running"))


def test_an_address_without_its_last_slash(browser: Browser, sidecar: Sidecar, url: str) -> None:
    sidecar.start("sleep", "60")
    browser.open(url.rstrip("/"))
    browser.until(lambda: browser.text("#state") == "1 running")


def test_what_ended_between_two_looks_has_its_name(browser: Browser, sidecar: Sidecar, url: str) -> None:
    browser.open(url)
    browser.until(lambda: browser.text("#state") == "0 running")
    sidecar.start("sh", "-c", "exit 7")
    browser.until(lambda: "exit 7" in row(browser, "ended", "sh"))


def test_a_daemon_that_hangs_is_told(browser: Browser, sidecar: Sidecar, url: str) -> None:
    """It serves the page itself, so that nothing comes at all."""
    sidecar.start("sleep", "60")
    browser.open(url)
    browser.until(lambda: browser.text("#state") == "1 running")
    pid = sidecar.status()["pid"]
    os.kill(pid, signal.SIGSTOP)
    try:
        said = f"no answer: nothing is heard of the daemon: `sidecar why {pid}` says why, `sidecar daemon stop` ends it"
        browser.until(lambda: browser.text("#state").startswith(f"{said} (what is shown is"))
        assert browser.run("return document.title") == "no answer - sidecar"
    finally:
        os.kill(pid, signal.SIGCONT)
    browser.until(lambda: browser.text("#state") == "1 running")


# The stream's own messages do not come in between from here on; those of the test are taken.
ALONE = """
    events.close();
    const command = (id, more) => ({commandId: id, program: "p", elapsedMs: 5000, totalBytes: 0, ...more});
    const hung = {verdict: "frozen", group: "may_be_hung", sinceMs: 1000, silences: [], evidence: ["e".repeat(500)]};
"""


@pytest.fixture
def opened(browser: Browser, sidecar: Sidecar, url: str) -> Iterator[Browser]:
    """The page, with no command; what is set in the browser is unset at the end."""
    browser.open(url)
    browser.until(lambda: browser.text("#state") == "0 running")
    yield browser
    browser.media()
    browser.devtools("Emulation.clearDeviceMetricsOverride")


@pytest.mark.parametrize("width", [320, 360, 1024])
def test_nothing_is_beside_the_window(opened: Browser, width: int) -> None:
    """Whatever a program is called, and however narrow it is; and a table stays one for who hears it."""
    opened.devtools("Emulation.setDeviceMetricsOverride", width=width, height=740, deviceScaleFactor=1, mobile=True)
    over = opened.run(
        ALONE
        + """
        const long = command("c", {...hung, program: "w".repeat(255), traceId: "a".repeat(32)});
        state.open.add("c");
        take({type: "commands", commands: [long, command("d", {program: "\u05e9".repeat(255)})]});
        take({type: "ended", commands: [command("e", {reason: "exited", exitCode: 0, program: "w".repeat(255)})]});
        return [...document.querySelectorAll("html, .scroll")].map((one) => one.scrollWidth - one.clientWidth);
        """
    )
    assert over == [0, 0, 0]
    nodes = opened.devtools("Accessibility.getFullAXTree")["nodes"]
    roles = [node["role"]["value"] for node in nodes if not node["ignored"]]
    assert (roles.count("table"), roles.count("columnheader"), roles.count("row")) == (2, 15, 6)


def test_chosen_colours_leave_what_only_a_colour_tells(opened: Browser) -> None:
    opened.media(forced_colors="active")
    colours = opened.run(
        ALONE
        + """
        const working = {verdict: "computing", group: "working"};
        take({type: "commands", commands: [command("c", hung), command("d", working)]});
        const styles = (selector, pseudo) =>
          [...document.querySelectorAll(selector)].map((one) => getComputedStyle(one, pseudo));
        return [...styles("#running .badge").map((style) => style.borderLeftColor),
                ...styles(".legend span", "::before").map((style) => style.backgroundColor)];
        """
    )
    assert len(set(colours[:2])) == 2
    assert len(set(colours[2:])) == 7


def test_trouble_is_told_in_words_too(opened: Browser) -> None:
    """And aloud only what is of weight: not each command, not each second."""
    told = opened.run(
        ALONE
        + """
        const text = (selector) => document.querySelector(selector).textContent;
        const told = [document.querySelectorAll("#state [role=status], [aria-live]").length];
        take({type: "commands", commands: [command("a"), command("b")]});
        told.push(text("#state"), text("#trouble"));
        state.open.add("a");
        take({type: "commands", commands: [command("a", hung), command("b")]});
        told.push(text("#state"), text("#trouble"), text("#running .badge"), text("#running dl"));
        return told;
        """
    )
    assert told[:3] == [1, "2 running", ""]
    assert opened.run(
        ALONE
        + """
        const needs = {verdict: "awaiting_input", group: "needs_someone"};
        return [1, 2].map((most) => {
          take({type: "commands", commands: [command("a", needs), command("b", needs)].slice(0, most)});
          return document.getElementById("trouble").textContent;
        });
        """
    ) == [", 1 needs someone", ", 2 need someone"]
    assert told[3:6] == ["2 running, 1 may be hung", ", 1 may be hung", "! may be hung: frozen 1.0s"]
    assert "timelinesilent 5.0s" in told[6]


def test_the_keyboard_stays_where_it_was(opened: Browser) -> None:
    """At a link whose row goes elsewhere, and at a command that ends."""
    where = opened.run(
        ALONE
        + """
        const told = (...commands) => take({type: "commands", commands});
        const one = command("one", {traceId: "a".repeat(32)});
        told(one, command("two"));
        document.querySelector("#running tr[data-key=one] a").focus();
        const at = () => [document.activeElement.tagName, document.activeElement.closest("tr")?.dataset.key ?? "",
                          document.activeElement.closest("tbody")?.id ?? ""].join(" ");
        const seen = [];
        told(one, command("two", hung)); seen.push(at());
        told({...one, ...hung, elapsedMs: 9000}, command("two", hung)); seen.push(at());
        document.querySelector("#running tr[data-key=two] button").focus();
        take({type: "ended", commands: [command("two", {reason: "exited", exitCode: 0})]}); seen.push(at());
        return seen;
        """
    )
    assert where == ["A one running", "A one running", "BUTTON two ended"]


def test_a_command_has_an_address(browser: Browser, sidecar: Sidecar, url: str) -> None:
    """Its details are open where it leads to, also past a filter, and by the browser's way back."""
    sidecar.start("sleep", "60", options=("--tool-call-id", "call_1"))
    sidecar.start("sleep", "60", options=("--tool-call-id", "call_2"))
    browser.open(url)
    browser.until(lambda: browser.text("#state") == "2 running")
    first, second = browser.run(
        """
        const [one, other] = ["call_1", "call_2"].map((id) => state.running.find((each) => each.toolCallId === id));
        state.open.add(one.commandId);
        draw();
        return [one, other].map(address);
        """
    )
    assert browser.run("return document.querySelector('#running dl a').getAttribute('href')") == first

    browser.open("about:blank")
    browser.open(url + first)
    browser.until(lambda: "call_1" in browser.text("#running dl"))
    assert browser.run("return document.querySelectorAll('#running dl').length") == 1
    assert browser.run("return address({commandId: document.activeElement.dataset.id})") == first
    browser.run("find('nothing of that kind'); state.open.clear(); draw(); location.hash = arguments[0]", second)
    browser.until(lambda: "call_2" in browser.text("#running dl"))
    browser.back()
    browser.until(lambda: browser.text("#running").count("tool call") == 2)
    assert browser.text("#missing") == ""


def test_of_a_command_that_is_gone_it_says_so(opened: Browser) -> None:
    opened.run("location.hash = '#0190-of-yesterday'")
    opened.until(lambda: "`sidecar history` may know of it" in opened.text("#missing"))
    opened.run("location.hash = '#%%%<b>'")
    opened.run("location.hash = ''")
    opened.until(lambda: opened.text("#missing") == "")


def test_the_filter_outlives_a_reload_and_escape_ends_it(opened: Browser) -> None:
    opened.run("find('of a kind'); draw()")
    opened.reload()
    opened.until(lambda: opened.text("#state") == "0 running")
    kept = "return [state.filter, document.getElementById('filter').value]"
    assert opened.run(kept) == ["of a kind", "of a kind"]
    opened.run("document.getElementById('filter').focus()")
    opened.press("Escape", 27)
    opened.until(lambda: opened.run(kept) == ["", ""])


def test_escape_closes_details(opened: Browser) -> None:
    opened.run(
        ALONE
        + """
        state.open.add("c");
        take({type: "commands", commands: [command("c", hung)]});
        document.querySelector("#running dl a").focus();
        """
    )
    opened.press("Escape", 27)
    closed = "return state.open.size === 0 && document.activeElement.dataset.id === 'c'"
    opened.until(lambda: opened.run(closed))


def test_a_page_that_nobody_sees_holds_no_connection(opened: Browser) -> None:
    """A browser has six for one server. What is seen again is of now."""
    hide = "Object.defineProperty(document, 'hidden', {value: arguments[0], configurable: true});"
    changed = "document.dispatchEvent(new Event('visibilitychange')); return events.readyState === EventSource.CLOSED"
    assert opened.run(hide + changed, True)
    heard = opened.run("return state.heard")
    opened.run("listen()")  # as the timer does, which is slow
    rests = "return state.heard > arguments[0] && events.readyState === EventSource.CLOSED"
    opened.until(lambda: opened.run(rests, heard))
    assert not opened.run(hide + changed, False)
    opened.until(lambda: opened.text("#state") == "0 running")


def test_of_a_thousand_the_worst_are_shown(opened: Browser) -> None:
    shown = opened.run(
        ALONE
        + """
        const many = Array.from({length: 998}, (_, n) => command("c" + n, {program: "p" + n}));
        const rows = () => [...document.querySelectorAll("#running tr")].map((row) => row.textContent);
        take({type: "commands", commands: [...many, command("open"), command("bad", hung)]});
        const before = rows();
        find("p997"); draw();
        const found = rows();
        find(""); state.open.add("c997"); draw();
        const opened = rows().length;
        take({type: "commands", commands: many.slice(0, 201)});
        return [before.length, before[0], before.at(-1), found.length, opened, rows().at(-1)];
        """
    )
    assert (shown[0], shown[2]) == (201, "800 more; the filter finds them")
    assert "! " in shown[1]
    assert shown[3:] == [1, 203, "1 more; the filter finds it"]


def test_a_day_of_commands_does_not_pile_up(browser: Browser, sidecar: Sidecar, url: str) -> None:
    """Ends that were missed, too."""
    browser.open(url)
    browser.until(lambda: browser.text("#state") == "0 running")
    kept = browser.run(
        """
        const command = (id) => ({commandId: id, program: "p", elapsedMs: 1, totalBytes: 0});
        for (let n = 0; n < 2000; n += 1) {
          take({type: "commands", commands: [command("missed-" + n), command("ended-" + n)]});
          state.open.add("missed-" + n);
          take({type: "ended", commands: [{...command("ended-" + n), reason: "exited", exitCode: 0}]});
        }
        return [state.known[0].size + state.known[1].size, state.open.size, state.ended.length,
                document.querySelectorAll("tr").length];
        """
    )
    assert kept[0] <= 4
    assert kept[1] <= 1
    assert kept[2] == 200
    assert kept[3] <= 30


def test_a_daemon_that_ends_is_told(browser: Browser, sidecar: Sidecar, url: str) -> None:
    browser.open(url)
    browser.until(lambda: browser.text("#state") == "0 running")
    sidecar.stop_daemon()
    browser.until(lambda: browser.text("#state").startswith("no daemon"))
