"""Asking Kubernetes' own scheduling framework: the Go program in oracle/, built once and kept running.

It is built with the version of Kubernetes that oracle/go.mod pins, and only where its sources have changed:

    python -m tests.conformance.real_framework

The first time takes six minutes of processor time. Who has no Go toolchain cannot ask, and tests are skipped.
"""

import contextlib
import itertools
import json
import os
import re
import subprocess
import threading
import types
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from tests.conformance.golden_rows import Row
from tools.controlplane import build_controlplane, go_programs

SOURCES = Path(__file__).parent / "oracle"
REPOSITORY = Path(__file__).parents[2]
MODULE = SOURCES / "go.mod"
BINARY = REPOSITORY / "build" / "oracle"
_VERSION = re.compile(r"^\s*k8s\.io/kubernetes (v\S+)", re.MULTILINE)
_TOOLCHAIN = re.compile(r"^toolchain (\S+)", re.MULTILINE)


class OracleError(RuntimeError):
    """The program cannot be built, or ended."""


def reference() -> str:
    """The version of Kubernetes that Trireme decides as, such as v1.38.0."""
    found = _VERSION.search(MODULE.read_text())
    assert found is not None
    return found.group(1)


def available() -> bool:
    """Whether the program is there, built from the sources as they are now."""
    return go_programs.is_built(BINARY, _digest())


def build() -> Path:
    """The program of the reference version, built if its sources have changed. Raises: OracleError."""
    digest = _digest()
    if not go_programs.is_built(BINARY, digest):
        # Without what debug tables are made of, a tenth less to compile.
        _compile(MODULE, reference(), BINARY, digest, "-gcflags=all=-dwarf=false")
    return BINARY


def build_version(version: str) -> Path:
    """The program of another version of Kubernetes, built with the modules of that version. Raises: OracleError."""
    try:
        modfile = build_controlplane.write_modfile(version, build_controlplane.download(version), BINARY.name)
    except SystemExit as error:
        raise OracleError(str(error)) from None
    binary = modfile.parent / BINARY.name
    # As its control plane is compiled, so that the two share what they have in common.
    _compile(modfile, version, binary, _digest(), "-mod=mod")
    return binary


def _compile(module: Path, version: str, binary: Path, inputs: str, *flags: str) -> None:
    """Compile and link the program with the modules that `module` requires. Raises: OracleError."""
    toolchain = _TOOLCHAIN.search(module.read_text())
    environment = {**os.environ, "GOTOOLCHAIN": toolchain.group(1) if toolchain else "auto"}
    linking = ("-ldflags", build_controlplane.ldflags(version))
    command = ("build", *flags, "-buildvcs=false", f"-modfile={module}", *linking)
    try:
        go_programs.compile_program(binary, inputs, command, SOURCES, environment=environment, quiet=True)
    except SystemExit as error:
        raise OracleError(f"the oracle is not built: {error}") from None


def _digest() -> str:
    inputs = [*sorted(SOURCES.glob("*.go")), MODULE, MODULE.with_suffix(".sum")]
    return go_programs.digest(path.read_bytes() for path in inputs)


def quantities(texts: Sequence[str]) -> list[dict[str, Any]]:
    """What apimachinery reads in the texts: `value`, `milli` and canonical `text`, or an `error`."""
    lines = "".join(json.dumps(text) + "\n" for text in texts)
    done = subprocess.run([str(build()), "-quantities"], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def selectors(device: Mapping[str, Any], expressions: Sequence[str]) -> list[dict[str, Any]]:
    """What Kubernetes makes of CEL selectors: `matches` and `cost`, or a `compile` or `runtime` error."""
    lines = "".join(json.dumps({"Expression": each, "Device": device}) + "\n" for each in expressions)
    done = subprocess.run([str(build()), "-selectors"], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


def placements(cases: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """What the framework makes of the answers of plugins at PlacementGenerate and PlacementFeasible, for each case."""
    lines = "".join(json.dumps(each) + "\n" for each in cases)
    done = subprocess.run([str(build()), "-placements"], input=lines, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.splitlines()]


class Oracle:
    """The running program; a context manager.

    Situations are asked `runs` times each, and what varies is left out. `gates` are feature gates that are on,
    whatever their default; those that a situation names are flipped besides. The program reads gates at its start
    alone, and so starts again where a situation has others than the one before.
    """

    def __init__(self, runs: int = 4, gates: Iterable[str] = (), binary: Path | None = None) -> None:
        """`binary`: the program of another version than the reference."""
        self._binary = binary
        self._runs = runs
        self._gates = dict.fromkeys(gates, True)
        self._flipped: Mapping[str, bool] = {}

    def __enter__(self) -> "Oracle":
        self._start({})
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: types.TracebackType | None
    ) -> None:
        self._stop()

    def _start(self, flipped: Mapping[str, bool]) -> None:
        stated = ",".join(f"{gate}={str(on).lower()}" for gate, on in {**self._gates, **flipped}.items())
        command = [str(self._binary or build()), "-runs", str(self._runs), "-feature-gates", stated]
        self._process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self._flipped = flipped

    def _stop(self) -> None:
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                with contextlib.suppress(BrokenPipeError):  # it crashed with rows unread
                    pipe.close()

    def ask(self, rows: Sequence[Row]) -> list[Row]:
        """The rows with `expect`, or with `error` where the framework itself fails."""
        answers: list[Row] = []
        for flipped, alike in itertools.groupby(rows, lambda row: row["case"].get("featureGates") or {}):
            if flipped != self._flipped:
                self._stop()
                self._start(flipped)
            answers += self._ask(list(alike))
        return answers

    def _ask(self, rows: Sequence[Row]) -> list[Row]:
        """The answers about rows with the same gates; the program starts again after a row that it crashes at."""
        answers: list[Row] = []
        while len(answers) < len(rows):
            sender = threading.Thread(target=self._send, args=(rows[len(answers) :],))
            sender.start()
            try:
                while len(answers) < len(rows) and (answer := self._answer()) is not None:
                    answers.append(answer)
            finally:
                sender.join()
            if len(answers) < len(rows):
                code = self._process.wait()
                answers.append({**rows[len(answers)], "error": f"the framework crashed, exit code {code}"})
                self._stop()
                self._start(self._flipped)
        return answers

    def _send(self, rows: Iterable[Row]) -> None:
        assert self._process.stdin is not None
        try:
            for row in rows:
                asked = {"name": row["name"], "case": row["case"]}
                self._process.stdin.write(json.dumps(asked, separators=(",", ":")).encode() + b"\n")
            self._process.stdin.flush()
        except BrokenPipeError:
            return  # it has crashed, which the missing answer shows

    def _answer(self) -> Row | None:
        """The next answer; None: the program has ended."""
        assert self._process.stdout is not None
        line = self._process.stdout.readline()
        answer: Row | None = json.loads(line) if line else None
        return answer


if __name__ == "__main__":
    print(f"oracle: {build().relative_to(REPOSITORY)} is up to date")
