"""Requests made of bytes must be what the generated code would write."""

import gc
import weakref

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from trireme.remote import remote_request
from trireme.snapshot import classes, nodes
from trireme.v1 import core_pb2, cycle_pb2, filter_pb2, plugin_pb2, score_pb2, snapshot_pb2
from trireme_kube.apimachinery import protobuf_wire


def table(count: int, *, messages: bool = False, json: bool = False, size: int = 0) -> nodes.NodeTable:
    """A table of nodes node-0, node-1, … each with a label of so many bytes."""
    made = nodes.NodeTable(messages, json)
    for slot in range(count):
        node = core_pb2.Node()
        node.metadata.name = f"node-{slot}"
        node.metadata.labels["pad"] = "x" * size
        made.upsert([snapshot_pb2.NodeEntry(slot=slot, node=node, json=f'{{"n":{slot}}}'.encode())], slot + 1)
    return made


def selections(
    form: plugin_pb2.NodeData.ValueType, given_table: nodes.NodeTable, slots: list[int]
) -> list[tuple[slice, filter_pb2.NodeSelection]]:
    """What is sent about these slots."""
    parts = remote_request.NodeSelectionBuilder(form).split(given_table, np.array(slots, dtype=np.intp))
    return [(part, filter_pb2.NodeSelection.FromString(payload)) for part, payload in parts]


@given(st.integers(0, 2**63 - 1))
def test_varints_are_what_protobuf_writes(value: int) -> None:
    """If this fails, requests have other numbers in them than were meant."""
    expected = cycle_pb2.Cycle(generation=value).SerializeToString()
    made = protobuf_wire.encode_number(cycle_pb2.Cycle.GENERATION_FIELD_NUMBER, value)
    assert cycle_pb2.Cycle.FromString(made) == cycle_pb2.Cycle.FromString(expected)
    assert made == expected or value == 0


def test_a_filter_request_is_the_message_it_stands_for() -> None:
    """If this fails, plugins in other languages cannot read what we send."""
    pod = core_pb2.Pod()
    pod.metadata.namespace = "shop"
    pod.spec.priority = 7
    asker = cycle_pb2.Cycle(fence=cycle_pb2.Fence(epoch=5), config_hash=2**63)
    pod_class = classes.PodClass(3, pod)
    pod_bytes = remote_request.PodBytes("P", ["metadata.namespace"]).of(pod_class)
    cycle = remote_request.cycle("default-scheduler", 3, 300, pod_bytes, b"state", asker)
    ((part, payload),) = remote_request.NodeSelectionBuilder(plugin_pb2.NODE_DATA_NAMES).split(
        table(2), np.array([1, 0])
    )
    expected = filter_pb2.FilterRequest(
        cycle=cycle_pb2.Cycle(
            fence=cycle_pb2.Fence(epoch=5),
            config_hash=2**63,
            profile="default-scheduler",
            pod_class=3,
            generation=300,
            state=b"state",
            pod=core_pb2.Pod(metadata={"namespace": "shop"}),
        ),
        count=remote_request.COUNT,
        nodes=filter_pb2.NodeSelection(nodes=[{"name": "node-1"}, {"name": "node-0"}]),
    )
    assert part == slice(0, 2)
    assert filter_pb2.FilterRequest.FromString(remote_request.filter_nodes(cycle, payload)) == expected
    assert filter_pb2.PreFilterRequest.FromString(remote_request.pre_filter(cycle)).cycle == expected.cycle


def test_a_normalize_request_has_all_scores() -> None:
    """If this fails, NormalizeScore normalises something else than was scored."""
    asker = cycle_pb2.Cycle()
    cycle = remote_request.cycle("p", 1, 1, b"", b"", asker)
    selection = remote_request.NodeSelectionBuilder(plugin_pb2.NODE_DATA_JSON).names(
        table(2, json=True), np.array([0, 1])
    )
    request = score_pb2.NormalizeScoreRequest.FromString(
        remote_request.normalize_score(cycle, selection, np.array([1, -2]))
    )
    assert [view.name for view in request.nodes.nodes] == ["node-0", "node-1"]
    assert not any(view.json for view in request.nodes.nodes)
    assert list(request.scores) == [1, -2]


@pytest.mark.parametrize(
    ("form", "messages", "json"),
    [
        (plugin_pb2.NODE_DATA_UNSPECIFIED, False, False),
        (plugin_pb2.NODE_DATA_NAMES, False, False),
        (plugin_pb2.NODE_DATA_MESSAGES, True, False),
        (plugin_pb2.NODE_DATA_JSON, False, True),
    ],
    ids=["unset", "names", "messages", "json"],
)
def test_nodes_are_sent_in_the_declared_form(form: plugin_pb2.NodeData.ValueType, messages: bool, json: bool) -> None:
    """If this fails, a plugin decides by nodes that it does not see."""
    ((_, selection),) = selections(form, table(3, messages=True, json=True), [2])
    (view,) = selection.nodes
    assert view.name == "node-2"
    assert view.HasField("node") is messages
    assert (view.node.metadata.name == "node-2") is messages
    assert view.json == (b'{"n":2}' if json else b"")


