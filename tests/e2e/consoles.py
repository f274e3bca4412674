"""A scheduler with its console and a browser, on `trireme up` with its demo, and what tests of the console share."""

import contextlib
import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from playwright import sync_api

from tests.e2e import installation
from tests.helpers import chromium
from trireme_kube.componentbase import clocks

REPOSITORY = Path(__file__).resolve().parents[2]
TRIREME = (sys.executable, "-u", str(REPOSITORY / "cmd/trireme"))
LIMIT_SECONDS = 3 * installation.START_SECONDS

# Pods that this selects nothing for wait for a reason of their own, also where another test has tainted a node: tests
# run in any order.
NOWHERE: Mapping[str, Any] = {"nodeSelector": {"nowhere": "true"}, "tolerations": [{"operator": "Exists"}]}

# By how many pixels a page is too wide.
OVERFLOW = "() => document.documentElement.scrollWidth - document.documentElement.clientWidth"

# What a panel cuts off at its right edge; what scrolls is not cut off.
CUT_OFF = """() => [...document.querySelectorAll(".panel *")]
    .filter((each) => each.checkVisibility() && !each.closest(".scroll, .rows, .chart, pre"))
    .filter((each) => each.getBoundingClientRect().right > each.closest(".panel").getBoundingClientRect().right + 1)
    .map((each) => `cut off: ${each.outerHTML.slice(0, 100)}`)"""


@dataclass
class World:
    """A running scheduler, the API of its cluster, its console, and the browser."""

    console: str
    api: str
    browser: chromium.Browser
    #: Where insight records.
    recordings: Path

    def call(self, method: str, path: str, body: Any = None, kind: str = "application/json") -> Any:
        """A request to the cluster's API; the answer's object."""
        request = urllib.request.Request(
            self.api + path,
            method=method,
            data=None if body is None else json.dumps(body).encode(),
            headers={"Content-Type": kind},
        )
        with urllib.request.urlopen(request, timeout=30) as answer:
            return json.load(answer)

    def moment_from_now_on(self) -> int:
        """A moment that is recorded, and behind what has happened so far: milliseconds since 1970."""
        known = round(clocks.wall() * 1000)
        newest = [0]

        def is_recorded() -> bool:
            with urllib.request.urlopen(f"{self.console}/v1/recording", timeout=60) as answer:
                newest[0] = json.load(answer)["toMs"]
            return newest[0] > known

        wait(is_recorded, lambda: f"recorded until {newest[0]}, wanted {known}")
        return newest[0]

    def create_pod(self, name: str, cpu: str, **spec: Any) -> None:
        """A pod of one container."""
        container = {"name": "main", "image": "pause", "resources": {"requests": {"cpu": cpu}}}
        body = {"metadata": {"name": name}, "spec": {"containers": [container], **spec}}
        self.call("POST", "/api/v1/namespaces/default/pods", body)

    @contextlib.contextmanager
    def pods(self, *names: str, cpu: str, **spec: Any) -> Iterator[None]:
        """Pods within the block: those of one test are not counted by the next one."""
        try:
            for name in names:
                self.create_pod(name, cpu, **spec)
            yield
        finally:
            for name in names:
                with contextlib.suppress(urllib.error.HTTPError):
                    self.call("DELETE", f"/api/v1/namespaces/default/pods/{name}")

    def patch_node(self, name: str, patch: Any) -> None:
        """A merge patch of a node."""
        self.call("PATCH", f"/api/v1/nodes/{name}", patch, "application/merge-patch+json")


def wait(true: Callable[[], Any], story: Callable[[], str]) -> None:
    """Return once `true` says so."""
    deadline = time.monotonic() + LIMIT_SECONDS
    while not true():
        assert time.monotonic() < deadline, story()
        time.sleep(0.1)


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    """A scheduler with 12 nodes whose demo is done, some of its pods waiting; and a browser."""
    folder = tmp_path_factory.mktemp("console")
    command = [*TRIREME, "up", "--nodes", "12", "--demo", "--record-dir", str(folder / "recordings")]
    up = installation.Process("up", [*command, "--feature-gates=GenericWorkload=true"], folder / "up.log")
    environment = {**os.environ, "TRIREME_SOCKET": str(folder / "admin.sock"), "XDG_STATE_HOME": str(folder / "state")}
    up.start(environment)
    try:
        wait(lambda: "demo: giant-" in up.said, lambda: up.said)
        (console,) = re.findall(r"the console: (http://\S+)/", up.said)
        (api,) = re.findall(r"embedded cluster with 12 nodes at (http://\S+)", up.said)
        with chromium.browser(folder / "browser") as browser:
            yield World(console, api, browser, folder / "recordings" / "insight")
    finally:
        up.signal(signal.SIGINT)
        up.stop()


@pytest.fixture(scope="module")
def axe() -> None:
    """The accessibility checker, from npm."""
    if chromium.AXE.exists():
        return
    if shutil.which("npm") is None:
        pytest.skip("npm is not installed: axe cannot be")
    install = ["npm", "ci", "--silent", "--ignore-scripts"]
    done = subprocess.run(install, cwd=REPOSITORY / "console", capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"npm cannot install axe: {done.stderr[-300:]}")


def expect(locator: sync_api.Locator) -> sync_api.LocatorAssertions:
    return sync_api.expect(locator)


def reason(page: sync_api.Page, title: str) -> sync_api.Locator:
    """The row of the pods that wait for this reason: the title is all of its name, not a part of another one."""
    name = page.locator(".name", has_text=re.compile(f"^{re.escape(title)}$"))
    return page.locator(".reasons").get_by_role("link").filter(has=name)
