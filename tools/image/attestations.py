"""What is said about an image beside it: its software (SPDX), its vulnerabilities (OpenVEX), its origin (in-toto).

All are made of the images' archives and the repository alone, so that the same images have the same ones. Each is what
`cosign attest` attaches to the image, or a file that scanners read.

Tests: tools/image/test_image.py.
"""

import email
import json
import re
import subprocess
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, slots=True)
class Attestation:
    """What is said about an image; `kind` as cosign names it."""

    kind: str
    predicate: bytes


def write(images: Sequence[ImageArchive], digest: str, folder: Path) -> None:
    """Write what is said about the image `digest`, which is these images, one for each architecture.

    Raises: CheckError: a software list is not valid.
    """
    name = f"trireme-{versions.current()}"
    documents = [software(image) for image in images]
    for image, document in zip(images, documents, strict=True):
        checks.write_document(document, folder / f"{name}-{image.config['architecture']}.spdx.json")
    digests = [digest, *(image.digest for image in images)]
    (folder / f"{name}.vex.json").write_text(json.dumps(vulnerabilities(digests), indent=1))
    created = images[0].config["created"]
    (folder / f"{name}.provenance.json").write_text(json.dumps(provenance(digests, created, documents), indent=1))


def read(folder: Path) -> list[Attestation]:
    """What `write` wrote there."""
    name = f"trireme-{versions.current()}"
    attestations = [Attestation("spdxjson", file.read_bytes()) for file in sorted(folder.glob(f"{name}-*.spdx.json"))]
    statement = json.loads((folder / f"{name}.provenance.json").read_text())
    return [
        *attestations,
        Attestation("openvex", (folder / f"{name}.vex.json").read_bytes()),
        Attestation("slsaprovenance1", json.dumps(statement["predicate"]).encode()),
    ]


def software(image: ImageArchive) -> model.Document:
    """The distributions and Debian packages that the image has files of, and the version of its Python."""
    with tempfile.TemporaryDirectory() as folder:
        image.extract(_PACKAGES, Path(folder))
        (packages,) = Path(folder, _PACKAGES).glob("python3*/site-packages")
        document = checks.software_document(
            checks.distributions(packages), f"trireme-image-{image.config['architecture']}"
        )
    document.packages.append(checks.package("generic", "cpython", _python_version(image)))
    for path in image.files:
        if path.startswith(_STATUS):
            described = email.message_from_bytes(image.read(path))
            document.packages.append(checks.package("deb/debian", described["Package"], described["Version"]))
    return document


def vulnerabilities(digests: Sequence[str]) -> Json:
    """The statements of deploy/image/vulnerabilities.yaml about these images. Source: OpenVEX v0.2.0."""
    products = [f"pkg:oci/trireme@{digest.replace(':', '%3A')}" for digest in digests]
    statements = [
        {
            "vulnerability": {"name": each["vulnerability"]},
            "products": [{"@id": product, "subcomponents": [{"@id": each["package"]}]} for product in products],
            "status": each["status"],
            "justification": each["justification"],
            "impact_statement": each["impact"],
        }
        for each in yaml.safe_load(STATEMENTS.read_text())
    ]
    return {
        "@context": "https://openvex.dev/ns/v0.2.0",
        "@id": f"https://trireme.dev/vex/{digests[0]}",
        "author": "Trireme",
        "timestamp": _time(),
        "version": 1,
        "statements": statements,
    }


def provenance(digests: Sequence[str], created: str, documents: Sequence[model.Document]) -> Json:
    """The commit and the software that made the images. Source: in-toto Statement v1, SLSA provenance v1."""
    command = ["git", "rev-parse", "HEAD"]
    commit = subprocess.run(command, capture_output=True, text=True, check=True, cwd=versions.ROOT).stdout.strip()
    packages = {each.external_references[0].locator for document in documents for each in document.packages}
    return {
        "_type": "https://in-toto.io/Statement/v1",
        "subject": [{"name": "trireme", "digest": {"sha256": digest.partition(":")[2]}} for digest in digests],
        "predicateType": "https://slsa.dev/provenance/v1",
        "predicate": {
            "buildDefinition": {
                "buildType": "https://trireme.dev/build/image/v1",
                "externalParameters": {"version": versions.current(), "sourceDate": created},
                "resolvedDependencies": [
                    {"uri": "https://trireme.dev", "digest": {"gitCommit": commit}},
                    *({"uri": package} for package in sorted(packages)),
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
