"""The cluster at past generations: copies of it, some deltas apart, and the deltas between them.

A copy shares what does not change, and saves what does; a past generation is the last copy before it with the deltas
from there on. The oldest copies go when the memory of all exceeds its bound.

Also change: docs/explain.md (how much it remembers).

Tests: tests/unit/insight/history/test_cluster_history.py,
tests/unit/insight/history/test_decision_explanations.py.
"""

import asyncio
import collections
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from trireme.evaluation import engine, filter_engine, score_engine
from trireme.insight import observed_cluster
from trireme.remote import recorded_makers
from trireme.snapshot import snapshot
from trireme.v1 import snapshot_pb2

MAX_BYTES = 128 << 20
# A new copy is made after so many deltas or bytes of them, or when so many pods have come and gone: applying these to a
# copy takes some 50 ms.
_SPAN_DELTAS = 500
_SPAN_BYTES = 4 << 20
_SPAN_PODS = 10_000
# In a large cluster a copy takes longer: after this share of its pods.
_SPAN_SHARE = 5
# Deltas applied to a copy between two turns of the event loop.
_DELTAS_PER_TURN = 50
# What a row of the pod table and a slot of the node table take in a copy, roughly; at most, for a copy that shares what
# has not changed since takes less.
_ROW_BYTES, _SLOT_BYTES = 40, 400


@dataclass(frozen=True, slots=True)
class RecordedProfiles:
    """The profiles with the remote plugins, which answer what `plugins` has been given of a decision."""

    plugins: recorded_makers.RecordedMakers
    filters: filter_engine.FilterProfiles
    scores: score_engine.ScoreProfiles


@dataclass(frozen=True, slots=True)
class Plugins:
    """The plugins of one configuration, by profile.

    `remote_filters` and `remote_scores` are the remote ones that are left out of `filters` and `scores`. `recorded` has
    them too; None: there are none.
    """

    filters: filter_engine.FilterProfiles
    scores: score_engine.ScoreProfiles
    remote_filters: Mapping[str, Sequence[str]]
    remote_scores: Mapping[str, Sequence[str]]
    recorded: RecordedProfiles | None = None


@dataclass(slots=True)
class Span:
    """A copy of the cluster, and the deltas after it. `era` grows with each full sync: generations begin anew.

    `continues`: the deltas of the span before lead to this copy.
    """

    era: int
    plugins: Plugins
    base: snapshot.Snapshot
    continues: bool
    deltas: list[snapshot_pb2.Delta] = field(default_factory=list)
    size: int = 0
    pods: int = 0


@dataclass(frozen=True, slots=True)
class PastCluster:
    """The cluster as it was at its generation; nothing changes it but its owner."""

    snap: snapshot.Snapshot
    plugins: Plugins

    def engine(self) -> engine.Engine:
        """An engine that evaluates it."""
        return engine.Engine(self.snap, self.plugins.filters, self.plugins.scores)


class ClusterHistory:
    """Spans of one observed cluster, oldest first; `record` gets each delta once the cluster has it."""

    def __init__(self, cluster: observed_cluster.ObservedCluster, *, max_bytes: int = MAX_BYTES) -> None:
        self._cluster = cluster
        self._max_bytes = max_bytes
        self._plugins: Plugins | None = None
        self._spans: collections.deque[Span] = collections.deque()
        self._current: Span | None = None
        self.era = 0
        #: Called with the era and generation of the oldest cluster that is left, when older ones go.
        self.forgotten: Callable[[int, int], None] = lambda era, generation: None

    @property
    def plugins(self) -> Plugins | None:
        """Those that decide now; None: not known yet."""
        return self._plugins

    @property
    def nbytes(self) -> int:
        """The memory of all, roughly."""
        return sum(span.size for span in self._spans)

    @property
    def span_count(self) -> int:
        """How many copies there are."""
        return len(self._spans)

    def use(self, plugins: Plugins) -> None:
        """These plugins decide from now on."""
        self._plugins, self._current = plugins, None

    def record(self, delta: snapshot_pb2.Delta) -> None:
        """Take over a delta that the cluster has applied, or holds back."""
        if delta.reset:
            self.era += 1
            self._current = None
        span = self._current
        if span is not None:
            span.deltas.append(delta)
            size = delta.ByteSize()
            span.size += size
            span.pods += len(delta.pods.row) + len(delta.removed_pods)
            if not self._is_full(span):
                return
        if self._plugins is not None and self._cluster.synced and not self._cluster.trial:
            self._begin_span(self._plugins)

    def _is_full(self, span: Span) -> bool:
        pods = max(_SPAN_PODS, self._cluster.snap.pods.count // _SPAN_SHARE)
        return len(span.deltas) >= _SPAN_DELTAS or span.size - _size_of(span.base) >= _SPAN_BYTES or span.pods >= pods

    def _begin_span(self, plugins: Plugins) -> None:
        """Copy the cluster, and drop the oldest copies if all together are too large."""
        base = _copy(self._cluster.snap)
        self._current = Span(self.era, plugins, base, continues=self._current is not None, size=_size_of(base))
        self._spans.append(self._current)
        dropped = False
        while len(self._spans) > 1 and self.nbytes > self._max_bytes:
            self._spans.popleft()
            dropped = True
        if dropped:
            self.forgotten(self._spans[0].era, self._spans[0].base.generation)

    def names(self) -> tuple[frozenset[str], frozenset[str]]:
        """The names of all nodes and placed pods of the remembered clusters."""
        nodes: set[str] = set()
        pods: set[str] = set()
        for position, span in enumerate(self._spans):
            # Otherwise the deltas of the span before have them.
            if position == 0 or not span.continues:
                nodes.update(span.base.nodes.slot_of_name)
                pods.update(span.base.pods.names)
            for delta in span.deltas:
                nodes.update(entry.node.metadata.name for entry in delta.nodes)
                pods.update(delta.pods.name)
        return frozenset(nodes), frozenset(pods - {""})

    async def replay_cluster_to(self, era: int, generation: int) -> PastCluster | None:
        """Replay the cluster to that generation; None: it is not remembered any more. Yields to other calls."""
        found = [span for span in self._spans if span.era == era and span.base.generation <= generation]
        if not found:
            return None
        span = found[-1]
        snap = _copy(span.base)
        for number, delta in enumerate(tuple(span.deltas)):
            if snap.generation >= generation:
                break
            snap.apply(delta)
            if number % _DELTAS_PER_TURN == _DELTAS_PER_TURN - 1:
                await asyncio.sleep(0)
        return PastCluster(snap, span.plugins) if snap.generation == generation else None


def _copy(snap: snapshot.Snapshot) -> snapshot.Snapshot:
    """A copy of the snapshot that deltas of the snapshot do not change."""
    nothing = np.zeros(0, dtype=np.int32)
    return snap.fork(np.zeros(0, dtype=np.intp), nothing, nothing)


def _size_of(snap: snapshot.Snapshot) -> int:
    """The memory of a copy at most, roughly: what it shares with others is counted too, for that changes."""
    return snap.pods.size * _ROW_BYTES + snap.nodes.capacity * _SLOT_BYTES
