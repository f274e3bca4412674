"""The mistakes that clients really make, refused in the API server's words.

Not a second copy of Kubernetes' validation: names, required parts of a pod, quantities, and the fields that a
scheduler or a test could wrongly rely on being able to change. Each function answers the causes it found.
Source: k8s.io/kubernetes, pkg/apis/core/validation, and k8s.io/apimachinery, pkg/util/validation.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import orjson

from trireme.embedded import cron, custom_definitions, group_validation, problems, quantities, selection
from trireme.embedded.problems import Cause
from trireme.embedded.resources import Resource
from trireme.embedded.store import Object

_SUBDOMAIN = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$")
_LABEL = re.compile(r"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$")
_VALUE = re.compile(r"^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$")
_KEY = re.compile(r"^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$")
_SUBDOMAIN_TEXT = (
    "a lowercase RFC 1123 subdomain must consist of lower case alphanumeric characters, '-' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'example.com', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*')"
)
_LABEL_TEXT = (
    "a lowercase RFC 1123 label must consist of lower case alphanumeric characters or '-', and must start and end with "
    "an alphanumeric character (e.g. 'my-name',  or '123-abc', regex used for validation is "
    "'[a-z0-9]([-a-z0-9]*[a-z0-9])?')"
)
_VALUE_TEXT = (
    "a valid label must be an empty string or consist of alphanumeric characters, '-', '_' or '.', and must start and "
    "end with an alphanumeric character (e.g. 'MyValue',  or 'my_value',  or '12345', regex used for validation is "
    "'(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?')"
)
_KEY_TEXT = (
    "name part must consist of alphanumeric characters, '-', '_' or '.', and must start and end with an alphanumeric "
    "character (e.g. 'MyName',  or 'my.name',  or '123-abc', regex used for validation is "
    "'([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]')"
)
_ANY_NAME = frozenset({"roles", "rolebindings", "clusterroles", "clusterrolebindings"})
_LABEL_NAMES = frozenset({"namespaces", "services"})
_EFFECTS = ("NoSchedule", "PreferNoSchedule", "NoExecute")
_RESTARTS = ("Always", "OnFailure", "Never")
_CONCURRENCY = ("Allow", "Forbid", "Replace")
_UPDATABLE = (
    "`spec.containers[*].image`,`spec.initContainers[*].image`,`spec.activeDeadlineSeconds`,"
    "`spec.tolerations` (only additions to existing tolerations),"
    "`spec.terminationGracePeriodSeconds` (allow it to be set to 1 if it was previously negative)"
)


def _name(resource: Resource, name: str) -> list[Cause]:
    if not name:
        return [problems.required("metadata.name", "name or generateName is required")]
    if resource.plural in _ANY_NAME:
        return []
    if resource.plural in _LABEL_NAMES:
        if len(name) > 63:
            return [problems.invalid("metadata.name", name, "must be no more than 63 bytes")]
        return [] if _LABEL.match(name) else [problems.invalid("metadata.name", name, _LABEL_TEXT)]
    if len(name) > 253:
        return [problems.invalid("metadata.name", name, "must be no more than 253 bytes")]
    return [] if _SUBDOMAIN.match(name) else [problems.invalid("metadata.name", name, _SUBDOMAIN_TEXT)]


def _labels(path: str, labels: Any) -> list[Cause]:
    causes: list[Cause] = []
    for key, value in (labels or {}).items():
        if not _KEY.match(key.rpartition("/")[2]):
            causes.append(problems.invalid(path, key, _KEY_TEXT))
        if not isinstance(value, str) or not _VALUE.match(value):
            causes.append(problems.invalid(path, value, _VALUE_TEXT))
        elif len(value) > 63:
            causes.append(problems.invalid(path, value, "must be no more than 63 bytes"))
    return causes


def _amounts(path: str, amounts: Any) -> list[Cause]:
    causes: list[Cause] = []
    for name, amount in (amounts or {}).items():
        if quantities.value(amount) < 0:
            causes.append(problems.invalid(f"{path}[{name}]", str(amount), "must be greater than or equal to 0"))
    return causes


def _requests_within_limits(path: str, resources: Object) -> list[Cause]:
    limits = resources.get("limits") or {}
    causes: list[Cause] = []
    for name, amount in (resources.get("requests") or {}).items():
        if name in limits and quantities.value(amount) > quantities.value(limits[name]):
            detail = f"must be less than or equal to {name} limit of {limits[name]}"
            causes.append(problems.invalid(f"{path}.requests", str(amount), detail))
    return causes


def _container(path: str, container: Any) -> list[Cause]:
    causes: list[Cause] = []
    name = container.get("name", "")
    if not name:
        causes.append(problems.required(f"{path}.name"))
    elif not _LABEL.match(name):
        causes.append(problems.invalid(f"{path}.name", name, _LABEL_TEXT))
    if not container.get("image"):
        causes.append(problems.required(f"{path}.image"))
    resources = container.get("resources") or {}
    bad = [
        cause for part in ("limits", "requests") for cause in _amounts(f"{path}.resources.{part}", resources.get(part))
    ]
    causes += bad or _requests_within_limits(f"{path}.resources", resources)
    return causes


def _pod_spec(path: str, spec: Any) -> list[Cause]:
    if not isinstance(spec, dict) or not spec.get("containers"):
        return [problems.required(f"{path}.containers")]
    causes: list[Cause] = []
    for part in ("initContainers", "containers"):
        seen: set[str] = set()
        for index, container in enumerate(spec.get(part) or ()):
            causes += _container(f"{path}.{part}[{index}]", container)
            if container.get("name") in seen:
                causes.append(
                    Cause(
                        "FieldValueDuplicate", f"{path}.{part}[{index}].name", f'Duplicate value: "{container["name"]}"'
                    )
                )
            seen.add(container.get("name", ""))
    if spec.get("restartPolicy") not in _RESTARTS:
        causes.append(problems.unsupported(f"{path}.restartPolicy", str(spec.get("restartPolicy")), _RESTARTS))
    causes += _labels(f"{path}.nodeSelector", spec.get("nodeSelector"))
    for index, toleration in enumerate(spec.get("tolerations") or ()):
        if toleration.get("effect") and toleration["effect"] not in _EFFECTS:
            causes.append(problems.unsupported(f"{path}.tolerations[{index}].effect", toleration["effect"], _EFFECTS))
    if spec.get("nodeName") and spec.get("schedulingGates"):
        causes.append(
            problems.forbidden_field(f"{path}.nodeName", "cannot be set until all schedulingGates have been cleared")
        )
    return causes


def _pod(obj: Object) -> list[Cause]:
    return _pod_spec("spec", obj.get("spec"))


def _node(obj: Object) -> list[Cause]:
    causes: list[Cause] = []
    for index, taint in enumerate(obj["spec"].get("taints") or ()):
        if not taint.get("key"):
            causes.append(problems.required(f"metadata.taints[{index}].key"))
        if taint.get("effect") not in _EFFECTS:
            effect = str(taint.get("effect", ""))
            causes.append(problems.unsupported(f"metadata.taints[{index}].effect", effect, _EFFECTS))
    status = obj.get("status") or {}
    for part in ("capacity", "allocatable"):
        causes += _amounts(f"status.{part}", status.get(part))
    return causes


def _workload(obj: Object) -> list[Cause]:
    """Deployments, ReplicaSets, StatefulSets, DaemonSets: a selector, and a template that it matches."""
    spec = obj.get("spec") or {}
    template = spec.get("template") or {}
    causes: list[Cause] = []
    replicas = spec.get("replicas")
    if isinstance(replicas, int) and replicas < 0:
        causes.append(problems.invalid("spec.replicas", replicas, "must be greater than or equal to 0"))
    if not spec.get("selector"):
        causes.append(problems.required("spec.selector"))
    labels = (template.get("metadata") or {}).get("labels")
    selector = spec.get("selector")
    # A selector that is not there selects nothing.
    if selector is None or not selection.compile_selector(selector)(labels or {}):
        shown = orjson.dumps(labels, option=orjson.OPT_SORT_KEYS).decode()
        detail = "`selector` does not match template `labels`"
        causes.append(Cause("FieldValueInvalid", "spec.template.metadata.labels", f"Invalid value: {shown}: {detail}"))
    return causes + _pod_spec("spec.template.spec", template.get("spec"))


def _job(obj: Object) -> list[Cause]:
    spec = obj.get("spec") or {}
    pod_spec = (spec.get("template") or {}).get("spec") or {}
    causes = _pod_spec("spec.template.spec", pod_spec)
    if pod_spec.get("restartPolicy") == "Always":
        detail = 'valid values: "OnFailure", "Never"'
        causes.append(problems.required("spec.template.spec.restartPolicy", detail))
    if spec.get("completionMode") == "Indexed" and spec.get("completions") is None:
        causes.append(problems.required("spec.completions", "when completion mode is Indexed"))
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
    causes = (
        [] if spec.get("accessModes") else [problems.required("spec.accessModes", "at least 1 access mode is required")]
    )
    requests = (spec.get("resources") or {}).get("requests") or {}
    if "storage" not in requests:
        causes.append(problems.required("spec.resources[storage]"))
    return causes + _amounts("spec.resources.requests", requests)


def _priority_class(obj: Object) -> list[Cause]:
    name, value = obj["metadata"]["name"], obj["value"]
    if not name.startswith("system-") and isinstance(value, int) and value > 1_000_000_000:
        text = "maximum allowed value of a user defined priority is 1000000000"
        return [problems.forbidden_field("value", text)]
    return []


_CREATE: dict[str, Callable[[Object], list[Cause]]] = {
    "pods": _pod,
    "nodes": _node,
    "deployments.apps": _workload,
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
    causes = _name(resource, metadata.get("name", ""))
    causes += _labels("metadata.labels", metadata.get("labels"))
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
        return [problems.invalid("spec.selector", str(obj["spec"].get("selector")), "field is immutable")]
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
    causes = _labels("metadata.labels", metadata.get("labels"))
    changed = _UPDATE.get(resource.key)
    if changed is not None:
        causes += changed(obj, before)
    specific = _CREATE.get(resource.key)
    if specific is not None and not causes:
        causes += specific(obj)
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
