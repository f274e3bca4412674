"""Real kubectl against an embedded cluster in a process of its own, with the real kube-scheduler placing its pods."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
import yaml

from tests.e2e.embedded_process import Running, embedded_cluster, kubectl_command, program, real_scheduler

WEB = {
    "apiVersion": "v1",
    "kind": "ConfigMap",
    "metadata": {"name": "settings"},
    "data": {"colour": "red", "size": "1"},
}


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """One cluster for the tests of this file, each of which uses a namespace or names of its own."""
    kubectl_command()
    directory = tmp_path_factory.mktemp("embedded")
    with (
        embedded_cluster(directory, "--nodes", "5", "--run-seconds", "0.5") as running,
        real_scheduler(running, directory),
    ):
        yield running


def test_get_shows_tables(cluster: Running) -> None:
    """What a person looks at first."""
    header, *rows = cluster.kubectl("get", "nodes", "-o", "wide").splitlines()
    assert header.split()[:5] == ["NAME", "STATUS", "ROLES", "AGE", "VERSION"]
    assert [row.split()[:2] for row in rows] == [[f"node-{index}", "Ready"] for index in range(5)]
    leases = cluster.kubectl("-n", "kube-node-lease", "get", "leases", "-o", "name").split()
    assert leases == [f"lease.coordination.k8s.io/node-{index}" for index in range(5)]


def test_create_deployment_and_roll_it_out(cluster: Running) -> None:
    """The README's example: 50 pods, all running; then scaled, updated and undone."""
    kubectl = cluster.kubectl
    kubectl("create", "namespace", "rollout")
    kubectl("-n", "rollout", "create", "deployment", "web", "--image=x:1", "--replicas=50")
    assert "successfully rolled out" in kubectl("-n", "rollout", "rollout", "status", "deployment/web", "--timeout=60s")
    pods = json.loads(kubectl("-n", "rollout", "get", "pods", "-o", "json"))["items"]
    assert len(pods) == 50
    assert {pod["status"]["phase"] for pod in pods} == {"Running"}
    assert len({pod["spec"]["nodeName"] for pod in pods}) == 5
    kubectl("-n", "rollout", "scale", "deployment/web", "--replicas=4")
    kubectl("-n", "rollout", "set", "image", "deployment/web", "x=x:2")
    kubectl("-n", "rollout", "rollout", "status", "deployment/web", "--timeout=60s")
    pods = json.loads(kubectl("-n", "rollout", "get", "pods", "-o", "json"))["items"]
    staying = [pod for pod in pods if "deletionTimestamp" not in pod["metadata"]]
    assert [pod["spec"]["containers"][0]["image"] for pod in staying] == ["x:2"] * 4
    kubectl("-n", "rollout", "rollout", "undo", "deployment/web")
    kubectl("-n", "rollout", "rollout", "status", "deployment/web", "--timeout=60s")
    kubectl("delete", "namespace", "rollout", "--timeout=60s")


def test_watching(cluster: Running) -> None:
    """`kubectl get -w` shows each change as a row."""
    kubectl = cluster.kubectl
    kubectl("create", "namespace", "watching")
    command = [*kubectl_command(), "--kubeconfig", str(cluster.kubeconfig), "-n", "watching", "get", "pods", "-w"]
    with program(command, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL) as process:
        kubectl("-n", "watching", "run", "p", "--image=x")
        assert process.stdout is not None
        assert process.stdout.readline().split() == ["NAME", "READY", "STATUS", "RESTARTS", "AGE"]
        seen = [process.stdout.readline().split()[:3]]
        while seen[-1] != ["p", "1/1", "Running"]:
            seen.append(process.stdout.readline().split()[:3])
        assert seen[0] == ["p", "0/1", "Pending"]
        process.stdout.close()


