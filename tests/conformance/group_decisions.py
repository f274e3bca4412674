"""Our filter's answers about a group whose pods share claims for devices, in the oracle's words (`oracle/group.go`).

The members are tried in order, by DynamicResources alone: each goes to the first node by name that will do, and what
is reserved for it is assumed and open to the group, as the frontend does it. A group with a pod that fits nowhere is
taken back, and asked what claims it may give up.
"""

from collections.abc import Collection, Mapping
from typing import Any

from tests.conformance import decision_profiles
from tests.conformance.decision_cluster import DecisionCluster
from tests.conformance.decisions import AnyPhases
from tests.conformance.situation_groups import GATES, GROUP
from trireme.cache import pod_projection
from trireme.framework import status
from trireme.plugins.dynamic_resources import reserve_state
from trireme.v1 import bind_phase_pb2, core_pb2, cycle_pb2, filter_pb2, filter_phase_pb2, plugin_pb2, snapshot_pb2
from trireme.wire import node_columns
from trireme.wire import status as wire_status
from trireme_kube.apimachinery import encode

Json = dict[str, Any]

PLUGIN = "DynamicResources"


def configuration() -> snapshot_pb2.Configuration:
    """A profile that has DynamicResources alone, and the gates of claims of groups."""
    made = decision_profiles.make().configuration
    for gate in GATES:
        made.feature_gates[gate] = True
    (alone,) = (each for each in made.profiles if each.scheduler_name == decision_profiles.only(PLUGIN))
    alone.plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_RESERVE).plugins.add(name=PLUGIN)
    return made


