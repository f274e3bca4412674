"""The example plugins' own tests, as a reader of examples/ runs them, and the generated code beside the Go one."""

import hashlib
import re
import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.contract.contract_services import (
    PYTHON_EXAMPLES,
    RUST_PACKAGE,
    WITH_GO_PACKAGE,
    require_toolchain,
    run_cargo,
    run_cargo_in,
)

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"
GO_SDK = EXAMPLES.parent / "sdk" / "go"
GO_EXAMPLES = ("plugin-go", "allocatable-go", "quota-permit-go", "score-phase-go", "wasm-host-go")
# The objects of git that upstream's files are, at the commit that the page names.
UPSTREAM = {
    "allocatable.go": "9da0db73d717b02c14a63923d4b7e0b7432ad674",
    "resource_allocation.go": "e140edda61f90f7b2f2c201b2fe226f9f56d7288",
    "allocatable_test.go": "a5e08dbbade006a5091ad3e201bc7ca2761e015d",
}


def run(*command: str | Path, cwd: Path) -> None:
    """Fails with what the command printed."""
    ended = subprocess.run(command, cwd=cwd, capture_output=True, text=True, timeout=600, check=False)
    assert ended.returncode == 0, ended.stdout + ended.stderr


def test_the_python_examples_pass_their_own_tests() -> None:
    """If this fails, an example that people copy from is wrong."""
    pytest = (sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider")
    run(*pytest, "plugin-python", *PYTHON_EXAMPLES, cwd=EXAMPLES)


@pytest.mark.parametrize("example", GO_EXAMPLES)
@pytest.mark.parametrize("command", [("vet", "./..."), ("test", "./...")], ids=["vet", "test"])
@pytest.mark.timeout(600)
def test_a_go_example_is_in_order(example: str, command: Sequence[str]) -> None:
    """If this fails, the example that people copy from is wrong, or cannot be built from the SDK's package."""
    require_toolchain("go", f"examples/{example}")
    run(WITH_GO_PACKAGE, EXAMPLES / example, *command, cwd=EXAMPLES)


@pytest.mark.parametrize(
    "command",
    [("go", "vet", "./..."), ("go", "test", "./..."), (GO_SDK / "generate.sh", "--check")],
    ids=["vet", "test", "generated code"],
)
@pytest.mark.timeout(600)
def test_the_go_sdk_is_in_order(command: Sequence[str | Path]) -> None:
    """If this fails, the SDK is wrong, or was generated from other protos than these."""
    require_toolchain("go", "sdk/go")
    run(*command, cwd=GO_SDK)


@pytest.mark.timeout(900)
@pytest.mark.parametrize("example", ["gpu-memory-rust", "deadline-order-rust"])
def test_a_rust_example_passes_its_own_tests(example: str) -> None:
    """If this fails, the example that people copy from is wrong, or cannot be built from the SDK's package."""
    run_cargo(example, "test", "--lib", "--tests")


@pytest.mark.timeout(900)
def test_the_rust_sdk_passes_its_own_tests() -> None:
    """If this fails, what authors in Rust build on is wrong, or its package lacks a file.

    The package is compiled and tested by itself, as cargo would verify it: see sdk/rust/package.sh. The examples share
    its build.
    """
    run_cargo_in(RUST_PACKAGE, "test", "--tests")


@pytest.mark.timeout(900)
def test_the_rust_sdk_was_generated_from_these_protos() -> None:
    """If this fails, plugins in Rust are built against another contract."""
    require_toolchain("cargo", "sdk/rust")
    run(EXAMPLES.parent / "sdk" / "rust" / "generate.sh", "--check", cwd=EXAMPLES.parent)


def test_the_moved_plugin_differs_from_upstream_by_what_its_page_shows(tmp_path: Path) -> None:
    """If this fails, the claim that the logic of an in-tree plugin moves by its imports is not true."""
    moved, diff = EXAMPLES / "allocatable-go", (EXAMPLES / "allocatable-go" / "upstream.diff").read_text()
    shutil.copytree(moved / "noderesources", tmp_path / "noderesources")
    run("git", "init", "--quiet", cwd=tmp_path)
    run("git", "apply", "--reverse", moved / "upstream.diff", cwd=tmp_path)
    for name, blob in UPSTREAM.items():
        content = (tmp_path / "noderesources" / name).read_bytes()
        assert hashlib.sha1(b"blob %d\0%s" % (len(content), content)).hexdigest() == blob, name
    logic, _, _ = diff.partition("--- a/noderesources/allocatable_test.go")
    changed = [line[1:] for line in logic.splitlines() if line[:1] in "+-" and line[:3] not in ("+++", "---")]
    assert changed
    assert all(re.fullmatch(r'\t(\w+ )?"[\w./-]+"|', line) for line in changed), "more than imports was changed"
    page = (EXAMPLES.parent / "docs" / "moving-a-go-plugin.md").read_text()
    assert logic.rstrip() in page
