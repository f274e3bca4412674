"""Files that have to stand alone, and so are copies of each other."""

import pathlib

import pytest

_ROOT = pathlib.Path(__file__).parents[3]
_TEMPLATE = _ROOT / "internal/trireme/cli/plugin_development/templates/typescript/tsconfig.json.template"


@pytest.mark.parametrize("path", sorted(_ROOT.glob("examples/*/tsconfig.json")), ids=lambda path: path.parent.name)
def test_examples_in_typescript_are_compiled_as_new_plugins_are(path: pathlib.Path) -> None:
    assert path.read_text() == _TEMPLATE.read_text()
