"""What the launcher and the build script decide without starting anything."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
import yaml

from tests.helpers import requirements
from tools.controlplane import build_controlplane as build
from tools.controlplane import go_programs, launcher


def test_kubeconfig_names_server_authority_and_token(tmp_path: Path) -> None:
    """Every client fails to connect if the kubeconfig's parts do not refer to each other by the right names."""
    parsed = yaml.safe_load(launcher.kubeconfig("https://127.0.0.1:1", tmp_path / "ca.crt", "alice", "secret"))
    context = next(each for each in parsed["contexts"] if each["name"] == parsed["current-context"])["context"]
    cluster = next(each for each in parsed["clusters"] if each["name"] == context["cluster"])["cluster"]
    user = next(each for each in parsed["users"] if each["name"] == context["user"])["user"]
    assert cluster == {"server": "https://127.0.0.1:1", "certificate-authority": str(tmp_path / "ca.crt")}
    assert user == {"token": "secret"}


def test_token_lines_quote_groups() -> None:
    """A user in two groups would lose one, and every column after it, if the group list were not quoted."""
    users = {launcher.User("alice", ("dev", "ops")): "t1", launcher.User("bob"): "t2"}
    assert launcher.token_lines(users) == 't1,alice,alice,"dev,ops"\nt2,bob,bob,""\n'


@pytest.mark.parametrize(
    ("text", "user"),
    [
        pytest.param("alice", launcher.User("alice"), id="no-groups"),
        pytest.param("alice:a,b", launcher.User("alice", ("a", "b")), id="groups"),
        pytest.param("system:node:a", launcher.User("system", ("node:a",)), id="the-first-colon-ends-the-name"),
    ],
)
def test_parse_user(text: str, user: launcher.User) -> None:
    """The command line would give a user the wrong rights."""
    assert launcher.parse_user(text) == user


def test_parse_pairs_refuses_what_is_no_switch() -> None:
    """A typing error in a feature gate would be passed on and surface as an unreadable API server log."""
    assert launcher.parse_pairs(["A=true", "b/v1=false"]) == {"A": True, "b/v1": False}
    with pytest.raises(SystemExit, match="NAME=true"):
        launcher.parse_pairs(["A=yes"])


def test_private_files_are_private(tmp_path: Path) -> None:
    """Tokens and keys would be readable by every user of the machine."""
    secret = tmp_path / "tokens.csv"
    launcher.write_private(secret, b"x")
    assert secret.stat().st_mode & 0o777 == 0o600


def test_build_version_follows_go_mod() -> None:
    """The programs would report another version than the one that was compiled."""
    assert build.kubernetes_version((build.MODULE / "go.mod").read_text()) == "v1.37.2"
    with pytest.raises(SystemExit, match="does not require"):
        build.kubernetes_version("module x\n")


def test_build_is_repeated_when_an_input_changes(tmp_path: Path) -> None:
    """A changed go.mod would go on being tested with the old binary."""
    for name in ("main.go", "go.mod", "go.sum"):
        (tmp_path / name).write_text(name)
    binary = tmp_path / "controlplane"
    assert not build.up_to_date(binary, tmp_path)
    binary.touch()
    binary.with_suffix(".inputs").write_text(build.digest(binary, tmp_path) + "\n")
    assert build.up_to_date(binary, tmp_path)
    (tmp_path / "go.sum").write_text("changed")
    assert not build.up_to_date(binary, tmp_path)


def test_a_program_that_does_not_compile_leaves_the_last_one(tmp_path: Path) -> None:
    """If this fails, a mistake in a source removes the program, or the next run takes the old one for the new."""
    requirements.require(shutil.which("go") is not None, "there is no Go toolchain on PATH")
    (tmp_path / "go.mod").write_text("module x\ngo 1.20\n")
    (tmp_path / "main.go").write_text("package main\nfunc main() {}\n")
    program = tmp_path / "build" / "x"
    go_programs.compile_program(program, "first", ["build"], tmp_path, quiet=True)
    assert go_programs.is_built(program, "first")
    (tmp_path / "main.go").write_text("package main\nfunc main() { mistake() }\n")
    with pytest.raises(SystemExit, match="mistake"):
        go_programs.compile_program(program, "second", ["build"], tmp_path, quiet=True)
    assert go_programs.is_built(program, "first")
    assert {path.name for path in program.parent.iterdir()} == {"x", "x.inputs"}


