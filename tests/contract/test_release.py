"""What a release consists of: its notes, the files of its wheel, and the list of what an installation has."""

import hashlib
import pathlib
import subprocess
import tarfile
import zipfile

import pytest
import yaml
from spdx_tools.spdx import model
from spdx_tools.spdx.validation.document_validator import validate_full_spdx_document

from tools.release import build_release, checks, kubectl_plugin, notes, versions

CHANGELOG = """# Changelog

<!-- towncrier release notes start -->

## 0.2.0 (2026-12-01)

### Added

- A chart.

## 0.1.0

- Everything.
"""


def test_notes_are_the_section_of_the_version() -> None:
    assert notes.of_release(CHANGELOG, "0.2.0") == "# Trireme 0.2.0\n\n### Added\n\n- A chart.\n"
    assert notes.of_release(CHANGELOG, "0.1.0") == "# Trireme 0.1.0\n\n- Everything.\n"


def test_notes_before_the_section_is_written_are_the_fragments(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "changelog.d").mkdir()
    (tmp_path / "pyproject.toml").write_bytes((versions.ROOT / "pyproject.toml").read_bytes())
    monkeypatch.setattr(notes, "ROOT", tmp_path)
    with pytest.raises(ValueError, match=r"no section 0\.3\.0, and changelog\.d has no fragments"):
        notes.of_release(CHANGELOG, "0.3.0")
    (tmp_path / "changelog.d" / "a.fixed.md").write_text("A fix.\n")
    assert notes.of_release(CHANGELOG, "0.3.0") == "# Trireme 0.3.0\n\n### Fixed\n\n- A fix.\n"


def test_another_version_is_refused() -> None:
    with pytest.raises(SystemExit, match=f"this is {versions.current()}; `make set-version VERSION=99.0.0` first"):
        build_release.main(["99.0.0"])


def test_wheel_and_source_distribution_have_all_files(tmp_path: pathlib.Path) -> None:
    """A file that is missing in the wheel is missed by users alone: tests run on the sources."""
    build_release.build_distributions(tmp_path)
    listed = subprocess.run(
        ["git", "ls-files", "internal"], capture_output=True, text=True, check=True, cwd=versions.ROOT
    ).stdout
    expected = {name.removeprefix("internal/") for name in listed.split("\n") if name}
    (wheel,) = tmp_path.glob("*.whl")
    with zipfile.ZipFile(wheel) as archive:
        assert sorted(expected - set(archive.namelist())) == []
        (metadata,) = (name for name in archive.namelist() if name.endswith(".dist-info/METADATA"))
        assert f"\nVersion: {versions.current()}\n" in archive.read(metadata).decode()
    (source,) = tmp_path.glob("*.tar.gz")
    with tarfile.open(source) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    assert sorted({f"internal/{name}" for name in expected} - names) == []


_MAIN = """\
def main_under_kubectl():
    print("complete")
"""


def test_the_kubectl_plugin_installs_its_wheel_once(tmp_path: pathlib.Path) -> None:
    wheel = tmp_path / "trireme_scheduler-0.2.0-py3-none-any.whl"
    metadata = "trireme_scheduler-0.2.0.dist-info"
    with zipfile.ZipFile(wheel, "w") as packed:
        packed.writestr("trireme/cli/main.py", _MAIN)
        packed.writestr(f"{metadata}/METADATA", "Metadata-Version: 2.1\nName: trireme-scheduler\nVersion: 0.2.0\n")
        packed.writestr(f"{metadata}/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        packed.writestr(f"{metadata}/RECORD", "")
    kubectl_plugin.write(tmp_path, wheel, "https://example.com/v0.2.0/")
    (archive,) = tmp_path.glob("*.tar.gz")
    checks.kubectl_plugin_runs(archive, tmp_path / "krew")
    (platform,) = yaml.safe_load((tmp_path / "trireme.krew.yaml").read_text())["spec"]["platforms"]
    assert platform["uri"] == f"https://example.com/v0.2.0/{archive.name}"
    assert platform["sha256"] == hashlib.sha256(archive.read_bytes()).hexdigest()


def test_the_list_of_software_is_a_valid_spdx_document() -> None:
    rows = [
        checks.Distribution("trireme-scheduler", versions.current(), "Apache-2.0", ("NumPy", "absent")),
        checks.Distribution("numpy", "2.4.0", "BSD-3-Clause AND MIT", ()),
        checks.Distribution("unknown_licence", "1.0", "", ()),
    ]
    document = checks.software_document(rows)
    assert validate_full_spdx_document(document) == []
    relations = [(each.relationship_type.name, each.related_spdx_element_id) for each in document.relationships]
    assert relations == [("DESCRIBES", "SPDXRef-trireme-scheduler"), ("DEPENDS_ON", "SPDXRef-numpy")]
    assert isinstance(document.packages[2].license_declared, model.SpdxNoAssertion)
