"""The kustomizations of deploy/ are those that the chart makes, and how differences become patches."""

import re
from typing import Any

import pytest

from deploy import make_manifests
from tools.programs import programs_fixture


def test_kustomizations_are_what_the_chart_renders() -> None:
    """Two sources would drift apart, and somebody would install the one that nobody tested."""
    programs_fixture.require_programs()
    texts = make_manifests.generated()
    assert [path for path in make_manifests.written() if path not in texts] == [], "run `make manifests`"
    assert [path for path, text in texts.items() if path.read_text() != text] == [], "run `make manifests`"


def test_each_written_file_is_in_the_kustomization_of_its_folder() -> None:
    """Kustomize applies what is named: a file that nothing names is a role or an object that nobody has."""
    unnamed = []
    for path in make_manifests.written():
        kustomization = path.with_name("kustomization.yaml")
        if path != kustomization and kustomization.exists():
            named = re.split(r"[\s/=]+", kustomization.read_text())
            unnamed += [] if path.name in named else [str(path)]
    assert unnamed == [], "name them in kustomization.yaml"


@pytest.mark.parametrize(
    ("old", "new", "patch"),
    [
        ({"a": 1}, {"a": 1}, []),
        ({"a": {}}, {"a": {"b/c": 1}}, [("add", "/a/b~1c", 1)]),
        ({"a": 1}, {"a": 2}, [("test", "/a", 1), ("replace", "/a", 2)]),
        ({"a": [1, 2]}, {"a": [1, 3]}, [("test", "/a/1", 2), ("replace", "/a/1", 3)]),
        ({"a": [1, 2]}, {"a": [0, 1, 2, 3]}, [("add", "/a/-", 0), ("add", "/a/-", 3)]),
    ],
    ids=["equal", "new field", "changed field", "changed entry", "new entries"],
)
def test_a_difference_is_a_patch_that_appends(old: Any, new: Any, patch: list[tuple[str, str, Any]]) -> None:
    """A patch that named places in lists for what it adds would be wrong after another component."""
    operations = make_manifests.difference(old, new)
    assert [tuple(operation.values()) for operation in operations] == patch


@pytest.mark.parametrize(
    ("old", "new"), [({"a": 1, "b": 2}, {"a": 1}), ({"a": [1, 2, 3]}, {"a": [1, 3]}), ({"a": [1, 2]}, {"a": [2, 1, 3]})]
)
def test_what_is_removed_cannot_be_a_component(old: Any, new: Any) -> None:
    with pytest.raises(ValueError, match="removed"):
        list(make_manifests.difference(old, new))
