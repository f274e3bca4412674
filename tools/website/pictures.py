"""The pictures of the documents, from a real run of `trireme up`: `make pictures` writes docs/images.

The terminal's picture is an SVG in which each command and its output appear in turn; where it cannot move, all is
shown. The others are pages of the console in Chromium.
"""

import contextlib
import html
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence

from tests.helpers import chromium
from trireme_kube.componentbase import clocks

_ROOT = pathlib.Path(__file__).parents[2]
_IMAGES = _ROOT / "docs/images"
_PROGRAM = pathlib.Path(sys.executable).with_name("trireme")
_START_SECONDS = 120.0
# Until charts have something to show, and something is recorded.
_WATCH_SECONDS = 45.0

_COLUMNS = 100
_LINE, _CHARACTER, _MARGIN = 19, 8.43, 16
_SECONDS_TO_READ = 3


def main() -> None:
    """Write all pictures."""
    with tempfile.TemporaryDirectory() as folder, _cluster(pathlib.Path(folder)) as (console, environment):
        time.sleep(_WATCH_SECONDS)
        pod = _pending_pod(environment)
        commands = (["status"], ["explain", pod, "--proposals"])
        ran = [(f"trireme {' '.join(each)}", _run(each, environment)) for each in commands]
        (_IMAGES / "terminal.svg").write_text(_terminal(ran))
        pages = {
            "console-overview.png": ("#/", False),
            "console-pod.png": (f"#/pods/{pod}", False),
            "console-nodes-dark.png": ("#/nodes", True),
            "console-recording.png": (f"?at={round(clocks.wall() * 1000) - 20_000}#/pending", False),
        }
        with chromium.browser(pathlib.Path(folder) / "browser") as browser:
            for name, (path, dark) in pages.items():
                with browser.page(dark=dark) as page:
                    page.goto(f"{console}{path}")
                    page.wait_for_load_state("networkidle")
                    page.wait_for_timeout(3000)
                    page.screenshot(path=_IMAGES / name)


@contextlib.contextmanager
def _cluster(folder: pathlib.Path) -> Iterator[tuple[str, Mapping[str, str]]]:
    """The console's address, and the environment in which `trireme` finds the running scheduler."""
    environment = {
        **os.environ,
        "XDG_STATE_HOME": str(folder / "state"),
        "TRIREME_SOCKET": str(folder / "admin.sock"),
        "COLUMNS": str(_COLUMNS),
    }
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(
            [_PROGRAM, "up", "--demo"], env=environment, stdout=output, stderr=output, start_new_session=True
        )
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not (found := re.search(r"the console: (\S+)", log.read_text(errors="replace"))):
            assert time.monotonic() < deadline, log.read_text(errors="replace")[-2000:]
            time.sleep(0.2)
        yield found[1], environment
    finally:
        os.killpg(process.pid, signal.SIGINT)
        process.wait(60)


def _run(arguments: Sequence[str], environment: Mapping[str, str]) -> str:
    """What a command prints."""
    return subprocess.run(
        [_PROGRAM, *arguments], env=environment, check=True, capture_output=True, text=True, timeout=60
    ).stdout


def _pending_pod(environment: Mapping[str, str]) -> str:
    pending = json.loads(_run(["status", "-o", "json"], environment))["pending"]
    return "{namespace}/{name}".format(**pending[0]["pod"])


def _terminal(ran: Sequence[tuple[str, str]]) -> str:
    """A terminal's window in which each command is followed by its output."""
    parts, row, second = [], 0, 0
    for command, output in ran:
        parts.append(_appearing([f"$ {command}"], row, second, "command"))
        lines = [line[:_COLUMNS] for line in output.rstrip().splitlines()]
        parts.append(_appearing(lines, row + 1, second + 1, "output"))
        row += len(lines) + 2
        second += _SECONDS_TO_READ + 1
    width, height = round(_COLUMNS * _CHARACTER + 2 * _MARGIN), row * _LINE + 2 * _MARGIN
    style = (
        "text{font:14px ui-monospace,Menlo,Consolas,'DejaVu Sans Mono',monospace;white-space:pre;fill:#d6deeb}"
        ".command text{fill:#7fdbca;font-weight:bold}"
    )
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img">'
        f"<title>{html.escape(', '.join(command for command, _ in ran))}</title><style>{style}</style>"
        f'<rect width="{width}" height="{height}" rx="8" fill="#0b1526"/>{"".join(parts)}</svg>\n'
    )


def _appearing(lines: Sequence[str], row: int, second: int, kind: str) -> str:
    """Lines that are hidden until the second."""
    texts = "".join(
        f'<text x="{_MARGIN}" y="{_MARGIN + (row + number) * _LINE + 14}" xml:space="preserve" '
        f'textLength="{round(len(line) * _CHARACTER, 1)}">{html.escape(line)}</text>\n'
        for number, line in enumerate(lines)
        if line
    )
    hidden = f'<set attributeName="opacity" to="0" begin="0s" dur="{second}s"/>' if second else ""
    return f'<g class="{kind}">{hidden}{texts}</g>'


if __name__ == "__main__":
    main()
