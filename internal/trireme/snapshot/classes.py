"""Pod classes: one entry for all pods that are equal in every field the enabled plugins read.

Plugins evaluate classes, never pods. Values derived from the class alone (amounts, ports, compiled selectors) are
computed once and stored on it; plugins store theirs with `memo`.

Tests: tests/unit/snapshot/test_classes.py, tests/unit/snapshot/test_labelled_classes.py,
tests/unit/evaluation/test_filtering.py.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np

from trireme.framework import amounts, pod_takings, resizes, tolerations
from trireme.snapshot import arrays, resources
from trireme.v1 import core_pb2

Derived = TypeVar("Derived")


class PodClass:
    """One class of pods: the fields that its pods share, as a pod, and what is computed of them once.

    `id` is its number, which no other class gets. `index` is its place in a snapshot's arrays over classes, which
    another class gets when it is gone. `pod_group_name` is empty for pods of no group.
    """

    __slots__ = (
        "_memo",
        "_placed",
        "_placed_nonzero",
        "amounts",
        "arrival",
        "id",
        "index",
        "invalid",
        "labels",
        "labels_projected",
        "namespace",
        "pod",
        "pod_group_name",
        "priority",
        "resize_deferred",
    )

    def __init__(
        self,
        class_id: int,
        pod: core_pb2.Pod,
        labels_projected: bool = False,
        rules: amounts.Rules = amounts.DEFAULT_RULES,
    ) -> None:
        self.id = class_id
        self.index = 0
        self.labels_projected = labels_projected
        self.arrival = 0
        self.pod = pod
        self.namespace = pod.metadata.namespace
        self.labels = dict(pod.metadata.labels)
        self.priority = pod.spec.priority
        self.pod_group_name = pod.spec.scheduling_group.pod_group_name
        self.resize_deferred = resizes.is_deferred(pod.status)
        self.invalid: str | None = None
        try:
            self.amounts = amounts.pod_amounts(pod, rules)
        except ValueError as error:
            self.invalid = str(error)
            self.amounts = amounts.PodAmounts({}, {}, (0, 0), {}, (0, 0), {})
        self._placed_nonzero: arrays.Int64Array = np.array(self.amounts.placed_nonzero, dtype=np.int64)
        self._memo: dict[str, Any] = {}
        self._placed: arrays.Int64Array | None = None

    def memo(self, key: str, derive: Callable[["PodClass"], Derived]) -> Derived:
        """Return `derive(self)`, computed once; `key` identifies the caller."""
        if key not in self._memo:
            self._memo[key] = derive(self)
        value: Derived = self._memo[key]
        return value

    def placed_requests(self, names: resources.ResourceNames) -> arrays.Int64Array:
        """The resources that one pod of the class uses. Shape: (resource,), perhaps shorter than `names`."""
        if self._placed is None:
            self._placed = names.vector(self.amounts.placed)
        return self._placed

    @property
    def placed_nonzero_requests(self) -> arrays.Int64Array:
        """As `placed_requests`, with defaults for absent requests; read-only. Shape: (cpu | memory,)."""
        return self._placed_nonzero

    @property
    def relates_to_pods(self) -> bool:
        """Whether the class has affinity to pods, or against pods, required or preferred."""
        affinity = self.pod.spec.affinity
        return affinity.HasField("pod_affinity") or affinity.HasField("pod_anti_affinity")

    @property
    def has_claims(self) -> bool:
        """Whether the class uses objects that pods take: claims for devices, or volumes."""
        return pod_takings.has_claims(self.pod.spec)

    @property
    def takes_more_than_resources(self) -> bool:
        """Whether pods of the class take more of their node than resources: claims, volumes or host ports."""
        return self.has_claims or bool(self.host_ports)

    @property
    def node_terms(self) -> bytes:
        """What the class states about nodes by themselves: tolerations, node selector, affinity, name; and its images.

        Classes with equal ones are equal in all that follows from these.
        """
        return self.memo("node_terms", _node_terms)

    @property
    def family(self) -> bytes:
        """What the class states beside the resources that its containers request: equal for classes of one family."""
        return self.memo("family", _family)

    @property
    def names_nodes(self) -> bool:
        """Whether the required node affinity names nodes, as that of a DaemonSet's pods does."""
        terms = self.pod.spec.affinity.node_affinity.required_during_scheduling_ignored_during_execution
        return any(term.match_fields for term in terms.node_selector_terms)

    @property
    def beside_node_affinity(self) -> bytes:
        """What the class states beside its required node affinity: equal for the pods of a DaemonSet."""
        return self.memo("beside_node_affinity", _beside_node_affinity)

    @property
    def host_ports(self) -> tuple[pod_takings.Port, ...]:
        """The host ports of the class's containers and sidecars."""
        return self.memo("host_ports", lambda of: pod_takings.host_ports(of.pod.spec))

    @property
    def tolerations(self) -> tuple[tolerations.Toleration, ...]:
        """What pods of the class tolerate."""
        return self.memo("tolerations", lambda of: tolerations.read(of.pod.spec.tolerations))


def _node_terms(pod_class: PodClass) -> bytes:
    """Compute `PodClass.node_terms`."""
    spec = pod_class.pod.spec
    out = core_pb2.PodSpec(node_name=spec.node_name, node_selector=spec.node_selector, tolerations=spec.tolerations)
    if spec.affinity.HasField("node_affinity"):
        out.affinity.node_affinity.CopyFrom(spec.affinity.node_affinity)
    for container in spec.containers:
        out.containers.add(image=container.image)
    for container in spec.init_containers:
        out.init_containers.add(image=container.image)
    out.volumes.extend(volume for volume in spec.volumes if volume.volume_source.HasField("image"))
    return out.SerializeToString(deterministic=True)


def _family(pod_class: PodClass) -> bytes:
    """Compute `PodClass.family`."""
    pod = core_pb2.Pod()
    pod.CopyFrom(pod_class.pod)
    for container in (*pod.spec.containers, *pod.spec.init_containers):
        container.resources.ClearField("requests")
        container.resources.ClearField("limits")
    return pod.SerializeToString(deterministic=True)


def _beside_node_affinity(pod_class: PodClass) -> bytes:
    """Compute `PodClass.beside_node_affinity`."""
    pod = core_pb2.Pod()
    pod.CopyFrom(pod_class.pod)
    pod.spec.affinity.node_affinity.ClearField("required_during_scheduling_ignored_during_execution")
    return pod.SerializeToString(deterministic=True)
