"""What a plugin is at PreEnqueue: in the frontend, it decides whether each pod may enter the active queue."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from trireme.framework import feature_gates
from trireme.plugin_api.hints import ClusterReader
from trireme.v1 import core_pb2


class PodToEnqueue(NamedTuple):
    """A pod for which PreEnqueue is called.

    `gates` are the names of its scheduling gates; `pod` has the fields of its class, None if they cannot be read.
    """

    uid: str
    gates: Sequence[str]
    pod: core_pb2.Pod | None


@dataclass(frozen=True, slots=True)
class PreEnqueueContext:
    """What a plugin's PreEnqueue goes by: the feature gates and the cluster.

    `preempting` returns whether victims of the pod with a UID are still to be deleted.
    """

    features: feature_gates.Gates
    cluster: ClusterReader
    preempting: Callable[[str], bool]


class PreEnqueuePlugin(Protocol):
    """Called again after each event that the plugin's hints name.

    Implementers: trireme.plugins.*.pre_enqueue.
    """

    def refuses(self, pod: PodToEnqueue) -> bool:
        """Whether the pod has to wait. Called for each pod that arrives, so it must be cheap."""
        ...

    def waits_for(self, pod: PodToEnqueue) -> Mapping[str, Sequence[str]]:
        """What a pod that it refuses waits for, by kind; empty: nothing to add.

        Read by trireme.frontend.serving.pending_report, for `trireme explain`.
        """
        ...
