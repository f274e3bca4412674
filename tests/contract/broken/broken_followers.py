"""Plugins that follow the cluster wrongly: what they acknowledge, and what they make of pods on other nodes."""

from collections.abc import AsyncIterator

import grpc

from tests.contract.broken.reference_plugin import ReferencePlugin, Refused, refusal
from trireme.plugin_verification import rpcs
from trireme.v1 import filter_pb2, plugin_pb2, score_copies_pb2, score_pb2, snapshot_pb2, status_pb2


class FollowingPlugin(ReferencePlugin):
    """Follows the cluster: at most one hundred pods on a node; prefers nodes with few. Knows nodes by slot."""

    points = (rpcs.FILTER_POINT, rpcs.SCORE_POINT)

    def __init__(self) -> None:
        super().__init__()
        self.generation = 0
        #: How many pods each slot has.
        self.pods: dict[int, int] = {}
        self._streams = 0

    def info(self) -> plugin_pb2.PluginInfo:
        info = super().info()
        info.node_data = plugin_pb2.NODE_DATA_SNAPSHOT
        info.depends_on = plugin_pb2.DEPENDENCY_NODE_PODS
        info.score_copies = True
        return info

    def count(self, slot: int) -> int:
        """How many pods count for the node at the slot."""
        return self.pods.get(slot, 0)

    def Filter(self, request: filter_pb2.FilterRequest) -> filter_pb2.FilterResponse:
        return filter_pb2.FilterResponse(columns=self.columns_of([self.count(slot) for slot in request.nodes.slots]))

    def FilterDryRun(self, request: filter_pb2.FilterDryRunRequest) -> filter_pb2.FilterDryRunResponse:
        counts = [self.count(run.slot) + len(run.added_classes) - len(run.removed_rows) for run in request.runs]
        return filter_pb2.FilterDryRunResponse(columns=self.columns_of(counts))

    def columns_of(self, counts: list[int]) -> filter_pb2.NodeColumns:
        """The verdicts about nodes with so many pods."""
        columns = filter_pb2.NodeColumns(size=len(counts))
        if any(count >= 100 for count in counts):
            columns.statuses.append(refusal("node(s) had too many pods"))
        for count in counts:
            columns.status_index.append(int(count >= 100))
            columns.capacity.append(max(100 - count, 0))
        return columns

    def Score(self, request: score_pb2.ScoreRequest) -> score_pb2.ScoreResponse:
        scores = [100 - self.count(slot) for slot in request.nodes.slots]
        return score_pb2.ScoreResponse(status=status_pb2.Status(code=status_pb2.CODE_SUCCESS), scores=scores)

    def ScoreCopies(self, request: score_copies_pb2.ScoreCopiesRequest) -> score_copies_pb2.ScoreCopiesResponse:
        response = score_copies_pb2.ScoreCopiesResponse(status=status_pb2.Status(code=status_pb2.CODE_SUCCESS))
        for slot in request.nodes.slots:
            response.scores.extend(self.scores_of_copies(slot, request.copies))
        self.change_copies(response)
        return response

    def scores_of_copies(self, slot: int, copies: int) -> list[int]:
        """The scores of the node with one pod more, with two, and so on."""
        return [100 - self.count(slot) - copy for copy in range(1, copies + 1)]

    def change_copies(self, response: score_copies_pb2.ScoreCopiesResponse) -> None:
        """What a broken plugin makes of the answer."""

    async def sync(self, requests: AsyncIterator[snapshot_pb2.SyncRequest]) -> AsyncIterator[snapshot_pb2.SyncResponse]:
        """Follow one stream; another one with a Hello replaces it."""
        first = await anext(aiter(requests), None)
        if first is None or not first.HasField("hello"):
            raise Refused(grpc.StatusCode.INVALID_ARGUMENT, "the stream does not begin with Hello")
        self._streams += 1
        own = self._streams
        async for request in requests:
            if own != self._streams:
                raise Refused(grpc.StatusCode.ABORTED, "another stream has replaced this one")
            self.apply(request.delta)
            yield self.acknowledgement()

    def apply(self, delta: snapshot_pb2.Delta) -> None:
        """Take the next state of the cluster."""
        if delta.reset:
            self.pods.clear()
        for slot in delta.pods.slot:
            self.pods[slot] = self.pods.get(slot, 0) + 1
        self.generation = delta.to_generation

    def acknowledgement(self) -> snapshot_pb2.SyncResponse:
        """What it has applied."""
        return snapshot_pb2.SyncResponse(applied_generation=self.generation, instance="1")


