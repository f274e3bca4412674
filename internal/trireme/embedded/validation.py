"""The mistakes that clients really make, refused in the API server's words.

Not a second copy of Kubernetes' validation: names, required parts of a pod, quantities, and the fields that a
scheduler or a test could wrongly rely on being able to change. Each function answers the causes it found.
Source: k8s.io/kubernetes, pkg/apis/core/validation, and k8s.io/apimachinery, pkg/util/validation.
"""

from __future__ import annotations

from collections.abc import Callable

from trireme.embedded import cron, custom_definitions, group_validation, names, problems, quantities, selection
from trireme.embedded.pod_validation import EFFECTS, PROTOCOLS, RANGE_TEXT, amounts, pod_spec
from trireme.embedded.problems import Cause
from trireme.embedded.resources import Resource
from trireme.embedded.store import Object

_STRATEGIES = ("Recreate", "RollingUpdate")
_SERVICE_TYPES = ("ClusterIP", "ExternalName", "LoadBalancer", "NodePort")
_ACCESS = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_CONCURRENCY = ("Allow", "Forbid", "Replace")
_UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _pod(obj: Object) -> list[Cause]:
    return pod_spec("spec", obj.get("spec"))


def _node(obj: Object) -> list[Cause]:
    causes: list[Cause] = []
    for index, taint in enumerate(obj["spec"].get("taints") or ()):
        path = f"metadata.taints[{index}]"
        causes += names.qualified(f"{path}.key", taint.get("key", ""))
        if not taint.get("effect"):
            causes.append(problems.required(f"{path}.effect"))
        elif taint["effect"] not in EFFECTS:
            causes.append(problems.unsupported(f"{path}.effect", taint["effect"], EFFECTS))
    status = obj.get("status") or {}
    for part in ("capacity", "allocatable"):
        causes += amounts(f"status.{part}", status.get(part))
    return causes


def _not_negative(path: str, spec: Object, *parts: str) -> list[Cause]:
    return [
        problems.invalid(f"{path}.{part}", spec[part], "must be greater than or equal to 0")
        for part in parts
        if isinstance(spec.get(part), int) and spec[part] < 0
    ]


def _workload(obj: Object) -> list[Cause]:
    """Deployments, ReplicaSets, StatefulSets, DaemonSets: a selector, and a template that it matches."""
    spec = obj.get("spec") or {}
    template = spec.get("template") or {}
    causes = _not_negative("spec", spec, "replicas")
    if not spec.get("selector"):
        causes.append(problems.required("spec.selector"))
    labels = (template.get("metadata") or {}).get("labels")
    selector = spec.get("selector")
    # A selector that is not there selects nothing.
    if selector is None or not selection.compile_selector(selector)(labels or {}):
        detail = "`selector` does not match template `labels`"
        causes.append(problems.invalid("spec.template.metadata.labels", labels, detail))
    causes += names.labels("spec.template.metadata.labels", labels)
    causes += pod_spec("spec.template.spec", template.get("spec"))
    policy = (template.get("spec") or {}).get("restartPolicy")
    if policy in ("OnFailure", "Never"):
        causes.append(problems.unsupported("spec.template.spec.restartPolicy", policy, ("Always",)))
    return causes


def _deployment(obj: Object) -> list[Cause]:
    spec, causes = obj.get("spec") or {}, _workload(obj)
    kind = (spec.get("strategy") or {}).get("type")
    if kind not in _STRATEGIES:
        known = ", ".join(f'"{one}"' for one in _STRATEGIES)
        shown = f'{{"Type":"{kind}","RollingUpdate":null}}'
        text = f"Unsupported value: {shown}: supported values: {known}"
        causes.append(Cause("FieldValueNotSupported", "spec.strategy", text))
    return causes + _not_negative("spec", spec, "minReadySeconds", "revisionHistoryLimit")


