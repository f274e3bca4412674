"""What is said about an image beside it: its software (SPDX), its vulnerabilities (OpenVEX), its origin (in-toto).

All three are made of the image's archive and the repository alone, so that the same image has the same ones. Each is a
predicate that `cosign attest` takes, or a file that scanners read.

Tests: tools/image/test_image.py.
"""

import email
import json
import re
import subprocess
import tempfile
from pathlib import Path
from typing import Any

import yaml
from spdx_tools.spdx import model

from tools.image.image_archive import ImageArchive
from tools.release import checks, versions

STATEMENTS = versions.ROOT / "deploy/image/vulnerabilities.yaml"

_PACKAGES = "opt/trireme/lib/"
_STATUS = "var/lib/dpkg/status.d/"

Json = dict[str, Any]


def write(image: ImageArchive, folder: Path) -> None:
    """Write all three. Raises: CheckError: the software list is not valid."""
    name = f"trireme-{versions.current()}"
    document = software(image)
    checks.write_document(document, folder / f"{name}.spdx.json")
    (folder / f"{name}.vex.json").write_text(json.dumps(vulnerabilities(image), indent=1))
    (folder / f"{name}.provenance.json").write_text(json.dumps(provenance(image, document), indent=1))


def software(image: ImageArchive) -> model.Document:
    """The distributions and Debian packages that the image has files of, and the version of its Python."""
    with tempfile.TemporaryDirectory() as folder:
        image.extract(_PACKAGES, Path(folder))
        (packages,) = Path(folder, _PACKAGES).glob("python3*/site-packages")
        document = checks.software_document(checks.distributions(packages), "trireme-image")
    document.packages.append(checks.package("generic", "cpython", _python_version(image)))
    for path in image.files:
        if path.startswith(_STATUS):
            described = email.message_from_bytes(image.read(path))
            document.packages.append(checks.package("deb/debian", described["Package"], described["Version"]))
    return document


def vulnerabilities(image: ImageArchive) -> Json:
    """The statements of deploy/image/vulnerabilities.yaml about this image. Source: OpenVEX v0.2.0."""
    product = {"@id": f"pkg:oci/trireme@{image.digest.replace(':', '%3A')}"}
    statements = [
        {
            "vulnerability": {"name": each["vulnerability"]},
            "products": [{**product, "subcomponents": [{"@id": each["package"]}]}],
            "status": each["status"],
            "justification": each["justification"],
            "impact_statement": each["impact"],
        }
        for each in yaml.safe_load(STATEMENTS.read_text())
    ]
    return {
        "@context": "https://openvex.dev/ns/v0.2.0",
        "@id": f"https://trireme.dev/vex/{image.digest}",
        "author": "Trireme",
        "timestamp": _time(),
        "version": 1,
        "statements": statements,
    }


def provenance(image: ImageArchive, document: model.Document) -> Json:
    """The commit and the software that made the image. Source: in-toto Statement v1, SLSA provenance v1."""
    command = ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=True, cwd=versions.ROOT).stdout.strip()
    packages = [each.external_references[0].locator for each in document.packages]
    created = image.config["created"]
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "trireme", "digest": {"sha256": image.digest.partition(":")[2]}}],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "https://trireme.dev/build/image/v1",
                "externalParameters": {"version": versions.current(), "sourceDate": created},
                "resolvedDependencies": [
                    {"uri": "https://trireme.dev", "digest": {"gitCommit": commit}},
                    *({"uri": package} for package in packages),
                ],
            },
            "runDetails": {"builder": {"id": "https://trireme.dev/build/make-image"}},
        },
    }


def _python_version(image: ImageArchive) -> str:
    found = re.search(r"^version = (\S+)$", image.read("opt/trireme/pyvenv.cfg").decode(), re.MULTILINE)
    if found is None:
        raise ValueError("pyvenv.cfg of the image names no version")
    return found[1]


def _time() -> str:
    return checks.time_of_source().strftime("%Y-%m-%dT%H:%M:%SZ")
