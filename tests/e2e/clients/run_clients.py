"""Clients of Kubernetes against the embedded cluster: `make clients`, or `run_clients.py NAME...` for some of them.

Every client tells the same story in a namespace of its own: it lists the nodes, follows pods while a Deployment is
created, scaled and deleted, reads a log as text, defines a kind and writes an object of it and its status. Trireme
schedules the pods. Each client comes from its registry by its own package manager and is built into build/clients; one
whose tools are not installed is named as skipped.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tools.programs import build_programs

HERE = Path(__file__).resolve().parent
REPOSITORY = HERE.parents[2]
BUILD = REPOSITORY / "build" / "clients"
CONTROLPLANE = REPOSITORY / "build" / "controlplane"
_START_SECONDS, _STORY_SECONDS, _BUILD_SECONDS = 60.0, 300.0, 1800.0


class Unprepared(Exception):
    """A client cannot be built here."""


@dataclasses.dataclass(frozen=True)
class Client:
    """One of them."""

    name: str
    tools: tuple[str, ...]
    """Programs that building it takes."""
    prepare: Callable[[], Sequence[str]]
    """Builds it; answers the command that tells the story."""


def _build(*command: str, folder: Path, **environment: str) -> None:
    done = subprocess.run(
        command,
        cwd=folder,
        env={**os.environ, **environment},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=_BUILD_SECONDS,
        check=False,
    )
    if done.returncode != 0:
        raise Unprepared(f"{' '.join(command)} ended with {done.returncode}\n{done.stdout[-3000:]}")


def _kubectl() -> Path:
    """A script that is kubectl: the one in the control plane's binary, or the one that is installed."""
    program = BUILD / "kubectl"
    BUILD.mkdir(parents=True, exist_ok=True)
    found = shutil.which("kubectl")
    if not CONTROLPLANE.exists() and found is None:
        raise Unprepared("no kubectl: run `make controlplane`, or install one")
    command = f'"{CONTROLPLANE}" kubectl' if CONTROLPLANE.exists() else f'"{found}"'
    program.write_text(f'#!/bin/sh\nexec {command} "$@"\n')
    program.chmod(0o755)
    return program


def _prepare_kubectl() -> Sequence[str]:
    return ["env", f"KUBECTL={_kubectl()}", str(HERE / "story_of_kubectl.sh")]


def _prepare_helm() -> Sequence[str]:
    build_programs.build()
    variables = [f"HELM={build_programs.HELM}", f"CHART={HERE / 'helm' / 'chart'}", f"KUBECTL={_kubectl()}"]
    return ["env", *variables, str(HERE / "story_of_helm.sh")]


def _prepare_javascript() -> Sequence[str]:
    folder = BUILD / "javascript"
    folder.mkdir(parents=True, exist_ok=True)
    for name in ("package.json", "package-lock.json", "client.mjs"):
        shutil.copy(HERE / "javascript" / name, folder / name)
    _build("npm", "ci", "--no-audit", "--no-fund", folder=folder)
    return ["node", str(folder / "client.mjs")]


def _prepare_java() -> Sequence[str]:
    folder = BUILD / "java"
    goals = ["compile", "dependency:build-classpath", f"-Dmdep.outputFile={folder / 'classpath'}"]
    _build("mvn", "-q", "-B", f"-Doutput={folder}", *goals, folder=HERE / "java")
    classes = f"{folder / 'classes'}:{(folder / 'classpath').read_text().strip()}"
    return ["java", "-classpath", classes, "dev.trireme.Client"]


def _prepare_go() -> Sequence[str]:
    program = BUILD / "go-client"
    _build("go", "build", "-o", str(program), ".", folder=HERE / "go")
    return [str(program)]


def _prepare_rust() -> Sequence[str]:
    folder = BUILD / "rust"
    _build("cargo", "build", "--locked", folder=HERE / "rust", CARGO_TARGET_DIR=str(folder))
    return [str(folder / "debug" / "trireme-client-test")]