def test_a_plugin_that_follows_the_stream_gets_slots() -> None:
    """If this fails, a plugin with a snapshot of its own is asked about no nodes."""
    ((part, selection),) = selections(plugin_pb2.NODE_DATA_SNAPSHOT, table(300), [299, 0, 130])
    assert list(selection.slots) == [299, 0, 130]
    assert part == slice(0, 3)
    assert not selection.nodes
    of_all = remote_request.NodeSelectionBuilder(plugin_pb2.NODE_DATA_SNAPSHOT).names(table(3), np.array([2, 1]))
    assert filter_pb2.NodeSelection.FromString(of_all) == filter_pb2.NodeSelection(slots=[2, 1])


@pytest.mark.parametrize(
    "form",
    [plugin_pb2.NODE_DATA_NAMES, plugin_pb2.NODE_DATA_SNAPSHOT, plugin_pb2.NODE_DATA_JSON],
    ids=["names", "slots", "json"],
)
@pytest.mark.parametrize("count", [0, 1, 1999, 2000, 2001, 4000, 4500])
def test_many_nodes_go_in_parts(form: plugin_pb2.NodeData.ValueType, count: int) -> None:
    """If this fails, a large cluster makes a call that no server takes, or a node is asked about twice or never."""
    parts = selections(form, table(count), list(range(count)))
    assert [part.stop for part, _ in parts] == [*range(2000, count, 2000), *([count] if count else [])]
    entries = [len(selection.nodes) or len(selection.slots) for _, selection in parts]
    assert entries == [part.stop - part.start for part, _ in parts]
    assert sum(entries) == count


def test_large_nodes_go_in_smaller_parts() -> None:
    """If this fails, a thousand nodes with long annotations exceed the 4 MiB that a server takes."""
    made = table(40, messages=True, size=300_000)
    parts = list(remote_request.NodeSelectionBuilder(plugin_pb2.NODE_DATA_MESSAGES).split(made, np.arange(40)))
    assert len(parts) == 4
    assert all(len(payload) < 4 << 20 for _, payload in parts)
    assert [part.start for part, _ in parts] == [0, *(part.stop for part, _ in parts[:-1])]


def test_a_part_may_be_as_large_as_is_allowed(monkeypatch: pytest.MonkeyPatch) -> None:
    """If this fails, a call holds a node less than fit."""
    made = table(4, messages=True)
    split = remote_request.NodeSelectionBuilder(plugin_pb2.NODE_DATA_MESSAGES).split
    ((_, all_four),) = split(made, np.arange(4))
    monkeypatch.setattr(remote_request, "BYTES_PER_CALL", len(all_four) // 2)
    assert [part for part, _ in split(made, np.arange(4))] == [slice(0, 2), slice(2, 4)]


def test_a_reused_slot_is_sent_with_its_new_name() -> None:
    """If this fails, a plugin answers for a node that is gone."""
    made = table(3)
    views = remote_request.NodeSelectionBuilder(plugin_pb2.NODE_DATA_NAMES)
    before = b"".join(payload for _, payload in views.split(made, np.arange(3)))
    made.remove(1, 10)
    made.upsert([snapshot_pb2.NodeEntry(slot=1, node={"metadata": {"name": "other"}})], 11)
    after = b"".join(payload for _, payload in views.split(made, np.arange(3)))
    assert b"node-1" in before
    assert [view.name for view in filter_pb2.NodeSelection.FromString(after).nodes] == ["node-0", "other", "node-2"]


def test_another_table_is_seen_afresh() -> None:
    """If this fails, after a full sync a plugin is called about outdated nodes."""
    views = remote_request.NodeSelectionBuilder(plugin_pb2.NODE_DATA_NAMES)
    list(views.split(table(1), np.arange(1)))
    other = nodes.NodeTable()
    other.upsert([snapshot_pb2.NodeEntry(slot=0, node={"metadata": {"name": "other"}})], 1)
    ((_, payload),) = views.split(other, np.arange(1))
    assert filter_pb2.NodeSelection.FromString(payload).nodes[0].name == "other"


def test_all_parts_of_a_request_hold_nodes_of_one_time() -> None:
    """If this fails, a node that changes during the first part is mixed with its successor in the second."""
    made = table(2001, messages=True)
    parts = remote_request.NodeSelectionBuilder(plugin_pb2.NODE_DATA_MESSAGES).split(made, np.arange(2001))
    next(parts)
    made.remove(2000, 5000)
    _, payload = next(parts)
    assert filter_pb2.NodeSelection.FromString(payload).nodes[0].node.metadata.name == "node-2000"


def test_the_nodes_of_a_replaced_snapshot_are_not_kept() -> None:
    """A plugin that is called for no pod would hold them until it is."""
    views = remote_request.NodeSelectionBuilder(plugin_pb2.NODE_DATA_NAMES)
    made = table(3)
    views.names(made, np.arange(3))
    replaced = weakref.ref(made)
    del made
    gc.collect()
    assert replaced() is None
