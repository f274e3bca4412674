"""Defaults of the kinds other than Pod, as functions over one object, by resource key.

Only defaults that a client or a scheduler can observe are filled in; each function changes the object that it gets,
which is not stored yet.

Source: k8s.io/kubernetes, pkg/apis/*/v1/defaults.go.

Tests: tests/unit/embedded/registry/test_registry.py, tests/unit/embedded/controllers/test_workloads.py,
tests/unit/embedded/registry/test_quotas.py.
"""

import base64
from collections.abc import Callable
from typing import Any

from trireme_kube.embedded.api import custom_resource_definitions
from trireme_kube.embedded.api.resources import Object, Resource
from trireme_kube.embedded.registry import pod_defaults
from trireme_kube.embedded.serializer import type_checking


def _set_if_missing(target: Object, **values: Any) -> Object:
    """Set each field that is missing or null; return the object, changed in place."""
    for key, value in values.items():
        if target.get(key) is None:
            target[key] = value
    return target


def _default_pod_template(spec: Object) -> None:
    """Fill in the defaults of a workload's pod template, in place."""
    template = spec.get("template")
    if isinstance(template, dict):
        template.setdefault("metadata", {})
        if isinstance(template.get("spec"), dict):
            pod_defaults.default_spec(template["spec"])


def _default_pod(obj: Object) -> None:
    """Fill in the defaults of a Pod, in place."""
    if isinstance(obj.get("spec"), dict):
        pod_defaults.default_pod(obj)


def _default_deployment(obj: Object) -> None:
    """Fill in the defaults of a Deployment, in place."""
    spec = _set_if_missing(obj.setdefault("spec", {}), replicas=1, revisionHistoryLimit=10, progressDeadlineSeconds=600)
    strategy = _set_if_missing(spec, strategy={})["strategy"]
    _set_if_missing(strategy, type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _set_if_missing(
            _set_if_missing(strategy, rollingUpdate={})["rollingUpdate"], maxUnavailable="25%", maxSurge="25%"
        )
    _default_pod_template(spec)


def _default_replica_set(obj: Object) -> None:
    """Fill in the defaults of a ReplicaSet, in place."""
    spec = _set_if_missing(obj.setdefault("spec", {}), replicas=1)
    _default_pod_template(spec)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels and not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)


def _default_replication_controller(obj: Object) -> None:
    """Fill in the defaults of a ReplicationController, in place."""
    _default_replica_set(obj)
    if not obj["spec"].get("selector"):
        obj["spec"]["selector"] = dict(obj["metadata"].get("labels") or {})


