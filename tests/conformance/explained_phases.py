"""InProcessPhases beside an insight replica of the same deltas: each answer is compared with its explanation."""

from collections.abc import AsyncIterator, Iterable, Sequence

from tests.conformance.decision_phases import Filtered, hash_of
from tests.conformance.in_process_phases import InProcessPhases
from tests.helpers import phase_calls
from trireme.evaluation import score_engine
from trireme.framework import status
from trireme.insight import service
from trireme.snapshot import arrays, snapshot
from trireme.v1 import cycle_pb2, insight_pb2, snapshot_pb2, status_pb2
from trireme.wire import status as wire_status


class ExplainedPhases(InProcessPhases):
    """Fails where insight explains otherwise than filter and score answer."""

    def __init__(self, configuration: snapshot_pb2.Configuration, *, by_deltas: bool = False) -> None:
        super().__init__(configuration, by_deltas=by_deltas)
        self._observed = snapshot.Snapshot()
        self._insight = service.InsightService(self._observed)
        self.compared_refusals = self.compared_scores = self.compared_choices = 0

    def ask_filter(self, cycle: cycle_pb2.Cycle) -> Filtered:
        answer = super().ask_filter(cycle)
        explained = self._explain(cycle)
        assert explained.evaluated_generation == cycle.generation
        if answer.refusal is not None:
            assert _content(explained.pre_filter) == _content(wire_status.to_message(answer.refusal))
            assert not explained.refusals
            assert not explained.feasible_nodes
            return answer
        assert answer.columns is not None
        assert not explained.HasField("pre_filter")
        expected = {
            name: answer.columns.statuses[int(index) - 1] if index else None
            for name, slot in self._observed.nodes.slot_of_name.items()
            for index in [answer.columns.index[slot]]
        }
        found = {node: _content(refusal.status) for refusal in explained.refusals for node in refusal.nodes}
        assert found == {
            name: _content(wire_status.to_message(refused)) for name, refused in expected.items() if refused is not None
        }
        feasible = {node.name for node in explained.feasible_nodes}
        assert feasible == {name for name, each in expected.items() if each is None}
        assert (explained.node_count, explained.feasible_count) == (len(expected), len(feasible))
        self.compared_refusals += len(found)
        return answer

    def ask_scores(
        self, cycle: cycle_pb2.Cycle, slots: arrays.SlotArray
    ) -> Sequence[score_engine.PluginScores] | status.Status:
        answer = super().ask_scores(cycle, slots)
        explained = self._explain(cycle, scores=True)
        names = [self._observed.nodes.names[slot] for slot in slots.tolist()]
        if isinstance(answer, status.Status):
            assert explained.score_failure == wire_status.to_message(answer)
        elif {node.name for node in explained.feasible_nodes} == set(names):
            by_name = {node.name: node for node in explained.feasible_nodes}
            for number, (plugin, scored) in enumerate(zip(explained.score_plugins, answer, strict=True)):
                assert (plugin.name, plugin.weight) == (scored.plugin, scored.weight)
                assert plugin.skipped == (scored.scores is None)
                expected = [0] * len(names) if scored.scores is None else scored.scores.tolist()
                assert [by_name[name].scores[number] for name in names] == expected
            for node in by_name.values():
                weights = [plugin.weight for plugin in explained.score_plugins]
                assert node.total == sum(a * b for a, b in zip(node.scores, weights, strict=True))
            self.compared_scores += len(names)
        return answer

    def ask_place(self, cycle: cycle_pb2.Cycle, filtered: Filtered) -> tuple[int, int]:
        slot, total = super().ask_place(cycle, filtered)
        explained = self._explain(cycle, scores=True)
        best = explained.feasible_nodes[0]
        assert best.name == self._observed.nodes.names[slot]
        # Where there is no choice nothing is scored.
        assert total == (best.total if explained.feasible_count > 1 else 0)
        self.compared_choices += 1
        return slot, total

    def _explain(self, cycle: cycle_pb2.Cycle, *, scores: bool = False) -> insight_pb2.ExplainResponse:
        metadata = cycle.pod.metadata
        pod = cycle_pb2.PodIdentity(namespace=metadata.namespace, name=metadata.name, uid=metadata.uid)
        queued = snapshot_pb2.QueuedPod(pod=pod, pod_class=cycle.pod_class, profile=cycle.profile)
        self._follow([snapshot_pb2.SyncRequest(queue=snapshot_pb2.QueueDelta(reset=True, pods=[queued]))])
        request = insight_pb2.ExplainRequest(pod=pod, scores=scores)
        return self._run(self._insight.Explain(request, phase_calls.context()))

    def _apply(self, deltas: Iterable[snapshot_pb2.Delta]) -> None:
        chunks = list(deltas)
        super()._apply(chunks)
        requests = [snapshot_pb2.SyncRequest(delta=delta).SerializeToString() for delta in chunks]
        self._follow([snapshot_pb2.SyncRequest.FromString(request) for request in requests])

    def _follow(self, requests: Iterable[snapshot_pb2.SyncRequest]) -> None:
        hello = snapshot_pb2.Hello(
            fence=cycle_pb2.Fence(epoch=1),
            config_hash=hash_of(self._configuration),
            configuration=self._configuration,
        )

        async def stream() -> AsyncIterator[snapshot_pb2.SyncRequest]:
            yield snapshot_pb2.SyncRequest(hello=hello)
            for request in requests:
                yield request

        self._run(self._insight.follow.Sync(stream(), phase_calls.context()))


def _content(message: status_pb2.Status) -> tuple[object, ...]:
    """All of a status. Its messages are in the order in which a snapshot met the resources that they name."""
    reasons = sorted((reason.code, *sorted(reason.parameters.items())) for reason in message.reasons)
    return message.code, message.plugin, sorted(message.messages), reasons
