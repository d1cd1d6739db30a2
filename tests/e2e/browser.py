"""Debian's Chromium, headless, by the WebDriver protocol of its chromedriver (https://www.w3.org/TR/webdriver2/)."""

import base64
import json
import shutil
import subprocess
import tempfile
import time
import urllib.request
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any, Self

WAIT_S = 60.0


def why_not() -> str | None:
    """Why there is no browser here; None where there is one."""
    missing = [name for name in ("chromium", "chromedriver") if shutil.which(name) is None]
    return f"{' and '.join(missing)} not on PATH (Debian: chromium, chromium-driver)" if missing else None


class Browser:
    """A context manager: one window. `errors` are what the page's console was told since the last call."""

    def __init__(self, width: int = 1200, height: int = 800, *, dark: bool = False) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="browser-")
        self._driver = subprocess.Popen(
            ["chromedriver", "--port=0"], stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
        )
        assert self._driver.stdout is not None
        for line in self._driver.stdout:
            if "started successfully on port" in line:
                self._base = f"http://127.0.0.1:{line.rstrip().rstrip('.').rpartition(' ')[2]}"
                break
        arguments = [
            "--headless=new",
            "--no-sandbox",  # there is none for root
            "--disable-gpu",
            "--disable-dev-shm-usage",
            "--hide-scrollbars",
            f"--window-size={width},{height}",
            f"--user-data-dir={self._folder.name}",
            *(["--force-dark-mode"] if dark else []),
        ]
        options = {"binary": shutil.which("chromium"), "args": arguments}
        wanted = {"goog:chromeOptions": options, "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"}}
        self._session = ""
        created = self._ask("POST", "/session", {"capabilities": {"alwaysMatch": wanted}})
        self._session = f"/session/{created['sessionId']}"

    def open(self, url: str) -> None:
        self._ask("POST", "/url", {"url": url})

    def run(self, script: str, *arguments: Any) -> Any:
        """JavaScript in the page, as a function's body."""
        return self._ask("POST", "/execute/sync", {"script": script, "args": list(arguments)})

    def run_async(self, script: str, *arguments: Any) -> Any:
        """The same; what is given to the function that is its last argument is the result."""
        return self._ask("POST", "/execute/async", {"script": script, "args": list(arguments)})

    def devtools(self, command: str, **parameters: Any) -> Any:
        """A command of the DevTools protocol (https://chromedevtools.github.io/devtools-protocol/)."""
        return self._ask("POST", "/goog/cdp/execute", {"cmd": command, "params": parameters})

    def media(self, **features: str) -> None:
        """Media features as a reader may have set them, `forced_colors="active"` say; none: as they are."""
        told = [{"name": name.replace("_", "-"), "value": value} for name, value in features.items()]
        self.devtools("Emulation.setEmulatedMedia", features=told)

    def text(self, selector: str = "body") -> str:
        return str(self.run("return document.querySelector(arguments[0])?.innerText ?? ''", selector))

    def until(self, condition: Callable[[], Any]) -> Any:
        deadline_s = time.monotonic() + WAIT_S
        while not (found := condition()):
            if time.monotonic() >= deadline_s:
                raise TimeoutError(f"the page does not come to it; it says: {self.text()[:2000]}")
            time.sleep(0.05)
        return found

    def click(self, selector: str) -> None:
        self.run("document.querySelector(arguments[0]).click()", selector)

    def press(self, key: str, code: int) -> None:
        """A key as a person presses it, by its name and its virtual key code."""
        for kind in ("keyDown", "keyUp"):
            self.devtools("Input.dispatchKeyEvent", type=kind, key=key, windowsVirtualKeyCode=code)

    def back(self) -> None:
        self._ask("POST", "/back", {})

    def reload(self) -> None:
        self._ask("POST", "/refresh", {})

    def picture(self, path: Path) -> None:
        path.write_bytes(base64.b64decode(self._ask("GET", "/screenshot")))

    def errors(self) -> list[str]:
        return [entry["message"] for entry in self._ask("POST", "/se/log", {"type": "browser"})]

    def requested(self) -> list[str]:
        """The addresses of all requests since the last call."""
        entries = self._ask("POST", "/se/log", {"type": "performance"})
        messages = [json.loads(entry["message"])["message"] for entry in entries]
        return [one["params"]["request"]["url"] for one in messages if one["method"] == "Network.requestWillBeSent"]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self._ask("DELETE", "")
        finally:
            self._driver.terminate()
            self._driver.communicate()
            self._folder.cleanup()

    def _ask(self, method: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(
            self._base + self._session + path, data, {"Content-Type": "application/json"}, method=method
        )
        with urllib.request.urlopen(request, timeout=150) as answer:
            return json.load(answer)["value"]