def test_run_describe_and_delete(cluster: Running) -> None:
    """`kubectl describe` joins the pod with its events; delete waits until the kubelet let go."""
    kubectl = cluster.kubectl
    kubectl("run", "lone", "--image=x")
    kubectl("wait", "--for=condition=Ready", "pod/lone", "--timeout=30s")
    described = kubectl("describe", "pod", "lone")
    assert "Successfully assigned default/lone to node-" in described
    assert "QoS Class:" in described
    node = kubectl("get", "pod", "lone", "-o", "jsonpath={.spec.nodeName}")
    assert "lone" in kubectl("describe", "node", node)
    assert "deleted" in kubectl("delete", "pod", "lone")
    assert "NotFound" in kubectl("get", "pod", "lone", check=False)


def test_labels_annotations_taints_and_cordon(cluster: Running) -> None:
    """Each is a patch of its own kind."""
    kubectl = cluster.kubectl
    kubectl("label", "node", "node-4", "disk=ssd")
    assert kubectl("get", "nodes", "-l", "disk=ssd", "-o", "name").split() == ["node/node-4"]
    kubectl("annotate", "node", "node-4", "note=yes")
    kubectl("taint", "node", "node-4", "only=mine:NoSchedule")
    kubectl("cordon", "node-4")
    assert "Ready,SchedulingDisabled" in kubectl("get", "node", "node-4")
    node = json.loads(kubectl("get", "node", "node-4", "-o", "json"))
    assert node["metadata"]["annotations"]["note"] == "yes"
    assert {"key": "only", "value": "mine", "effect": "NoSchedule"} in node["spec"]["taints"]
    kubectl("uncordon", "node-4")
    kubectl("taint", "node", "node-4", "only-")
    kubectl("label", "node", "node-4", "disk-")
    assert json.loads(kubectl("get", "node", "node-4", "-o", "json"))["metadata"]["labels"].get("disk") is None


def test_apply_on_the_client_side(cluster: Running) -> None:
    """Created, unchanged, configured; a key that left the manifest leaves the object."""
    kubectl = cluster.kubectl
    assert "created" in kubectl("apply", "-f", "-", stdin=yaml.safe_dump(WEB))
    assert "unchanged" in kubectl("apply", "-f", "-", stdin=yaml.safe_dump(WEB))
    changed = {**WEB, "data": {"colour": "blue"}}
    assert "configured" in kubectl("apply", "-f", "-", stdin=yaml.safe_dump(changed))
    assert json.loads(kubectl("get", "configmap", "settings", "-o", "json"))["data"] == {"colour": "blue"}
    assert "unknown field" in kubectl("apply", "-f", "-", stdin=yaml.safe_dump({**WEB, "dat": {}}), check=False)


def test_apply_on_the_server_side(cluster: Running) -> None:
    """Conflicts between managers, and taking over by force."""
    kubectl = cluster.kubectl
    body = {**WEB, "metadata": {"name": "applied"}}
    assert "serverside-applied" in kubectl("apply", "--server-side", "-f", "-", stdin=yaml.safe_dump(body))
    theirs = yaml.safe_dump({**body, "data": {"colour": "green"}})
    other = ("apply", "--server-side", "--field-manager=other", "-f", "-")
    assert 'conflict with "kubectl"' in kubectl(*other, stdin=theirs, check=False)
    kubectl(*other, "--force-conflicts", stdin=theirs)
    assert json.loads(kubectl("get", "configmap", "applied", "-o", "json"))["data"] == {"colour": "green", "size": "1"}


def test_jobs_stateful_sets_and_drain(cluster: Running) -> None:
    """Workloads finish, keep order, and move off a drained node within their budget."""
    kubectl = cluster.kubectl
    kubectl("create", "namespace", "work")
    kubectl("-n", "work", "create", "job", "once", "--image=x")
    kubectl("-n", "work", "wait", "--for=condition=Complete", "job/once", "--timeout=60s")
    kubectl("-n", "work", "create", "deployment", "app", "--image=x", "--replicas=3")
    kubectl("-n", "work", "create", "poddisruptionbudget", "app", "--selector=app=app", "--min-available=2")
    kubectl("-n", "work", "rollout", "status", "deployment/app", "--timeout=60s")
    node = kubectl("-n", "work", "get", "pods", "-l", "app=app", "-o", "jsonpath={.items[0].spec.nodeName}")
    assert "drained" in kubectl("drain", node, "--ignore-daemonsets", "--force", "--timeout=60s")
    kubectl("-n", "work", "rollout", "status", "deployment/app", "--timeout=60s")
    nodes = kubectl("-n", "work", "get", "pods", "-l", "app=app", "-o", "jsonpath={.items[*].spec.nodeName}").split()
    assert len(nodes) == 3
    assert node not in nodes
    kubectl("uncordon", node)
    kubectl("delete", "namespace", "work", "--timeout=60s")


