"""The commands that the documents show, run as a reader would type them.

A fenced block marked `sh run` is commands that end with 0; one marked `sh serve` is programs that go on, a line each,
started together. Configuration files of the same document, blocks whose first line is `# NAME.yaml`, are written first.
Both run in a copy of the checkout's folder structure, while `make up` of the README (`sh up`) runs beside. The
mark of other commands says why they are not run here: `_NOT_RUN`.
"""

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tools.controlplane import ports

REPOSITORY = pathlib.Path(__file__).parents[2]
DOCUMENTS = [
    REPOSITORY / "README.md",
    *sorted((REPOSITORY / "docs").glob("*.md")),
    REPOSITORY / "docs/tutorials/laptop.md",
    REPOSITORY / "docs/tutorials/replacing.md",
    *sorted((REPOSITORY / "examples").glob("*/README.md")),
]
_BLOCK = re.compile(r"^```(.*)\n((?:.*\n)*?)^```$", re.MULTILINE)
# Marks of commands that are not run by these tests, with the reason.
_NOT_RUN = {
    "cluster": "needs a real cluster, or a program for it such as Helm or promtool",
    "files": "names files, recordings or plugins of the reader's own",
    "minutes": "takes minutes; it is a target of make that CI or a maintainer runs",
    "signed": "is run by tools/release/signing.py",
    "shown": "repeats a command that another block runs, with what it printed",
    "tutorial": "is run by test_plugin_tutorials.py",
}
_RUN = ("run", "serve", "up")
_FILE = re.compile(r"# (\w+\.yaml)\n")
# What each program prints once it works.
_READY = re.compile(r"listening on |successfully acquired lease|demo: giant", re.IGNORECASE)
PATIENCE_SECONDS = 120.0


@dataclass(frozen=True)
class Block:
    """A marked block: where it is, and its text."""

    document: pathlib.Path
    mark: str
    text: str

    def __str__(self) -> str:
        first = self.text.splitlines()[0].split("#")[0].strip()
        return f"{self.document.relative_to(REPOSITORY)}: {first}"


def _blocks(mark: str) -> list[Block]:
    found = [(document, block) for document in DOCUMENTS for block in _BLOCK.findall(document.read_text())]
    return [Block(document, info, text) for document, (info, text) in found if info == mark]


