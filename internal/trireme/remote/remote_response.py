"""Validates plugins' responses and converts them to what the evaluation uses.

Each function returns a value that fits the request, or raises ValueError with a message for the plugin's author that
names the field and the mistake.

Also change: protos/trireme/v1/status.proto (the limits of texts and reasons).

Tests: tests/unit/remote/test_response.py.
"""

import dataclasses
import itertools
from collections.abc import Collection, Iterable

import numpy as np

from trireme.framework import canaries, plugin_spec, status
from trireme.plugin_api import interfaces, scorers
from trireme.remote import remote_endpoint
from trireme.snapshot import arrays
from trireme.v1 import filter_pb2, score_copies_pb2, score_pb2, status_pb2
from trireme.wire import node_columns, packing
from trireme.wire import status as wire_status
from trireme_kube.apimachinery import event_text

# As many as nodes in a call: a plugin may return a different status for every node, though it should not.
MAX_STATUSES = 2000

# What is read of one status: the texts that fit into an event, and a few reasons. Each waiting pod keeps some statuses,
# and an answer with `interfaces.MAX_STATUSES` of them has to fit into a message of a phase.
MAX_TEXT_BYTES = event_text.MAX_NOTE_BYTES
MAX_REASONS = 16
MAX_REASON_BYTES = 2048


def read_status(
    message: status_pb2.Status,
    plugin: str,
    field: str = "status",
    also: Collection[status.Code] = (),
    *,
    may_refuse: bool = True,
) -> status.Status:
    """Read a status: success, a refusal or error with its message, or one of the codes in `also`.

    Without `may_refuse` a refusal is none of them. The result has the plugin's name, which decides which events wake
    the pod. What exceeds the limits of texts and reasons is left out, of `message` too.

    Raises: ValueError, also for a status with another plugin's name.
    """
    served = canaries.served_name(plugin)
    if message.plugin not in ("", served):
        foreign = remote_endpoint.one_line(message.plugin)
        raise ValueError(f"{field}.plugin: {foreign!r} is another plugin; allowed: {served!r}, or unset")
    if message.code == status_pb2.CODE_UNSPECIFIED:
        raise ValueError(f"{field}.code is not set")
    if message.code not in status_pb2.Code.values():
        raise ValueError(f"{field}.code: {message.code} is not known here")
    _shorten(message)
    value = wire_status.from_message(message, plugin)
    if value.code is status.Code.SUCCESS or value.code in also:
        return value
    if value.code is not status.Code.ERROR and not (may_refuse and value.is_rejection):
        allowed = [code.label for code in (status.Code.SUCCESS, *also, status.Code.ERROR)]
        allowed += ["a refusal"] if may_refuse else []
        raise ValueError(f"{field}.code: {value.code.label} does not belong here; allowed: {', '.join(allowed)}")
    if not value.message:
        raise ValueError(f"{field}.messages: a status {value.code.label} needs one")
    return dataclasses.replace(value, plugin=plugin)


def _shorten(message: status_pb2.Status) -> None:
    """Leave out the texts and reasons beyond the limits; a first text that is too long is cut."""
    if message.messages:
        message.messages[0] = event_text.cut_to_bytes(message.messages[0], MAX_TEXT_BYTES)
    separator = len(", ")
    sizes = (len(text.encode()) + separator for text in message.messages)
    del message.messages[_count_within(sizes, MAX_TEXT_BYTES + separator) :]
    sizes = (reason.ByteSize() for reason in message.reasons[:MAX_REASONS])
    del message.reasons[_count_within(sizes, MAX_REASON_BYTES) :]


def _count_within(sizes: Iterable[int], most: int) -> int:
    """How many items, from the first, have `most` bytes together."""
    return sum(1 for _ in itertools.takewhile(lambda total: total <= most, itertools.accumulate(sizes)))


def read_pre_filter(response: filter_pb2.PreFilterResponse, plugin: str) -> interfaces.PreFilterResult:
    """Read PreFilter's response; an error is in its status."""
    value = read_status(response.status, plugin, also=(status.Code.SKIP,))
    if value.code is status.Code.SKIP:
        return interfaces.SKIPPED
    if value.code is not status.Code.SUCCESS:
        return interfaces.PreFilterResult(status=value)
    nodes = frozenset(response.node_names) if response.narrowed else None
    return interfaces.PreFilterResult(nodes=nodes, state=response.state)


