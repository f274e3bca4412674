"""What plugins read together, and whether that is more than what pods are projected with already."""

import pytest

from trireme.cache import pod_read_set
from trireme.cache.pod_read_set import PodReadSet
from trireme.v1 import plugin_pb2

NONE, A, B = PodReadSet(), PodReadSet(frozenset("a")), PodReadSet(frozenset("b"))
AB, ALL = PodReadSet(frozenset("ab")), PodReadSet(None)
PATH = PodReadSet(paths=frozenset({"spec.nodeSelector"}))
ALL_AND_PATH = PodReadSet(None, frozenset({"spec.nodeSelector"}))


@pytest.mark.parametrize(
    ("known", "read", "covered"),
    [
        (NONE, NONE, True),
        (NONE, A, False),
        (A, A, True),
        (AB, A, True),
        (A, AB, False),
        (A, ALL, False),
        (ALL, A, True),
        (ALL, ALL, True),
        (ALL, PATH, False),
        (PATH, NONE, True),
        (PATH, A, False),
        (ALL_AND_PATH, PATH, True),
        (ALL_AND_PATH, ALL, True),
        (AB, ALL_AND_PATH, False),
    ],
)
def test_a_set_covers_what_it_includes(known: PodReadSet, read: PodReadSet, covered: bool) -> None:
    assert known.covers(read) is covered


@pytest.mark.parametrize(
    ("one", "other", "both"),
    [(A, B, AB), (A, NONE, A), (A, ALL, ALL), (ALL, A, ALL), (ALL, PATH, ALL_AND_PATH), (NONE, PATH, PATH)],
)
def test_a_union_has_what_either_has(one: PodReadSet, other: PodReadSet, both: PodReadSet) -> None:
    assert one.union(other) == both


def _plugin(*fields: str) -> plugin_pb2.PluginInfo:
    return plugin_pb2.PluginInfo(pod_fields=fields)


@pytest.mark.parametrize(
    ("plugins", "together"),
    [
        ([], NONE),
        ([_plugin("metadata.labels['a']"), _plugin("metadata.labels['b']")], AB),
        ([_plugin("metadata.labels"), _plugin("metadata.labels['b']")], ALL),
        ([_plugin("metadata.labels['b']"), _plugin("metadata.labels")], ALL),
        ([_plugin("spec.nodeSelector", "metadata.labels['a']"), _plugin("metadata.annotations")], None),
        ([_plugin("spec.nodeSelector"), _plugin()], PATH),
        ([_plugin("spec", "metadata.labels['a']", "spec.nodeSelector", "metadata.annotations")], None),
        ([_plugin("spec")], NONE),
    ],
)
def test_remote_plugins_read_what_any_of_them_reads(
    plugins: list[plugin_pb2.PluginInfo], together: PodReadSet | None
) -> None:
    expected = together or PodReadSet(frozenset("a"), frozenset({"spec.nodeSelector", "metadata.annotations"}))
    assert pod_read_set.of_remote_plugins(plugins) == expected
