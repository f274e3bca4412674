"""Requests to plugins, joined from cached serialised parts.

A call about two thousand nodes would spend its time building two thousand messages. An encoded message is the
concatenation of its fields, so requests are joined from bytes: a class's pod is serialised once per class, a node's
name once per node. The result equals that of the generated code (a test checks this).

Invariant: a plugin gets only the fields of pods and nodes that its PluginInfo requests.

Tests: tests/unit/remote/test_request.py.
"""

import weakref
from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np

from trireme.framework import canaries
from trireme.plugin_api import interfaces, pod_fields
from trireme.snapshot import arrays, classes, nodes
from trireme.v1 import core_pb2, cycle_pb2, filter_pb2, plugin_pb2, score_copies_pb2, score_pb2
from trireme_kube.apimachinery import protobuf_wire

# The most nodes in one call, and bytes of them: a gRPC server accepts 4 MiB by default.
NODES_PER_CALL = 2000
BYTES_PER_CALL = 3 << 20

# A filter need not count beyond the pending pods, but results are cached for later pods.
COUNT = interfaces.UNLIMITED

_SELECTION_NODES = filter_pb2.NodeSelection.NODES_FIELD_NUMBER
_SELECTION_SLOTS = filter_pb2.NodeSelection.SLOTS_FIELD_NUMBER
_VIEW_NAME = filter_pb2.NodeView.NAME_FIELD_NUMBER
_VIEW_NODE = filter_pb2.NodeView.NODE_FIELD_NUMBER
_VIEW_JSON = filter_pb2.NodeView.JSON_FIELD_NUMBER


def cycle(profile: str, pod_class: int, generation: int, pod: bytes, state: bytes, fence: cycle_pb2.Cycle) -> bytes:
    """Serialise a Cycle. `pod` is a serialised Pod; `fence` has the caller's identity."""
    head = cycle_pb2.Cycle(
        fence=fence.fence,
        config_hash=fence.config_hash,
        profile=profile,
        pod_class=pod_class,
        generation=generation,
        state=state,
    )
    return head.SerializeToString() + protobuf_wire.encode_delimited(cycle_pb2.Cycle.POD_FIELD_NUMBER, pod)


def pre_filter(cycle_bytes: bytes) -> bytes:
    """Serialise a PreFilterRequest."""
    return protobuf_wire.encode_delimited(filter_pb2.PreFilterRequest.CYCLE_FIELD_NUMBER, cycle_bytes)


def filter_nodes(cycle_bytes: bytes, selection: bytes) -> bytes:
    """Serialise a FilterRequest."""
    return (
        protobuf_wire.encode_delimited(filter_pb2.FilterRequest.CYCLE_FIELD_NUMBER, cycle_bytes)
        + protobuf_wire.encode_number(filter_pb2.FilterRequest.COUNT_FIELD_NUMBER, COUNT)
        + protobuf_wire.encode_delimited(filter_pb2.FilterRequest.NODES_FIELD_NUMBER, selection)
    )


def score(cycle_bytes: bytes, selection: bytes) -> bytes:
    """Serialise a ScoreRequest, a PreScoreRequest or the first fields of others: they are the same."""
    return protobuf_wire.encode_delimited(
        score_pb2.ScoreRequest.CYCLE_FIELD_NUMBER, cycle_bytes
    ) + protobuf_wire.encode_delimited(score_pb2.ScoreRequest.NODES_FIELD_NUMBER, selection)


def score_copies(cycle_bytes: bytes, selection: bytes, copies: int) -> bytes:
    """Serialise a ScoreCopiesRequest."""
    number = score_copies_pb2.ScoreCopiesRequest.COPIES_FIELD_NUMBER
    return score(cycle_bytes, selection) + protobuf_wire.encode_number(number, copies)


def normalize_score(cycle_bytes: bytes, selection: bytes, scores: arrays.Int64Array) -> bytes:
    """Serialise a NormalizeScoreRequest."""
    return score(cycle_bytes, selection) + score_pb2.NormalizeScoreRequest(scores=scores.tolist()).SerializeToString()


class PodBytes:
    """One plugin's projection of each class's pod, serialised once per class."""

    __slots__ = ("_fields", "_key")

    def __init__(self, plugin: str, paths: Sequence[str]) -> None:
        """Raises: ValueError naming a path that is no field."""
        self._key = f"remote pod {plugin} {' '.join(paths)}"
        self._fields = pod_fields.PodFields(paths)

    def of(self, pod_class: classes.PodClass) -> bytes:
        """The serialised pod."""
        return pod_class.memo(self._key, lambda c: self.project(c.pod).SerializeToString(deterministic=True))

    def project(self, pod: core_pb2.Pod) -> core_pb2.Pod:
        """Project a pod to the fields that the plugin reads."""
        projected = self._fields.project(pod)
        canaries.remove_marks(projected.metadata.annotations)
        return projected


