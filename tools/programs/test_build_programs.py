"""The Go modules of programs that checks use."""

import re
from pathlib import Path

import pytest

from tools.programs import build_addons, build_cosign, build_jaeger, build_programs

MODULES = [
    build_programs.PROGRAMS,
    build_cosign.PROGRAMS,
    build_jaeger.PROGRAMS,
    build_addons.CERT_MANAGER,
    build_addons.METRICS_SERVER,
]


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.name)
def test_go_mod_pins_the_module_of_each_package(module: build_programs.GoModule) -> None:
    """Also that a module can be looked at without being built: few machines build the rarer ones."""
    assert module.available() in (True, False)
    pinned = re.findall(r"^\t?(?:require )?(\S+) v\S+", (module.source / "go.mod").read_text(), re.MULTILINE)
    for package in module.packages:
        assert package.startswith(("./", *(f"{name}/" for name in pinned))), package


def test_a_source_that_changes_during_the_build_has_it_built_again(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    module = build_programs.GoModule("made", tmp_path, ("example.com/made",), "what a test makes")
    (tmp_path / "go").write_text('#!/bin/sh\n: > "$6/made"\necho changed > go.mod\n')
    (tmp_path / "go").chmod(0o755)
    for name in ("go.mod", "go.sum"):
        (tmp_path / name).touch()
    (tmp_path / "build").mkdir()
    monkeypatch.setattr(build_programs, "REPOSITORY", tmp_path)
    monkeypatch.setenv("PATH", str(tmp_path))
    module.build()
    assert not module.available()
    module.build()
    assert module.available()