def _prepare_python() -> Sequence[str]:
    python = BUILD / "python" / "bin" / "python"
    if not python.exists():
        _build(sys.executable, "-m", "venv", str(BUILD / "python"), folder=HERE)
    requirements = str(HERE / "python" / "requirements.txt")
    _build(str(python), "-m", "pip", "install", "-q", "--disable-pip-version-check", "-r", requirements, folder=HERE)
    return [str(python), str(HERE / "python" / "client.py")]


CLIENTS = (
    Client("kubectl", (), _prepare_kubectl),
    Client("helm", ("go",), _prepare_helm),
    Client("javascript", ("npm", "node"), _prepare_javascript),
    Client("java", ("mvn", "java"), _prepare_java),
    Client("go", ("go",), _prepare_go),
    Client("rust", ("cargo",), _prepare_rust),
    Client("python", (), _prepare_python),
)


@contextlib.contextmanager
def _process(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[str]]:
    with log.open("w") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT, text=True, cwd=REPOSITORY)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(_START_SECONDS)


def _wait_for(check: Callable[[], bool], log: Path, process: subprocess.Popen[str]) -> None:
    end = time.monotonic() + _START_SECONDS
    while not check():
        if time.monotonic() > end or process.poll() is not None:
            raise SystemExit(f"clients: {log.name} says\n{log.read_text()[-3000:]}")
        time.sleep(0.05)


@contextlib.contextmanager
def _cluster(folder: Path) -> Iterator[Path]:
    """An embedded cluster of three nodes and Trireme; answers its kubeconfig."""
    kubeconfig, cluster_log, scheduler_log = folder / "kubeconfig", folder / "cluster.log", folder / "scheduler.log"
    cluster = [sys.executable, "-u", "-m", "trireme_kube.embedded", "--nodes", "3", "--kubeconfig", str(kubeconfig)]
    scheduler = [sys.executable, "-u", str(REPOSITORY / "cmd" / "trireme"), "up", "--kubeconfig", str(kubeconfig)]
    with _process(cluster, cluster_log) as serving:
        _wait_for(kubeconfig.exists, cluster_log, serving)
        with _process(scheduler, scheduler_log) as scheduling:
            _wait_for(lambda: "[nodes 3 " in scheduler_log.read_text(), scheduler_log, scheduling)
            yield kubeconfig
    complaints = [line for line in cluster_log.read_text().splitlines() if "Traceback" in line or " failed" in line]
    if complaints:
        raise SystemExit(f"clients: the embedded cluster failed at a request\n{cluster_log.read_text()[-3000:]}")


def _tell(client: Client, kubeconfig: Path, folder: Path) -> str:
    """Runs a client's story; answers how it ended."""
    missing = [tool for tool in client.tools if shutil.which(tool) is None]
    if missing:
        return f"skipped: {', '.join(missing)} not installed"
    try:
        command = client.prepare()
    except Unprepared as error:
        return f"FAILED to build: {error}"
    environment = {**os.environ, "KUBECONFIG": str(kubeconfig), "HOME": str(folder), "CLIENTS_FOLDER": str(folder)}
    began = time.monotonic()
    try:
        done = subprocess.run(
            command,
            env=environment,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=_STORY_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired as error:
        said = error.stdout.decode() if isinstance(error.stdout, bytes) else error.stdout or ""
        return f"FAILED: not within {_STORY_SECONDS:.0f} s\n{said[-3000:]}"
    if done.returncode != 0:
        return f"FAILED with exit code {done.returncode}\n{done.stdout[-3000:]}"
    return f"ok, {time.monotonic() - began:.1f} s"


def main(names: Sequence[str]) -> int:
    """Runs the clients named, or all; answers the exit code."""
    known = {client.name: client for client in CLIENTS}
    if unknown := [name for name in names if name not in known]:
        print(f"clients: no {', '.join(unknown)}; there are {', '.join(known)}", file=sys.stderr)
        return 2
    chosen = [known[name] for name in names] or CLIENTS
    failed = False
    with tempfile.TemporaryDirectory(prefix="trireme-clients-") as name, _cluster(Path(name)) as kubeconfig:
        for client in chosen:
            outcome = _tell(client, kubeconfig, Path(name))
            failed = failed or outcome.startswith("FAILED")
            print(f"{client.name:<11} {outcome}", flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
