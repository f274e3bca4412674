"""Proposals applied to a pod and a cluster, by other code than that which simulates them.

Also change: console/src/views/proposals.tsx, internal/trireme/cli/proposals_display.py,
internal/trireme/insight/proposals/search.py (kinds of changes and their words).
"""

from typing import Any

from tests.helpers import phase_calls
from tests.helpers.snapshot_views import SnapshotBuilder
from trireme.evaluation import engine
from trireme.registry import filter_profiles, score_profiles
from trireme.snapshot import snapshot
from trireme.v1 import core_pb2, cycle_pb2, insight_pb2, plugin_pb2, snapshot_pb2

POD = cycle_pb2.PodIdentity(namespace="default", name="pending", uid="uid-of-pending")
PENDING, CHANGED = 99, 100


class Cluster:
    """Nodes and pods as descriptions, from which a snapshot is built anew for each question."""

    def __init__(self) -> None:
        self.configuration = default_configuration()
        self.nodes: dict[str, dict[str, Any]] = {}
        self.classes: dict[int, core_pb2.Pod] = {}
        self.placed: list[tuple[int, str]] = []
        self.nominated: list[tuple[int, str]] = []
        self.objects: list[snapshot_pb2.ClusterObject] = []

    def build(self, **changes: Any) -> SnapshotBuilder:
        """The snapshot. `pod`: the pending one; `added`: one more node; `deleted`: places in `placed` left out."""
        builder = SnapshotBuilder()
        for name, fields in {**self.nodes, **changes.get("added", {})}.items():
            builder.set_node(name, **fields)
        classes = self.classes | ({CHANGED: changes["pod"]} if "pod" in changes else {})
        for number, pod in classes.items():
            builder.add_class(number, pod)
        builder.apply(objects=self.objects)
        rows = [builder.place(number, node)[0] for number, node in self.placed]
        builder.remove(*[rows[place] for place in changes.get("deleted", ())])
        for number, (kind, node) in enumerate(self.nominated):
            slot = builder.snap.nodes.slot_of_name[node]
            pod = cycle_pb2.PodIdentity(namespace="default", name=f"nominated-{number}", uid=f"nominated-{number}")
            entry = snapshot_pb2.Nomination(pod=pod, pod_class=kind, slot=slot)
            builder.apply(nominations=[entry])
        return builder

    def engine_of(self, snap: snapshot.Snapshot) -> engine.Engine:
        """An engine on the snapshot."""
        filters = filter_profiles.make_profiles(self.configuration)
        scores = score_profiles.make_profiles(self.configuration)
        return engine.Engine(snap, filters, scores)

    async def feasible_nodes(self, **changes: Any) -> list[str]:
        """The nodes that take the pending pod, by a new engine on a new snapshot (see build)."""
        builder = self.build(**changes)
        cycle = cycle_of_pod(CHANGED if "pod" in changes else PENDING)
        answer = await self.engine_of(builder.snap).filter.filter(cycle)
        if answer.columns is None:
            return []
        fits = (answer.columns.index == 0) & (answer.columns.capacity > 0)
        return [name for name, slot in builder.snap.nodes.slot_of_name.items() if fits[slot]]

    async def feasible_with(self, proposal: insight_pb2.Proposal) -> list[str]:
        """The nodes that take the pending pod with the proposed change."""
        kind = proposal.WhichOneof("change")
        if kind == "add_node":
            return await self.feasible_nodes(added={"another": self._like(proposal.add_node.like_node)})
        if kind == "label_node":
            label = proposal.label_node
            fields = self.nodes[label.node_name]
            assert not label.labels.keys() & fields.get("labels", {}).keys()
            labelled = {**fields, "labels": {**fields.get("labels", {}), **label.labels}}
            return await self.feasible_nodes(added={label.node_name: labelled})
        if kind == "delete_pods":
            # A pod is named after its row, and rows are places in `placed`.
            deleted = [int(pod.name.removeprefix("pod-")) for pod in proposal.delete_pods.pods]
            return await self.feasible_nodes(deleted=deleted)
        return await self.feasible_nodes(pod=changed_pod(self.classes[PENDING], proposal))

    def _like(self, name: str) -> dict[str, Any]:
        """The fields of a node like this one."""
        fields = dict(self.nodes[name])
        fields["labels"] = dict(fields.get("labels", {}))
        if "kubernetes.io/hostname" in fields["labels"]:
            fields["labels"]["kubernetes.io/hostname"] = "another"
        fields["taints"] = [taint for taint in fields.get("taints", ()) if "node.kubernetes.io/" not in taint[0]]
        return fields | {"unschedulable": False}


