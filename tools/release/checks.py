"""What is checked of a release: that each of its parts works as a stranger uses it, and what it consists of.

Also change: internal/trireme/cli/frontend_connection.py (where the socket is).
Also change: internal/trireme/cli/up.py (the command line of trireme up).
"""

import contextlib
import datetime
import importlib.metadata
import json
import os
import re
import subprocess
import sys
import tarfile
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spdx_tools.common.spdx_licensing import spdx_licensing
from spdx_tools.spdx import model
from spdx_tools.spdx.parser.jsonlikedict.json_like_dict_parser import JsonLikeDictParser
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
from spdx_tools.spdx.writer.json import json_writer

from tools.image import container
from tools.release import versions

_START_SECONDS = 120.0
_NAME = re.compile(r"[A-Za-z0-9._-]+")


class CheckError(Exception):
    """A part of the release is not as it has to be."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """An installed distribution; `needs` are the names that it requires, without extras."""

    name: str
    version: str
    licence: str
    needs: tuple[str, ...]


def install_by_pipx(python: Path, wheel: Path, folder: Path) -> Path:
    """Install the wheel by an environment's pipx, with its commands in folder/bin; its Python. Raises: CheckError."""
    places = {"PIPX_HOME": str(folder / "pipx-home"), "PIPX_BIN_DIR": str(folder / "bin")}
    _run([python, "-m", "pipx", "install", wheel], folder, {**os.environ, **places})
    return folder / "pipx-home/venvs/trireme-scheduler/bin/python"


def scheduler_runs(commands: Path) -> None:
    """Start `trireme up` of an environment, and return once it schedules. Raises: CheckError."""
    with tempfile.TemporaryDirectory(prefix="trireme-up-") as folder:
        environment = {"PATH": f"{commands}{os.pathsep}/usr/bin:/bin", "HOME": folder}
        environment |= {"TRIREME_SOCKET": f"{folder}/admin.sock", "XDG_STATE_HOME": folder}
        status: list[str | Path] = [commands / "trireme", "status", "--output", "json"]

        def schedules() -> bool:
            asked = subprocess.run(status, capture_output=True, check=False, cwd=folder, env=environment)
            return asked.returncode == 0 and json.loads(asked.stdout).get("version") == versions.current()

        with _started([commands / "trireme", "up", "--nodes", "3", "--demo"], Path(folder), environment, schedules):
            pass


@contextlib.contextmanager
def _started(
    command: list[str | Path], folder: Path, environment: dict[str, str], works: Callable[[], bool]
) -> Iterator[None]:
    """A program for the block, which begins once it works. Raises: CheckError: it does not."""
    log = folder / "log"
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder, env=environment)
    try:
        deadline = time.monotonic() + _START_SECONDS
        while not works():
            if process.poll() is not None or time.monotonic() > deadline:
                raise CheckError(f"{' '.join(map(str, command))}: it does not work:\n{log.read_text()[-2000:]}")
            time.sleep(1)
        yield
    finally:
        process.terminate()
        process.wait(60)


def container_runs(archive: Path, architecture: str) -> None:
    """Start `trireme up` in a container of the image, and return once it has scheduled. Raises: CheckError."""
    done = container.run(archive, architecture, "trireme", "up", "--once", "--nodes", "3")
    if done.returncode or "demo: web: " not in done.stdout:
        raise CheckError(f"`trireme up` does not schedule in a container:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def chart_installs(python: Path, helm: Path, chart: Path, folder: Path) -> None:
    """Install the packed chart on an embedded cluster of the wheel's, and uninstall it. Raises: CheckError."""
    kubeconfig = folder / "kubeconfig"
    homes = {name: str(folder) for name in ("HELM_CACHE_HOME", "HELM_CONFIG_HOME", "HELM_DATA_HOME")}
    environment = {**os.environ, **homes, "KUBECONFIG": str(kubeconfig)}
    cluster: list[str | Path] = [python, "-m", "trireme_kube.embedded", "--kubeconfig", kubeconfig]
    with _started(cluster, folder, environment, kubeconfig.exists):
        settings = ["--namespace", "trireme-system"]
        # Without certificates, which another program's controller would make.
        made = [*settings, "--create-namespace", "--set", "mode=standalone"]
        _run([helm, "install", "trireme", chart, *made], folder, environment)
        _run([helm, "uninstall", "trireme", *settings], folder, environment)


def plugin_is_built(commands: Path, packages: Path, folder: Path) -> None:
    """Make a plugin with the release's packages of a language; it is built and passes its tests. Raises: CheckError."""
    # What Rust's packages need takes minutes to compile, and other builds of this repository have compiled it.
    target = os.environ.get("CARGO_TARGET_DIR", str(versions.ROOT / "build" / "sdk-rust-target"))
    path = f"{commands}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path, "CARGO_TARGET_DIR": target}
    source = ["--sdk", packages.parent, "--directory", folder]
    _run([commands / "trireme", "plugin", "init", "MyPlugin", "--language", packages.name, *source], None, environment)
    _run(["make", "test"], folder, environment)


def _run(command: list[str | Path], folder: Path | None, environment: dict[str, str]) -> None:
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise CheckError(f"{' '.join(map(str, command))} failed:\n{done.stdout[-2000:]}{done.stderr[-2000:]}")


def kubectl_plugin_runs(archive: Path, folder: Path) -> None:
    """Unpack it as krew does, and have it install itself. Raises: CheckError."""
    with tarfile.open(archive) as packed:
        packed.extractall(folder, filter="data")
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "PYTHON": sys.executable}
    for _ in range(2):  # the second time it is there
        asked = subprocess.run(
            [folder / "kubectl-trireme", "completion", "bash"],
            env=environment,
            capture_output=True,
            text=True,
            check=False,
        )
        if asked.returncode != 0 or "complete" not in asked.stdout:
            raise CheckError(f"the kubectl plugin ends with exit code {asked.returncode}: {asked.stderr}")
    if "installing" in asked.stderr:
        raise CheckError("the kubectl plugin installs itself again at each use")


