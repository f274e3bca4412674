"""What plain pods do not need: readers of the scheduler's pages, preemption, events that repeat, and volumes.

And for shadow a kube-scheduler whose configuration is visible. Each uses permissions that nothing else uses.

Tests: tools/node/test_node_cluster.py.
"""

import contextlib
import json
import time
from collections.abc import Iterator
from typing import Any

from tools.controlplane import launcher
from tools.node.installation import NAMESPACE, Installation, TrialFailedError, pod, until
from tools.node.node_cluster import FOLDER

Json = dict[str, Any]

# How long a frontend remembers a refusal, as kube-scheduler does, and more.
_REFUSALS_SECONDS = 30.0
_SLOT = "example.com/slot"
_NODE_SELECTED = "volume.kubernetes.io/selected-node"
_STATIC, _PROVISIONED = "static", "provisioned"
_PROVISIONERS = {_STATIC: "kubernetes.io/no-provisioner", _PROVISIONED: "csi.example.com"}


def run(here: Installation) -> None:
    """Raises: TrialFailedError, ControlPlaneError: something was refused, or did not come to be."""
    ask_by_kubectl(here)
    _preempt(here)
    _mount(here)


def ask_by_kubectl(here: Installation) -> None:
    """The administrator asks the leader, and others if they have the chart's roles for readers.

    Raises: TrialFailedError: one of them gets another answer.
    """
    status = here.trireme("status", "--output=json")
    _expect(status.returncode == 0 and json.loads(status.stdout)["leadership"]["leading"], status.stderr)
    here.kubectl("create", "serviceaccount", "ann")
    account, token = f"--serviceaccount={NAMESPACE}:ann", here.kubectl("create", "token", "ann").strip()
    explain = ("explain", "default/none", f"--scheduler-namespace={NAMESPACE}")
    refused = here.trireme(*explain, token=token)
    denied = f'User "system:serviceaccount:{NAMESPACE}:ann" cannot list resource "pods"'
    _expect(refused.returncode == 1 and denied in refused.stderr, refused.stderr)
    here.kubectl("create", "rolebinding", "ann", "--role=trireme-reader", account)
    refused = here.trireme(*explain, token=token)
    _expect("Its role must allow `get` of the non-resource URL /trireme/v1/*" in refused.stderr, refused.stderr)
    here.kubectl("create", "clusterrolebinding", "ann", "--clusterrole=trireme-reader", account)
    ends = time.monotonic() + _REFUSALS_SECONDS
    while "forbidden" in (answered := here.trireme(*explain, token=token)).stderr:
        _expect(time.monotonic() < ends, answered.stderr)
    _expect("default/none" in answered.stderr, answered.stderr)
    here.kubectl("delete", "clusterrolebinding/ann", "rolebinding/ann", "serviceaccount/ann")


@contextlib.contextmanager
def visible_kube_scheduler(plane: launcher.ControlPlane) -> Iterator[None]:
    """A pod as kubeadm's, which does not run, with its configuration in a ConfigMap."""
    flags, name = ("--namespace=kube-system",), "kube-scheduler-visible"
    configuration = "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\n"
    plane.kubectl("create", "configmap", name, *flags, f"--from-literal=config.yaml={configuration}")
    body = pod(name, name, "nobody")
    body["metadata"] |= {"namespace": "kube-system", "labels": {"component": "kube-scheduler"}}
    body["spec"]["volumes"] = [{"name": "configuration", "configMap": {"name": name}}]
    (container,) = body["spec"]["containers"]
    container["command"] = ["kube-scheduler", "--config=/configuration/config.yaml"]
    container["volumeMounts"] = [{"name": "configuration", "mountPath": "/configuration"}]
    plane.kubectl("create", "-f", "-", stdin=json.dumps(body))
    yield
    plane.kubectl("delete", f"pod/{name}", f"configmap/{name}", *flags)


