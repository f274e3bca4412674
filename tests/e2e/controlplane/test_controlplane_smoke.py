"""The real control plane does what a cluster does, and leaves nothing behind."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tools.controlplane import controlplane_fixture, launcher

pytestmark = pytest.mark.controlplane

NODES = 3


def test_deployment_is_scheduled(start_controlplane: controlplane_fixture.StartControlPlane) -> None:
    """Controllers, scheduler or kubectl of the real control plane do not work together."""
    cluster = start_controlplane(launcher.Options(controllers=True, scheduler=True))
    cluster.create_nodes(NODES)
    cluster.kubectl("create", "deployment", "web", "--image=registry.example/web", f"--replicas={2 * NODES}")
    # Bound, not available: no kubelet ever starts a container here.
    cluster.kubectl("wait", "deployment/web", f"--for=jsonpath={{.status.replicas}}={2 * NODES}", "--timeout=30s")
    cluster.kubectl("wait", "pods", "--all", "--for=condition=PodScheduled", "--timeout=30s")
    pods = json.loads(cluster.kubectl("get", "pods", "-o", "json"))["items"]
    assert len(pods) == 2 * NODES
    # Not evenly: kube-scheduler may see the last nodes later than the first pods.
    assert {pod["spec"]["nodeName"] for pod in pods} <= {f"node-{i}" for i in range(NODES)}


def test_users_have_the_rights_they_are_given(start_controlplane: controlplane_fixture.StartControlPlane) -> None:
    """A test of permissions would pass on a cluster that permits everything to everybody."""
    alice = launcher.User("alice", ("readers",))
    cluster = start_controlplane(launcher.Options(authorization="RBAC", users=(alice,)))
    as_alice = ("--kubeconfig", str(cluster.kubeconfig_of("alice")))
    with pytest.raises(launcher.ControlPlaneError, match=r'User "alice" cannot list resource "nodes"'):
        cluster.kubectl("get", "nodes", *as_alice)
    cluster.kubectl("create", "clusterrole", "reader", "--verb=list", "--resource=nodes")
    cluster.kubectl("create", "clusterrolebinding", "readers", "--clusterrole=reader", "--group=readers")
    cluster.kubectl("get", "nodes", *as_alice)


def test_feature_gates_and_groups_reach_the_api_server(
    start_controlplane: controlplane_fixture.StartControlPlane,
) -> None:
    """Gangs could not be tested: their API is served only with a gate and a group switched on."""
    options = launcher.Options(
        feature_gates={"GenericWorkload": True}, runtime_config={"scheduling.k8s.io/v1beta1": True}
    )
    assert "podgroups" in start_controlplane(options).kubectl("api-resources", "--api-group=scheduling.k8s.io")


def test_a_failed_start_shows_the_log(tmp_path: Path) -> None:
    """A wrong flag would end in a timeout instead of the API server's own words."""
    controlplane_fixture.require_built()
    options = launcher.Options(extra={"kube-apiserver": ("--no-such-flag",)})
    with pytest.raises(launcher.ControlPlaneError, match="no-such-flag"), launcher.ControlPlane(options):
        raise AssertionError("started")


def test_nothing_outlives_the_launcher(tmp_path: Path) -> None:
    """A killed test run would leave an etcd and an API server on the machine, one pair a run."""
    controlplane_fixture.require_built()
    command = [sys.executable, "-m", launcher.__name__, "--directory", str(tmp_path)]
    with subprocess.Popen(command, cwd=launcher.REPOSITORY, stdout=subprocess.PIPE, text=True) as started:
        assert started.stdout is not None
        assert any(line.startswith("export KUBECONFIG=") for line in started.stdout)
        children = Path(f"/proc/{started.pid}/task/{started.pid}/children").read_text().split()
        assert len(children) == 2, "etcd and kube-apiserver"
        handles = [os.pidfd_open(int(child)) for child in children]
        started.send_signal(signal.SIGKILL)
    for handle in handles:
        readable, _, _ = select.select([handle], [], [], 10.0)  # a pidfd is readable once its process has ended
        os.close(handle)
        assert readable