@dataclasses.dataclass(frozen=True, slots=True)
class NodeAnswers:
    """Results for nodes. Shape: (requested node,). `index` numbers `statuses` from 1; 0 passes."""

    statuses: tuple[status.Status, ...]
    index: arrays.Int16Array
    capacity: arrays.Int32Array

    def error(self) -> status.Status | None:
        """The first error status; if there is one, the other results are meaningless."""
        used = np.unique(self.index).tolist()
        values = [self.statuses[index - 1] for index in used if index]
        return next((value for value in values if value.code is status.Code.ERROR), None)

    def intern(self, table: interfaces.StatusTable) -> arrays.Int16Array:
        """Translate `index` to the table's numbers."""
        return table.translate(self.statuses, self.index)


def read_filter(
    response: filter_pb2.FilterResponse | filter_pb2.FilterDryRunResponse,
    plugin: str,
    count: int,
    depends_on: interfaces.Dependency,
    newest: int | None = None,
) -> NodeAnswers:
    """Read Filter's answer about `count` nodes. Raises: ValueError naming the field that is wrong.

    `newest` is the generation that the plugin was called about, where it cannot know a newer one.
    """
    if newest is not None and response.columns.generation > newest:
        raise ValueError(
            f"columns.generation: {response.columns.generation} is newer than the call's; allowed: at most {newest}"
        )
    if response.columns.base_generation:
        raise ValueError("columns.base_generation: is set, but the answer has to be complete, not a patch")
    if response.columns.size != count:
        raise ValueError(f"columns.size: {response.columns.size}, but the call is about {count} nodes")
    if len(response.columns.statuses) > MAX_STATUSES:
        raise ValueError(f"columns.statuses: more than {MAX_STATUSES} different ones")
    statuses = tuple(
        read_status(entry, plugin, f"columns.statuses[{at}]") for at, entry in enumerate(response.columns.statuses)
    )
    columns = node_columns.from_message(response.columns)
    for at in np.unique(columns.index[columns.index > 0]).tolist():
        if statuses[at - 1].code is status.Code.SUCCESS:
            raise ValueError(f"columns.statuses[{at - 1}]: nodes that pass have the index 0, not a status of success")
    passes = columns.index == interfaces.PASSES
    _check_capacity(columns.capacity, passes, depends_on)
    return NodeAnswers(statuses, columns.index, columns.capacity)


def _check_capacity(capacity: arrays.Int32Array, passes: arrays.BoolArray, depends_on: interfaces.Dependency) -> None:
    """Check capacities: at least 1 where a node passes, and unlimited if the plugin depends on the node alone."""
    wrong = np.flatnonzero(passes & (capacity < 1))
    if wrong.size:
        at = int(wrong[0])
        raise ValueError(f"columns.capacity[{at}]: {capacity[at]}, but a node that passes takes at least one pod")
    if depends_on is interfaces.Dependency.NODE:
        counted = np.flatnonzero(passes & (capacity != interfaces.UNLIMITED))
        if counted.size:
            at = int(counted[0])
            raise ValueError(
                f"columns.capacity[{at}]: {capacity[at]}; a plugin that counts pods depends on NODE_PODS, not on NODE "
                f"(no limit is {interfaces.UNLIMITED})"
            )


def read_pre_score(response: score_pb2.PreScoreResponse, plugin: str) -> tuple[status.Status, bytes]:
    """Read PreScore's response: success, skip or error, and the state."""
    return read_status(response.status, plugin, also=(status.Code.SKIP,), may_refuse=False), response.state


def read_score(
    response: score_pb2.ScoreResponse | score_pb2.NormalizeScoreResponse | score_copies_pb2.ScoreCopiesResponse,
    plugin: str,
    count: int,
    normalization: scorers.Normalization,
) -> arrays.Int64Array | status.Status:
    """Read so many scores; a status if the plugin answered an error. Raises: ValueError naming the field.

    `normalization` says what scores may be: 0 to 100 with NONE, 0 and more where they are divided by the largest.
    """
    value = read_status(response.status, plugin)
    if value.code is not status.Code.SUCCESS:
        return value
    if len(response.scores) != count:
        raise ValueError(f"scores: has {len(response.scores)} entries, must have {count}")
    scores = packing.to_array(response.scores, np.int64)
    _check_scores(scores, normalization)
    return scores


def _check_scores(scores: arrays.Int64Array, normalization: scorers.Normalization) -> None:
    """Check that scores are in the range that the normalisation needs. Raises: ValueError naming the entry."""
    if normalization is scorers.Normalization.CUSTOM:
        return
    most = (
        plugin_spec.MAX_SCORE
        if normalization is scorers.Normalization.NONE
        else np.iinfo(np.int64).max // plugin_spec.MAX_SCORE
    )
    wrong = np.flatnonzero((scores < 0) | (scores > most))
    if wrong.size:
        at = int(wrong[0])
        raise ValueError(f"scores[{at}]: {scores[at]}, must be from 0 to {most}")
