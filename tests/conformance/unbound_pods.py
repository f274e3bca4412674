"""Pods placed one after the other, none of them bound yet, through replicas of filter that take turns.

What one pod was promised is told to the replicas by the cache alone, as the frontend does it.
"""

from tests.conformance import decision_profiles
from tests.conformance.decision_cluster import DecisionCluster, Json
from tests.conformance.decision_phases import DEADLINE, Phases
from trireme.cache import pod_projection
from trireme.plugins.dynamic_resources import reserve_state
from trireme.v1 import bind_phase_pb2, cycle_pb2, filter_pb2, filter_phase_pb2, score_phase_pb2
from trireme.wire import node_columns

_NOBODY = {"metadata": {"namespace": "default", "name": "none", "uid": "none"}, "spec": {"containers": [{"name": "c"}]}}


class Sequence:
    """A cluster in which pods are placed and stay unbound."""

    def __init__(self, phases: Phases, objects: Json) -> None:
        self._phases = phases
        phases.next_leader()
        self.cluster = DecisionCluster({**objects, "pod": _NOBODY})
        self.cluster.fill()
        self.cluster.cache.take_delta()
        cache = self.cluster.cache
        phases.sync_all(cache.full_sync(), cache.generation)
        #: By UID what Reserve gave each pod for PreBind.
        self._states: dict[str, bytes] = {}

    def place(self, pod: Json) -> str:
        """Place a pod; answers its node, or why there is none."""
        class_id = self.cluster.class_of(pod)
        cycle = self._cycle(class_id)
        filtered = self._phases.filter().Filter(
            filter_phase_pb2.FilterPhaseFilterRequest(cycle=cycle, count=1), timeout=DEADLINE
        )
        if filtered.pre_filter.status.messages:
            return ", ".join(filtered.pre_filter.status.messages)
        columns = node_columns.from_message(filtered.columns)
        if not (columns.capacity > 0).any():
            return ", ".join(sorted({columns.statuses[index - 1].message for index in columns.index if index}))
        request = score_phase_pb2.PlaceRequest(cycle=cycle, count=1, capacities=filtered.columns)
        (slot,) = self._phases.scores[0].score.Place(request, timeout=DEADLINE).slots
        node = self.cluster.cache.node_at(slot, cycle.generation)
        assert node is not None
        parsed = pod_projection.parse(pod)
        base = self.cluster.registry.intern_base(parsed.base)
        self.cluster.cache.assume(parsed.key, parsed.uid, node, base, parsed.labels, class_id)
        if filtered.needs_reserve:
            assert filtered.max_batch == 1
            self._reserve(cycle, parsed, node, slot)
        return node

    def question(self, pod: Json) -> filter_phase_pb2.FilterPhaseFilterRequest:
        """What filter is asked about the pod."""
        return filter_phase_pb2.FilterPhaseFilterRequest(cycle=self._cycle(self.cluster.class_of(pod)), count=1)

    def unassume(self, pod: Json) -> None:
        """The pod is not bound after all."""
        uid = pod["metadata"]["uid"]
        self.cluster.cache.forget(uid)
        self.cluster.cache.forget_objects(uid)
        self._states.pop(uid, None)

    def claimed(self) -> dict[str, str]:
        """By volume the claim that it is promised to, as the replicas are told."""
        entries = [entry for delta in self.cluster.cache.full_sync() for entry in delta.objects]
        volumes = [entry.persistent_volume for entry in entries if entry.HasField("persistent_volume")]
        return {v.metadata.name: v.spec.claim_ref.name for v in volumes if v.spec.claim_ref.name}

    def given(self, uid: str) -> dict[str, list[str]]:
        """The devices that the claims of a pod got."""
        state = bind_phase_pb2.PluginStates.FromString(self._states[uid]).plugin_states["DynamicResources"]
        claims = reserve_state.DeviceClaims.from_bytes(state).claims
        assert claims, "PreBind would have nothing to write"
        return {
            claim.name: [
                result["device"] for result in (claim.allocation or {"devices": {}})["devices"].get("results", ())
            ]
            for claim in claims
        }

    def devices(self) -> list[str]:
        """All devices that were given and not taken back."""
        return sorted(device for uid in self._states for got in self.given(uid).values() for device in got)

    def _reserve(self, cycle: cycle_pb2.Cycle, pod: pod_projection.ParsedPod, node: str, slot: int) -> None:
        identity = cycle_pb2.PodIdentity(namespace=pod.namespace, name=pod.name, uid=pod.uid)
        placement = filter_pb2.Placement(pod=identity, node_name=node, slot=slot)
        request = filter_pb2.ReserveRequest(cycle=cycle, placements=[placement])
        # Two replicas that are asked the same give the same answer: one may be asked after the other died.
        first, second = (self._phases.filter().Reserve(request, timeout=DEADLINE).reservations[0] for _ in range(2))
        assert first == second
        if first.claim_statuses:
            self.cluster.cache.count_claim_resources(pod.uid, first.claim_statuses)
        assert first.state, "PreBind would have nothing to write"
        self._states[pod.uid] = first.state
        self.cluster.cache.assume_objects(pod.uid, first.assumed)

    def _cycle(self, class_id: int) -> cycle_pb2.Cycle:
        cache = self.cluster.cache
        self._phases.tell_changes(cache)
        return self._phases.cycle(decision_profiles.default_profile(), class_id, cache.generation)
