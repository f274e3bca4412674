"""A pod's containers, its quality of service, which follows from their requests and limits, and its end.

Source: k8s.io/kubernetes, pkg/apis/core/v1/helper/qos.

Tests: tests/unit/embedded/registry/test_resizes.py.
"""

from collections.abc import Iterator

from trireme_kube.embedded.api import quantities
from trireme_kube.embedded.api.resources import Object


def containers(spec: Object) -> Iterator[Object]:
    """Init containers and containers."""
    yield from spec.get("initContainers") or ()
    yield from spec.get("containers") or ()


def _qos_class_of_resources(resources: Object) -> str:
    """Return the QoS class by a container's, or the pod's, cpu and memory."""
    relevant = ("cpu", "memory")
    requests = {name: quantities.nanos(one) for name, one in (resources.get("requests") or {}).items()}
    limits = {name: quantities.nanos(one) for name, one in (resources.get("limits") or {}).items()}
    nonzero = {name: one for name, one in requests.items() if name in relevant and one > 0}
    capped = {name: one for name, one in limits.items() if name in relevant and one > 0}
    if not nonzero and not capped:
        return "BestEffort"
    if len(capped) == len(relevant) and all(nonzero.get(name, one) == one for name, one in capped.items()):
        return "Guaranteed"
    return "Burstable"


def qos_class(spec: Object) -> str:
    """Guaranteed, Burstable or BestEffort."""
    if spec.get("resources"):
        return _qos_class_of_resources(spec["resources"])
    classes = {_qos_class_of_resources(container.get("resources") or {}) for container in containers(spec)}
    if len(classes) > 1:
        return "Burstable"
    return classes.pop() if classes else "BestEffort"


def has_ended(pod: Object) -> bool:
    """Whether a pod has succeeded or failed."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")
