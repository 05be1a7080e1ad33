"""Chromium without a window, spoken to in the DevTools protocol over a pipe: no driver and no port."""

from __future__ import annotations

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

SECONDS = 60.0
PROGRAM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


class Browser:
    """One page. Requests and messages of its console are kept."""

    def __init__(self, profile: Path) -> None:
        assert PROGRAM is not None, "no chromium: tools/setup --dev installs it"
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        script = f'exec "$@" 3<&{to_read} 4>&{to_write}'
        options = ["--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage", "--no-first-run"]
        options += ["--disable-background-networking", "--disable-component-update", "--hide-scrollbars"]
        options += ["--remote-debugging-pipe", f"--user-data-dir={profile}"]
        self._process = subprocess.Popen(
            ["bash", "-c", script, "bash", PROGRAM, *options, "about:blank"],
            pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        os.close(to_read)
        os.close(to_write)
        self._numbers = itertools.count(1)
        self._rest = b""
        self._session = ""
        self.events: list[dict[str, Any]] = []
        target = self.send("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.send("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.send(f"{domain}.enable")

    def __enter__(self) -> Browser:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._session = ""
        with contextlib.suppress(OSError, AssertionError):
            self.send("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._read)
        os.close(self._write)

    def _message(self, deadline: float) -> dict[str, Any]:
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(0.0, deadline - time.monotonic()))
            assert ready, "chromium does not answer"
            data = os.read(self._read, 1 << 20)
            assert data, "chromium has ended"
            self._rest += data
        line, self._rest = self._rest.split(b"\0", 1)
        message: dict[str, Any] = json.loads(line)
        return message

    def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """Calls a method and waits for its result."""
        number = next(self._numbers)
        call = {"id": number, "method": method, "params": parameters}
        if self._session:
            call["sessionId"] = self._session
        os.write(self._write, json.dumps(call).encode() + b"\0")
        deadline = time.monotonic() + SECONDS
        while True:
            message = self._message(deadline)
            if message.get("id") == number:
                assert "error" not in message, (method, message["error"])
                result: dict[str, Any] = message["result"]
                return result
            self.events.append(message)

    def wait(self, method: str) -> dict[str, Any]:
        """The next event of this name."""
        deadline = time.monotonic() + SECONDS
        while True:
            message = self._message(deadline)
            self.events.append(message)
            if message.get("method") == method:
                return message

    def look(self, width: int, height: int, *, dark: bool = False, touch: bool = False) -> None:
        """The size of the window and the colours that the user prefers."""
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=touch)
        feature = {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}
        self.send("Emulation.setEmulatedMedia", features=[feature])

    def open(self, url: str) -> None:
        """Loads a page, until its load event."""
        self.events.clear()
        self.send("Page.navigate", url=url)
        if not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.wait("Page.loadEventFired")

    def run(self, script: str) -> Any:
        """The value of an expression in the page; promises are awaited."""
        found = self.send("Runtime.evaluate", expression=script, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in found, found["exceptionDetails"]
        return found["result"].get("value")

    def press(self, key: str, code: int, text: str = "") -> None:
        """A key on the keyboard."""
        same = {"key": key, "code": key, "windowsVirtualKeyCode": code}
        self.send("Input.dispatchKeyEvent", type="keyDown", text=text, **same)
        self.send("Input.dispatchKeyEvent", type="keyUp", **same)

    def errors(self) -> list[str]:
        """What the console shows as an error or a warning, and exceptions."""
        shown = []
        for event in self.events:
            method, parameters = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                shown.append(str(parameters["exceptionDetails"]))
            elif method == "Log.entryAdded" and parameters["entry"]["level"] in ("error", "warning"):
                shown.append(parameters["entry"]["text"])
            elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "warning", "assert"):
                shown.append(str(parameters["args"]))
        return shown

    def requests(self) -> list[str]:
        """Every address that was asked for."""
        found = [event for event in self.events if event.get("method") == "Network.requestWillBeSent"]
        return [event["params"]["request"]["url"] for event in found]

    def picture(self, path: Path, *, whole: bool = True) -> None:
        """A PNG file of the page."""
        data = self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)["data"]
        path.write_bytes(base64.b64decode(data))