class GroupDecision:
    """One group."""

    def __init__(self, phases: AnyPhases, case: Mapping[str, Any]) -> None:
        self._phases = phases
        self._members: list[Json] = case["members"]
        self._nodes = sorted(node["metadata"]["name"] for node in case["nodes"])
        self._placed = len(case.get("pods", ()))
        self._promised: Json = {}
        self._had = {
            claim["metadata"]["name"] for claim in case["resourceClaims"] if claim.get("status", {}).get("allocation")
        }
        rest = {name: entries for name, entries in case.items() if name != "members"}
        phases.next_leader()
        self._cluster = DecisionCluster({**rest, "pod": self._members[0]})
        self._cluster.fill()
        self._cluster.cache.take_delta()
        cache = self._cluster.cache
        phases.sync_all(cache.full_sync(), cache.generation)

    def decide(self) -> Json:
        """The answer."""
        question = filter_phase_pb2.ListReleasableClaimsRequest()
        answers = [self._member(pod, question.tried.add()) for pod in self._members]
        answer: Json = {"members": answers}
        if all("node" in said for said in answers):
            return answer
        for said in answers:
            said.pop("reserves", None)
        return answer | {"postFilter": self._post_filter(question)}

    def ask_about(self, state: bytes) -> filter_phase_pb2.ListReleasableClaimsResponse:
        """What is said where Reserve is told to have given this for the first member. Raises: grpc.RpcError."""
        question = filter_phase_pb2.ListReleasableClaimsRequest()
        self._member(self._members[0], question.tried.add())
        question.tried[0].state = state
        question.cycle.CopyFrom(self._cycle(question.tried[0].pod_class))
        return self._phases.ask_releasable_claims(question)

    def _member(self, pod: Json, member: filter_phase_pb2.TriedPodGroupMember) -> Json:
        parsed = pod_projection.parse(pod)
        class_id = self._cluster.class_of(pod)
        member.pod.CopyFrom(cycle_pb2.PodIdentity(namespace=parsed.namespace, name=parsed.name, uid=parsed.uid))
        member.pod_class = class_id
        cycle = self._cycle(class_id)
        filtered = self._phases.ask_filter(cycle)
        if filtered.refusal is not None:
            return {"preFilter": _said(filtered.refusal)}
        columns = filtered.refused
        member.columns.CopyFrom(node_columns.to_message(columns))
        refused, feasible = {}, []
        for name in self._nodes:
            number = int(columns.index[self._cluster.cache.slot_of(name)])
            if number:
                refused[name] = _said(columns.statuses[number - 1])
            else:
                feasible.append(name)
        answer: Json = {"filter": refused} if refused else {}
        if not feasible:
            return answer
        return answer | self._reserve(cycle, parsed, member, feasible[0])

    def _reserve(
        self,
        cycle: cycle_pb2.Cycle,
        pod: pod_projection.ParsedPod,
        member: filter_phase_pb2.TriedPodGroupMember,
        node: str,
    ) -> Json:
        cache = self._cluster.cache
        cache.assume(pod.key, pod.uid, node, self._cluster.registry.intern_base(pod.base), pod.labels, member.pod_class)
        placement = filter_pb2.Placement(pod=member.pod, node_name=node, slot=cache.slot_of(node))
        reservation = self._phases.ask_reserve(cycle, placement)
        said = wire_status.from_message(reservation.status)
        if said != status.SUCCESS:
            return {"reserve": _said(said)}
        for entry in reservation.assumed:
            entry.open_to_group = GROUP
            claim = entry.resource_claim
            self._promised[claim.metadata.name] = encode.encode(claim.status.allocation)
        cache.assume_objects(pod.uid, reservation.assumed)
        member.state = reservation.state
        answer: Json = {"node": node}
        if self._promised:
            answer["allocations"] = dict(self._promised)
        users = _users(reservation.state, pod, self._promised)
        return answer | ({"reserves": users} if users else {})

    def _post_filter(self, question: filter_phase_pb2.ListReleasableClaimsRequest) -> Json:
        for pod in reversed(self._members):
            self._cluster.cache.forget(pod["metadata"]["uid"])
            self._cluster.cache.forget_objects(pod["metadata"]["uid"])
        question.cycle.CopyFrom(self._cycle(question.tried[0].pod_class))
        question.pod_group.CopyFrom(cycle_pb2.PodIdentity(namespace="default", name=GROUP, uid="group"))
        question.scheduled = self._placed
        response = self._phases.ask_releasable_claims(question)
        said = wire_status.from_message(response.status)
        answer: Json = {"status": _said(said)}
        if said.code is status.Code.ERROR:
            # The frontend says so, as the framework does.
            answer["status"]["reasons"] = [f'error in "{PLUGIN}" PodGroupPostFilter plugins: {said.message}']
        freed = {one.deallocate.name for one in response.actions if one.HasField("deallocate")}
        left = {one.remove_claim_user.name for one in response.actions if one.HasField("remove_claim_user")}
        assert freed <= self._had, "a claim without devices has none to give up"
        if freed:
            answer["deallocated"] = sorted(freed)
        if left:
            answer["left"] = sorted(left)
        return answer

    def _cycle(self, class_id: int) -> cycle_pb2.Cycle:
        cache = self._cluster.cache
        self._phases.tell_changes(cache)
        return self._phases.cycle(decision_profiles.only(PLUGIN), class_id, cache.generation, core_pb2.Pod())


def _users(state: bytes, pod: pod_projection.ParsedPod, promised: Collection[str]) -> Json:
    """For whom PreBind reserves the claims that are not reserved yet, by claim; `promised` have no devices yet."""
    kept = bind_phase_pb2.PluginStates.FromString(state).plugin_states.get(PLUGIN)
    out: Json = {}
    for claim in reserve_state.DeviceClaims.from_bytes(kept).claims if kept else ():
        if not claim.reserved:
            own = {"resource": "pods", "name": pod.name, "uid": pod.uid}
            of_group = {"apiGroup": "scheduling.k8s.io", "resource": "podgroups", "name": claim.group}
            # The pod that is bound first writes the devices that are allocated to all of them.
            assert (claim.allocation is not None) == (claim.name in promised), claim
            out[claim.name] = {**of_group, "uid": claim.group_uid} if claim.group_uid else own
    return out


def _said(value: status.Status) -> Json:
    said: Json = {"code": value.code.label}
    if value.plugin:
        said["plugin"] = value.plugin
    if value.messages:
        said["reasons"] = sorted(value.messages)
    return said
