"""What a pod asks for and what a node has, read from their objects: again, apart from the product's own code."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from trireme_kube.embedded.api.resources import Object

# The label of pods that exclude others with the same value from their node.
APART = "example.com/apart"
# The label of pods that a disruption budget protects, all of them at any time.
GUARDED = "example.com/guarded"
# The extended resource that devices stand for: a pod that asks for some has no claim of its own for them.
DEVICE_RESOURCE = "example.com/device"
# An extended resource that is a mere number.
LICENSE_RESOURCE = "example.com/license"
# Whether there is a remote plugin that keeps pods off some nodes.
has_closed_nodes = True
_EXTENDED_CLAIM = "resource.kubernetes.io/extended-resource-claim"


class Amounts(NamedTuple):
    """The units of resources that pods of the simulation request: thousandths of CPUs, and MiB."""

    cpu: int
    memory: int
    ephemeral_storage: int
    licenses: int


def cpu_of(pod: Object) -> int:
    """The CPUs that a pod requests. Units: thousandths."""
    return requests_of(pod).cpu


def requests_of(pod: Object) -> Amounts:
    """What a pod requests: its containers together, or one of its init containers if that is more."""
    spec = pod["spec"]
    together = _total(_requests(container) for container in spec["containers"])
    alone = [_requests(container) for container in spec.get("initContainers") or ()]
    return Amounts(*(max(amounts) for amounts in zip(together, *alone, strict=True)))


def _requests(container: Object) -> Amounts:
    return _amounts((container.get("resources") or {}).get("requests") or {})


def _amounts(quantities: Mapping[str, str]) -> Amounts:
    return Amounts(
        _milli(quantities.get("cpu", "0")),
        _mebibytes(quantities.get("memory", "0Mi")),
        _mebibytes(quantities.get("ephemeral-storage", "0Mi")),
        int(quantities.get(LICENSE_RESOURCE, "0")),
    )


def _total(amounts: Iterable[Amounts]) -> Amounts:
    return Amounts(*(sum(each) for each in zip(*amounts, strict=True)))


def exclusions_of(pod: Object) -> frozenset[str]:
    """What no other pod on its node may have, too: host ports, and labels that its anti-affinity names."""
    ports = {
        f"host port {port['hostPort']}"
        for container in pod["spec"]["containers"]
        for port in container.get("ports") or ()
        if "hostPort" in port
    }
    label = (pod["metadata"].get("labels") or {}).get(APART)
    return frozenset(ports if label is None else {*ports, f"label {label}"})


def group_of(pod: Object) -> str:
    """The name of the PodGroup that it is a member of; empty: none."""
    return str((pod["spec"].get("schedulingGroup") or {}).get("podGroupName", ""))


def device_claims_of(pod: Object) -> list[str]:
    """The names of the ResourceClaims that it uses."""
    return [each["resourceClaimName"] for each in pod["spec"].get("resourceClaims") or ()]


def extended_devices_of(pod: Object) -> int:
    """How many devices it asks for as an extended resource, for which the scheduler makes a claim."""
    found = ((container.get("resources") or {}).get("requests") or {} for container in pod["spec"]["containers"])
    return sum(int(requests.get(DEVICE_RESOURCE, 0)) for requests in found)


def made_claim_of(pod: Object) -> str:
    """The name of the claim that was made for its extended resources; empty: its status has none."""
    return str(((pod.get("status") or {}).get("extendedResourceClaimStatus") or {}).get("resourceClaimName", ""))


def pod_of_made_claim(claim: Object) -> str:
    """The UID of the pod for whose extended resources a ResourceClaim was made; empty: it is no such claim."""
    if (claim["metadata"].get("annotations") or {}).get(_EXTENDED_CLAIM) != "true":
        return ""
    return next((str(each["uid"]) for each in claim["metadata"].get("ownerReferences") or ()), "")


def volume_claims_of(pod: Object) -> list[str]:
    """The names of the PersistentVolumeClaims that it uses."""
    volumes = pod["spec"].get("volumes") or ()
    return [each["persistentVolumeClaim"]["claimName"] for each in volumes if "persistentVolumeClaim" in each]


def devices_of(claim: Object) -> list[tuple[str, str, str]]:
    """The devices that a ResourceClaim has: driver, pool, and name."""
    allocation = (claim.get("status") or {}).get("allocation") or {}
    results = (allocation.get("devices") or {}).get("results") or ()
    return [(each["driver"], each["pool"], each["device"]) for each in results]


def is_guarded(pod: Object) -> bool:
    """Whether a disruption budget protects it."""
    return GUARDED in (pod["metadata"].get("labels") or {})


def is_done(pod: Object) -> bool:
    """Whether it has ended."""
    return (pod.get("status") or {}).get("phase") in ("Succeeded", "Failed")


def is_terminating(pod: Object) -> bool:
    """Whether it was deleted and is not gone yet."""
    return "deletionTimestamp" in pod["metadata"]


def allocatable(node: Object) -> tuple[int, ...]:
    """What a node has room for: the amounts of all resources, and the number of pods."""
    found = node["status"]["allocatable"]
    return *_amounts(found), int(found["pods"])


def _milli(text: str) -> int:
    return int(text.removesuffix("m")) if text.endswith("m") else int(text) * 1000


def _mebibytes(text: str) -> int:
    return int(text.removesuffix("Gi")) * 1024 if text.endswith("Gi") else int(text.removesuffix("Mi"))


def may_run_on(pod: Object, node: Object) -> bool:
    """Whether a node that has room takes the pod: it is open, not cordoned, and has the labels that the pod selects."""
    selector = pod["spec"].get("nodeSelector") or {}
    labels = node["metadata"].get("labels") or {}
    if is_closed(node["metadata"]["name"]) or node["spec"].get("unschedulable"):
        return False
    return all(labels.get(key) == value for key, value in selector.items())


def is_closed(node: str) -> bool:
    """Whether the remote plugin keeps all pods off the node."""
    return has_closed_nodes and int(node.rpartition("-")[2]) % 10 == 3


def is_reserved(node: str) -> bool:
    """Whether the second remote plugin keeps all pods off the node, where the configuration has that."""
    return int(node.rpartition("-")[2]) % 10 == 7
