"""Texts for the reasons of refusals: `trireme explain` puts the parameters of a reason into the plugin's text."""

import ast
import pathlib
import string
from collections.abc import Iterator, Mapping

import pytest

from trireme import plugins
from trireme.registry.in_tree import IN_TREE

(_ROOT,) = map(pathlib.Path, plugins.__path__)

_EXPLAINED = [name for name, spec in IN_TREE.plugins.items() if spec.explain is not None]


def _stated(name: str) -> Iterator[tuple[str, set[str]]]:
    """The reasons with parameters that the files of a plugin state as literals: code and names of parameters."""
    for path in (_ROOT / IN_TREE[name].package.rpartition(".")[2]).glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if not (isinstance(node, ast.Call) and ast.unparse(node.func) == "status.Reason.of"):
                continue
            code, parameters = node.args
            if isinstance(code, ast.Constant) and isinstance(parameters, ast.Dict):
                yield str(code.value), {ast.literal_eval(key) for key in parameters.keys if key is not None}


def _texts(name: str) -> Mapping[str, str]:
    spec = IN_TREE[name]
    assert spec.explain is not None
    texts: Mapping[str, str] = spec.explain.load(spec.package)
    return texts


@pytest.mark.parametrize("name", _EXPLAINED)
def test_texts_name_parameters_that_the_reason_has(name: str) -> None:
    texts = _texts(name)
    for code, parameters in _stated(name):
        fields = {field for _, field, _, _ in string.Formatter().parse(texts[code]) if field}
        assert fields <= parameters


@pytest.mark.parametrize("name", sorted(IN_TREE.plugins))
def test_a_plugin_has_texts_for_all_or_none_of_its_reasons(name: str) -> None:
    stated = {code for code, _ in _stated(name)}
    assert not stated or name not in _EXPLAINED or stated <= set(_texts(name))