def default_configuration() -> snapshot_pb2.Configuration:
    """One profile with the plugins that proposals are about."""
    filters = (
        "NodeUnschedulable", "NodeName", "TaintToleration", "NodeAffinity", "NodePorts", "NodeResourcesFit",
        "PodTopologySpread", "InterPodAffinity",
    )  # fmt: skip
    out = phase_calls.configuration(filters, [("NodeResourcesFit", 1)])
    at_post_filter = out.profiles[0].plugin_sets.add(extension_point=plugin_pb2.EXTENSION_POINT_POST_FILTER)
    at_post_filter.plugins.add(name="DefaultPreemption")
    return out


def cycle_of_pod(pod_class: int) -> cycle_pb2.Cycle:
    """The cycle of the pending pod."""
    cycle = cycle_pb2.Cycle(profile=phase_calls.PROFILE, pod_class=pod_class)
    metadata = cycle.pod.metadata
    metadata.namespace, metadata.name, metadata.uid = POD.namespace, POD.name, POD.uid
    return cycle


def changed_pod(pod: core_pb2.Pod, proposal: insight_pb2.Proposal) -> core_pb2.Pod:
    """The pod with the proposed change, found by contents and names, not by the paths that proposals name."""
    out = core_pb2.Pod()
    out.CopyFrom(pod)
    kind = proposal.WhichOneof("change")
    if kind == "tolerate_taints":
        for taint in proposal.tolerate_taints.taints:
            out.spec.tolerations.add(key=taint.key, operator="Equal", value=taint.value, effect=taint.effect)
    elif kind == "lower_request":
        lower = proposal.lower_request
        holders: list[Any] = [each for each in out.spec.containers if each.name == lower.container]
        holders += [each for each in out.spec.init_containers if each.name == lower.container]
        (holder,) = holders if lower.container else [out.spec]
        assert holder.resources.requests[lower.resource].string
        holder.resources.requests[lower.resource].CopyFrom(lower.proposed)
    else:
        _drop(out, proposal.drop_constraint)
    return out


def _drop(pod: core_pb2.Pod, drop: insight_pb2.DropConstraint) -> None:
    """Drop the first constraint that is equal to the one of the proposal."""
    spec, affinity = pod.spec, pod.spec.affinity
    kind = drop.WhichOneof("constraint")
    constraint = getattr(drop, str(kind))
    if kind == "node_selector":
        assert spec.node_selector.pop(constraint.key) == constraint.values[0]
    elif kind == "topology_spread":
        spec.topology_spread_constraints.remove(constraint)
    elif kind == "pod_affinity":
        affinity.pod_affinity.required_during_scheduling_ignored_during_execution.remove(constraint)
    elif kind == "pod_anti_affinity":
        affinity.pod_anti_affinity.required_during_scheduling_ignored_during_execution.remove(constraint)
    else:
        required = affinity.node_affinity.required_during_scheduling_ignored_during_execution
        for term in list(required.node_selector_terms) if kind == "node_affinity" else ():
            if constraint in term.match_expressions and len(term.match_expressions) > 1:
                term.match_expressions.remove(constraint)
                return
        affinity.node_affinity.ClearField("required_during_scheduling_ignored_during_execution")