class StreamNotServed(FollowingPlugin):
    """Declares that it follows the cluster and does not serve the stream."""

    violates = "P200"

    async def sync(self, requests: AsyncIterator[snapshot_pb2.SyncRequest]) -> AsyncIterator[snapshot_pb2.SyncResponse]:
        raise Refused(grpc.StatusCode.UNIMPLEMENTED, "not here")
        yield snapshot_pb2.SyncResponse()


class FullSyncNotAcknowledged(FollowingPlugin):
    """Acknowledges deltas, and not the full sync before them."""

    violates = "P201"
    # With Filter or Score there are deltas before the check.
    points = (rpcs.PRE_FILTER_POINT,)
    after_reset = True

    def apply(self, delta: snapshot_pb2.Delta) -> None:
        super().apply(delta)
        self.after_reset = delta.reset

    def acknowledgement(self) -> snapshot_pb2.SyncResponse:
        generation = 0 if self.after_reset else self.generation
        return snapshot_pb2.SyncResponse(applied_generation=generation, instance="1")


class NamelessInstance(FollowingPlugin):
    """Does not name its instance."""

    violates = "P202"

    def acknowledgement(self) -> snapshot_pb2.SyncResponse:
        return snapshot_pb2.SyncResponse(applied_generation=self.generation)


class AheadOfTheCluster(FollowingPlugin):
    """Acknowledges the generation after the last."""

    violates = "P203"

    def acknowledgement(self) -> snapshot_pb2.SyncResponse:
        return snapshot_pb2.SyncResponse(applied_generation=self.generation + 1, instance="1")


class AnyStreamReplaces(FollowingPlugin):
    """Ends its stream for one that says nothing."""

    violates = "P204"

    async def sync(self, requests: AsyncIterator[snapshot_pb2.SyncRequest]) -> AsyncIterator[snapshot_pb2.SyncResponse]:
        self._streams += 1
        async for response in super().sync(requests):
            yield response


class CountsAllPodsAtFilter(FollowingPlugin):
    """Filters by the pods of all nodes, and declares that it depends on each node's own."""

    violates = "P081"
    points = (rpcs.FILTER_POINT,)

    def count(self, slot: int) -> int:
        return sum(self.pods.values())


class CountsAllPodsAtScore(CountsAllPodsAtFilter):
    """Scores by the pods of all nodes, and declares that it depends on each node's own."""

    violates = "P082"
    points = (rpcs.SCORE_POINT,)


class CopiesNotServed(FollowingPlugin):
    """Announces ScoreCopies and does not serve it."""

    violates = "P104"

    def ScoreCopies(self, request: score_copies_pb2.ScoreCopiesRequest) -> score_copies_pb2.ScoreCopiesResponse:
        raise Refused(grpc.StatusCode.UNIMPLEMENTED, "not here")


class CopiesWithoutStatus(FollowingPlugin):
    """Scores copies without a status."""

    violates = "P105"

    def change_copies(self, response: score_copies_pb2.ScoreCopiesResponse) -> None:
        response.ClearField("status")


class OneCopyOnly(FollowingPlugin):
    """Answers one score for each node, however many copies there are."""

    violates = "P106"

    def scores_of_copies(self, slot: int, copies: int) -> list[int]:
        return super().scores_of_copies(slot, 1)


class CopiesBelowZero(FollowingPlugin):
    """Takes so much for a copy that its scores are negative."""

    violates = "P107"

    def count(self, slot: int) -> int:
        return 40 * super().count(slot)

    def scores_of_copies(self, slot: int, copies: int) -> list[int]:
        return [100 - 40 * (self.pods.get(slot, 0) + copy) for copy in range(1, copies + 1)]

    def columns_of(self, counts: list[int]) -> filter_pb2.NodeColumns:
        return super().columns_of([0] * len(counts))


class CopiesByTheNodesInTheCall(FollowingPlugin):
    """Scores the copies of the first node of a call as the best."""

    violates = "P108"

    def change_copies(self, response: score_copies_pb2.ScoreCopiesResponse) -> None:
        response.scores[0] = 100


class CopiesThatDoNotCount(FollowingPlugin):
    """Scores nodes with copies as they are."""

    violates = "P109"

    def scores_of_copies(self, slot: int, copies: int) -> list[int]:
        return [100 - self.count(slot)] * copies