def test_discovery_and_identity(cluster: Running) -> None:
    """Short names, versions, permissions."""
    kubectl = cluster.kubectl
    resources = kubectl("api-resources", "--no-headers")
    for name in ("pods", "nodes", "deployments", "poddisruptionbudgets", "resourceclaims", "leases"):
        assert name in resources
    assert "apps/v1" in kubectl("api-versions").split()
    assert json.loads(kubectl("version", "-o", "json"))["serverVersion"]["minor"] == "38"
    assert kubectl("auth", "can-i", "create", "pods").strip() == "yes"
    assert "system:admin" in kubectl("auth", "whoami")
    assert kubectl("get", "po,no,deploy,rs,ds,sts,svc,pdb,pvc,pv,sc,pc", "-A", check=False)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_the_process_ends_cleanly(tmp_path: Path, number: signal.Signals) -> None:
    """`trireme up` ends it by signal, with watches open, and expects exit code 0 and no traceback."""
    command = [sys.executable, "-m", "trireme_kube.embedded", "--nodes", "1"]
    with program(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        url = process.stdout.readline().rpartition(" ")[2].strip()
        with urllib.request.urlopen(f"{url}/api/v1/nodes?watch=1", timeout=10) as watch:
            assert watch.readline()
            process.send_signal(number)
            assert process.wait(10) == 0
        assert process.stderr.read() == ""
        process.stdout.close()
        process.stderr.close()


def test_a_port_that_is_taken(tmp_path: Path) -> None:
    """One line that names the flag, and exit code 1."""
    with embedded_cluster(tmp_path, "--nodes", "0") as running:
        port = running.url.rpartition(":")[2]
        command = [sys.executable, "-m", "trireme_kube.embedded", "--port", port]
        done = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert done.returncode == 1
    assert done.stderr.startswith(f"error: --port {port}: ")
    assert done.stderr.count("\n") == 1


def test_explain_reads_the_schemas(cluster: Running) -> None:
    """Of built-in kinds, in both versions of OpenAPI that kubectl knows."""
    assert "FIELD: nodeName <string>" in cluster.kubectl("explain", "pod.spec.nodeName")
    assert "rollingUpdate" in cluster.kubectl("explain", "deploy.spec.strategy", "--output=plaintext-openapiv2")


def test_unknown_kinds_get_the_usual_sentence(cluster: Running) -> None:
    """It was an error about protobuf."""
    assert 'doesn\'t have a resource type "nope"' in cluster.kubectl("explain", "nope", check=False)
    unknown = json.dumps({"apiVersion": "foo.example/v1", "kind": "Nope", "metadata": {"name": "a"}})
    answer = cluster.kubectl("apply", "-f", "-", stdin=unknown, check=False)
    assert 'no matches for kind "Nope" in version "foo.example/v1"' in answer


_DEFINITION = """
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata: {name: crontabs.stable.example.com}
spec:
  group: stable.example.com
  scope: Namespaced
  names: {plural: crontabs, kind: CronTab, shortNames: [ct]}
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}, scale: {specReplicasPath: .spec.replicas, statusReplicasPath: .status.replicas}}
    additionalPrinterColumns:
    - {name: Spec, type: string, jsonPath: .spec.cronSpec}
    schema:
      openAPIV3Schema:
        type: object
        properties: {spec: {type: object, properties: {cronSpec: {type: string, description: When it runs.}}}}
"""
_CUSTOM = """
apiVersion: stable.example.com/v1
kind: CronTab
metadata: {name: a}
spec: {cronSpec: "* * * * *", replicas: 2}
"""


def test_custom_resources(cluster: Running) -> None:
    """From the definition to its end, as the Kubernetes documentation shows it."""
    kubectl = cluster.kubectl
    kubectl("apply", "-f", "-", stdin=_DEFINITION)
    kubectl("wait", "--for=condition=Established", "crd/crontabs.stable.example.com", "--timeout=20s")
    kubectl("apply", "-f", "-", stdin=_CUSTOM)
    kubectl("apply", "-f", "-", stdin=_CUSTOM.replace("replicas: 2", "replicas: 3"))
    assert kubectl("get", "ct").split() == ["NAME", "SPEC", "a", "*", "*", "*", "*", "*"]
    assert "When it runs." in kubectl("explain", "crontab.spec.cronSpec")
    kubectl("scale", "ct/a", "--replicas=5")
    assert kubectl("get", "ct", "a", "-o", "jsonpath={.spec.replicas}") == "5"
    kubectl("apply", "--server-side", "--force-conflicts", "-f", "-", stdin=_CUSTOM)
    kubectl("delete", "crd", "crontabs.stable.example.com", "--timeout=20s")
    assert "(get crontabs.stable.example.com)" in kubectl("get", "crontabs", check=False)  # from its cache


def test_kinds_of_the_newer_groups(cluster: Running) -> None:
    """They were unknown: cron jobs, ingresses and their classes, runtime classes, signing requests."""
    kubectl = cluster.kubectl
    kubectl("create", "cronjob", "tick", "--image=x", "--schedule=*/5 * * * *")
    assert "*/5 * * * *" in kubectl("get", "cronjobs")
    kubectl("create", "job", "--from=cronjob/tick", "now")
    kubectl("wait", "--for=condition=Complete", "job/now", "--timeout=60s")
    kubectl("create", "ingress", "web", "--class=c", "--rule=example.com/*=web:80")
    assert kubectl("get", "ingress").split()[6:9] == ["web", "c", "example.com"]
    for kind, body in (
        ("networking.k8s.io/v1", {"kind": "IngressClass", "spec": {"controller": "example.com/c"}}),
        ("node.k8s.io/v1", {"kind": "RuntimeClass", "handler": "h"}),
        ("certificates.k8s.io/v1", {"kind": "CertificateSigningRequest", "spec": _REQUEST}),
    ):
        kubectl("create", "-f", "-", stdin=json.dumps({"apiVersion": kind, "metadata": {"name": "c"}, **body}))
    kubectl("certificate", "approve", "c")
    assert "Approved" in kubectl("get", "csr", "c")


def test_run_and_remove(cluster: Running) -> None:
    """A pod that is not restarted ends; without attach kubectl shows its log, as text, and removes it."""
    answer = cluster.kubectl("run", "brief", "--rm", "-i", "--restart=Never", "--image=x", "--", "true", check=False)
    assert "container brief is simulated" in answer
    assert 'pod "brief" deleted' in answer
    assert "NotFound" in cluster.kubectl("get", "pod", "brief", check=False)


def test_exec_is_refused_with_a_reason(cluster: Running) -> None:
    """A clear word instead of a connection that breaks."""
    cluster.kubectl("run", "target", "--image=x")
    cluster.kubectl("wait", "--for=condition=Ready", "pod/target", "--timeout=30s")
    assert "the embedded cluster has no pods/exec" in cluster.kubectl("exec", "target", "--", "ls", check=False)


_PEM = b"-----BEGIN CERTIFICATE REQUEST-----\nMA==\n-----END CERTIFICATE REQUEST-----\n"
_REQUEST = {
    "signerName": "kubernetes.io/kube-apiserver-client",
    "request": base64.b64encode(_PEM).decode(),
    "usages": ["client auth"],
}
