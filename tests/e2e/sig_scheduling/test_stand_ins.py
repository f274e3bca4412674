"""The modules that stand in for those of Kubernetes v1.38.0-beta.0 which are not served."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.sig_scheduling import stand_ins
from tools.controlplane import build_controlplane

KTESTING, API = stand_ins.STAND_INS


def _files(folder: Path, texts: Mapping[str, str]) -> None:
    for name, text in texts.items():
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(text)


def test_packages_of_a_stand_in_import_each_other_by_their_new_names(tmp_path: Path) -> None:
    """The suite would be linked with both the old packages and the new ones, or not at all."""
    code = 'import (\n\t"k8s.io/kubernetes/test/utils/ktesting/format"\n\t"k8s.io/kubernetes/test/utils/ktestings"\n)\n'
    _files(tmp_path, {"old/test/utils/ktesting/a.go": code, "old/test/utils/ktesting/format/b.go": "package format\n"})
    stand_ins.write(KTESTING, tmp_path / "old", "module k8s.io/kubernetes\n\ngo 1.26.0\n", tmp_path / "new")
    renamed = 'import (\n\t"k8s.io/ktesting/format"\n\t"k8s.io/kubernetes/test/utils/ktestings"\n)\n'
    assert (tmp_path / "new/a.go").read_text() == renamed
    assert (tmp_path / "new/format/b.go").exists()
    assert "WithDeadline" in (tmp_path / "new/added.go").read_text()
    assert (tmp_path / "new/go.mod").read_text() == "module k8s.io/ktesting\n\ngo 1.26.0\n"


def test_a_stand_in_has_what_moved_and_nothing_else(tmp_path: Path) -> None:
    """Conversions import internal types, which import the stand-in: that does not compile."""
    types = "pkg/apis/apiextensions/v1"
    code = f'import (\n\t"k8s.io/apiextensions-apiserver/{types}"\n\t"sigs.k8s.io/structured-merge-diff/v6/typed"\n)\n'
    left_out = ("zz_generated.conversion.go", "conversion.go", "types_test.go")
    old = {f"{types}/{name}": "package v1\n" for name in ("customresourceconversion.go", *left_out)}
    _files(tmp_path / "old", {**old, "pkg/client/a.go": code, "pkg/apiserver/b.go": "package apiserver\n"})
    _files(tmp_path / "new", {"pkg/of_before.go": ""})
    stand_ins.write(API, tmp_path / "old", "go 1.26.0\n", tmp_path / "new")
    written = {str(path.relative_to(tmp_path / "new")) for path in (tmp_path / "new").rglob("*.*") if path.is_file()}
    assert written == {"go.mod", f"{types}/customresourceconversion.go", "pkg/client/a.go", *API.additions}
    expected = code.replace("-apiserver", "-api").replace("/v6/", "/v7/")
    assert (tmp_path / "new/pkg/client/a.go").read_text() == expected


@pytest.mark.parametrize(
    ("version", "served", "expected"),
    [
        (stand_ins.VERSION, (), [KTESTING, API]),
        (stand_ins.VERSION, (API.module,), [KTESTING]),
        ("v1.36.3", (), []),
        ("v1.38.0", (), []),
    ],
)
def test_only_what_is_not_served_is_replaced(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: str,
    served: tuple[str, ...],
    expected: list[stand_ins.StandIn],
) -> None:
    """If this fails, the suite is not that of its version although it could be."""

    def downloaded(module: str, version: str) -> Mapping[str, Any]:
        sources = {"k8s.io/kubernetes": "v1.37.2", "k8s.io/apiextensions-apiserver": "v0.37.2"}
        if module not in served and sources.get(module) != version:
            raise SystemExit(f"{module} {version} is not served")
        return {"Dir": str(tmp_path), "GoMod": str(tmp_path / "go.mod")}

    _files(tmp_path, {"go.mod": "go 1.26.0\n", "test/utils/ktesting/a.go": "", "pkg/client/a.go": ""})
    monkeypatch.setattr(build_controlplane, "REPOSITORY", tmp_path)
    monkeypatch.setattr(build_controlplane, "pinned_version", lambda: "v1.37.2")
    monkeypatch.setattr(build_controlplane, "downloaded", downloaded)
    found = stand_ins.write_needed(version)
    assert list(found) == [each.module for each in expected]
    assert all((folder / "go.mod").exists() for folder in found.values())


def test_a_stand_in_takes_the_place_of_the_module_in_go_mod(tmp_path: Path) -> None:
    """Go would ask for the module that is not served."""
    theirs = "go 1.27.0\nreplace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n\tk8s.io/ktesting => ./staging/x\n)\n"
    kubernetes = build_controlplane.Module(Path(), theirs)
    text = build_controlplane.module_of(stand_ins.VERSION, kubernetes, "x", {"k8s.io/ktesting": tmp_path})
    replaced = [line for line in text.splitlines() if "k8s.io/" in line and line.startswith("replace k8s.io")]
    assert replaced == ["replace k8s.io/api => k8s.io/api v0.38.0-beta.0", f"replace k8s.io/ktesting => {tmp_path}"]