def write_software_list(packages: Path, file: Path) -> None:
    """Write what an environment's site-packages have, but for pip, as SPDX 2.3 in JSON. Raises: CheckError."""
    write_document(software_document(distributions(packages)), file)


def distributions(packages: Path) -> list[Distribution]:
    """What is installed there, but for what installed it."""
    found = []
    for each in importlib.metadata.distributions(path=[str(packages)]):
        needs = [match[0] for text in each.requires or () if "extra ==" not in text and (match := _NAME.match(text))]
        licence = each.metadata.get("License-Expression") or ""
        found.append(Distribution(each.metadata["Name"], each.version, licence, tuple(needs)))
    return [each for each in found if each.name not in ("pip", "setuptools")]


def write_document(document: model.Document, file: Path) -> None:
    """Write it as JSON. Raises: CheckError: it is not valid."""
    json_writer.write_document_to_file(document, str(file), validate=False)
    again = JsonLikeDictParser().parse(json.loads(file.read_text()))
    if problems := validate_full_spdx_document(again):
        raise CheckError(f"{file.name}: {problems[0].validation_message}")


def software_document(installed: list[Distribution], name: str = "trireme") -> model.Document:
    """The document: a package for each distribution, Trireme's as what is described, and who needs whom."""
    packages = {_key(each.name): package("pypi", _key(each.name), each.version, each.licence) for each in installed}
    described = next(each.spdx_id for key, each in packages.items() if key.startswith("trireme"))
    relations = [model.Relationship("SPDXRef-DOCUMENT", model.RelationshipType.DESCRIBES, described)]
    relations += _dependencies(installed, packages)
    name = f"{name}-{versions.current()}"
    information = model.CreationInfo(
        spdx_version="SPDX-2.3",
        spdx_id="SPDXRef-DOCUMENT",
        name=name,
        data_license="CC0-1.0",
        document_namespace=f"https://trireme.dev/spdx/{name}",
        creators=[model.Actor(model.ActorType.ORGANIZATION, "Trireme")],
        created=time_of_source(),
    )
    return model.Document(information, packages=list(packages.values()), relationships=relations)


def time_of_source() -> datetime.datetime:
    """When the last commit was made: the same sources give the same document."""
    command = ["git", "log", "-1", "--format=%ct"]
    seconds = subprocess.run(command, capture_output=True, text=True, check=True, cwd=versions.ROOT).stdout
    return datetime.datetime.fromtimestamp(int(seconds), datetime.UTC).replace(tzinfo=None)


def package(kind: str, name: str, version: str, licence: str = "") -> model.Package:
    """A package of a registry; `kind` is the beginning of its package URL, such as pypi or deb/debian."""
    place = model.ExternalPackageRef(
        model.ExternalPackageRefCategory.PACKAGE_MANAGER, "purl", f"pkg:{kind}/{name}@{version}"
    )
    return model.Package(
        spdx_id=f"SPDXRef-{re.sub('[^A-Za-z0-9.-]', '-', name)}",
        name=name,
        version=version,
        download_location=model.SpdxNoAssertion(),
        files_analyzed=False,
        license_declared=_expression(licence),
        external_references=[place],
    )


def _dependencies(installed: list[Distribution], packages: dict[str, model.Package]) -> Iterator[model.Relationship]:
    for each in installed:
        for need in sorted({_key(need) for need in each.needs} & packages.keys()):
            yield model.Relationship(
                packages[_key(each.name)].spdx_id, model.RelationshipType.DEPENDS_ON, packages[need].spdx_id
            )


def _expression(licence: str) -> Any:
    return spdx_licensing.parse(licence) if licence else model.SpdxNoAssertion()


def _key(name: str) -> str:
    return name.lower().replace("_", "-").replace(".", "-")
