"""A real browser without a window, driven through pipes by the DevTools protocol: nothing but the standard library in between."""

from __future__ import annotations

import base64
import contextlib
import json
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
FLAGS = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--hide-scrollbars",
    "--no-first-run",
    "--disable-extensions",
    "--disable-background-networking",
    "--disable-component-update",
    "--remote-debugging-pipe",
)
START_S, ANSWER_S = 60, 40


class Browser:
    """One browser with one page.

    Args:
        program: what is started.
        folder: where it keeps its things.
    """

    def __init__(self, program: str, folder: Path):
        # The browser reads what it is asked from descriptor 3 and answers on 4.
        ask_read, self._ask = os.pipe()
        self._answer, answer_write = os.pipe()
        wiring = 'exec 3<&"$1" 4>&"$2"; shift 2; exec "$@"'
        command = [
            "bash",
            "-c",
            wiring,
            "bash",
            str(ask_read),
            str(answer_write),
            program,
            *FLAGS,
            f"--user-data-dir={folder}",
            "about:blank",
        ]
        environment = {**os.environ, "HOME": str(folder)}
        self._process = subprocess.Popen(
            command,
            pass_fds=(ask_read, answer_write),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
            env=environment,
        )
        os.close(ask_read)
        os.close(answer_write)
        self._number, self._read, self._session = 0, b"", None
        self.events: list[dict[str, Any]] = []
        targets = self.send("Target.getTargets", within=START_S)["targetInfos"]
        page = next(target["targetId"] for target in targets if target["type"] == "page")
        self._session = self.send("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log", "Accessibility"):
            self.send(f"{domain}.enable")

    def send(self, method: str, within: float = ANSWER_S, **params: Any) -> dict[str, Any]:
        """Asks, and waits for the answer; events that come before it are kept."""
        self._number += 1
        message = {"id": self._number, "method": method, "params": params, **({"sessionId": self._session} if self._session else {})}
        os.write(self._ask, json.dumps(message).encode() + b"\0")
        found = self._until(lambda answer: answer.get("id") == self._number, within, method)
        assert "error" not in found, f"{method}: {found.get('error')}"
        return found["result"]

    def open(self, path: Path, width: int = 1180, height: int = 900, scheme: str = "light", script: bool = True) -> None:
        """Loads a file in a window of a size, light or dark."""
        self.events.clear()
        self.send("Emulation.setScriptExecutionDisabled", value=not script)
        self.send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600)
        self.send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}])
        self.send("Page.navigate", url=path.as_uri())
        if not any(event["method"] == "Page.loadEventFired" for event in self.events):
            self._until(lambda answer: answer.get("method") == "Page.loadEventFired", ANSWER_S, "load")

    def value(self, expression: str) -> Any:
        """What an expression of the page is, waited for if it is a promise."""
        answer = self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in answer, answer["exceptionDetails"]
        return answer["result"].get("value")

    def press(self, key: str, shift: bool = False) -> None:
        """A key of the keyboard, down and up."""
        codes = {"Tab": 9, "Enter": 13, "Space": 32}
        name, text = (" ", " ") if key == "Space" else (key, "\r" if key == "Enter" else "")
        shared = dict(key=name, code=key, windowsVirtualKeyCode=codes[key], modifiers=8 if shift else 0)
        self.send("Input.dispatchKeyEvent", type="keyDown", **shared, **({"text": text} if text else {}))
        self.send("Input.dispatchKeyEvent", type="keyUp", **shared)

    def type(self, text: str) -> None:
        """Text into what has the focus."""
        self.send("Input.insertText", text=text)

    def screenshot(self, height: int | None = None) -> bytes:
        """The page as PNG: as much of it as the window shows, or from its top to a height."""
        clip = {}
        if height:
            width = self.value("innerWidth")
            clip = dict(clip=dict(x=0, y=0, width=width, height=height, scale=1), captureBeyondViewport=True)
        return base64.b64decode(self.send("Page.captureScreenshot", format="png", **clip)["data"])

    def complaints(self) -> list[str]:
        """What the page wrote to the console, what broke in it, and what the browser says of it."""
        kinds = {"Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded"}
        return [json.dumps(event["params"])[:500] for event in self.events if event["method"] in kinds]

    def requests(self) -> list[str]:
        """Everything that was asked for since the page was opened."""
        return [event["params"]["request"]["url"] for event in self.events if event["method"] == "Network.requestWillBeSent"]

    def close(self) -> None:
        """Ends the browser and its children."""
        with contextlib.suppress(OSError):
            os.write(self._ask, b'{"id":0,"method":"Browser.close"}\0')
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(10)
        with contextlib.suppress(OSError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait(10)
        os.close(self._ask)
        os.close(self._answer)

    def _until(self, wanted: Callable[[dict[str, Any]], bool], within: float, what: str) -> dict[str, Any]:
        end = time.monotonic() + within
        while True:
            while b"\0" in self._read:
                line, _, self._read = self._read.partition(b"\0")
                answer = json.loads(line)
                if "method" in answer:
                    self.events.append(answer)
                if wanted(answer):
                    return answer
            if not select.select([self._answer], [], [], max(end - time.monotonic(), 0))[0]:
                raise TimeoutError(f"the browser did not answer {what} within {within} s")
            more = os.read(self._answer, 1 << 20)
            if not more:
                raise RuntimeError(f"the browser ended while asked {what}")
            self._read += more
