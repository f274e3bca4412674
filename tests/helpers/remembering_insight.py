"""Insight that received what a recorded cluster sent, and what it explains of its pods."""

from typing import Any

from tests.helpers.phase_calls import context
from tests.helpers.recorded_decisions import RecordedCluster
from trireme.insight import service
from trireme.registry import remote_makers
from trireme.snapshot import snapshot
from trireme.v1 import cycle_pb2, decision_explanation_pb2, insight_pb2, recording_pb2, snapshot_pb2


class RememberingInsight:
    """A replica that follows the frames of a recorded cluster, as a stream brings them."""

    def __init__(self, cluster: RecordedCluster) -> None:
        self.cluster = cluster
        remotes = cluster.remotes if cluster.configuration.remote_plugins else None
        self.service = service.InsightService(
            snapshot.Snapshot(),
            remote_makers.no_remote_plugin if remotes is None else remotes.make_filter_plugin,
            remote_makers.no_remote_plugin if remotes is None else remotes.make_score_plugin,
        )
        self.service.configure(cluster.configuration)
        self._taken = 0

    def follow(self, frames: list[recording_pb2.RecordedFrame] | None = None) -> "RememberingInsight":
        """Take what came since the last call."""
        frames = self.cluster.frames() if frames is None else frames
        for frame in frames[self._taken :]:
            kind = frame.message.WhichOneof("message")
            if kind == "delta":
                self.service.cluster.apply(frame.message.delta)
            elif kind == "queue":
                self.service.cluster.apply_queue(frame.message.queue)
            self.service.take(frame.message)
        self._taken = len(frames)
        return self

    def queue(self, *pods: snapshot_pb2.QueuedPod) -> None:
        """These pods are in the queue."""
        self.service.cluster.apply_queue(snapshot_pb2.QueueDelta(pods=pods))

    async def decision(
        self, name: str, uid: str = "", **fields: Any
    ) -> decision_explanation_pb2.ExplainDecisionResponse:
        """By which decision the pod got its node."""
        pod = cycle_pb2.PodIdentity(namespace="default", name=name, uid=uid)
        request = decision_explanation_pb2.ExplainDecisionRequest(pod=pod, **fields)
        return await self.service.ExplainDecision(request, context())

    async def pending(self, name: str, **fields: Any) -> insight_pb2.ExplainResponse:
        """Why the pod waits."""
        pod = cycle_pb2.PodIdentity(namespace="default", name=name)
        return await self.service.Explain(insight_pb2.ExplainRequest(pod=pod, **fields), context())