def _compiler(folder: Path, monkeypatch: pytest.MonkeyPatch, *then: str) -> None:
    """A `go` that makes main.go the program, and does `then`."""
    go = folder / "go"
    go.write_text("\n".join(["#!/bin/sh", 'while [ "$1" != -o ]; do shift; done', 'cp main.go "$2"', *then, ""]))
    go.chmod(0o755)
    monkeypatch.setenv("PATH", f"{folder}:/usr/bin:/bin")


def _compile(folder: Path, source: str) -> None:
    (folder / "main.go").write_text(source)
    go_programs.compile_program(folder / "build" / "x", source, ["build"], folder, quiet=True)


@pytest.mark.parametrize("interrupted", ["replace", "write_text"])
def test_a_program_whose_build_was_interrupted_does_not_count_as_that_of_other_sources(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, interrupted: str
) -> None:
    """If this fails, changing a source back leaves the program of the change in use for good."""
    _compiler(tmp_path, monkeypatch)
    _compile(tmp_path, "first")
    program = tmp_path / "build" / "x"
    assert go_programs.is_built(program, "first")
    original = getattr(Path, interrupted)

    def interrupt(self: Path, *arguments: object) -> object:
        if self.parent == program.parent:
            raise KeyboardInterrupt
        return original(self, *arguments)

    monkeypatch.setattr(Path, interrupted, interrupt)
    with pytest.raises(KeyboardInterrupt):
        _compile(tmp_path, "second")
    assert program.read_text() == {"replace": "first", "write_text": "second"}[interrupted]
    assert not go_programs.is_built(program, "second")
    assert not go_programs.is_built(program, "first") or program.read_text() == "first"
    assert {path.name for path in program.parent.iterdir()} <= {"x", "x.inputs"}


def test_a_compiler_that_fails_leaves_no_unfinished_program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, each build on a full disk makes it fuller."""
    _compiler(tmp_path, monkeypatch, "exit 1")
    with pytest.raises(SystemExit, match="failed to compile x, exit code 1"):
        _compile(tmp_path, "first")
    assert list((tmp_path / "build").iterdir()) == []


def test_another_version_is_built_with_the_modules_of_that_version() -> None:
    """An API server would call itself 1.35 and be made of parts of 1.37."""
    theirs = "go 1.25.0\nrequire k8s.io/api v0.0.0\nreplace (\n\tk8s.io/api => ./staging/src/k8s.io/api\n)\n"
    lines = build.module_of("v1.35.4", build.Module(Path(), theirs, "1.25.9"), "trireme.dev/x", {}).splitlines()
    assert lines[:3] == ["module trireme.dev/x", "go 1.25.0", "toolchain go1.25.9"]
    assert "require k8s.io/kubernetes v1.35.4" in lines
    assert [line for line in lines if "k8s.io/api" in line] == ["replace k8s.io/api => k8s.io/api v0.35.4"]


def test_versions_are_built_beside_each_other() -> None:
    """Tests of one version would run on another."""
    assert build.binary_of("") == build.binary_of(build.pinned_version()) == build.BINARY
    assert build.binary_of("v1.35.4") == build.REPOSITORY / "build/kubernetes-v1.35.4/controlplane"


def test_a_binary_of_another_version_depends_on_that_version(tmp_path: Path) -> None:
    """A binary that was built before its version was asked for would count as it."""
    (tmp_path / "main.go").write_text("main")
    binary = tmp_path / "controlplane"
    assert build.digest(binary, tmp_path, "v1.35.4") != build.digest(binary, tmp_path, "v1.36.3")


def test_what_a_version_serves_is_what_kubernetes_publishes(tmp_path: Path) -> None:
    """A test that needs an API would run where there is none, or be skipped where there is one."""
    versions = [{"version": "v1", "resources": [{"resource": "podgroups"}]}]
    items = [{"metadata": {"name": "scheduling.k8s.io"}, "versions": versions}, {"metadata": {}, "versions": versions}]
    (tmp_path / build.DISCOVERY).write_text(json.dumps({"items": items}))
    expected = {"scheduling.k8s.io/v1", "scheduling.k8s.io/v1/podgroups", "v1", "v1/podgroups"}
    assert build.served_resources(tmp_path) == expected