def _default_stateful_set(obj: Object) -> None:
    """Fill in the defaults of a StatefulSet, its template and its claim templates, in place."""
    spec = _set_if_missing(
        obj.setdefault("spec", {}),
        replicas=1,
        revisionHistoryLimit=10,
        podManagementPolicy="OrderedReady",
        serviceName="",
        persistentVolumeClaimRetentionPolicy={},
        updateStrategy={},
    )
    _set_if_missing(spec["persistentVolumeClaimRetentionPolicy"], whenDeleted="Retain", whenScaled="Retain")
    strategy = _set_if_missing(spec["updateStrategy"], type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _set_if_missing(_set_if_missing(strategy, rollingUpdate={})["rollingUpdate"], partition=0, maxUnavailable=1)
    for claim in spec.get("volumeClaimTemplates") or ():
        claim.setdefault("kind", "PersistentVolumeClaim")
        claim.setdefault("apiVersion", "v1")
        _default_volume_claim(claim)
    _default_pod_template(spec)


def _default_daemon_set(obj: Object) -> None:
    """Fill in the defaults of a DaemonSet, in place."""
    spec = _set_if_missing(obj.setdefault("spec", {}), revisionHistoryLimit=10, updateStrategy={})
    strategy = _set_if_missing(spec["updateStrategy"], type="RollingUpdate")
    if strategy["type"] == "RollingUpdate":
        _set_if_missing(_set_if_missing(strategy, rollingUpdate={})["rollingUpdate"], maxUnavailable=1, maxSurge=0)
    _default_pod_template(spec)


def _default_job(obj: Object) -> None:
    """Fill in the defaults of a Job, in place."""
    spec = obj.setdefault("spec", {})
    if spec.get("completions") is None and spec.get("parallelism") is None:
        spec["completions"] = 1
    _set_if_missing(
        spec, parallelism=1, backoffLimit=6, completionMode="NonIndexed", suspend=False, manualSelector=False
    )
    _set_if_missing(spec, podReplacementPolicy="Failed" if spec.get("podFailurePolicy") else "TerminatingOrFailed")
    _default_pod_template(spec)
    labels = ((spec.get("template") or {}).get("metadata") or {}).get("labels")
    if labels and not obj["metadata"].get("labels"):
        obj["metadata"]["labels"] = dict(labels)


def _default_service(obj: Object) -> None:
    """Fill in the defaults of a Service, in place."""
    spec = _set_if_missing(obj.setdefault("spec", {}), type="ClusterIP", sessionAffinity="None")
    if spec["type"] != "ExternalName":
        _set_if_missing(spec, internalTrafficPolicy="Cluster", ipFamilies=["IPv4"], ipFamilyPolicy="SingleStack")
    for port in spec.get("ports") or ():
        _set_if_missing(port, protocol="TCP")
        port["targetPort"] = port.get("targetPort") or port.get("port")


def _default_node(obj: Object) -> None:
    """Fill in the defaults of a Node, in place."""
    obj.setdefault("spec", {})
    status = obj.setdefault("status", {})
    if status.get("capacity") and not status.get("allocatable"):
        status["allocatable"] = dict(status["capacity"])


def _default_namespace(obj: Object) -> None:
    """Fill in the defaults of a Namespace, in place."""
    metadata = obj["metadata"]
    if metadata.get("name"):
        metadata["labels"] = {**(metadata.get("labels") or {}), "kubernetes.io/metadata.name": metadata["name"]}
    finalizers = obj.setdefault("spec", {}).setdefault("finalizers", [])
    if "kubernetes" not in finalizers and "deletionTimestamp" not in metadata:
        finalizers.append("kubernetes")


def _default_volume_claim(obj: Object) -> None:
    """Fill in the defaults of a PersistentVolumeClaim, in place."""
    _set_if_missing(obj.setdefault("spec", {}), volumeMode="Filesystem")
    obj.setdefault("status", {}).setdefault("phase", "Pending")


def _default_persistent_volume(obj: Object) -> None:
    """Fill in the defaults of a PersistentVolume, in place."""
    spec = _set_if_missing(obj.setdefault("spec", {}), persistentVolumeReclaimPolicy="Retain", volumeMode="Filesystem")
    if isinstance(path := spec.get("hostPath"), dict):
        path.setdefault("type", "")


def _default_cron_job(obj: Object) -> None:
    """Fill in the defaults of a CronJob and its Job template, in place."""
    _set_if_missing(
        obj.setdefault("spec", {}),
        concurrencyPolicy="Allow",
        suspend=False,
        successfulJobsHistoryLimit=3,
        failedJobsHistoryLimit=1,
    )
    template = obj["spec"].get("jobTemplate") or {}
    if pod_spec := ((template.get("spec") or {}).get("template") or {}).get("spec"):
        pod_defaults.default_spec(pod_spec)


def _default_ingress_class(obj: Object) -> None:
    """Fill in the defaults of an IngressClass, in place."""
    if parameters := (obj.get("spec") or {}).get("parameters"):
        _set_if_missing(parameters, scope="Cluster")


def _default_storage_class(obj: Object) -> None:
    """Fill in the defaults of a StorageClass, in place."""
    _set_if_missing(obj, reclaimPolicy="Delete", volumeBindingMode="Immediate")


def _default_csi_driver(obj: Object) -> None:
    """Fill in the defaults of a CSIDriver, in place."""
    _set_if_missing(
        obj.setdefault("spec", {}),
        attachRequired=True,
        podInfoOnMount=False,
        storageCapacity=False,
        fsGroupPolicy="ReadWriteOnceWithFSType",
        volumeLifecycleModes=["Persistent"],
        requiresRepublish=False,
        seLinuxMount=False,
        preventPodSchedulingIfMissing=False,
    )


def _default_priority_class(obj: Object) -> None:
    """Fill in the defaults of a PriorityClass, in place."""
    _set_if_missing(obj, preemptionPolicy="PreemptLowerPriority")
    obj.setdefault("value", 0)


def _default_pod_group(obj: Object) -> None:
    """Fill in the defaults of a PodGroup, in place."""
    _set_if_missing(obj.setdefault("spec", {}), preemptionPolicy="PreemptLowerPriority", disruptionMode={"single": {}})


def _default_device_requests(spec: Object) -> None:
    """Fill in the defaults of a claim's requests for devices, in place."""
    for request in (spec.get("devices") or {}).get("requests") or ():
        for part in (request.get("exactly"), *(request.get("firstAvailable") or ())):
            if (
                isinstance(part, dict)
                and _set_if_missing(part, allocationMode="ExactCount")["allocationMode"] == "ExactCount"
            ):
                _set_if_missing(part, count=1)


def _default_resource_claim(obj: Object) -> None:
    """Fill in the defaults of a ResourceClaim, in place."""
    _default_device_requests(obj.get("spec") or {})


def _default_resource_claim_template(obj: Object) -> None:
    """Fill in the defaults of a ResourceClaimTemplate, in place."""
    _default_device_requests((obj.get("spec") or {}).get("spec") or {})


def _default_secret(obj: Object) -> None:
    """Fill in the defaults of a Secret, in place."""
    _set_if_missing(obj, type="Opaque")
    text = obj.pop("stringData", None)
    if text:
        encoded = {key: base64.b64encode(str(value).encode()).decode() for key, value in text.items()}
        obj["data"] = {**(obj.get("data") or {}), **encoded}


_DEFAULTS: dict[str, Callable[[Object], None]] = {
    "pods": _default_pod,
    "nodes": _default_node,
    "namespaces": _default_namespace,
    "services": _default_service,
    "secrets": _default_secret,
    "persistentvolumeclaims": _default_volume_claim,
    "persistentvolumes": _default_persistent_volume,
    "replicationcontrollers": _default_replication_controller,
    "deployments.apps": _default_deployment,
    "replicasets.apps": _default_replica_set,
    "statefulsets.apps": _default_stateful_set,
    "daemonsets.apps": _default_daemon_set,
    "jobs.batch": _default_job,
    "cronjobs.batch": _default_cron_job,
    "ingressclasses.networking.k8s.io": _default_ingress_class,
    "customresourcedefinitions.apiextensions.k8s.io": custom_resource_definitions.set_defaults,
    "storageclasses.storage.k8s.io": _default_storage_class,
    "csidrivers.storage.k8s.io": _default_csi_driver,
    "priorityclasses.scheduling.k8s.io": _default_priority_class,
    "podgroups.scheduling.k8s.io": _default_pod_group,
    "compositepodgroups.scheduling.k8s.io": _default_pod_group,
    "resourceclaims.resource.k8s.io": _default_resource_claim,
    "resourceclaimtemplates.resource.k8s.io": _default_resource_claim_template,
}


def set_defaults(key: str, obj: Object) -> None:
    """Fill in the defaults of the resource with that key."""
    function = _DEFAULTS.get(key)
    if function is not None:
        function(obj)


def keep_omitted_fields(key: str, obj: Object, old: Object) -> None:
    """Copy from the old object what an update may omit but not unset."""
    if key == "pods":
        for part in ("priority", "preemptionPolicy"):
            if obj["spec"].get(part) is None and part in old["spec"]:
                obj["spec"][part] = old["spec"][part]
        pod_defaults.default_tolerations(obj["spec"])
    elif key == "services":
        for part in ("clusterIP", "clusterIPs"):
            if obj["spec"].get(part) is None and part in old["spec"]:
                obj["spec"][part] = old["spec"][part]


_PHASES = {"persistentvolumes": "Pending", "persistentvolumeclaims": "Pending", "namespaces": "Active"}


def initial_status(resource: Resource, obj: Object, now: str) -> Object:
    """The initial status of an object."""
    if resource.key == "pods":
        return pod_defaults.initial_status(obj, now)
    status = type_checking.initial_status(resource)
    if resource.key in _PHASES:
        status["phase"] = _PHASES[resource.key]
    if resource.key == "persistentvolumes":
        status["lastPhaseTransitionTime"] = now
    return status


def complete_pod_status(key: str, obj: Object, old: Object) -> None:
    """Complete a write to a pod's status: kubelets may not unset the class, and both IP fields agree."""
    if key != "pods":
        return
    status, before = obj.setdefault("status", {}), old.get("status") or {}
    if not status.get("qosClass") and before.get("qosClass"):
        status = obj["status"] = {**status, "qosClass": before["qosClass"]}
    if status.get("podIP") and not status.get("podIPs"):
        obj["status"] = {**status, "podIPs": [{"ip": status["podIP"]}]}
