"""A real Chromium for tests of pages: Debian's package, driven by Playwright; collects what pages load and report.

Also change: console/package.json (the version of axe-core).
"""

import contextlib
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from playwright import sync_api

PATH = shutil.which("chromium")
MISSING = "chromium is not installed (Debian: apt-get install chromium): pages are not tried in a browser"
AXE = Path(__file__).resolve().parents[2] / "console" / "node_modules" / "axe-core" / "axe.min.js"

# How long a page may take on a machine that others use as well: seconds.
PATIENCE_SECONDS = 60.0

# Nothing beside what a page itself asks for goes over the network.
FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)


@dataclass
class Browser:
    """A running Chromium, and what its last page did: addresses that it loaded, and errors and warnings."""

    chromium: sync_api.Browser
    loaded: list[str] = field(default_factory=list)
    complaints: list[str] = field(default_factory=list)

    @contextlib.contextmanager
    def page(self, *, width: int = 1280, height: int = 860, dark: bool = False, **more: Any) -> Iterator[sync_api.Page]:
        """A page in a profile of its own; its requests and complaints are collected, and those of earlier pages go."""
        self.loaded, self.complaints = [], []
        context = self.chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light", **more
        )
        try:
            made = context.new_page()
            made.set_default_timeout(PATIENCE_SECONDS * 1000)
            made.on("request", lambda request: self.loaded.append(request.url))
            made.on("console", self._take_message)
            made.on("pageerror", lambda error: self.complaints.append(str(error)))
            yield made
        finally:
            context.close()

    def _take_message(self, message: sync_api.ConsoleMessage) -> None:
        """Collect what the browser complains of, violations of the page's policy among it."""
        if message.type in ("error", "warning"):
            self.complaints.append(message.text)


@contextlib.contextmanager
def browser(folder: Path) -> Iterator[Browser]:
    """A Chromium with a new profile; `folder` is where Playwright and Chromium may write."""
    folder.mkdir(exist_ok=True)
    # The patience with a page; five seconds by default, which a busy machine may take for one answer.
    sync_api.expect.set_options(timeout=PATIENCE_SECONDS * 1000)
    with sync_api.sync_playwright() as playwright:
        running = playwright.chromium.launch(
            executable_path=PATH, args=list(FLAGS), env={"HOME": str(folder), "TMPDIR": str(folder)}
        )
        try:
            yield Browser(running)
        finally:
            running.close()


def accessibility_problems(page: sync_api.Page) -> list[str]:
    """What axe finds on the page as it is: rule, and the elements at fault.

    The checker is run by the browser's debugger, which the page's policy does not concern.
    """
    page.evaluate(AXE.read_text())
    found = page.evaluate("() => axe.run(document, {resultTypes: ['violations']})")
    return [
        f"{violation['id']}: {violation['help']}: {[node['html'][:120] for node in violation['nodes'][:3]]}"
        for violation in found["violations"]
    ]
