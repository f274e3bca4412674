"""What is checked of a release: that its wheel schedules and its kubectl plugin runs, and what it consists of.

Also change: internal/trireme/cli/frontend_connection.py (where the socket is).
Also change: internal/trireme/cli/up.py (the command line of trireme up).
"""

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
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spdx_tools.common.spdx_licensing import spdx_licensing
from spdx_tools.spdx import model
from spdx_tools.spdx.parser.jsonlikedict.json_like_dict_parser import JsonLikeDictParser
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document
from spdx_tools.spdx.writer.json import json_writer

from tools.release import versions

_START_SECONDS = 120.0
_NAME = re.compile(r"[A-Za-z0-9._-]+")


class CheckError(Exception):
    """The installed wheel is not as it has to be."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """An installed distribution; `needs` are the names that it requires, without extras."""

    name: str
    version: str
    licence: str
    needs: tuple[str, ...]


def scheduler_runs(commands: Path) -> None:
    """Start `trireme up` of an environment, and return once it schedules. Raises: CheckError."""
    with tempfile.TemporaryDirectory(prefix="trireme-up-") as folder:
        environment = {"PATH": f"{commands}{os.pathsep}/usr/bin:/bin", "HOME": folder}
        environment |= {"TRIREME_SOCKET": f"{folder}/admin.sock", "XDG_STATE_HOME": folder}
        log = Path(folder) / "log"
        with log.open("wb") as output:
            command = [commands / "trireme", "up", "--nodes", "3", "--demo"]
            process = subprocess.Popen(command, stdout=output, stderr=output, cwd=folder, env=environment)
        try:
            _wait_for_status(commands, environment, folder, process, log)
        finally:
            process.terminate()
            process.wait(60)


def _wait_for_status(
    commands: Path, environment: dict[str, str], folder: str, process: subprocess.Popen[bytes], log: Path
) -> None:
    deadline = time.monotonic() + _START_SECONDS
    command = [commands / "trireme", "status", "--output", "json"]
    while True:
        asked = subprocess.run(command, capture_output=True, check=False, cwd=folder, env=environment)
        if asked.returncode == 0 and json.loads(asked.stdout).get("version") == versions.current():
            return
        if process.poll() is not None or time.monotonic() > deadline:
            raise CheckError(f"`trireme up` does not schedule:\n{log.read_text()[-2000:]}{asked.stderr.decode()}")
        time.sleep(1)


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