@dataclass
class Reader:
    """Someone who follows the documents in a folder of their own."""

    folder: pathlib.Path
    environment: dict[str, str]
    ports: dict[str, int]

    def adapted(self, text: str) -> str:
        """The text with what is particular to this reader: the kubeconfig, a pod, ports that are free."""
        text = re.sub(r"/home/me/.kube/config|~/.kube/config", self.environment["KUBECONFIG"], text)
        return re.sub(r"127\.0\.0\.1:(\d+)", lambda found: f"127.0.0.1:{self._port(found[1])}", text)

    def write_files(self, document: pathlib.Path) -> None:
        """The configuration files that the document shows."""
        for _, text in _BLOCK.findall(document.read_text()):
            if named := _FILE.match(text):
                (self.folder / named[1]).write_text(self.adapted(text))
        for example in (REPOSITORY / "examples").glob("*.yaml"):
            (self.folder / "examples" / example.name).write_text(self.adapted(example.read_text()))

    def _port(self, written: str) -> int:
        if written not in self.ports:
            (self.ports[written],) = ports.free_ports(1)
        return self.ports[written]

    @contextlib.contextmanager
    def started(self, command: str) -> Iterator[pathlib.Path]:
        """A program that goes on; its output."""
        log = self.folder / f"{len(list(self.folder.glob('*.log')))}.log"
        with log.open("wb") as output:
            process = subprocess.Popen(
                ["bash", "-c", command], cwd=self.folder, env=self.environment, stdin=subprocess.DEVNULL,
                stdout=output, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        try:
            yield log
        finally:
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
                with contextlib.suppress(ProcessLookupError):
                    os.killpg(process.pid, number)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(30)
                    break


def _ready(log: pathlib.Path) -> None:
    deadline = time.monotonic() + PATIENCE_SECONDS
    while not _READY.search(log.read_text(errors="replace")):
        assert time.monotonic() < deadline, log.read_text(errors="replace")[-3000:]
        time.sleep(0.1)


@pytest.fixture(scope="module")
def reader(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Reader]:
    """A reader beside whom `make up` runs, as the README begins."""
    # Where pyproject.toml is newer than .venv, `make up` would install into it from the folder of links.
    subprocess.run(["make", "setup"], cwd=REPOSITORY, check=True)
    folder = tmp_path_factory.mktemp("reader")
    for entry in REPOSITORY.iterdir():
        if entry.name not in (".git", "examples"):
            (folder / entry.name).symlink_to(entry)
    (folder / "examples").mkdir()
    for entry in (REPOSITORY / "examples").iterdir():
        if entry.is_dir():
            (folder / "examples" / entry.name).symlink_to(entry)
    environment = {
        **os.environ,
        "XDG_STATE_HOME": str(folder / "state"),
        "TRIREME_SOCKET": str(folder / "admin.sock"),
        "KUBECONFIG": str(folder / "state/trireme/kubeconfig"),
        "PATH": f"{REPOSITORY / '.venv/bin'}{os.pathsep}{os.environ['PATH']}",
    }
    reader = Reader(folder, environment, {})
    with reader.started("make up NODES=20") as log:
        _ready(log)
        yield reader


def _pending_pod(reader: Reader) -> str:
    """One that the scheduler knows; the services listen before the frontend answers and has seen the sample pods."""
    deadline = time.monotonic() + PATIENCE_SECONDS
    while True:
        status = subprocess.run(
            ["trireme", "status", "-o", "json"], env=reader.environment, capture_output=True, check=False, timeout=60
        )
        if status.returncode == 0 and (pending := json.loads(status.stdout)["pending"]):
            return "{namespace}/{name}".format(**pending[0]["pod"])
        assert time.monotonic() < deadline, status
        time.sleep(0.2)


@pytest.mark.slow
@pytest.mark.timeout(400)
@pytest.mark.parametrize("block", _blocks("sh run"), ids=str)
def test_commands_that_end(block: Block, reader: Reader) -> None:
    """A reader would copy a command that fails."""
    reader.write_files(block.document)
    text = re.sub(r"\bPOD\b", _pending_pod(reader), reader.adapted(block.text))
    done = subprocess.run(
        ["bash", "-euo", "pipefail", "-c", text], cwd=reader.folder, env=reader.environment, capture_output=True,
        text=True, stdin=subprocess.DEVNULL, timeout=PATIENCE_SECONDS, check=False,
    )  # fmt: skip
    assert done.returncode == 0, f"{text}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}"


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("block", _blocks("sh serve"), ids=str)
def test_programs_that_go_on(block: Block, reader: Reader) -> None:
    """A reader would start a program that ends at once, or never does what the document says."""
    reader.write_files(block.document)
    with contextlib.ExitStack() as stack:
        for command in reader.adapted(block.text).splitlines():
            log = stack.enter_context(reader.started(command))
            _ready(log)


def test_a_command_says_whether_it_is_run_and_why_not() -> None:
    """A command without a mark is one that nobody has tried since it was written."""
    pages = [REPOSITORY / "README.md", REPOSITORY / "deploy/chart/README.md", *(REPOSITORY / "docs").rglob("*.md")]
    marks = {f"{language} {mark}" for language in ("sh", "console") for mark in (*_RUN, *_NOT_RUN)}
    blocks = [(page, info) for page in pages for info, _ in _BLOCK.findall(page.read_text())]
    commands = [(page, info) for page, info in blocks if info.split(" ")[0] in ("", "sh", "console")]
    assert len(commands) > 50
    assert [(page.name, info) for page, info in commands if info not in marks] == []


def test_commands_are_marked() -> None:
    """A marker that nobody writes any more would leave nothing to be run."""
    assert len(_blocks("sh run")) >= 3
    assert len(_blocks("sh serve")) >= 3
