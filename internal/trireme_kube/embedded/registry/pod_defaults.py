"""The defaults of a new pod: those of the spec, and its initial status.

The scheduler relies on these (schedulerName, priority, tolerations of failing nodes, requests from limits, the gated
condition), and a controller's pod template gets the same spec defaults, so that a template read back equals the one in
the ReplicaSet made from it.

Source: k8s.io/kubernetes, pkg/apis/core/v1/defaults.go, pkg/registry/core/pod/strategy.go, and the admission plugins
DefaultTolerationSeconds and ServiceAccount.

Also change: internal/trireme/simulation/manifests.py (what the API server adds to pods).
Also change: internal/trireme/framework/tolerations.py,
internal/trireme_kube/embedded/controllers/node_lifecycle.py (taints of nodes).

Tests: tests/unit/embedded/registry/test_registry.py.
"""

from typing import Any

from trireme_kube.embedded.api.pod_resources import containers, qos_class
from trireme_kube.embedded.api.resources import Object
from trireme_kube.embedded.registry.quotas import pod_usage

NOT_READY = "node.kubernetes.io/not-ready"
UNREACHABLE = "node.kubernetes.io/unreachable"
TOKEN_PATH = "/var/run/secrets/kubernetes.io/serviceaccount"
TOKEN_VOLUME = "kube-api-access-"
_TOLERATION_SECONDS = 300


def _image_tag(image: str) -> str:
    """Return an image's tag, `latest` without one; empty for one named by digest."""
    name, _, digest = image.partition("@")
    if digest:
        return ""
    tag = name.rpartition("/")[2].partition(":")[2]
    return tag or "latest"


def _default_probe(probe: Object) -> None:
    """Fill in the defaults of a probe, in place."""
    for key, value in (("timeoutSeconds", 1), ("periodSeconds", 10), ("successThreshold", 1), ("failureThreshold", 3)):
        probe.setdefault(key, value)
    if http := probe.get("httpGet"):
        http.setdefault("path", "/")
        http.setdefault("scheme", "HTTP")


def _default_container(container: Object) -> None:
    """Fill in the defaults of a container, in place."""
    pull = "Always" if _image_tag(container.get("image", "")) == "latest" else "IfNotPresent"
    container.setdefault("imagePullPolicy", pull)
    container.setdefault("resources", {})
    container.setdefault("terminationMessagePath", "/dev/termination-log")
    container.setdefault("terminationMessagePolicy", "File")
    for port in container.get("ports") or ():
        port.setdefault("protocol", "TCP")
    for variable in container.get("env") or ():
        if reference := (variable.get("valueFrom") or {}).get("fieldRef"):
            reference.setdefault("apiVersion", "v1")
    for probe in ("livenessProbe", "readinessProbe", "startupProbe"):
        if probe in container:
            _default_probe(container[probe])


_VOLUME_MODES = ("secret", "configMap", "projected", "downwardAPI")


def default_spec(spec: Object) -> None:
    """Defaults that a pod and a pod template share."""
    spec.setdefault("restartPolicy", "Always")
    spec.setdefault("terminationGracePeriodSeconds", 30)
    spec.setdefault("dnsPolicy", "ClusterFirst")
    spec.setdefault("securityContext", {})
    spec.setdefault("schedulerName", "default-scheduler")
    account = spec.get("serviceAccountName") or spec.get("serviceAccount")
    if account:
        spec["serviceAccountName"] = spec["serviceAccount"] = account
    for container in containers(spec):
        _default_container(container)
    for volume in spec.get("volumes") or ():
        if len(volume) == 1:
            volume["emptyDir"] = {}
        for kind in _VOLUME_MODES:
            if isinstance(volume.get(kind), dict):
                volume[kind].setdefault("defaultMode", 0o644)
        if isinstance(path := volume.get("hostPath"), dict):
            path.setdefault("type", "")


def _default_pod_only(spec: Object) -> None:
    """Defaults that a pod has and a template has not."""
    spec.setdefault("enableServiceLinks", True)
    for container in containers(spec):
        limits = container["resources"].get("limits")
        if limits:
            requests = container["resources"].setdefault("requests", {})
            for name, amount in limits.items():
                requests.setdefault(name, amount)
        if spec.get("hostNetwork"):
            for port in container.get("ports") or ():
                port.setdefault("hostPort", port.get("containerPort"))


def _default_pod_level_requests(pod: Object) -> None:
    """Requests of the pod as a whole, where it has limits: what its containers request together, else the limit."""
    resources = pod["spec"].get("resources") or {}
    limits = resources.get("limits")
    if not limits:
        return
    together = pod_usage.sum_of_containers(pod, lambda container, _: container["resources"].get("requests"))
    requests = dict(resources.get("requests") or {})
    for name in ("cpu", "memory"):
        if name in together:
            requests.setdefault(name, str(together[name]))
    for name, amount in limits.items():
        if name in ("cpu", "memory") or name.startswith("hugepages-"):
            requests.setdefault(name, amount)
    if requests:
        resources["requests"] = requests


