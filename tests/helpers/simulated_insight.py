"""Insight on a small cluster with the default profile, and questions about it."""

from collections.abc import Mapping, Sequence
from typing import Any

import grpc
import pytest
from google.protobuf import json_format

from tests.helpers import phase_calls
from tests.helpers.phase_calls import Aborted, context
from tests.helpers.snapshot_views import SnapshotBuilder
from trireme.cache import pod_projection
from trireme.config import gates
from trireme.framework.plugin_spec import ExtensionPoint
from trireme.insight import service
from trireme.registry.default_profile import default_plugins
from trireme.registry.in_tree import IN_TREE
from trireme.simulation import completed_profiles, manifests
from trireme.v1 import core_pb2, cycle_pb2, policy_pb2, simulation_pb2, snapshot_pb2
from trireme_kube.apimachinery import decode

Json = dict[str, Any]

PROFILE = "default-scheduler"


def default_configuration(features: Mapping[str, bool] | None = None) -> snapshot_pb2.Configuration:
    """The default profile, as the frontend sends it."""
    enabled = gates.FeatureGates(values=features)
    plugins = default_plugins(enabled)
    profile = snapshot_pb2.Profile(scheduler_name=PROFILE)
    for point, number in completed_profiles._POINTS.items():
        at = profile.plugin_sets.add(extension_point=number)
        for name, weight in plugins:
            if IN_TREE.implements(name, point):
                at.plugins.add(name=name, weight=(weight or 1) if point is ExtensionPoint.SCORE else 0)
    for name, _ in plugins:
        profile.plugin_args.add(name=name, args_json=b"{}")
    return snapshot_pb2.Configuration(profiles=[profile], feature_gates=enabled.all())


def manifest(name: str = "p", cpu: str = "1", labels: Mapping[str, str] | None = None, **spec: Any) -> Json:
    """A pod as people write it."""
    container = {"name": "main", "image": "x", "resources": {"requests": {"cpu": cpu}}}
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {"name": name, "labels": dict(labels or {})},
        "spec": {"containers": [container], **spec},
    }


def stored(cpu: str = "1", labels: Mapping[str, str] | None = None, owner: str = "", **spec: Any) -> core_pb2.Pod:
    """A pod's class, as the frontend makes it of a pod that the API server stores; `owner`: Kind/name."""
    raw = manifests.with_pod_defaults(manifest(cpu=cpu, **spec))
    if owner:
        kind, _, name = owner.partition("/")
        reference = {"apiVersion": "apps/v1", "kind": kind, "name": name, "uid": name, "controller": True}
        raw["metadata"]["ownerReferences"] = [reference]
    pod = core_pb2.Pod.FromString(pod_projection.parse(raw).base)
    pod.metadata.labels.update(labels or {})
    return pod


def budget(name: str, allowed: int, **labels: str) -> policy_pb2.PodDisruptionBudget:
    """A budget in the namespace `default` for the pods with these labels."""
    raw = {
        "metadata": {"namespace": "default", "name": name},
        "spec": {"selector": {"matchLabels": labels}},
        "status": {"disruptionsAllowed": allowed},
    }
    return decode.decode(raw, policy_pb2.PodDisruptionBudget)


class SimulatedInsight:
    """A replica, and what is asked of it."""

    def __init__(self, **nodes: Json | str) -> None:
        """Nodes by name, with their cpu or with fields (see `snapshot_views.node_of`)."""
        self.builder = SnapshotBuilder()
        # For those who record it: from the next full sync on.
        self.builder.snap.store_node_objects(messages=True, json=True)
        self.builder.snap.apply(snapshot_pb2.Delta(reset=True, to_generation=1))
        for name, fields in nodes.items():
            of = {"allocatable": {"cpu": fields, "memory": "8Gi", "pods": "20"}} if isinstance(fields, str) else fields
            self.builder.set_node(name, **of)
        self.service = service.InsightService(self.builder.snap)

    async def start(self, features: Mapping[str, bool] | None = None) -> "SimulatedInsight":
        """A frontend brings the configuration and an empty queue."""
        await phase_calls.greet(self.service, default_configuration(features))
        self.queue(reset=True)
        return self

    def queue(self, *pods: tuple[str, int], reset: bool = False, state: int = 3) -> None:
        """Pods in the queue, by name and class."""
        entries = [
            snapshot_pb2.QueuedPod(
                pod=cycle_pb2.PodIdentity(namespace="default", name=name, uid=f"uid-of-{name}"),
                pod_class=number,
                profile=PROFILE,
                state=snapshot_pb2.QueuedPodState.ValueType(state),
            )
            for name, number in pods
        ]
        self.service.cluster.apply_queue(snapshot_pb2.QueueDelta(reset=reset, pods=entries))

    async def ask(self, **question: Any) -> simulation_pb2.SimulateResponse:
        """The answer to a question, which is given as JSON."""
        request = json_format.ParseDict(question, simulation_pb2.SimulateRequest())
        return await self.service.Simulate(request, context())

    async def change(self, *changes: Json, **scenario: Any) -> simulation_pb2.SimulateResponse:
        """The answer to a scenario of these changes."""
        return await self.ask(scenario={"changes": list(changes), **scenario})

    async def refusal(self, **question: Any) -> tuple[grpc.StatusCode, str]:
        """The code and text of a question that has no answer."""
        with pytest.raises(Aborted) as caught:
            await self.ask(**question)
        return caught.value.code, str(caught.value)


def nodes_of(answer: simulation_pb2.SimulateResponse) -> dict[str, str]:
    """Node by pod, of those that were placed."""
    return {each.pod.name: each.node_name for each in answer.placements}


def pending_in(answer: simulation_pb2.SimulateResponse) -> Sequence[str]:
    """The names of the pods that stay pending."""
    return [pod.name for group in answer.pending for pod in group.pods]