def _preempt(here: Installation) -> None:
    """Each node has one slot: an important pod takes one from another, and one that needs two is refused again."""
    plane = here.cluster.plane
    nodes = [each.name for each in here.cluster.addresses]
    for node in nodes:
        patch = json.dumps({"status": {"capacity": {_SLOT: "1"}}})
        plane.kubectl("patch", "node", node, "--subresource=status", f"--patch={patch}")
        until(lambda node=node: _SLOT in plane.kubectl("get", "node", node, "--output=jsonpath={.status.allocatable}"),
              "the kubelet counts the slot")  # fmt: skip
    _create(here, {
        "apiVersion": "scheduling.k8s.io/v1", "kind": "PriorityClass", "metadata": {"name": "important"}, "value": 9,
    })  # fmt: skip
    _create(here, *(_slots(pod(f"plain-{number}", "plain", "trireme"), 1) for number in range(len(nodes))))
    here.await_running("plain")
    important = _slots(pod("important-0", "important", "trireme"), 1)
    important["spec"]["priorityClassName"] = "important"
    _create(here, important)
    here.await_running("important")
    _create(here, _slots(pod("large-0", "large", "trireme"), 2))
    until(lambda: _refused_again(here, important), "a refusal that repeats is counted in its event")
    plane.kubectl("delete", "pods", "--selector=trial in (plain,important,large)", "--grace-period=1")
    plane.kubectl("delete", "priorityclass/important")


def _refused_again(here: Installation, important: Json) -> bool:
    """A pod with a slot goes, which could have made room for the large pod, and comes again."""
    here.cluster.plane.kubectl("delete", "pod/important-0", "--grace-period=1")
    _create(here, important)
    here.await_running("important")
    flags = ("--namespace=default", "--field-selector=involvedObject.name=large-0", "--output=json")
    events = json.loads(here.cluster.plane.kubectl("get", "events", *flags))["items"]
    return any(event.get("series") or event.get("count", 0) > 1 for event in events)


def _mount(here: Installation) -> None:
    """A claim takes a volume that is there, and another one waits until a volume is provisioned for its node."""
    plane = here.cluster.plane
    for name, provisioner in _PROVISIONERS.items():
        (FOLDER / name).mkdir()
        _create(
            here,
            {
                "apiVersion": "storage.k8s.io/v1",
                "kind": "StorageClass",
                "metadata": {"name": name},
                "provisioner": provisioner,
                "volumeBindingMode": "WaitForFirstConsumer",
            },
            {
                "apiVersion": "v1",
                "kind": "PersistentVolumeClaim",
                "metadata": {"name": name},
                "spec": {
                    "accessModes": ["ReadWriteOnce"],
                    "storageClassName": name,
                    "resources": {"requests": {"storage": "1Mi"}},
                },
            },
        )
    _create(here, _volume(_STATIC, here.cluster.addresses[-1].name))
    for name in _PROVISIONERS:
        user = pod(f"{name}-0", name, "trireme")
        user["spec"]["volumes"] = [{"name": "data", "persistentVolumeClaim": {"claimName": name}}]
        user["spec"]["containers"][0]["volumeMounts"] = [{"name": "data", "mountPath": "/data"}]
        _create(here, user)
    until(lambda: _NODE_SELECTED in _annotations(here), "a provisioner is told the node")
    _create(here, _volume(_PROVISIONED, _annotations(here)[_NODE_SELECTED]))
    for name in _PROVISIONERS:
        here.await_running(name)
    plane.kubectl("delete", "pods", f"--selector=trial in ({','.join(_PROVISIONERS)})")
    for kind in ("persistentvolumeclaim", "persistentvolume", "storageclass"):
        plane.kubectl("delete", kind, *_PROVISIONERS)


def _annotations(here: Installation) -> dict[str, str]:
    claim = here.cluster.plane.kubectl("get", "persistentvolumeclaim", _PROVISIONED, "--output=json")
    annotations: dict[str, str] = json.loads(claim)["metadata"].get("annotations", {})
    return annotations


def _volume(name: str, node: str) -> Json:
    """A folder of the machine, as a volume of the node for the claim of its name."""
    term = {"matchExpressions": [{"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}]}
    spec: Json = {
        "capacity": {"storage": "1Mi"},
        "accessModes": ["ReadWriteOnce"],
        "storageClassName": name,
        "local": {"path": str(FOLDER / name)},
        "nodeAffinity": {"required": {"nodeSelectorTerms": [term]}},
    }
    if name == _PROVISIONED:
        spec["claimRef"] = {"namespace": "default", "name": name}
    return {"apiVersion": "v1", "kind": "PersistentVolume", "metadata": {"name": name}, "spec": spec}


def _slots(body: Json, count: int) -> Json:
    resources = body["spec"]["containers"][0]["resources"]
    resources["requests"] = {**resources["requests"], _SLOT: str(count)}
    resources["limits"] = {_SLOT: str(count)}
    return body


def _create(here: Installation, *items: Json) -> None:
    listed = {"apiVersion": "v1", "kind": "List", "items": list(items)}
    here.cluster.plane.kubectl("create", "-f", "-", stdin=json.dumps(listed))


def _expect(true: bool, said: str) -> None:
    if not true:
        raise TrialFailedError(said)
