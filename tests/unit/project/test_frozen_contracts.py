"""The contracts only grow: what breaks a plugin that is built against the frozen ones is refused."""

import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).parents[3]
PROTOS = pathlib.Path("protos/trireme/v1")


def breaks(tree: pathlib.Path) -> str:
    """The output of `make lint` about the contracts of the tree; empty: they only grew."""
    command = [pathlib.Path(sys.executable).with_name("buf"), "breaking", "--against", "protos/frozen.binpb"]
    ran = subprocess.run(command, cwd=tree, capture_output=True, text=True, check=False, timeout=60)
    assert ran.returncode == (100 if ran.stdout else 0), ran.stderr
    return ran.stdout


def edited(tree: pathlib.Path, file: str, old: str, new: str) -> pathlib.Path:
    """A copy of the contracts in which one text of one file, which is there once, is another."""
    shutil.copytree(ROOT / "protos", tree / "protos")
    shutil.copy(ROOT / "buf.yaml", tree)
    path = tree / PROTOS / file
    text = path.read_text()
    assert text.count(old) == 1, f"{file}: {old}"
    path.write_text(text.replace(old, new))
    return tree


@pytest.mark.parametrize(
    ("file", "old", "new", "reason"),
    [
        pytest.param("cycle.proto", "  bytes state = 7;\n", "", 'field "7" with name "state"', id="field-removed"),
        pytest.param(
            "cycle.proto",
            "  bytes state = 7;\n",
            '  reserved 7;\n  reserved "state";\n',
            '"state"',
            id="field-reserved",
        ),
        pytest.param("cycle.proto", "bytes state = 7;", "bytes state = 80;", '"state"', id="field-renumbered"),
        pytest.param("cycle.proto", "bytes state = 7;", "string state = 7;", "type", id="field-retyped"),
        pytest.param(
            "cycle.proto", "bytes state = 7;", "repeated bytes state = 7;", "cardinality", id="field-repeated"
        ),
        pytest.param(
            "cycle.proto", "bytes state = 7;", "bytes plugin_state = 7;", '"plugin_state"', id="field-renamed"
        ),
        pytest.param("status.proto", "  CODE_PENDING = 7;\n", "", 'value "7" on enum "Code"', id="value-removed"),
        pytest.param(
            "frontend.proto",
            "  rpc Activate(ActivateRequest) returns (ActivateResponse);\n",
            "",
            '"Activate"',
            id="rpc-removed",
        ),
        pytest.param(
            "frontend.proto",
            "rpc Activate(ActivateRequest) returns (ActivateResponse)",
            "rpc Activate(ActivateRequest) returns (stream ActivateResponse)",
            "streaming",
            id="rpc-streamed",
        ),
    ],
)
def test_a_break_of_the_contracts_is_refused(
    file: str, old: str, new: str, reason: str, tmp_path: pathlib.Path
) -> None:
    """A change that older plugins cannot read fails here, before a release."""
    found = breaks(edited(tmp_path, file, old, new))
    assert reason in found
    assert file in found


@pytest.mark.parametrize(
    ("file", "old", "new"),
    [
        pytest.param("cycle.proto", "bytes state = 7;", "bytes state = 7;\n  string trial_id = 80;", id="field"),
        pytest.param("status.proto", "CODE_PENDING = 7;", "CODE_PENDING = 7;\n  CODE_LATER = 8;", id="value"),
        pytest.param(
            "frontend.proto",
            "service HandleService {\n",
            "service HandleService {\n  rpc ActivateAll(ActivateRequest) returns (ActivateResponse);\n",
            id="rpc",
        ),
    ],
)
def test_contracts_may_grow(file: str, old: str, new: str, tmp_path: pathlib.Path) -> None:
    assert breaks(edited(tmp_path, file, old, new)) == ""


def test_the_contracts_only_grew_since_they_were_frozen() -> None:
    """What `make lint` checks, without a history or a network."""
    assert breaks(ROOT) == ""
