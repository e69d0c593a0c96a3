"""A headless Chromium, driven through a pipe by the Chrome DevTools Protocol.

The standard library suffices: messages are JSON, ended by a NUL, on two pipes that the browser
finds as descriptors 3 and 4. One page at a time.
"""

import base64
import fcntl
import json
import os
import shutil
import subprocess
import tempfile

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
OPTIONS = ("--headless=new", "--remote-debugging-pipe", "--no-sandbox", "--disable-gpu",
           "--disable-dev-shm-usage", "--no-first-run", "--disable-extensions",
           "--disable-background-networking", "--disable-component-update", "--hide-scrollbars",
           "--force-device-scale-factor=1")


def find_browser():
    """The path of a Chromium, or None."""
    return next(filter(None, map(shutil.which, NAMES)), None)


class Browser:
    def __init__(self, path):
        self._folder = tempfile.TemporaryDirectory(prefix="coppice_browser_")
        read_by_browser, self._write = os.pipe()
        self._read, written_by_browser = os.pipe()
        # Where 3 and 4 are among the pipes' own numbers, neither copy may hit the other.
        ends = [fcntl.fcntl(end, fcntl.F_DUPFD, 10) for end in (read_by_browser,
                                                                written_by_browser)]

        def place_ends():
            os.dup2(ends[0], 3)
            os.dup2(ends[1], 4)

        self._process = subprocess.Popen(
            [path, *OPTIONS, f"--user-data-dir={self._folder.name}", "about:blank"],
            preexec_fn=place_ends, pass_fds=(3, 4), stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL)
        for end in (*ends, read_by_browser, written_by_browser):
            os.close(end)
        self._buffer = b""
        self._count = 0
        self._session = None
        self.events = []
        target = self.call("Target.createTarget", url="about:blank")["targetId"]
        self._session = self.call("Target.attachToTarget", targetId=target,
                                  flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self.call(f"{domain}.enable")

    def __enter__(self):
        return self

    def __exit__(self, *unused):
        os.close(self._write)  # The browser ends with its pipe.
        self._process.kill()
        self._process.wait()
        os.close(self._read)
        shutil.rmtree(self._folder.name, ignore_errors=True)
        self._folder.cleanup()

    def call(self, method, **parameters):
        """Calls the protocol; returns the result. What happens meanwhile goes to `events`."""
        self._count += 1
        message = {"id": self._count, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        self._send(message)
        while True:
            answer = self._receive()
            if answer.get("id") != self._count:
                self.events.append(answer)
            elif "error" in answer:
                raise RuntimeError(f"{method}: {answer['error']}")
            else:
                return answer["result"]

    def _send(self, message):
        data = json.dumps(message).encode() + b"\0"
        while data:
            data = data[os.write(self._write, data):]

    def _receive(self):
        parts = []
        while b"\0" not in self._buffer:
            parts.append(self._buffer)
            self._buffer = os.read(self._read, 1 << 20)
            if not self._buffer:
                raise RuntimeError("the browser ended")
        end, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(b"".join(parts) + end)

    def evaluate(self, expression):
        """The value of an expression of JavaScript, a promise's when it has one."""
        result = self.call("Runtime.evaluate", expression=expression, returnByValue=True,
                           awaitPromise=True)
        if "exceptionDetails" in result:
            raise RuntimeError(json.dumps(result["exceptionDetails"]))
        return result["result"].get("value")

    def open(self, url, loaded="true"):
        """Opens a page, and returns once it is loaded and `loaded` is true in it."""
        self.events.clear()
        self.call("Page.navigate", url=url)
        while not any(event.get("method") == "Page.loadEventFired" for event in self.events):
            self.events.append(self._receive())
        self.evaluate(f"new Promise((done) => {{ const look = () => {{ if ({loaded}) done(true);"
                      " else setTimeout(look, 10); }; look(); })")

    def errors(self):
        """What the console says is wrong since the page was opened."""
        found = []
        for event in self.events:
            method, parameters = event.get("method"), event.get("params", {})
            if method == "Runtime.exceptionThrown":
                found.append(json.dumps(parameters["exceptionDetails"]))
            elif method == "Log.entryAdded" and parameters["entry"]["level"] == "error":
                found.append(parameters["entry"]["text"])
            elif method == "Runtime.consoleAPICalled" and parameters["type"] in ("error", "assert"):
                found.append(json.dumps(parameters["args"]))
        return found

    def requests(self):
        """Addresses that the page asked for since it was opened."""
        return [event["params"]["request"]["url"] for event in self.events
                if event.get("method") == "Network.requestWillBeSent"]

    def show(self, width=1280, height=900, dark=False, media="screen"):
        """How the page is seen from here on."""
        self.call("Emulation.setDeviceMetricsOverride", width=width, height=height,
                  deviceScaleFactor=1, mobile=False)
        self.call("Emulation.setEmulatedMedia", media=media, features=[
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"}])

    def screenshot(self, **parameters):
        """A PNG of what is seen."""
        return base64.b64decode(self.call("Page.captureScreenshot", **parameters)["data"])
