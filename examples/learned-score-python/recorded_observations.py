"""Observations from a recording of the cluster, as `trireme record export` writes it.

A pod that was placed while the recording ran, started, and finished (it left the cluster without being deleted) is one
observation: what its node looked like when it was placed, and how long it took divided by how long the fastest pods of
its class took. Reading recordings takes the package `trireme`: the wheel of the SDK has no reader of them.
"""

import dataclasses
import pathlib
from collections import defaultdict
from collections.abc import Iterator
from typing import Any

import node_features
import numpy as np
import numpy.typing as npt

from trireme import sdk

try:
    from trireme.recording import segment_reader
except ImportError:  # beside the wheel of the SDK alone
    segment_reader = None  # type: ignore[assignment]

# The fastest tenth of a class's pods stands for pods on an empty node; smaller classes say too little about that.
_FASTEST = 0.1
_LEAST_OF_CLASS = 10


@dataclasses.dataclass(slots=True)
class _Running:
    """A pod that is on a node: its class, the features of the node at that time, and when that was."""

    kind: bytes
    features: npt.NDArray[np.float64]
    placed_ns: int
    started: bool = False
    deleted: bool = False


@dataclasses.dataclass(frozen=True, slots=True)
class _Finished:
    """A pod that has finished."""

    kind: bytes
    features: npt.NDArray[np.float64]
    seconds: float


def read(path: pathlib.Path) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
    """The features and slowdowns of the pods that finished. Shapes: (row, feature), (row,).

    Raises:
        ValueError: the file is no recording, or the package that reads recordings is not installed.
    """
    if segment_reader is None:
        raise ValueError("reading recordings takes the package trireme, which is not installed")
    by_kind: dict[bytes, list[_Finished]] = defaultdict(list)
    try:
        with path.open("rb") as file:
            for pod in _finished(segment_reader.SegmentReader(file, str(path)).frames()):
                by_kind[pod.kind].append(pod)
    except segment_reader.RecordingError as error:
        raise ValueError(str(error)) from error
    rows, slowdowns = [], []
    for pods in by_kind.values():
        if len(pods) >= _LEAST_OF_CLASS:
            seconds = np.array([pod.seconds for pod in pods])
            slowdowns.append(seconds / np.quantile(seconds, _FASTEST))
            rows += [pod.features for pod in pods]
    if not rows:
        return np.empty((0, len(node_features.FEATURES))), np.empty(0)
    return np.array(rows), np.concatenate(slowdowns)


def _finished(frames: Iterator[Any]) -> Iterator[_Finished]:
    """The pods of a recording's frames that were placed, started and finished."""
    followed = _Followed()
    for frame in frames:
        content = frame.WhichOneof("content")
        if content == "gap":
            followed.forget()
        elif content == "message" and frame.message.WhichOneof("message") == "delta":
            delta = frame.message.delta
            if frame.state_part:
                followed.take_state(delta)
            else:
                yield from followed.take(delta, frame.unix_time_ns)


class _Followed:
    """The cluster as the recording goes on, and the pods that were placed meanwhile."""

    def __init__(self) -> None:
        self._cluster = sdk.ClusterState()
        self._features = node_features.FeatureReader()
        self._running: dict[str, _Running] = {}

    def forget(self) -> None:
        """What is missing may hold the end of any pod."""
        self._running.clear()

    def take_state(self, delta: Any) -> None:
        """A part of a full state: its pods were placed before."""
        self._cluster.apply(delta)

    def take(self, delta: Any, now_ns: int) -> Iterator[_Finished]:
        """Apply a change of the cluster; the pods that finished with it."""
        if delta.reset:
            self.forget()
        removed = [self._cluster.pod(row) for row in delta.removed_pods]
        known = {pod.uid for row in delta.pods.row if (pod := self._cluster.pod(row)) is not None}
        self._cluster.apply(delta)
        for row in delta.pods.row:
            placed = self._cluster.pod(row)
            if placed is None:
                continue
            if placed.uid not in known and placed.uid not in self._running and not delta.reset:
                self._running[placed.uid] = self._begin(placed, now_ns)
            running = self._running.get(placed.uid)
            if running is not None:
                running.started = running.started or placed.start_time > 0
                running.deleted = running.deleted or placed.terminating
        here = {placed.uid for row in delta.pods.row if (placed := self._cluster.pod(row)) is not None}
        for gone in removed:
            if gone is None or gone.uid in here:
                continue
            ended = self._running.pop(gone.uid, None)
            if ended is not None and ended.started and not ended.deleted:
                yield _Finished(ended.kind, ended.features, (now_ns - ended.placed_ns) / 1e9)

    def _begin(self, placed: sdk.PlacedPod, now_ns: int) -> _Running:
        """The pod with the features of its node, on which it is from now on."""
        others = [pod for pod in self._cluster.pods_on(placed.slot) if pod.uid != placed.uid]
        node = sdk.Node("", self._cluster.nodes[placed.slot], b"", others)
        features = self._features.rows(placed.pod, [node])[0]
        return _Running(placed.pod.SerializeToString(deterministic=True), features, now_ns)
