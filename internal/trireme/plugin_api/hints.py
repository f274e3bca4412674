"""What a plugin's `hints` state: the cluster events that may help pods which it refused, and for each whom it helps.

Hints must answer exactly as kube-scheduler's do: a needless wake-up costs an attempt, and a missing one leaves the pod
waiting. An event is decoded once, and the result called with each class of waiting pods; so what an
event costs is what differs between classes. Objects of pod events are `PodInEvent`s, all others the API's messages;
there is no old object of what was added and no new one of what was deleted.

A hint, or what it answers, may raise: the pods concerned are then queued, as after any error of a hint.

Also change: internal/trireme/queueing/hints/cluster_view.py (views of the cluster for hints).

Tests: tests/unit/plugins/test_node_resources_fit_hints.py.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from trireme.framework import feature_gates
from trireme.snapshot import classes
from trireme.v1 import core_pb2

#: Whether the event may help pods of the class.
#: Implementers: trireme.plugins.*.hints, trireme.plugin_kit.volumes_events.
ClassHint = Callable[[classes.PodClass], bool]
#: (old object, new object) -> whom the event may help.
#: Implementers: trireme.plugins.*.hints, trireme.plugin_kit.volumes_events.
EventHint = Callable[[Any, Any], ClassHint]


@dataclass(frozen=True, slots=True)
class ClusterEventWithHint:
    """Events of a resource, by the names of actions. Without a hint every such event helps.

    `nominee_hint`, of events of nodes alone: whom the event may help besides among the pods nominated to the node.
    """

    resource: str
    actions: tuple[str, ...]
    hint: EventHint | None = None
    nominee_hint: EventHint | None = None


class ClusterReader(Protocol):
    """What hints may ask of the cluster.

    Implementers: trireme.queueing.hints.cluster_view.CacheView.
    """

    def class_of(self, pod: core_pb2.Pod) -> classes.PodClass:
        """The class of the pod of an event."""
        ...

    def get(self, kind: str, namespace: str, name: str) -> Any:
        """An object by its field in trireme.v1.ClusterObject.object; None where there is none."""
        ...

    def all(self, kind: str) -> Iterator[Any]:
        """All objects of a kind, by namespace and name."""
        ...

    def of_namespace(self, kind: str, namespace: str) -> Iterable[Any]:
        """The objects of a kind in the namespace, by name."""
        ...


@dataclass(frozen=True, slots=True)
class HintContext:
    """What a plugin's hints go by: its arguments in the profile, the feature gates, and the cluster."""

    args: Mapping[str, Any]
    features: feature_gates.Gates
    cluster: ClusterReader


def helps_all(pod_class: classes.PodClass) -> bool:
    """The event may help every class that waits for it."""
    return True


def helps_none(pod_class: classes.PodClass) -> bool:
    """The event helps no class."""
    return False


def always(old: Any, new: Any) -> ClassHint:
    """Hint of an event that may help every class."""
    return helps_all


def never(old: Any, new: Any) -> ClassHint:
    """Hint of an event that helps no class."""
    return helps_none


def is_on_node(pod: Any) -> bool:
    """Whether the pod of an event is on a node, or nominated to one."""
    return bool(pod.node_name or pod.nominated_node)
