"""Creates and deletes the pods of workloads, and records events about it.

Source: k8s.io/kubernetes, pkg/controller/controller_utils.go (RealPodControl).

Tests: tests/unit/embedded/controllers/test_controller_ref_manager.py.
"""

from trireme_kube.embedded.api import api_errors
from trireme_kube.embedded.api.resources import PODS, Object
from trireme_kube.embedded.controllers.event_recorder import EventRecorder
from trireme_kube.embedded.registry.registry import Registry
from trireme_kube.embedded.storage.store import Record


class PodControl:
    """Creates and deletes pods for one controller."""

    def __init__(self, registry: Registry, component: str) -> None:
        self._registry = registry
        self.recorder = EventRecorder(registry, component)

    def create(self, owner: Record, pod: Object) -> None:
        """Create a pod of a workload. Raises: ApiError as the registry's `create`."""
        try:
            created = self._registry.create(PODS, owner.namespace, pod)
        except api_errors.ApiError as error:
            self.recorder.warning(owner.object, "FailedCreate", f"Error creating: {error}")
            raise
        self.recorder.normal(owner.object, "SuccessfulCreate", f"Created pod: {created.name}")

    def delete(self, owner: Record, pod: Record) -> None:
        """Delete a pod of a workload, which may be gone already.

        Raises: ApiError as the registry's `delete`, except 404.
        """
        try:
            self._registry.delete(PODS, *pod.key)
        except api_errors.ApiError as error:
            if error.code == 404:
                return
            self.recorder.warning(owner.object, "FailedDelete", f"Error deleting: {error}")
            raise
        self.recorder.normal(owner.object, "SuccessfulDelete", f"Deleted pod: {pod.name}")