def default_tolerations(spec: Object) -> None:
    """Tolerate failing nodes for five minutes, unless the pod has its own tolerations."""
    tolerations = spec.get("tolerations") or []
    covered = {one.get("key", "") for one in tolerations if one.get("effect", "") in ("", "NoExecute")}
    missing = [key for key in (NOT_READY, UNREACHABLE) if key not in covered and "" not in covered]
    if missing:
        spec["tolerations"] = [
            *tolerations,
            *(
                {"key": key, "operator": "Exists", "effect": "NoExecute", "tolerationSeconds": _TOLERATION_SECONDS}
                for key in missing
            ),
        ]


def mount_token(spec: Object, suffix: str) -> None:
    """Mount the service account's token in every container, from a volume named with `suffix`."""
    volumes = spec.get("volumes") or []
    present = next((one["name"] for one in volumes if str(one.get("name", "")).startswith(TOKEN_VOLUME)), "")
    name = present or TOKEN_VOLUME + suffix
    needed = False
    for container in containers(spec):
        mounts = container.get("volumeMounts") or []
        if all(mount.get("mountPath") != TOKEN_PATH for mount in mounts):
            container["volumeMounts"] = [*mounts, {"name": name, "readOnly": True, "mountPath": TOKEN_PATH}]
            needed = True
    if needed and not present:
        spec["volumes"] = [*volumes, {"name": name, "projected": _token_volume()}]


def _token_volume() -> Object:
    """Return the projected volume with a service account's token."""
    field_reference = {"apiVersion": "v1", "fieldPath": "metadata.namespace"}
    return {
        "sources": [
            {"serviceAccountToken": {"expirationSeconds": 3607, "path": "token"}},
            {"configMap": {"name": "kube-root-ca.crt", "items": [{"key": "ca.crt", "path": "ca.crt"}]}},
            {"downwardAPI": {"items": [{"path": "namespace", "fieldRef": field_reference}]}},
        ],
        "defaultMode": 0o644,
    }


def _merge_label_keys(term: Any, labels: dict[str, str]) -> None:
    """Add matchLabelKeys and mismatchLabelKeys to the label selector beside them."""
    if not isinstance(term, dict) or not isinstance(term.get("labelSelector"), dict):
        return
    for part, operator in (("matchLabelKeys", "In"), ("mismatchLabelKeys", "NotIn")):
        for key in term.get(part) or ():
            if key in labels:
                expressions = term["labelSelector"].setdefault("matchExpressions", [])
                expressions.append({"key": key, "operator": operator, "values": [labels[key]]})


def _merge_all_label_keys(spec: Object, labels: dict[str, str]) -> None:
    """Add the match label keys of all spread constraints and affinity terms to their selectors, in place."""
    for constraint in spec.get("topologySpreadConstraints") or ():
        _merge_label_keys(constraint, labels)
    affinity = spec.get("affinity") or {}
    for kind in ("podAffinity", "podAntiAffinity"):
        terms = affinity.get(kind) or {}
        for term in terms.get("requiredDuringSchedulingIgnoredDuringExecution") or ():
            _merge_label_keys(term, labels)
        for weighted in terms.get("preferredDuringSchedulingIgnoredDuringExecution") or ():
            _merge_label_keys(weighted.get("podAffinityTerm"), labels)


def with_new_amounts(pod: Object, resized: Object) -> Object:
    """The pod with the amounts of another form of it; with its whole spec if that has other containers.

    The validation then says what is wrong with them.
    """
    old, new = pod["spec"], resized.get("spec") or {}
    spec = dict(old)
    for part in ("containers", "initContainers"):
        before, after = old.get(part) or [], new.get(part) or []
        if [one.get("name") for one in before] != [one.get("name") for one in after]:
            return {**resized, "metadata": dict(pod["metadata"]), "spec": new}
        if before:
            spec[part] = [
                {**one, "resources": dict(other.get("resources") or {})}
                for one, other in zip(before, after, strict=True)
            ]
    return {**pod, "metadata": dict(pod["metadata"]), "spec": spec}


def default_pod(pod: Object) -> None:
    """All defaults that depend on the pod alone, except the initial status."""
    spec = pod["spec"]
    default_spec(spec)
    _default_pod_only(spec)
    _default_pod_level_requests(pod)


def initial_status(pod: Object, now: str) -> Object:
    """The status of a new pod, once its spec is valid."""
    spec = pod["spec"]
    _merge_all_label_keys(spec, pod["metadata"].get("labels") or {})
    status: Object = {"phase": "Pending"}
    if spec.get("schedulingGates"):
        status["conditions"] = [
            {
                "type": "PodScheduled",
                "status": "False",
                "lastProbeTime": None,
                "lastTransitionTime": now,
                "reason": "SchedulingGated",
                "message": "Scheduling is blocked due to non-empty scheduling gates",
            }
        ]
    status["qosClass"] = qos_class(spec)
    return status
