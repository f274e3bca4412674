"""The registry: every side that a spec names is there, and no more is loaded than what a process runs."""

import pathlib
from typing import Any

import pytest

from trireme import plugins
from trireme.framework.plugin_spec import ExtensionPoint, Role
from trireme.plugin_api import interfaces, scorers
from trireme.registry import bind_plugins, filter_plugins, reason_texts, score_plugins
from trireme.registry.in_tree import IN_TREE
from trireme.v1 import bind_pb2, snapshot_pb2

_SIDES = [(name, point) for name, spec in IN_TREE.plugins.items() for point in spec.implementations]


@pytest.mark.parametrize(("name", "point"), _SIDES, ids=[f"{name}-{point}" for name, point in _SIDES])
def test_a_side_is_of_an_extension_point_that_the_plugin_has(name: str, point: ExtensionPoint) -> None:
    spec = IN_TREE[name]
    assert IN_TREE.implements(name, point)
    assert callable(spec.implementations[point].load(spec.package))
    assert spec.package == f"trireme.plugins.{spec.package.rpartition('.')[2]}"


@pytest.mark.parametrize("name", [name for name, point in _SIDES if point is ExtensionPoint.FILTER])
def test_a_filter_side_makes_a_filter_plugin_of_that_name(name: str) -> None:
    """A process would fail at the first pod."""
    plugin = filter_plugins.make_filter_plugin(name, b"", {})
    assert plugin is not None
    assert plugin.name == name
    assert callable(plugin.pre_filter)
    assert callable(plugin.filter)
    assert isinstance(plugin.depends_on, interfaces.Dependency)


@pytest.mark.parametrize("name", [name for name, point in _SIDES if point is ExtensionPoint.SCORE])
def test_a_score_side_makes_a_score_plugin_of_that_name(name: str) -> None:
    """A process would fail at the first pod."""
    plugin = score_plugins.make_score_plugin(name, b"", {})
    assert isinstance(plugin, scorers.ScorePlugin | scorers.JointScorePlugin)
    assert plugin.name == name


def test_the_sides_of_the_bind_phase_are_plugins_of_their_name_at_their_point() -> None:
    """A profile names a plugin at PreBind, and the phase would refuse the configuration."""
    unused: Any = None
    made = bind_plugins.bind_phase_plugins(snapshot_pb2.Configuration(), unused, unused, lambda: 0)
    calls = {ExtensionPoint.PRE_BIND: "pre_bind", ExtensionPoint.BIND: "bind"}
    for name, point in _SIDES:
        if point in calls:
            assert made[name].name == name
            assert getattr(made[name], calls[point]) is not None


@pytest.mark.parametrize("role", list(Role))
def test_each_role_is_one_plugins(role: Role) -> None:
    assert [name for name, spec in IN_TREE.plugins.items() if spec.role is role] == [IN_TREE.name_of(role)]


def test_the_declared_actions_of_plugins_exist() -> None:
    """A kind that is written wrongly would be an action that nobody carries out."""
    kinds = {field.name for field in bind_pb2.Action.DESCRIPTOR.oneofs_by_name["action"].fields}
    stated = [kind for spec in IN_TREE.plugins.values() for kind in spec.actions]
    assert len(stated) == len(set(stated))
    assert set(stated) <= kinds
    assert all(callable(bind_plugins.action_call(kind)) for kind in stated)


@pytest.mark.parametrize(
    ("plugin", "code", "expected"),
    [
        ("NodeResourcesFit", "insufficientResource", "2 CPUs requested"),
        ("NodeResourcesFit", "unheard", ""),
        ("NodeName", "nodeName", ""),
        ("Unheard", "insufficientResource", ""),
    ],
    ids=["text", "no-such-reason", "no-texts", "not-in-tree"],
)
def test_the_texts_of_reasons(plugin: str, code: str, expected: str) -> None:
    """What has no text is shown by its parameters; a missing one must not end the command."""
    assert reason_texts.reason_text(plugin, code, {"asked": "2", "resource": "cpu"}) == expected


def test_a_plugin_that_is_not_in_tree_or_has_no_such_side_is_not_made() -> None:
    """It is somebody else's, who is asked next."""
    assert filter_plugins.make_filter_plugin("Unheard", b"", {}) is None
    assert filter_plugins.make_filter_plugin("ImageLocality", b"", {}) is None
    assert score_plugins.make_score_plugin("NodeName", b"", {}) is None


def test_args_that_are_no_object_are_refused() -> None:
    with pytest.raises(ValueError, match="args of plugin NodeName: must be an object"):
        filter_plugins.make_filter_plugin("NodeName", b"[]", {})


def test_each_folder_of_plugins_has_a_line_in_the_registry() -> None:
    """A plugin would be there that no profile may name."""
    (root,) = plugins.__path__
    folders = {entry.name for entry in pathlib.Path(root).iterdir() if entry.is_dir() and entry.name != "__pycache__"}
    assert {spec.package.rpartition(".")[2] for spec in IN_TREE.plugins.values()} == folders