def _job(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    pods = (spec.get("template") or {}).get("spec") or {}
    causes = _not_negative("spec", spec, "parallelism", "completions", "activeDeadlineSeconds", "backoffLimit")
    causes += _not_negative("spec", spec, "ttlSecondsAfterFinished")
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        causes.append(problems.required("spec.completions", "when completion mode is Indexed"))
    causes += pod_spec("spec.template.spec", pods)
    if pods.get("restartPolicy", "Always") == "Always":
        causes.append(problems.required("spec.template.spec.restartPolicy", 'valid values: "OnFailure", "Never"'))
    return causes


def _service(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    causes: list[Cause] = []
    ports = spec.get("ports") or ()
    if not ports and spec.get("clusterIP") != "None" and spec.get("type") != "ExternalName":
        causes.append(problems.required("spec.ports"))
    seen: set[str] = set()
    for index, port in enumerate(ports):
        causes += _service_port(f"spec.ports[{index}]", port, needs_name=len(ports) > 1)
        if (name := port.get("name", "")) and name in seen:
            causes.append(problems.duplicate(f"spec.ports[{index}].name", name))
        seen.add(name)
    causes += names.labels("spec.selector", spec.get("selector"))
    if spec.get("type") not in _SERVICE_TYPES:
        causes.append(problems.unsupported("spec.type", str(spec.get("type", "")), _SERVICE_TYPES))
    if spec.get("type") == "ExternalName" and not spec.get("externalName"):
        causes.append(problems.required("spec.externalName"))
    return causes


def _service_port(path: str, port: Object, *, needs_name: bool) -> list[Cause]:
    causes: list[Cause] = []
    if not port.get("name") and needs_name:
        causes.append(problems.required(f"{path}.name"))
    elif port.get("name"):
        causes += names.label(f"{path}.name", port["name"])
    number = port.get("port", 0)
    if not 1 <= number <= 65535:
        causes.append(problems.invalid(f"{path}.port", number, RANGE_TEXT))
    if port.get("protocol") not in PROTOCOLS:
        causes.append(problems.unsupported(f"{path}.protocol", port.get("protocol", ""), PROTOCOLS))
    target = port.get("targetPort", number)
    if isinstance(target, int) and not 1 <= target <= 65535:
        causes.append(problems.invalid(f"{path}.targetPort", target, RANGE_TEXT))
    return causes


def _cron_job(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    causes: list[Cause] = []
    if not spec.get("schedule"):
        causes.append(problems.required("spec.schedule"))
    else:
        try:
            cron.parse(spec["schedule"])
        except cron.ScheduleError as error:
            causes.append(problems.invalid("spec.schedule", spec["schedule"], str(error)))
    if spec.get("timeZone") is not None:
        try:
            cron.zone_of(spec["timeZone"])
        except cron.ScheduleError as error:
            causes.append(problems.invalid("spec.timeZone", spec["timeZone"], str(error)))
    if spec.get("concurrencyPolicy") not in _CONCURRENCY:
        causes.append(problems.unsupported("spec.concurrencyPolicy", spec["concurrencyPolicy"], _CONCURRENCY))
    job = {"spec": (spec.get("jobTemplate") or {}).get("spec") or {}}
    for cause in _job(job):
        causes.append(Cause(cause.kind, cause.field.replace("spec", "spec.jobTemplate.spec", 1), cause.body))
    return causes


def _claim(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    modes = spec.get("accessModes") or ()
    causes = [] if modes else [problems.required("spec.accessModes", "at least 1 access mode is required")]
    causes += [problems.unsupported("spec.accessModes", one, _ACCESS) for one in modes if one not in _ACCESS]
    requests = (spec.get("resources") or {}).get("requests") or {}
    if "storage" not in requests:
        causes.append(problems.required("spec.resources[storage]"))
    elif quantities.value(requests["storage"]) <= 0:
        causes.append(
            problems.invalid("spec.resources[storage]", str(requests["storage"]), "must be greater than zero")
        )
    return causes


def _priority_class(obj: Object) -> list[Cause]:
    name, value = obj["metadata"]["name"], obj["value"]
    if not name.startswith("system-") and isinstance(value, int) and value > 1_000_000_000:
        text = "maximum allowed value of a user defined priority is 1000000000"
        return [problems.forbidden_field("value", text)]
    return []


_CREATE: dict[str, Callable[[Object], list[Cause]]] = {
    "pods": _pod,
    "nodes": _node,
    "services": _service,
    "deployments.apps": _deployment,
    "replicasets.apps": _workload,
    "statefulsets.apps": _workload,
    "daemonsets.apps": _workload,
    "jobs.batch": _job,
    "cronjobs.batch": _cron_job,
    "persistentvolumeclaims": _claim,
    "priorityclasses.scheduling.k8s.io": _priority_class,
    "customresourcedefinitions.apiextensions.k8s.io": custom_definitions.check,
    **group_validation.CREATE,
}


def _raise(resource: Resource, name: str, causes: list[Cause]) -> None:
    if causes:
        raise problems.rejected(resource.group, resource.kind, name, causes)


def check_create(resource: Resource, obj: Object) -> None:
    """Raises ApiError 422 where an object that is to be created is wrong."""
    metadata = obj["metadata"]
    causes = names.of_object(resource, metadata.get("name", ""))
    causes += names.labels("metadata.labels", metadata.get("labels"))
    causes += names.annotation_keys("metadata.annotations", metadata.get("annotations"))
    specific = _CREATE.get(resource.key)
    if specific is not None:
        causes += specific(obj)
    _raise(resource, metadata.get("name", ""), causes)


def _changed_pod(obj: Object, before: Object) -> list[Cause]:
    new, old = obj["spec"], before["spec"]
    if new == old:
        return []
    causes: list[Cause] = []
    gates = {one["name"] for one in old.get("schedulingGates") or ()}
    for index, gate in enumerate(new.get("schedulingGates") or ()):
        if gate["name"] not in gates:
            detail = f"only deletion is allowed, but found new scheduling gate '{gate['name']}'"
            causes.append(problems.forbidden_field(f"spec.schedulingGates[{index}].name", detail))
    tolerations = new.get("tolerations") or []
    if any(one not in tolerations for one in old.get("tolerations") or ()):
        causes.append(
            problems.forbidden_field(
                "spec.tolerations", "existing toleration can not be modified except its tolerationSeconds"
            )
        )
    ignored = {"schedulingGates", "tolerations", "activeDeadlineSeconds", "terminationGracePeriodSeconds"}
    if old.get("schedulingGates"):
        ignored |= {"nodeSelector", "affinity"}

    def rest(spec: Object) -> Object:
        kept = {key: value for key, value in spec.items() if key not in ignored}
        for part in ("containers", "initContainers"):
            kept[part] = [{**one, "image": ""} for one in spec.get(part) or ()]
        return kept

    if rest(new) != rest(old):
        causes.append(problems.forbidden_field("spec", f"pod updates may not change fields other than {_UPDATABLE}"))
    return causes


def _changed_selector(obj: Object, before: Object) -> list[Cause]:
    if obj["spec"].get("selector") != before["spec"].get("selector"):
        return [problems.invalid("spec.selector", obj["spec"].get("selector"), "field is immutable")]
    return []


_UPDATE: dict[str, Callable[[Object, Object], list[Cause]]] = {
    "pods": _changed_pod,
    "deployments.apps": _changed_selector,
    "replicasets.apps": _changed_selector,
    "daemonsets.apps": _changed_selector,
    "jobs.batch": _changed_selector,
    "customresourcedefinitions.apiextensions.k8s.io": custom_definitions.check_change,
    **group_validation.UPDATE,
}


def check_update(resource: Resource, obj: Object, before: Object) -> None:
    """Raises ApiError 422 where a write to the object itself (not to a subresource) is wrong."""
    metadata = obj["metadata"]
    causes = names.labels("metadata.labels", metadata.get("labels"))
    causes += names.annotation_keys("metadata.annotations", metadata.get("annotations"))
    specific = _CREATE.get(resource.key)
    if specific is not None:
        causes += specific(obj)
    changed = _UPDATE.get(resource.key)
    if changed is not None:
        causes += changed(obj, before)
    _raise(resource, metadata["name"], causes)


def check_identity(resource: Resource, metadata: Object, before: Object) -> None:
    """Raises ApiError 422 where a write contradicts the identity of the object that it changes."""
    causes: list[Cause] = []
    if metadata.get("uid") and metadata["uid"] != before["uid"]:
        causes.append(problems.invalid("metadata.uid", metadata["uid"], "field is immutable"))
    if "deletionTimestamp" in before:
        added = sorted(set(metadata.get("finalizers") or ()) - set(before.get("finalizers") or ()))
        if added:
            listed = ", ".join(f'"{one}"' for one in added)
            text = "no new finalizers can be added if the object is being deleted, "
            text += f"found new finalizers []string{{{listed}}}"
            causes.append(problems.forbidden_field("metadata.finalizers", text))
    _raise(resource, str(before.get("name", "")), causes)