class NodeSelectionBuilder:
    """Builds serialised NodeSelections for one plugin, in the form in which it wants nodes.

    The views of NODE_DATA_NAMES are cached by slot; `_generation` is the last change of each cached view's node.
    """

    def __init__(self, form: plugin_pb2.NodeData.ValueType) -> None:
        self._form = form
        # Of a snapshot that may have been replaced since: it is not kept for the next call's sake.
        self._table: weakref.ref[nodes.NodeTable] | None = None
        self._views: list[bytes] = []
        self._generation = np.zeros(0, dtype=np.int64)

    def split(self, table: nodes.NodeTable, slots: arrays.SlotArray) -> Iterator[tuple[slice, bytes]]:
        """Split the slots, in order, into selections that fit one call, each with its part of `slots`.

        They hold the nodes as they are now, whenever they are taken.
        """
        if self._form == plugin_pb2.NODE_DATA_SNAPSHOT:
            return _slot_selections(slots)
        if self._form == plugin_pb2.NODE_DATA_MESSAGES:
            return _selections_of_views(_with_payload(table, slots, _VIEW_NODE, table.messages))
        if self._form == plugin_pb2.NODE_DATA_JSON:
            return _selections_of_views(_with_payload(table, slots, _VIEW_JSON, table.jsons))
        return _selections_of_names(self._name_views(table, slots))

    def names(self, table: nodes.NodeTable, slots: arrays.SlotArray) -> bytes:
        """One selection of all the slots, by name alone (by slot for a plugin that follows the stream).

        PreScore and NormalizeScore get it, which are about all nodes at once.
        """
        if self._form == plugin_pb2.NODE_DATA_SNAPSHOT:
            return _slot_selection(slots)
        return b"".join(self._name_views(table, slots))

    def _name_views(self, table: nodes.NodeTable, slots: arrays.SlotArray) -> list[bytes]:
        """Return the slots' serialised names, each serialised again only when its node has changed."""
        if self._table is None or self._table() is not table:
            self._table, self._views = weakref.ref(table), []
            self._generation = np.zeros(0, dtype=np.int64)
        if len(self._views) < table.size:
            self._views.extend([b""] * (table.capacity - len(self._views)))
            self._generation = arrays.grow_last_axis(self._generation, table.capacity)
        current = table.object_changes.at[slots]
        old = self._generation[slots] != current
        for slot in slots[old].tolist():
            self._views[slot] = protobuf_wire.encode_delimited(
                _SELECTION_NODES, protobuf_wire.encode_delimited(_VIEW_NAME, table.names[slot].encode())
            )
        self._generation[slots] = current
        views = self._views
        return [views[slot] for slot in slots.tolist()]


def _with_payload(
    table: nodes.NodeTable, slots: arrays.SlotArray, field_number: int, payloads: Mapping[int, bytes]
) -> Iterable[bytes]:
    """Views with name and payload, of the nodes as they are now, joined only when they are needed."""
    rows = [(table.names[slot], payloads.get(slot, b"")) for slot in slots.tolist()]
    return (
        protobuf_wire.encode_delimited(
            _SELECTION_NODES,
            protobuf_wire.encode_delimited(_VIEW_NAME, name.encode())
            + protobuf_wire.encode_delimited(field_number, payload),
        )
        for name, payload in rows
    )


def _selections_of_names(views: Sequence[bytes]) -> Iterator[tuple[slice, bytes]]:
    """Join views of names to selections: a name has at most 253 bytes, so that their number alone bounds the size."""
    for start in range(0, len(views), NODES_PER_CALL):
        part = slice(start, min(start + NODES_PER_CALL, len(views)))
        yield part, b"".join(views[part])


def _selections_of_views(views: Iterable[bytes]) -> Iterator[tuple[slice, bytes]]:
    """Join the views to selections of bounded size."""
    pieces: list[bytes] = []
    start = size = 0
    for view in views:
        if pieces and (size + len(view) > BYTES_PER_CALL or len(pieces) >= NODES_PER_CALL):
            yield slice(start, start + len(pieces)), b"".join(pieces)
            start += len(pieces)
            pieces, size = [], 0
        pieces.append(view)
        size += len(view)
    if pieces:
        yield slice(start, start + len(pieces)), b"".join(pieces)


def _slot_selections(slots: arrays.SlotArray) -> Iterator[tuple[slice, bytes]]:
    """The selections of bounded size for a plugin that knows nodes by slot."""
    for start in range(0, slots.shape[0], NODES_PER_CALL):
        part = slice(start, min(start + NODES_PER_CALL, slots.shape[0]))
        yield part, _slot_selection(slots[part])


def _slot_selection(slots: arrays.SlotArray) -> bytes:
    return protobuf_wire.encode_delimited(_SELECTION_SLOTS, b"".join(map(protobuf_wire.encode_varint, slots.tolist())))
